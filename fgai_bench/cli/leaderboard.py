"""Define ``fgai-bench leaderboard``, which merges runs into leaderboards."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fgai_bench.cli.options import RunArgument, folder_of

app = typer.Typer(help="Leaderboards: merge runs into them.", no_args_is_help=True)


@app.callback()
def options() -> None:
    """Make typer keep ``add`` as a subcommand although it is the only one."""


@app.command()
def add(
    run: RunArgument,
    to: Annotated[Path, typer.Option(help="The folder of the leaderboards.", parser=folder_of)] = Path("results"),
    check: Annotated[bool, typer.Option("--check", help="Say what is in the way, and write nothing.")] = False,
) -> None:
    """Add the records of a run to those of a leaderboard; what is not as its suite says is refused."""
    from fgai_bench.leaderboard.eligibility import objections
    from fgai_bench.leaderboard.merge import add as merge
    from fgai_bench.statistics.results import ReportError

    reasons = objections(run)
    if not check and reasons:
        more = f" (and {len(reasons) - 1} more reasons; --check lists them)" if len(reasons) > 1 else ""
        raise ReportError(f"{run} is not added: {reasons[0]}{more}")
    try:
        written = merge(run, to, write=not check)
    except ReportError as error:
        if not check:
            raise
        reasons.append(str(error))
    if check:
        for sentence in reasons:
            typer.echo(sentence)
        typer.echo(f"{run} would be refused" if reasons else f"{run} would be added to {to}")
        raise typer.Exit(1 if reasons else 0)
    for path in written:
        typer.echo(path)
