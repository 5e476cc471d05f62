"""Define ``fgai-bench leaderboard``, which merges runs into leaderboards."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fgai_bench.cli.paths import folder_of
from fgai_bench.cli.report import RunArgument

app = typer.Typer(help="Leaderboards: merge runs into them.", no_args_is_help=True)


@app.callback()
def options() -> None:
    """Make typer keep ``add`` as a subcommand although it is the only one."""


@app.command()
def add(
    run: RunArgument,
    to: Annotated[Path, typer.Option(help="The folder of the leaderboards.", parser=folder_of)] = Path("results"),
) -> None:
    """Merge a run: for each seed the stronger attack counts; refuse unequal budgets, without writing anything."""
    from fgai_bench.report.leaderboard import add as merge

    for path in merge(run, to):
        typer.echo(path)
