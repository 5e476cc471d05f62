"""Derive the random generators of a trial, each from the trial's seed and the purpose of the draws."""

import hashlib
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch


def derive(seed: int, purpose: str) -> int:
    """Return a seed for one purpose of one trial, so that split, initialisation, training and attack share no stream.

    >>> derive(0, "split") == derive(0, "split"), derive(0, "split") == derive(0, "attack")
    (True, False)
    """
    return int.from_bytes(hashlib.sha256(f"{purpose}:{seed}".encode()).digest()[:8], "big") >> 1


def generator(seed: int, purpose: str) -> torch.Generator:
    """Return a CPU generator for ``purpose``; draws on the CPU are the same on every device."""
    return torch.Generator().manual_seed(derive(seed, purpose))


def uniform(shape: Sequence[int], seed: int | None, purpose: str, device: torch.device) -> torch.Tensor:
    """Draw numbers in [0, 1) for ``purpose``: with a seed the same on every device; without, from torch's generator.

    An attack that is part of a training has no seed of its own: like dropout, it draws on the device from the stream
    of the training (:func:`isolated_rng`).

    >>> uniform((2,), 0, "attack", torch.device("cpu")).shape
    torch.Size([2])
    """
    if seed is None:
        return torch.rand(shape, device=device)
    counters = torch.arange(1, 1 + math.prod(shape), device=device)
    drawn = hashed(counters, seed, purpose).bitwise_right_shift_(40).bitwise_and_((1 << 24) - 1)
    return drawn.float().mul_(2.0**-24).view(tuple(shape))  # all that a float32 in [0, 1) can tell apart


def hashed(numbers: torch.Tensor, seed: int, purpose: str) -> torch.Tensor:
    """Draw 64 bits for each whole number, which follow from it, the seed and the purpose alone, on every device.

    SplitMix64 (Steele, Lea and Flood 2014, https://doi.org/10.1145/2660193.2660195) in integers that wrap around; its
    n-th draw is that of the number n.
    """
    z = (numbers * _signed(0x9E3779B97F4A7C15)).add_(derive(seed, purpose))
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        z ^= z.bitwise_right_shift(shift).bitwise_and_((1 << 64 - shift) - 1)  # the sign is not shifted in
        z *= _signed(factor)
    z ^= z.bitwise_right_shift(31).bitwise_and_((1 << 33) - 1)
    return z


def _signed(number: int) -> int:
    return number - (1 << 64 if number >> 63 else 0)


@contextmanager
def isolated_rng(seed: int, purpose: str) -> Iterator[None]:
    """Run a block whose draws (dropout, third-party initialisers) use torch's default generators, then restore them.

    The default generators are seeded for the block and put back afterwards: the caller's random state is untouched.
    """
    with torch.random.fork_rng(devices=range(torch.cuda.device_count()) if torch.cuda.is_initialized() else []):
        torch.manual_seed(derive(seed, purpose))
        yield
