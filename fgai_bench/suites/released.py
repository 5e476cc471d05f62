"""Find the settings of the authors' released program: the numbers of its configurations, and what its code decides.

``baselines/fgai/released_settings.csv`` holds the numbers; ``released.yaml`` beside it says which option each column
sets, what the code decides, and which defense trains each method here.
"""

from __future__ import annotations

import csv
from functools import cache
from typing import Any

import yaml

from fgai_bench.baselines import text_of
from fgai_bench.suites.schema import DefenseLine, Setting


@cache
def program() -> dict[str, Any]:
    """Return what the program does: its ``methods``, the ``columns`` of its configurations, and ``settings``."""
    content: dict[str, Any] = yaml.safe_load(text_of("released.yaml"))
    return content


@cache
def _configurations() -> tuple[Setting, ...]:
    """Return a setting for every row of the configurations."""
    stand_ins = yaml.safe_load(text_of("paper.yaml"))["stand_ins"]
    return tuple(_of_row(row, stand_ins) for row in csv.DictReader(text_of("released_settings.csv").splitlines()))


def _of_row(row: dict[str, str], stand_ins: list[dict[str, str]]) -> Setting:
    datasets = [row["dataset"], *(known["stand_in"] for known in stand_ins if known["dataset"] == row["dataset"])]
    when = {"task": row["task"], "dataset": datasets, "model": row["model"], "defense": row["used_for"].split(", ")}
    sections: dict[str, dict[str, Any]] = {}
    for column, target in program()["columns"].items():
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
    configured = [setting for setting in _configurations() if setting.when.matches(*cell)]
    decided = [Setting(**setting) for setting in program()["settings"]] if configured else []
    return (*configured, *(setting for setting in decided if setting.when.matches(*cell)))
