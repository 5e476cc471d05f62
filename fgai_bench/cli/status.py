"""Define ``fgai-bench status``, which shows how far a run is, who writes to it and which steps failed."""

from pathlib import Path
from typing import Any

import typer

from fgai_bench.cli.options import RunArgument
from fgai_bench.cli.terminal import print_table

SHOWN_DAMAGE = 5  # damaged steps, before the rest is only counted


def status(folder: RunArgument) -> None:
    """Show how many steps of a run are done and how many are waiting; exit 1 when a step has failed."""
    from fgai_bench.records.lock import holder
    from fgai_bench.records.merge import counts_by_suite, in_words
    from fgai_bench.records.result import RETRIED
    from fgai_bench.records.store import StoreReader

    with StoreReader(folder) as store:
        members, statuses, damaged = store.members(), store.statuses(), store.damaged()
        headers = {} if damaged else store.headers()
    suites = counts_by_suite(members, statuses).items()
    rows = [[suite, str(sum(counts.values())), in_words(counts)] for suite, counts in suites]
    print_table(f"run {folder}", ["suite", "steps", "by status"], rows)
    typer.echo(f"being written by {writer}" if (writer := holder(folder)) else "nobody is writing to it")
    for sentence in list(damaged.values())[:SHOWN_DAMAGE]:
        typer.echo(f"damaged: {sentence}")
    if len(damaged) > SHOWN_DAMAGE:
        typer.echo(f"damaged: {len(damaged) - SHOWN_DAMAGE} more steps, as where checkpoints were not brought along")
    for sentence in remarks(members, headers):
        typer.echo(sentence)
    if set(statuses.values()) - {"ok"}:
        failures(folder)
    if damaged or any(status in RETRIED for status in statuses.values()):
        raise typer.Exit(1)


def remarks(members: list[dict[str, Any]], headers: dict[str, dict[str, Any]]) -> list[str]:
    """Return what to know of the records: changed suites, steps of other code than the rest, or than this program's."""
    from fgai_bench.records.merge import made_by_other_code
    from fgai_bench.run.identity import is_present

    mixed = made_by_other_code(members, headers)
    placed = {member["step"] for member in members if member["step"] in headers} - mixed
    earlier = [hash for hash in placed if is_present(headers[hash]["kind"], headers[hash]["config"]) is False]
    counted = (
        (len(mixed), "or settings than the rest and are not mixed with it"),
        (len(earlier), "than this program's; a new run computes them anew and leaves them in the store"),
    )
    return [f"{number} recorded steps were made by other code {whose}" for number, whose in counted if number]


def failures(folder: Path) -> None:
    """Print a table of the recorded steps that have no value, with the reason for each."""
    from fgai_bench.records.errors import StoreError
    from fgai_bench.records.store import StoreReader

    rows: list[list[str]] = []
    with StoreReader(folder) as store:
        statuses = store.statuses()
        for member in store.members():
            if statuses.get(member["step"], "ok") != "ok":
                names = [str(member[key]) for key in ("kind", "dataset", "model", "label", "attack_label", "seed")]
                try:
                    reason = store.step(member["step"])["reason"]
                except StoreError as error:
                    reason = str(error)
                rows.append([*names, statuses[member["step"]], reason])
    if rows:
        columns = ["step", "dataset", "model", "defense", "attack", "seed", "status", "reason"]
        print_table("without a value", columns, rows)
