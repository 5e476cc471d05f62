"""Link splits: every link in one part, as many non-links, nothing shared, and the figures of the paper's table."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from fgai_bench.data import load_dataset
from fgai_bench.data.link_splits import LinkSplit, random_link_split

NODES = 30


def graph(seed: int, links: int = 60) -> Tensor:
    """A random undirected graph on 30 nodes, both directions stored."""
    low, high = torch.triu_indices(NODES, NODES, 1)
    chosen = torch.randperm(low.numel(), generator=torch.Generator().manual_seed(seed))[:links]
    pairs = torch.stack([low[chosen], high[chosen]])
    return torch.cat([pairs, pairs.flip(0)], dim=1)


def keys(pairs: Tensor) -> list[int]:
    return (pairs[0] * NODES + pairs[1]).tolist()


@given(seed=st.integers(0, 10**6))
def test_every_link_is_in_one_part_and_no_non_link_is_a_link(seed: int) -> None:
    edges = graph(seed)
    split = random_link_split(edges, NODES, seed)
    positive = keys(split.train_pos) + keys(split.val_pos) + keys(split.test_pos)
    negative = keys(split.train_neg) + keys(split.val_neg) + keys(split.test_neg)
    assert sorted(positive) == sorted(keys(edges[:, edges[0] < edges[1]]))
    assert len(set(negative)) == len(negative) == len(positive)
    assert not set(negative) & set(positive)
    assert all(bool((getattr(split, f.name)[0] < getattr(split, f.name)[1]).all()) for f in fields(split))


def test_sizes_are_85_5_and_10_percent() -> None:
    split = random_link_split(graph(0, links=60), NODES, seed=0)
    assert [split.train_pos.size(1), split.val_pos.size(1), split.test_pos.size(1)] == [51, 3, 6]  # 60 - 3 - 6
    assert [split.train_neg.size(1), split.val_neg.size(1), split.test_neg.size(1)] == [51, 3, 6]


def test_the_seed_alone_decides() -> None:
    edges = graph(0)
    first, again, other = (random_link_split(edges, NODES, seed) for seed in (0, 0, 1))
    assert first.hash == again.hash != other.hash


def test_the_hash_sees_one_moved_pair_but_not_the_order_of_pairs() -> None:
    split = random_link_split(graph(0), NODES, seed=0)
    assert replace(split, val_pos=split.val_pos.flip(1)).hash == split.hash
    assert replace(split, val_pos=split.test_pos[:, :3]).hash != split.hash
    assert replace(split, val_pos=split.val_neg, val_neg=split.val_pos).hash != split.hash


def test_message_edges_are_the_training_links_in_both_directions() -> None:
    one = torch.tensor([[0], [1]])
    split = LinkSplit(one, one + 2, one + 4, one + 6, one + 8, one + 10)
    assert split.message_edges.tolist() == [[0, 1], [1, 0]]


def test_labels_are_one_for_links_and_zero_for_non_links() -> None:
    one = torch.tensor([[0], [1]])
    pairs, labels = LinkSplit(one, one + 2, one + 4, one + 6, one + 8, one + 10).pairs("val")
    assert pairs.tolist() == [[4, 6], [5, 7]]
    assert labels.tolist() == [1.0, 0.0]


def test_a_graph_too_full_for_its_non_links_is_refused() -> None:
    low, high = torch.triu_indices(5, 5, 1)
    full = torch.stack([low, high])
    with pytest.raises(ValueError, match="10 links leave 0 pairs without one, fewer than the 10 that are needed"):
        random_link_split(torch.cat([full, full.flip(0)], 1), 5, seed=0)


@pytest.mark.parametrize(
    ("name", "edges", "train", "val", "test"),
    [("cora", 9502, 4488, 526, 1054), ("citeseer", 8194, 3870, 454, 910), ("pubmed", 79784, 37676, 4432, 8864)],
)
def test_figures_of_the_papers_table(name: str, edges: int, train: int, val: int, test: int, data_root: Path) -> None:
    """The paper counts message edges of the training and validation graph in both directions, and non-links with the
    links of validation and test."""
    data = load_dataset(name, root=data_root)
    split = random_link_split(data.edge_index, data.x.shape[0], seed=0)
    assert 2 * (split.train_pos.size(1) + split.val_pos.size(1)) == edges
    assert split.train_pos.size(1) == train
    assert [2 * split.val_pos.size(1), 2 * split.test_pos.size(1)] == [val, test]
