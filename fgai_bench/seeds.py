"""Derive the random generators of a trial, each from the trial's seed and the purpose of the draws."""

from __future__ import annotations

import hashlib
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
    return torch.rand(shape, generator=generator(seed, purpose)).to(device)


@contextmanager
def isolated_rng(seed: int, purpose: str) -> Iterator[None]:
    """Run a block whose draws (dropout, third-party initialisers) use torch's default generators, then restore them.

    The default generators are seeded for the block and put back afterwards: the caller's random state is untouched.
    """
    with torch.random.fork_rng(devices=range(torch.cuda.device_count()) if torch.cuda.is_initialized() else []):
        torch.manual_seed(derive(seed, purpose))
        yield
