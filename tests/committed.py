"""The committed records: of the study, about explanations, of the paper as released; each read once for a process."""

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


@cache
def paper() -> Results:
    return Results.read(ROOT / "results" / "paper" / "records")
