"""Define ``fgai-bench compare``, which puts the numbers of a run beside the published ones."""

from typing import Annotated

import typer

from fgai_bench.cli.options import OutOption, RunArgument, listed
from fgai_bench.cli.terminal import print_table


def compare(
    run: RunArgument,
    to: Annotated[str, typer.Option(help="What to compare with: paper.")] = "paper",
    only: Annotated[
        str | None, typer.Option(help="Tables, or beginnings of their names: table2. Prints each cell.")
    ] = None,
    out: OutOption = None,
) -> None:
    """Print a summary per table and write the run's numbers beside the published ones; --only prints the cells."""
    from fgai_bench.records.files import write_files
    from fgai_bench.report import compare as comparing
    from fgai_bench.report.published import published
    from fgai_bench.statistics.results import ReportError, Results

    if to != "paper":
        raise ReportError(f"there are no published numbers of {to!r}; --to can be paper")
    beginnings = listed(only) or [""]
    tables = list(dict.fromkeys(number.table for number in published()))
    for name in beginnings:
        if not any(table.startswith(name) for table in tables):
            raise ReportError(f"the paper has no table {name!r}; --only can be {', '.join(tables)}")
    numbers = [number for number in published() if number.table.startswith(tuple(beginnings))]
    results = Results.read(run)
    comparison, shares = comparing.compare(results, numbers), comparing.reproduced(results, numbers)
    written = write_files(out or run / "report", comparing.as_files(comparison, results, shares))
    print_table(f"{run} beside the paper", comparing.SUMMARY, comparing.summary(comparison))
    if only and (rows := comparing.lines(comparison)):
        print_table("cell by cell", comparing.HEADINGS, rows)
    if shares:
        print_table("Published scores that are reproduced", comparing.REPRODUCED, shares)
    scales = [f"scale of {note}" for note in comparing.scale_notes(comparison)]
    for sentence in (*comparing.untested(comparison), *scales, *results.remarks):
        typer.echo(sentence)
    typer.echo(f"every cell is in {written[0]} and {written[1]}" + ("" if only else "; --only TABLE prints them"))
