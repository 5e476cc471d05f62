"""``fgai-bench compare``: ours beside the published numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fgai_bench.cli.report import RunArgument
from fgai_bench.cli.tables import print_table


def compare(
    run: RunArgument,
    to: Annotated[str, typer.Option(help="What to compare with: paper.")] = "paper",
    out: Annotated[Path | None, typer.Option(help="Where to write; else RUN/report.")] = None,
) -> None:
    """Print and write ours beside the published numbers, cell by cell, with the difference in units of the spread."""
    if to != "paper":
        raise typer.BadParameter(f"--to can be paper, not {to!r}")
    from fgai_bench.report.compare import HEADINGS, lines, scale_notes, to_csv, to_markdown, untested
    from fgai_bench.report.compare import compare as hold_against
    from fgai_bench.report.folder import Report
    from fgai_bench.report.frames import Results

    results = Results.read(run)
    found = hold_against(results)
    report = Report(out if out is not None else run / "report")
    report.add("comparison.csv", to_csv(found))
    report.add("comparison.md", to_markdown(found, results))
    if rows := lines(found):
        print_table(f"{run} beside the paper", HEADINGS, rows)
    for sentence in [*untested(found), *(f"scale of {note}" for note in scale_notes(found))]:
        typer.echo(sentence)
    typer.echo(f"written to {report.written[0]} and {report.written[1]}")
