"""Define ``fgai-bench leaderboard``, which merges runs into leaderboards."""

from pathlib import Path
from typing import Annotated, get_args

import typer

from fgai_bench.cli.options import RootOption, RunArgument, folder_of

app = typer.Typer(help="Leaderboards: merge runs into them.", no_args_is_help=True)


@app.callback()
def options() -> None:
    """Make typer keep ``add`` as a subcommand although it is the only one."""


@app.command()
def add(
    run: RunArgument,
    to: Annotated[Path, typer.Option(help="The folder of the leaderboards.", parser=folder_of)] = Path("results"),
    check: Annotated[bool, typer.Option("--check", help="Say what is in the way, and write nothing.")] = False,
    trust: Annotated[
        str, typer.Option(help="What is measured again: all, sample (one seed of each row), or none: all is reported.")
    ] = "sample",
    private: Annotated[
        bool, typer.Option("--private", help="A board of its own, for suites that are not of this package.")
    ] = False,
    data_root: RootOption = None,
) -> None:
    """Add the records of a run to those of a leaderboard; what is not as its suite says is refused."""
    from fgai_bench.leaderboard.eligibility import objections
    from fgai_bench.leaderboard.merge import add as merge
    from fgai_bench.leaderboard.trust import Trust
    from fgai_bench.run.preflight import checked_data_root
    from fgai_bench.statistics.results import ReportError

    if trust not in get_args(Trust):
        raise typer.BadParameter(f"--trust can be {', '.join(get_args(Trust))}, not {trust!r}")
    reasons = objections(run, private)
    if not check and reasons:
        more = f" (and {len(reasons) - 1} more reasons; --check lists them)" if len(reasons) > 1 else ""
        raise ReportError(f"{run} is not added: {reasons[0]}{more}")
    try:
        root = checked_data_root(data_root)
        written = merge(run, to, not check, trust, root, typer.echo, private)  # type: ignore[arg-type]
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
