"""What the tests of the runner share: a suite that takes seconds, and the content of a store that must not vary."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fgai_bench.records.store import StoreReader
from fgai_bench.run.resume import run

TINY: dict[str, Any] = {
    "name": "tiny",
    "datasets": ["csbm-1e3"],
    "models": ["gat"],
    "defenses": ["vanilla", "at", "fgai"],
    "seeds": 2,
    "attacks": ["injection", "random-injection"],
    "training": {"epochs": 3},
    "inner": {"threat": {"steps": 2}},
    "threat": {"nodes": 5, "edges_per_node": 5, "steps": 3},
}
STEPS = 2 * 3 * (1 + 1 + 2)  # seeds x defenses x (train, clean, two attacks)
SAME = ("kind", "trial", "config", "status", "reason", "facts", "curves", "ledgers", "flags", "artifacts")


def content_of(folder: Path) -> dict[str, Any]:
    """Every recorded fact that must be the same on every run: all but times, memory and place."""
    with StoreReader(folder) as store:
        steps = {
            step["hash"]: {key: step[key] for key in SAME}
            | {"metrics": [row for row in step["metrics"] if row["family"] == "measure"]}
            for step in store.steps()
        }
        return {"steps": steps, "members": store.members()}


@pytest.fixture
def tiny() -> dict[str, Any]:
    return copy.deepcopy(TINY)


@pytest.fixture
def content() -> Callable[[Path], dict[str, Any]]:
    return content_of


@pytest.fixture(scope="session")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run of the tiny suite that nothing disturbed. Tests read it; those that change it work on a copy."""
    folder = tmp_path_factory.mktemp("reference") / "run"
    run(TINY, folder, executor="inline", device="cpu")
    assert len(content_of(folder)["steps"]) == STEPS
    return folder
