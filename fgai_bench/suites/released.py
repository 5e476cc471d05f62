"""Find the settings of the authors' released program: the numbers of its configurations, and what its code decides.

``baselines/fgai/released_settings.csv`` holds the numbers; ``released.yaml`` beside it says which option each column
sets, what the code decides, and which defense trains each method here.
"""

from __future__ import annotations

import csv
from functools import cache
from importlib import resources
from typing import Any

import yaml

from fgai_bench.suites.schema import DefenseLine, Setting


def _text(name: str) -> str:
    return resources.files("fgai_bench.baselines").joinpath("fgai", name).read_text(encoding="utf-8")


@cache
def _program() -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load(_text("released.yaml"))
    return content


def methods() -> dict[str, str]:
    """Return the methods of the released program, and the defense that trains each of them here.

    >>> methods()["ln"]  # its LN divides feature rows by their sum, and trains as the vanilla model does
    'vanilla'
    """
    return dict(_program()["methods"])


@cache
def _settings() -> tuple[Setting, ...]:
    """Return a setting for every row of the configurations."""
    other_names = {known["dataset"]: known["stand_in"] for known in yaml.safe_load(_text("paper.yaml"))["stand_ins"]}
    return tuple(_of_row(row, other_names) for row in csv.DictReader(_text("released_settings.csv").splitlines()))


def _of_row(row: dict[str, str], stand_ins: dict[str, str]) -> Setting:
    datasets = [row["dataset"], *([stand_ins[row["dataset"]]] if row["dataset"] in stand_ins else [])]
    when = {"task": row["task"], "dataset": datasets, "model": row["model"], "defense": row["used_for"].split(", ")}
    sections: dict[str, dict[str, Any]] = {}
    for column, target in _program()["columns"].items():
        section, option = target.split(".")
        if numbers := [yaml.safe_load(part) for part in row[column].split()]:
            sections.setdefault(section, {})[option] = numbers if option == "heads" else numbers[0]
    return Setting(**{"when": when, **sections})


@cache
def released_settings(task: str, dataset: str, model: str, method: str) -> tuple[Setting, ...]:
    """Return the settings of a method in one cell, later ones override; none where there is no configuration.

    The first is the configuration; the budget of its ``inner`` is also the one that it is evaluated with.

    >>> configured, *decided = released_settings("node", "amazon-photo", "gat", "at")
    >>> configured.training, configured.inner["edges_per_node"], decided[0].training
    ({'epochs': 200, 'lr': 0.001, 'weight_decay': 0.0005}, 40, {'keep': 'last'})
    """
    cell = (task, dataset, model, DefenseLine(name=method))
    configured = [setting for setting in _settings() if setting.when.matches(*cell)]
    decided = [Setting(**setting) for setting in _program()["settings"]] if configured else []
    return (*configured, *(setting for setting in decided if setting.when.matches(*cell)))
