"""Register the suites by name: every file of ``yaml/``, and those of plugins."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from fgai_bench.registry import Registry

if TYPE_CHECKING:
    from fgai_bench.suites.schema import Suite

SUITES: Registry[Suite] = Registry("suite", "fgai_bench.suites", "fgai_bench.suites.load:admitted")

for _path in sorted(Path(__file__).with_name("yaml").glob("*.yaml")):
    # Read without a YAML parser, which would delay every listing.
    _line = re.search(r"^summary: *(.*)$", _path.read_text(encoding="utf-8"), re.MULTILINE)
    _summary = _line[1].strip("\"'") if _line else _path.stem
    SUITES.declare(_path.stem, f"fgai_bench.suites.load:{_path.stem}", summary=_summary)
