"""``fgai-bench report``: the tables, figures, leaderboards and the page of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fgai_bench.cli.run import listed

# What a reader wants to see first: scores before and after the attack.
AT_A_GLANCE = ("table2.md", "link.md")

RunArgument = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder, or exported records.")]


def report(
    run: RunArgument,
    only: Annotated[str | None, typer.Option(help="Names or their beginnings, as in table1,fig3; else all.")] = None,
    formats: Annotated[
        str, typer.Option("--format", help="Some of latex,markdown,csv,pdf,png,html.")
    ] = "latex,markdown,csv,pdf,png,html",
    out: Annotated[Path | None, typer.Option(help="Where to write; else RUN/report.")] = None,
    suite: Annotated[str | None, typer.Option(help="Only what stands in this suite.")] = None,
) -> None:
    """Write every table and figure that the run has something for; the same run gives the same bytes."""
    from fgai_bench.report.write import write_report

    done = write_report(run, out, listed(formats) or (), listed(only) or (), suite)
    for name, sentence in done.absent.items():
        typer.echo(f"{name}: {sentence}")
    for path in done.written:
        if path.name in AT_A_GLANCE:
            typer.echo(f"\n{path.read_text()}")
    typer.echo(f"{len(done.written)} files in {done.folder}")
