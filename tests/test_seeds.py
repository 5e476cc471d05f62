"""Seeds: streams of their own, and no trace in anybody else's."""

from __future__ import annotations

import pytest
import torch

from fgai_bench.seeds import derive, generator, isolated_rng


def test_purposes_and_seeds_have_streams_of_their_own() -> None:
    derived = {derive(seed, purpose) for seed in range(20) for purpose in ("split", "model", "attack")}
    assert len(derived) == 60
    assert all(0 <= value < 2**63 for value in derived)


def test_derived_seed_is_pinned() -> None:
    """SHA-256 of ``split:0``, its first eight bytes without the lowest bit: stored results depend on it."""
    assert derive(0, "split") == int("120dca70a84fd7bf", 16)


def test_generator_repeats_itself_and_leaves_the_default_one_alone() -> None:
    state = torch.get_rng_state()
    first, again = (torch.rand(3, generator=generator(1, "model")) for _ in range(2))
    assert torch.equal(first, again)
    assert torch.equal(torch.get_rng_state(), state)


def test_isolated_block_repeats_itself_without_a_trace() -> None:
    state = torch.get_rng_state()
    draws = []
    for _ in range(2):
        with isolated_rng(3, "dropout"):
            draws.append(torch.rand(4))
        torch.rand(1)
    assert torch.equal(draws[0], draws[1])
    torch.set_rng_state(state)
    with isolated_rng(3, "dropout"):
        torch.rand(100)
    assert torch.equal(torch.get_rng_state(), state)


def _fail() -> None:
    torch.rand(1)
    raise RuntimeError("broken")


def test_a_failing_block_leaves_no_trace_either() -> None:
    state = torch.get_rng_state()
    with pytest.raises(RuntimeError, match="broken"), isolated_rng(0, "x"):
        _fail()
    assert torch.equal(torch.get_rng_state(), state)
