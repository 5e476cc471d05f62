"""How often Python looks for garbage while many records are held."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

RARELY = 200  # times as many new objects as usual before Python looks for garbage


@contextmanager
def few_collections() -> Iterator[None]:
    """Keep the garbage collector from going through all records again and again; they are many, and no circles."""
    thresholds = gc.get_threshold()
    gc.set_threshold(thresholds[0] * RARELY, *thresholds[1:])
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
