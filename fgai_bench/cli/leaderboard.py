"""``fgai-bench leaderboard``: merge runs into leaderboards."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fgai_bench.cli.report import RunArgument

app = typer.Typer(help="Leaderboards: merge runs into them.", no_args_is_help=True)


@app.callback()
def options() -> None:
    """Keep ``add`` a command of its own."""


@app.command()
def add(
    run: RunArgument,
    to: Annotated[Path, typer.Option(help="The folder of the leaderboards.")] = Path("results"),
) -> None:
    """Merge a run: seed by seed the stronger attack holds; unequal budgets are refused and nothing is written."""
    from fgai_bench.report.leaderboard import add as merge

    for path in merge(run, to):
        typer.echo(path)
