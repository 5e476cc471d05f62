"""Find the settings that a search has chosen, and put them beside a suite's own or in their place."""

from __future__ import annotations

from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, get_args

from fgai_bench.suites.errors import SuiteError
from fgai_bench.suites.read import parse
from fgai_bench.suites.schema import DefenseLine, Suite, TunedSetting

Settings = Literal["published", "tuned", "both"]
SUFFIX = " tuned"  # ends the label of a tuned line
PACKAGE = "fgai_bench.baselines"


def shipped_baselines() -> Traversable:
    """Return the folder of baselines: the installed package, else the folder beside ours in a bare checkout."""
    spec = find_spec(PACKAGE)
    # A folder without __init__.py is what an update of an older checkout leaves behind, not the package.
    if spec is None or spec.origin is None:
        return Path(__file__).parents[2] / "baselines"
    return resources.files(PACKAGE)


def tuned_line(line: DefenseLine) -> DefenseLine:
    """Return the line of the same defense with chosen settings.

    >>> tuned_line(DefenseLine(name="fgai")).title
    'fgai tuned'
    """
    return line.model_copy(update={"label": f"{line.title}{SUFFIX}", "tuned": True})


@cache
def committed_settings() -> tuple[TunedSetting, ...]:
    """Return the settings that travel with the package, chosen by the study whose trials lie beside them."""
    folder = shipped_baselines().joinpath("tuned")
    if not folder.is_dir():
        return ()
    paths = sorted((path for path in folder.iterdir() if path.name.endswith(".yaml")), key=lambda path: path.name)
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
