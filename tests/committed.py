"""The committed records, those of the study and those about explanations, each read once for all tests of a process."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from fgai_bench.statistics.results import Results

ROOT = Path(__file__).parent.parent


@cache
def study() -> Results:
    return Results.read(ROOT / "results" / "records")


@cache
def explanations() -> Results:
    return Results.read(ROOT / "results" / "explanations" / "records")
