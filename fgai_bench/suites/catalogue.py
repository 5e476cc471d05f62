"""Register the suites by name: every file of ``yaml/``, and those of plugins."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from fgai_bench.registry import Registry

if TYPE_CHECKING:
    from fgai_bench.suites.schema import Suite

SUITES: Registry[Suite] = Registry("suite", "fgai_bench.suites", "fgai_bench.suites.load:admitted")


def _summary(path: Path) -> str:
    """Return the line ``summary:`` of a suite, read without a YAML parser, which would delay every listing."""
    line = re.search(r"^summary: *(.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return line[1].strip("\"'") if line else path.stem


for _path in sorted(Path(__file__).with_name("yaml").glob("*.yaml")):
    SUITES.declare(_path.stem, f"fgai_bench.suites.load:{_path.stem}", summary=_summary(_path))
