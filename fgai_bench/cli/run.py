"""Define ``fgai-bench run``, which runs a suite or, with ``--dry-run``, prints its plan."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fgai_bench.cli.data import RootOption
from fgai_bench.cli.paths import folder_of
from fgai_bench.cli.plugins import plugins_of_command
from fgai_bench.cli.terminal import print_table

if TYPE_CHECKING:
    from fgai_bench.run.estimate import Estimate
    from fgai_bench.run.forecast import Calibration
    from fgai_bench.run.plan import Plan, Step
    from fgai_bench.run.progress import PlainLines
    from fgai_bench.run.resume import Run

NAMES = "Names separated by commas; else the suite's."


def run(
    suite: Annotated[
        str, typer.Option(help="A suite's name (`fgai-bench ls suites`) or the path of a YAML file.")
    ] = "quick",
    datasets: Annotated[str | None, typer.Option(help=NAMES)] = None,
    models: Annotated[str | None, typer.Option(help=NAMES)] = None,
    defenses: Annotated[str | None, typer.Option(help=NAMES)] = None,
    attacks: Annotated[str | None, typer.Option(help=NAMES)] = None,
    seeds: Annotated[str | None, typer.Option(help="How many seeds (5), or which (0,3,4).")] = None,
    settings: Annotated[
        str, typer.Option(help="published (the suite's own), tuned (those that a search has chosen) or both.")
    ] = "published",
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    jobs: Annotated[int | None, typer.Option(help="Steps at a time; else one per processor, or one on a GPU.")] = None,
    executor: Annotated[str, typer.Option(help="local (worker processes), inline or ray.")] = "local",
    address: Annotated[str | None, typer.Option(help="Address of a Ray cluster; else one is started here.")] = None,
    out: Annotated[Path | None, typer.Option(help="The run folder; else runs/SUITE.", parser=folder_of)] = None,
    assignments: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a setting, as in attack.steps=50.")
    ] = None,
    data_root: RootOption = None,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Run again what has failed.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan and do nothing.")] = False,
) -> None:
    """Run a suite or resume it: steps recorded in the run folder are not run again. Exit 1 when a step has failed."""
    from fgai_bench.run.progress import observer_for
    from fgai_bench.run.resume import run as carry_out

    overrides: dict[str, Any] = {
        "datasets": listed(datasets),
        "models": listed(models),
        "defenses": listed(defenses),
        "attacks": listed(attacks),
        "seeds": seeds_of(seeds),
        "settings": settings,
        "assignments": assignments or [],
    }
    if dry_run:
        show_plan(suite, out, device, overrides, data_root)
        return
    observer = observer_for(sys.stdout)
    done = carry_out(
        suite,
        out,
        device=device,
        jobs=jobs,
        executor=executor,
        address=address,
        data_root=data_root,
        plugins=plugins_of_command(),
        retry_failed=retry_failed,
        observer=observer,
        **overrides,
    )
    if done.executed:
        print_table(*time_table(observer))
    conclude(done)


def time_table(observer: PlainLines) -> tuple[str, list[str], list[list[str]]]:
    """Return the table that says how long a run took and where its time went."""
    took, rows = observer.spent.rows()
    return took, ["what", "steps", "seconds of workers", "share"], rows


def listed(text: str | None) -> list[str] | None:
    """Split a comma-separated option such as ``"gat, gt"`` into a list; return None when the option was not given.

    >>> listed("gat, gt"), listed(None)
    (['gat', 'gt'], None)
    """
    if text is None:
        return None
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise typer.BadParameter(f"{text!r} names nothing; write names separated by commas, or leave the option out")
    return names


def seeds_of(text: str | None) -> int | list[int] | None:
    """Parse ``--seeds``: ``"5"`` is a number of seeds, ``"0,3"`` are the seeds themselves.

    >>> seeds_of("5"), seeds_of("0,3")
    (5, [0, 3])
    """
    if text is None:
        return None
    try:
        return [int(part) for part in text.split(",") if part.strip()] if "," in text else int(text)
    except ValueError:
        raise typer.BadParameter(f"--seeds is a number (5) or a list of them (0,3,4), not {text!r}") from None


def show_plan(suite: str, out: Path | None, device: str, overrides: dict[str, Any], data_root: Path | None) -> None:
    """Print every trial of the plan, the number of steps, and what those that have to run will probably take."""
    from fgai_bench.run.forecast import calibration_of
    from fgai_bench.run.preflight import check_options, checked_data_root, resolved_device
    from fgai_bench.run.resume import known_times, planned
    from fgai_bench.suites import load_suite

    loaded = load_suite(suite)
    plan = planned(loaded, device, checked_data_root(data_root), **overrides)
    check_options(plan.steps.values())
    folder = out if out is not None else Path("runs") / loaded.name
    done, estimate = known_times(folder)
    print_table(f"plan of {loaded.name}", PLAN_COLUMNS, plan_rows(plan))
    waiting = [step for hash, step in plan.steps.items() if hash not in done]
    kinds = [step.kind for step in plan.steps.values()]
    counted = ", ".join(f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(kinds))
    typer.echo(f"{len(plan.steps)} steps ({counted}); {len(plan.steps) - len(waiting)} done, {len(waiting)} to run")
    if waiting:
        calibration = calibration_of(resolved_device(device))
        print_table("forecast", FORECAST_COLUMNS, forecast_rows(plan, waiting, estimate, calibration))


FORECAST_COLUMNS = ["suite", "steps to run", "time on one worker", "largest training", "on"]


def forecast_rows(plan: Plan, waiting: list[Step], estimate: Estimate, calibration: Calibration) -> list[list[str]]:
    """Return one table row for each suite: what its steps will take; a step of several suites counts for the first.

    Times of similar steps that have finished come first; where there are none, what the machine's speed suggests.
    """
    from fgai_bench.run.estimate import similarity_key, spoken
    from fgai_bench.run.forecast import forecast, spoken_bytes
    from fgai_bench.run.progress import title

    suite_of: dict[str, str] = {}
    for member in plan.members:
        suite_of.setdefault(member.step, member.suite)
    for step in reversed(plan.steps.values()):  # a teacher that no suite shows belongs to whoever learns from it
        for source in step.inputs.values():
            suite_of.setdefault(source, suite_of[step.hash])
    rows = []
    for suite in dict.fromkeys(suite_of.values()):
        seconds, unknown, largest, cell, count = 0.0, 0, 0.0, "", 0
        for step in (step for step in waiting if suite_of[step.hash] == suite):
            expected = forecast(step.config, calibration)
            known = estimate.seconds(similarity_key(step.config))
            took = expected.seconds if known is None else known
            count, seconds, unknown = count + 1, seconds + (took or 0.0), unknown + (took is None)
            if expected.bytes is not None and expected.bytes > largest:
                largest, cell = expected.bytes, title(step)
        spent = spoken(seconds if count > unknown or not count else None)
        more = f", and {unknown} steps of which nothing is known" if unknown and count > unknown else ""
        rows.append([suite, str(count), f"about {spent}{more}", spoken_bytes(largest) if cell else "-", cell])
    return rows


PLAN_COLUMNS = ["suite", "task", "dataset", "model", "defense", "label", "seeds", "attacks"]


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

    If some steps could be tried again, list the steps without a value and exit 1.
    """
    from fgai_bench.cli.status import failures
    from fgai_bench.records.result import RETRIED

    counts = done.counts()
    by_status = ", ".join(f"{number} {status}" for status, number in counts.items())
    typer.echo(f"{done.executed} steps executed; {done.folder}: {by_status}")
    failed = any(status in RETRIED for status in counts)
    if failed:
        failures(done.folder)
    typer.echo(f"next: fgai-bench report {shlex.quote(str(done.folder))}")
    if failed:
        raise typer.Exit(1)
