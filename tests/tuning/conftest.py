"""What the tests of tuning share: a plugin with two quick defenses, and a study of them that takes a second."""

from __future__ import annotations

import copy
from typing import Any, ClassVar

import pytest

from fgai_bench.defenses import DEFENSES
from fgai_bench.defenses.vanilla import Vanilla
from fgai_bench.options import Choice, LogRange, Space

TINY: dict[str, Any] = {
    "name": "tiny",
    "datasets": ["csbm-1e3"],
    "models": ["gat"],
    "defenses": ["brief", "sly"],
    "seeds": 2,
    "attacks": ["injection"],
    "training": {"epochs": 2},
    "threat": {"nodes": 5, "edges_per_node": 5, "steps": 3},
}
SEEN: list[dict[str, Any]] = []


class Brief(Vanilla):
    """Trains as vanilla, for an epoch or two."""

    tags = ("node",)
    search_space: ClassVar[Space | None] = {
        "training.epochs": Choice(1, 2),
        "training.lr": LogRange(0.001, 0.1),
    }


class Sly(Brief):
    """Notes everything that it is handed, as a defense would that looks for test nodes."""

    def train(self, fit, progress):
        kept = {"y": fit.data.y, "split": fit.split, "keys": set(fit.data.keys()), "seed": fit.seed, "task": fit.task}
        SEEN.append(kept)
        return super().train(fit, progress)


for _name, _class in (("brief", Brief), ("sly", Sly)):
    if _name not in DEFENSES:
        DEFENSES.add(_name, _class, origin="tests")


@pytest.fixture(scope="session")
def template() -> dict[str, Any]:
    return TINY


@pytest.fixture
def tiny() -> dict[str, Any]:
    return copy.deepcopy(TINY)


@pytest.fixture
def seen() -> list[dict[str, Any]]:
    SEEN.clear()
    return SEEN
