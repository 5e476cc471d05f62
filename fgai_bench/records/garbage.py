"""How often Python looks for garbage while many records are held."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

RARELY = 140_000  # new objects before Python looks for garbage again; usually 700


@contextmanager
def few_collections() -> Iterator[None]:
    """Keep the garbage collector from going through all records again and again; they are many, and no circles.

    A block within a block changes nothing.
    """
    thresholds = gc.get_threshold()
    gc.set_threshold(RARELY, *thresholds[1:])
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
