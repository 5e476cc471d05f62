"""What a row of a leaderboard is about beside its names: data, settings and code, so that only like meets like."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from fgai_bench.records.same_code import fingerprints
from fgai_bench.statistics.errors import ReportError

APART = "rows of other code are not put together, so name a new folder with --to"
SETTINGS = ("training", "model", "defense", "inner", "attack")  # the threat model has a column of its own


def identity_of(steps: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return data, settings, code and rows of recorded steps; nothing where their code has no fingerprint.

    ``steps`` have ``hash``, ``kind``, ``seed``, ``config`` and ``checksum`` (of the data).
    """
    known = [step for step in steps if step["config"].get("code")]
    if not known:
        return {}
    code = {part: own for step in known for part, own in fingerprints(step).items()}
    settings = {key: step["config"][key] for step in known for key in SETTINGS if step["config"].get(key)}
    rows = {str(step["seed"]): step["hash"][:12] for step in known if step["kind"] == "attack"}
    data = sorted({step["checksum"] for step in known if step["checksum"]})
    return {"code": code, "settings": settings, "data": data, "rows": rows}


def refuse_other(names: str, mine: Mapping[str, Any], theirs: Mapping[str, Any], same_row: bool) -> None:
    """Raise if a row was made on other data, by other code or, where it is the same row, with other settings."""
    if not mine and not theirs:
        return
    if not mine or not theirs:
        which = "it was" if theirs else "the leaderboard's rows beside it were"
        raise ReportError(
            f"{names}: {which} made by an earlier program that recorded no fingerprint of its code; {APART}"
        )
    if mine["data"] and theirs["data"] and mine["data"] != theirs["data"]:
        raise ReportError(f"{names}: its data are not those of the leaderboard's rows beside it")
    other = [part for part, own in mine["code"].items() if theirs["code"].get(part, own) != own]
    if other:
        raise ReportError(
            f"{names}: its {other[0]} was computed by other code than the leaderboard's rows beside it; {APART}"
        )
    settings = [{key: row["settings"].get(key) for key in SETTINGS} for row in (mine, theirs)]
    if same_row and settings[0] != settings[1]:
        raise ReportError(f"{names}: its settings are not those of the leaderboard's row of the same name")
