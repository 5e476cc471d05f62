"""Define ``fgai-bench run``, which runs a suite or, with ``--dry-run``, prints its plan."""

from __future__ import annotations

import shlex
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fgai_bench.cli.options import (
    FolderOption,
    NamesOption,
    SetOption,
    SuiteOption,
    listed,
    seeds_of,
    takes_execution,
    whole,
)
from fgai_bench.cli.terminal import print_table

if TYPE_CHECKING:
    from fgai_bench.run.plan import Plan
    from fgai_bench.run.resume import Run

PLAN_COLUMNS = ["suite", "task", "dataset", "model", "defense", "label", "seeds", "attacks"]


@takes_execution
def run(
    suite: SuiteOption = "quick",
    datasets: NamesOption = None,
    models: NamesOption = None,
    defenses: NamesOption = None,
    attacks: NamesOption = None,
    seeds: Annotated[str | None, typer.Option(help="How many seeds (5), or which (0,3,4).")] = None,
    seed: Annotated[int | None, typer.Option(help="One seed, in the place of --seeds.", parser=whole)] = None,
    split: Annotated[
        str | None, typer.Option(help="transductive, or inductive (no training sees test nodes); else the suite's.")
    ] = None,
    settings: Annotated[
        str, typer.Option(help="published (the suite's own), tuned (by a search), both, or released (by the authors).")
    ] = "published",
    out: FolderOption = None,
    assignments: SetOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan and do nothing.")] = False,
    *,
    how: dict[str, Any],
) -> None:
    """Run a suite or resume it: steps recorded in the run folder are not run again. Exit 1 when a step has failed."""
    from fgai_bench.run.resume import run as run_suite

    if seed is not None and seeds is not None:
        raise typer.BadParameter("--seed is one seed and --seeds says how many or which; give one of the two")
    overrides: dict[str, Any] = {
        "datasets": listed(datasets),
        "models": listed(models),
        "defenses": listed(defenses),
        "attacks": listed(attacks),
        "seeds": seeds_of(seeds) if seed is None else [seed],
        "split": split,
        "settings": settings,
        "assignments": assignments or [],
    }
    if dry_run:
        show_plan(suite, out, how["device"], overrides, how["data_root"])
        return
    done = run_suite(suite, out, **how, **overrides)
    if done.executed:
        typer.echo(how["observer"].summary())
    conclude(done)


def show_plan(suite: str, out: Path | None, device: str, overrides: dict[str, Any], data_root: Path | None) -> None:
    """Print every trial of the plan, the number of steps, and the memory of the largest training that has to run."""
    from fgai_bench.data import DATASETS
    from fgai_bench.data import data_root as data_root_of
    from fgai_bench.records.names import spans
    from fgai_bench.run.forecast import memory_of
    from fgai_bench.run.preflight import check_options, checked_data_root
    from fgai_bench.run.progress import title
    from fgai_bench.run.resume import planned, statuses_in
    from fgai_bench.suites import load_suite

    loaded = load_suite(suite)
    root = checked_data_root(data_root)
    plan = planned(loaded, device, root, **overrides)
    check_options(plan.steps.values())
    folder = out if out is not None else Path("runs") / loaded.name
    seeds = {member.seed for member in plan.members}
    typer.echo(f"{len(seeds)} seed{'s' if len(seeds) != 1 else ''}: {spans(tuple(seeds))}")
    print_table(f"plan of {loaded.name}", PLAN_COLUMNS, plan_rows(plan))
    for sentence in plan.left_out:
        typer.echo(sentence)
    done = statuses_in(folder)
    waiting = [step for hash, step in plan.steps.items() if hash not in done]
    kinds = Counter(step.kind for step in plan.steps.values())
    counted = ", ".join(f"{number} {kind}" for kind, number in kinds.items())
    typer.echo(f"{len(plan.steps)} steps ({counted}); {len(plan.steps) - len(waiting)} done, {len(waiting)} to run")
    used = dict.fromkeys(step.config["dataset"]["name"] for step in waiting)
    if absent := [name for name in used if DATASETS[name].missing(data_root_of(root))]:
        typer.echo(f"missing data: {', '.join(absent)}; `fgai-bench data fetch NAME` gets them, and so does the run")
    needed = {step.hash: memory_of(step.config) or 0.0 for step in waiting if step.kind == "train"}
    if any(needed.values()):
        largest = max(needed, key=lambda hash: needed[hash])
        typer.echo(f"largest: {title(plan.steps[largest])}, about {needed[largest] / 2**30:,.1f} GiB of memory")


def plan_rows(plan: Plan) -> list[list[str]]:
    """Return one table row for each set of trials that differ only in their seed."""
    rows: dict[tuple[str, ...], tuple[list[str], list[str]]] = {}
    for member in plan.members:
        key = (member.suite, member.task, member.dataset, member.model, member.defense, member.label)
        seeds, attacks = rows.setdefault(key, ([], []))
        if member.kind == "train":
            seeds.append(str(member.seed))
        elif member.kind == "attack" and member.attack_label not in attacks:
            attacks.append(member.attack_label)
    return [[*key, " ".join(seeds), " ".join(attacks)] for key, (seeds, attacks) in rows.items()]


def conclude(done: Run) -> None:
    """Print the number of steps by status and what to do next.

    If some steps could be tried again, list the steps without a value and exit 1. So do an attack below a floor and a
    dataset whose files could not be had.
    """
    from fgai_bench.cli.status import failures
    from fgai_bench.records.result import RETRIED
    from fgai_bench.records.store import StoreReader

    counts = done.counts()
    by_status = ", ".join(f"{number} {status}" for status, number in counts.items())
    typer.echo(f"{done.executed} steps executed; {done.folder}: {by_status}")
    failed = any(status in RETRIED for status in counts)
    if failed:
        failures(done.folder)
    with StoreReader(done.folder) as store:
        wrong = store.below_floors()
    for hash, flag in wrong.items():
        typer.echo(f"row {hash[:12]}: {flag}; the attack or the proof is wrong")
    typer.echo(f"next: fgai-bench report {shlex.quote(str(done.folder))}")
    if failed or wrong or done.absent:
        raise typer.Exit(1)
