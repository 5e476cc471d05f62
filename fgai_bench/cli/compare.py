"""Define ``fgai-bench compare``, which puts the numbers of a run beside the published ones."""

from __future__ import annotations

from typing import Annotated

import typer

from fgai_bench.cli.options import OutOption, RunArgument
from fgai_bench.cli.terminal import print_table


def compare(
    run: RunArgument,
    to: Annotated[str, typer.Option(help="What to compare with: paper.")] = "paper",
    out: OutOption = None,
) -> None:
    """Print and write the run's numbers beside the published ones, with the difference in units of the spread."""
    from fgai_bench.report.compare import HEADINGS, REPRODUCED, as_files, lines, reproduced, scale_notes, untested
    from fgai_bench.report.compare import compare as compare_numbers
    from fgai_bench.report.files import write_files
    from fgai_bench.report.published import published
    from fgai_bench.statistics.results import ReportError, Results

    if to != "paper":
        raise ReportError(f"there are no published numbers of {to!r}; --to can be paper")
    results = Results.read(run)
    comparison, shares = compare_numbers(results, published()), reproduced(results, published())
    written = write_files(out if out is not None else run / "report", as_files(comparison, results, shares))
    if rows := lines(comparison):
        print_table(f"{run} beside the paper", HEADINGS, rows)
    if shares:
        print_table("Published scores that are reproduced", REPRODUCED, shares)
    for sentence in [*untested(comparison), *(f"scale of {note}" for note in scale_notes(comparison))]:
        typer.echo(sentence)
    for sentence in results.remarks:
        typer.echo(sentence)
    typer.echo(f"written to {written[0]} and {written[1]}")
