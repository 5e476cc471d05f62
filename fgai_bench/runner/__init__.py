"""Plan a suite, run its steps and record every result; a step that is recorded is never run twice."""

from typing import Any

import lazy_loader

from fgai_bench.renamed import MOVED, moved

_public, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    return moved(__name__, name) if f"{__name__}:{name}" in MOVED else _public(name)
