"""Define ``fgai-bench report``, which writes the tables, figures, leaderboards and the HTML page of a run."""

from typing import Annotated

import typer

from fgai_bench.cli.options import OutOption, RunArgument, listed

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
