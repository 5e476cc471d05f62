"""Seeds: streams of their own, and no trace in anybody else's."""

from __future__ import annotations

import pytest
import torch

from fgai_bench.seeds import derive, generator, hashed, isolated_rng, uniform


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


def splitmix(state: int, count: int) -> list[int]:
    """Return the first numbers of SplitMix64 from a state, one after the other, in whole numbers."""
    found = []
    for _ in range(count):
        state = (state + 0x9E3779B97F4A7C15) % 2**64
        z = (state ^ state >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        z = (z ^ z >> 27) * 0x94D049BB133111EB % 2**64
        found.append(z ^ z >> 31)
    return found


def test_uniform_draws_are_those_of_splitmix() -> None:
    """The numbers of the seed 1234567 are those that other implementations print."""
    assert splitmix(1234567, 2) == [6457827717110365317, 3203168211198807973]
    drawn = uniform((2, 3), 5, "attack", torch.device("cpu"))
    assert drawn.flatten().tolist() == [
        number / 2**64 // 2**-24 * 2**-24 for number in splitmix(derive(5, "attack"), 6)
    ]


def test_draws_follow_from_the_number_alone() -> None:
    numbers = torch.tensor([5, 1, 2**62, -1])
    drawn = hashed(numbers, 5, "ties").tolist()
    assert [number % 2**64 for number in drawn[:2]] == [splitmix(derive(5, "ties"), 5)[index] for index in (4, 0)]
    assert drawn == [int(hashed(number.view(1), 5, "ties")) for number in numbers]
    assert len(set(drawn)) == 4
    assert hashed(numbers, 6, "ties").tolist() != drawn != hashed(numbers, 5, "effects").tolist()


def test_uniform_draws_are_uniform_and_unrelated() -> None:
    one, other = (uniform((500, 1000), seed, "attack", torch.device("cpu")) for seed in (0, 1))
    assert 0 <= one.min() < 1e-5
    assert 1 - 1e-5 < one.max() < 1
    shares = torch.histc(one, bins=20, min=0, max=1) / one.numel()
    assert (20 * shares - 1).abs().max() < 0.03  # four standard deviations
    for pair in ((one, other), (one[:, :-1], one[:, 1:]), (one[:-1], one[1:])):
        assert torch.corrcoef(torch.stack([part.flatten() for part in pair]))[0, 1].abs() < 0.006


@pytest.mark.gpu
def test_uniform_draws_are_the_same_on_every_device() -> None:
    here, there = (uniform((300, 700), 2, "attack", torch.device(device)) for device in ("cpu", "cuda"))
    assert torch.equal(here, there.cpu())
