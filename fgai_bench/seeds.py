"""Seeds: every random draw of a trial comes from a generator derived from the trial's seed and the draw's purpose."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

import torch


def derive(seed: int, purpose: str) -> int:
    """A seed for one purpose of one trial, so that split, initialisation, training and attack never share a stream.

    >>> derive(0, "split") == derive(0, "split"), derive(0, "split") == derive(0, "attack")
    (True, False)
    """
    return int.from_bytes(hashlib.sha256(f"{purpose}:{seed}".encode()).digest()[:8], "big") >> 1


def generator(seed: int, purpose: str) -> torch.Generator:
    """A CPU generator for ``purpose``; draws are made on the CPU so that they are the same on every device."""
    return torch.Generator().manual_seed(derive(seed, purpose))


@contextmanager
def isolated_rng(seed: int, purpose: str) -> Iterator[None]:
    """Run a block whose draws (dropout, third-party initialisers) use torch's default generators, without a trace.

    The default generators are seeded for the block and put back afterwards: the caller's random state is untouched.
    """
    with torch.random.fork_rng(devices=range(torch.cuda.device_count()) if torch.cuda.is_initialized() else []):
        torch.manual_seed(derive(seed, purpose))
        yield
