"""Define ``fgai-bench tune``, which searches the settings of every defense with the same number of trials."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fgai_bench.cli.options import (
    NamesOption,
    SetOption,
    SuiteOption,
    folder_of,
    listed,
    numbers,
    takes_execution,
    whole,
)
from fgai_bench.cli.terminal import print_table

if TYPE_CHECKING:
    from fgai_bench.tuning.cells import SearchCell
    from fgai_bench.tuning.outcome import SearchOutcome


@takes_execution
def tune(
    suite: SuiteOption = "node",
    datasets: NamesOption = None,
    models: NamesOption = None,
    defenses: NamesOption = None,
    trials: Annotated[
        int, typer.Option(help="Settings that are tried in each cell; trial 0 is the suite's own.", parser=whole)
    ] = 32,
    seeds: Annotated[str, typer.Option(help="Split seeds that a trial is averaged over; never an evaluation's.")] = (
        "1000,1001"
    ),
    finals: Annotated[
        str,
        typer.Option(help="Split seeds of the final, in which the best trials meet the suite's own under `worst`."),
    ] = "1002,1003,1004",
    repeat: Annotated[
        int, typer.Option(help="How often each cell is searched; the first search chooses.", parser=whole)
    ] = 1,
    out: Annotated[Path | None, typer.Option(help="The run folder; else runs/tune-SUITE.", parser=folder_of)] = None,
    assignments: SetOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be searched.")] = False,
    *,
    how: dict[str, Any],
) -> None:
    """Search the settings of every defense on validation nodes, or resume; write tuned.yaml and trials.csv."""
    from fgai_bench.tuning.study import cells_to_search
    from fgai_bench.tuning.study import tune as search
    from fgai_bench.tuning.write import TRIALS, TUNED

    folder = out if out is not None else Path("runs") / f"tune-{Path(suite).stem}"
    request: dict[str, Any] = {"trials": trials, "seeds": numbers(seeds), "finals": numbers(finals), "repeat": repeat}
    request |= {"datasets": listed(datasets), "models": listed(models), "defenses": listed(defenses)}
    request["assignments"] = assignments or []
    cells = cells_to_search(suite, **request)
    for sentence in overridden(assignments or [], cells):
        typer.echo(sentence)
    if dry_run:
        show_cells(cells)
        return
    outcomes = search(suite, folder, **request, **how)
    print_table("chosen settings", COLUMNS, [_row(outcome) for outcome in outcomes])
    for sentence in spreads(outcomes):
        typer.echo(sentence)
    for path in (folder / TUNED, folder / TRIALS):
        typer.echo(path)
    typer.echo(f"next: fgai-bench run --suite {shlex.quote(str(folder / TUNED))}")
    if any(not tried.ok for outcome in outcomes for tried in outcome.tried):
        raise typer.Exit(1)


def overridden(assignments: Sequence[str], cells: Sequence[SearchCell]) -> list[str]:
    """Say of each ``--set`` that a search chooses in its place."""
    keys = [assignment.partition("=")[0].strip() for assignment in assignments]
    counts = {key: sum(key in cell.space for cell in cells) for key in keys}
    return [
        f"note: --set {key} holds in trial 0 only: the search chooses it in {count} of {len(cells)} cells"
        for key, count in counts.items()
        if count
    ]


def show_cells(cells: Sequence[SearchCell]) -> None:
    """Print what would be searched, and how many trainings that takes."""
    from fgai_bench.tuning.cells import FINALISTS

    rows = [[*_names(cell), str(cell.trials), ", ".join(cell.space)] for cell in cells]
    print_table("searches", [*NAMES, "trials", "what is searched"], rows)
    tried = sum(cell.trials * len(cell.seeds) for cell in cells)
    ending = sum((FINALISTS + 1) * len(cell.finals) for cell in cells)
    typer.echo(f"{tried} trainings in {len(cells)} searches, at most {ending} more in their finals under `worst`")


def spreads(outcomes: Sequence[SearchOutcome]) -> list[str]:
    """Say of each cell that was searched several times how far its choices lie apart in the final."""
    searches: dict[str, list[SearchOutcome]] = {}
    for outcome in outcomes:
        searches.setdefault(replace(outcome.cell, repeat=0).name, []).append(outcome)
    repeated = {name: [o.choice.attacked for o in own if o.choice] for name, own in searches.items() if len(own) > 1}
    return [
        f"{name}, {len(scores)} searches: attacked score of the choice {min(scores):.4f} to {max(scores):.4f}"
        for name, scores in repeated.items()
        if scores
    ]


NAMES = ["dataset", "task", "model", "defense"]
COLUMNS = [*NAMES, "trials", "chosen", "clean", "attacked", "(default)", "vanilla", "settings"]


def _names(cell: SearchCell) -> list[str]:
    return [cell.dataset, cell.task, cell.model, cell.line.title]


def _row(outcome: SearchOutcome) -> list[str]:
    """Return the choice of one cell, beside the scores of the suite's own settings and of the vanilla model."""
    cell, choice, default = outcome.cell, outcome.choice, min(outcome.finalists, key=lambda tried: tried.number)
    names = [*_names(cell), str(len(outcome.tried))]
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
