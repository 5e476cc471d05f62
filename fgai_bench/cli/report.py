"""Define ``fgai-bench report``, ``compare`` and ``claims``: all that is said of a run, and of it beside the paper."""

from typing import Annotated

import typer

from fgai_bench.cli.options import OutOption, RunArgument, listed, print_table

START_PAGES = ("page.html", "index.md")


def report(
    run: RunArgument,
    only: Annotated[str | None, typer.Option(help="Names or their beginnings, as in table1,fig3; else all.")] = None,
    formats: Annotated[
        str, typer.Option("--format", help="Some of latex,markdown,csv,pdf,png,html.")
    ] = "latex,markdown,csv,pdf,png,html",
    out: OutOption = None,
    suite: Annotated[str | None, typer.Option(help="Only what stands in this suite.")] = None,
) -> None:
    """Write every table and figure for which the run has records; the same run always gives the same bytes."""
    from fgai_bench.escaping import one_line
    from fgai_bench.report.write import write_report

    done = write_report(run, out, listed(formats) or (), listed(only) or (), suite)
    for sentence in (*done.answer, *done.remarks):
        typer.echo(one_line(sentence))
    if done.absent:
        typer.echo("\nNot in this run:")
    for name, sentence in done.absent.items():
        typer.echo(f"{name}: {sentence}")
    first = " or ".join(path.name for path in done.written if path.name in START_PAGES)
    typer.echo(f"\n{len(done.written)} files in {done.folder}{first and f'; begin with {first}'}")


def compare(
    run: RunArgument,
    to: Annotated[str, typer.Option(help="What to compare with: paper.")] = "paper",
    only: Annotated[
        str | None, typer.Option(help="Tables, or beginnings of their names: table2. Prints each cell.")
    ] = None,
    out: OutOption = None,
) -> None:
    """Print a summary per table and write the run's numbers beside the published ones; --only prints the cells."""
    from fgai_bench.report import compare as comparing
    from fgai_bench.report.files import write_files
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
    written = write_files(out if out is not None else run / "report", comparing.as_files(comparison, results, shares))
    print_table(f"{run} beside the paper", comparing.SUMMARY, comparing.summary(comparison))
    if only and (rows := comparing.lines(comparison)):
        print_table("cell by cell", comparing.HEADINGS, rows)
    if shares:
        print_table("Published scores that are reproduced", comparing.REPRODUCED, shares)
    scales = [f"scale of {note}" for note in comparing.scale_notes(comparison)]
    for sentence in (*comparing.untested(comparison), *scales, *results.remarks):
        typer.echo(sentence)
    typer.echo(f"every cell is in {written[0]} and {written[1]}" + ("" if only else "; --only TABLE prints them"))


def claims(run: RunArgument, out: OutOption = None) -> None:
    """Say of each claim of the paper whether its own tables show it and whether the run supports it, cell by cell.

    Where the run has the worst case or tuned settings, the same claims are also looked at there.
    """
    from fgai_bench.report.claims import judge_everywhere
    from fgai_bench.report.files import write_files
    from fgai_bench.report.verdicts import as_files
    from fgai_bench.statistics.results import Results

    results = Results.read(run)
    verdicts = judge_everywhere(results)
    written = write_files(out if out is not None else run / "report", as_files(verdicts, results))
    rows: dict[str, list[list[str]]] = {}
    for verdict in verdicts:
        cells = f"{len(verdict.showing)} of {len(verdict.decisions)}"
        own = [verdict.claim.id, verdict.papers_own, verdict.conclusion]
        row = [*own, cells, str(verdict.needed), verdict.shown or "--", verdict.advice]
        rows.setdefault(verdict.claim.condition, []).append(row)
    columns = ["claim", "paper's own", "verdict", "shown in", "needed", "mean of cells, bounds", "what to run"]
    for condition, lines in rows.items():
        print_table(f"claims, {run}, {condition}", columns, lines)
    for sentence in results.remarks:
        typer.echo(sentence)
    typer.echo(f"written to {', '.join(map(str, written))}")
