from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from fgai_bench.data.graph import undirected_edge_count


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=30))
def test_undirected_edges_are_counted_as_sets(pairs: list[tuple[int, int]]) -> None:
    edge_index = torch.tensor(pairs, dtype=torch.long).reshape(-1, 2).T
    assert undirected_edge_count(edge_index) == len({frozenset(pair) for pair in pairs if pair[0] != pair[1]})
