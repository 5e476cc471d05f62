"""Find the settings that a search has chosen, and put them beside a suite's own or in their place."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Literal, get_args

from fgai_bench.suites.errors import SuiteError
from fgai_bench.suites.read import parse
from fgai_bench.suites.schema import DefenseLine, Suite, TunedSetting

TUNED = " tuned"  # ends the label of a row whose settings a search has chosen
Settings = Literal["published", "tuned", "both"]


def tuned_line(line: DefenseLine) -> DefenseLine:
    """Return the line of the same defense with chosen settings.

    >>> tuned_line(DefenseLine(name="fgai")).title
    'fgai tuned'
    """
    return line.model_copy(update={"label": f"{line.title}{TUNED}", "tuned": True})


@cache
def committed_settings() -> tuple[TunedSetting, ...]:
    """Return the settings that travel with the package, chosen by the study whose trials lie beside them."""
    paths = sorted(Path(__file__).with_name("settings").glob("*.yaml"))
    return tuple(
        TunedSetting(**setting) for path in paths for setting in parse(path.read_text(encoding="utf-8"))["tuned"]
    )


def with_settings(suite: Suite, settings: str) -> Suite:
    """Return a suite with its own settings (``published``), with chosen ones (``tuned``), or with ``both``."""
    if settings not in get_args(Settings):
        raise SuiteError(f"unknown settings {settings!r}; possible are {', '.join(get_args(Settings))}")
    if settings == "published":
        return suite
    known = suite.tuned or committed_settings()
    own = [line for line in suite.defenses if not line.tuned]
    tuned = [tuned_line(line) for line in own if any(line.name in setting.when.defense for setting in known)]
    if not tuned:
        raise SuiteError(f"no settings have been chosen for a defense of {suite.name}; `fgai-bench tune` searches them")
    lines = (*(own if settings == "both" else ()), *tuned)
    return suite.model_copy(update={"defenses": lines, "tuned": known})
