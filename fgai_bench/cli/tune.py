"""Define ``fgai-bench tune``, which searches the settings of every defense with the same number of trials."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fgai_bench.cli.data import RootOption
from fgai_bench.cli.paths import folder_of
from fgai_bench.cli.plugins import plugins_of_command
from fgai_bench.cli.run import NAMES, listed
from fgai_bench.cli.terminal import print_table

if TYPE_CHECKING:
    from fgai_bench.tuning.outcome import Outcome


def tune(
    suite: Annotated[str, typer.Option(help="A suite's name or the path of a YAML file; its settings are trial 0.")] = (
        "node"
    ),
    datasets: Annotated[str | None, typer.Option(help=NAMES)] = None,
    models: Annotated[str | None, typer.Option(help=NAMES)] = None,
    defenses: Annotated[str | None, typer.Option(help=NAMES)] = None,
    trials: Annotated[int, typer.Option(help="Settings that are tried in each cell.")] = 32,
    seeds: Annotated[str, typer.Option(help="Split seeds that a trial is averaged over; never an evaluation's.")] = (
        "1000,1001"
    ),
    finals: Annotated[
        str,
        typer.Option(help="Split seeds on which the four best trials are trained before one is chosen; '' for none."),
    ] = "1002,1003,1004",
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    jobs: Annotated[int | None, typer.Option(help="Trainings at a time; else one per processor, one on a GPU.")] = None,
    executor: Annotated[str, typer.Option(help="local (worker processes), inline or ray.")] = "local",
    address: Annotated[str | None, typer.Option(help="Address of a Ray cluster; else one is started here.")] = None,
    out: Annotated[Path | None, typer.Option(help="The run folder; else runs/tune-SUITE.", parser=folder_of)] = None,
    assignments: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a setting, as in training.epochs=50.")
    ] = None,
    data_root: RootOption = None,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Run again what has failed.")] = False,
) -> None:
    """Search the settings of every defense on validation nodes, or resume; write tuned.yaml, trials.csv and figures."""
    from fgai_bench.report.figures.tuning import write_figures
    from fgai_bench.run.progress import observer_for
    from fgai_bench.tuning.study import tune as search
    from fgai_bench.tuning.write import TRIALS, TUNED

    folder = out if out is not None else Path("runs") / f"tune-{Path(suite).stem}"
    outcomes = search(
        suite,
        folder,
        trials=trials,
        seeds=split_seeds(seeds),
        finals=split_seeds(finals),
        device=device,
        jobs=jobs,
        executor=executor,
        address=address,
        data_root=data_root,
        plugins=plugins_of_command(),
        retry_failed=retry_failed,
        observer=observer_for(sys.stdout),
        datasets=listed(datasets),
        models=listed(models),
        defenses=listed(defenses),
        assignments=assignments or [],
    )
    print_table("chosen settings", COLUMNS, [_row(outcome) for outcome in outcomes])
    for path in (folder / TUNED, folder / TRIALS, *write_figures(folder)):
        typer.echo(path)
    if any(not tried.ok for outcome in outcomes for tried in outcome.tried):
        raise typer.Exit(1)


def split_seeds(text: str) -> list[int]:
    """Parse ``--seeds`` or ``--finals`` of a search: a list of split seeds.

    >>> split_seeds("1000, 1001")
    [1000, 1001]
    """
    try:
        return [int(part) for part in text.split(",") if part.strip()]
    except ValueError:
        raise typer.BadParameter(f"a list of split seeds is one such as 1000,1001, not {text!r}") from None


COLUMNS = ["dataset", "model", "defense", "trials", "chosen", "clean", "attacked", "(default)", "vanilla", "settings"]


def _row(outcome: Outcome) -> list[str]:
    """Return the choice of one cell, beside the scores of the suite's own settings and of the vanilla model."""
    cell, choice, default = outcome.cell, outcome.choice, outcome.tried[0]
    names = [cell.dataset, cell.model, cell.line.title, str(len(outcome.tried))]
    if choice is None:
        return [*names, "none", "", "", "", "", next(tried.reason for tried in outcome.tried)]
    settings = ", ".join(f"{name} {value}" for name, value in choice.values.items()) or "the suite's own"
    mark = "" if outcome.feasible(choice) else " (loses clean score)"
    return [
        *names,
        f"{choice.number}{mark}",
        f"{choice.clean:.4f}",
        f"{choice.attacked:.4f}",
        f"({default.clean:.4f}, {default.attacked:.4f})",
        f"{outcome.reference(choice):.4f}",
        settings,
    ]
