from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fgai_bench.data import DataError, Split, random_split


@given(nodes=st.integers(0, 400), seed=st.integers(0, 2**31))
def test_every_node_is_in_exactly_one_part(nodes: int, seed: int) -> None:
    split = random_split(nodes, seed).checked("graph", nodes)
    assert len(split.train) == len(split.val) == nodes // 10
    assert len(split.test) == nodes - 2 * (nodes // 10)


@pytest.mark.parametrize("nodes", [7_650, 13_752, 18_333, 34_493])
def test_sizes_are_rounded_down(nodes: int) -> None:
    split = random_split(nodes, seed=0)
    assert (len(split.train), len(split.val), len(split.test)) == (nodes // 10, nodes // 10, nodes - 2 * (nodes // 10))


def test_the_seed_decides() -> None:
    assert random_split(100, 3).hash == random_split(100, 3).hash
    assert len({random_split(100, seed).hash for seed in range(20)}) == 20


def test_a_known_split_has_a_known_hash() -> None:
    # recorded hashes of finished trials must keep their meaning
    split = Split(torch.tensor([1]), torch.tensor([0]), torch.tensor([2, 3]))
    assert split.hash == "48114a944771056d9825907e85845445e907b60d9a0521dd69f226a47ebee296"


def test_the_global_generator_is_untouched() -> None:
    before = torch.get_rng_state()
    random_split(50, seed=0)
    assert torch.equal(before, torch.get_rng_state())


def test_parts_are_random_and_not_a_prefix() -> None:
    assert 4_000 < random_split(10_000, seed=0).train.float().mean() < 6_000


@pytest.mark.parametrize(("train", "val"), [(-0.1, 0.1), (0.6, 0.6)])
def test_impossible_shares(train: float, val: float) -> None:
    with pytest.raises(DataError, match="a split needs shares in"):
        random_split(10, 0, train=train, val=val)


@pytest.mark.parametrize("parts", [([0], [1], [1, 2]), ([0], [1], []), ([0], [1], [3]), ([0, 0], [1], [2])], ids=str)
def test_overlap_gap_and_strangers_are_refused(parts: tuple[list[int], ...]) -> None:
    split = Split(*(torch.tensor(part, dtype=torch.long) for part in parts))
    with pytest.raises(DataError, match="each of its 3 nodes in exactly one part"):
        split.checked("graph", 3)
