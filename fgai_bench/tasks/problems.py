"""Prepare the problem of a step: its task on its dataset and seed, on its device."""

import functools
from collections.abc import Mapping
from typing import Any

from fgai_bench.data import content_sha256
from fgai_bench.tasks.base import Problem
from fgai_bench.tasks.catalogue import TASKS
from fgai_bench.tasks.validation import share_of_budget


@functools.lru_cache(maxsize=4)
def _prepared(task: str, dataset: str, content: str, seed: int, root: str | None, inductive: bool) -> Problem:
    if content and content_sha256(dataset, root) != content:
        raise ValueError(f"the graph that {dataset!r} gives here is not the one that the step was planned for")
    further: dict[str, Any] = {"inductive": True} if inductive else {}  # not every task has such a split
    return TASKS[task].prepare(dataset, seed, root=root, **further)


@functools.lru_cache(maxsize=1)
def _placed(device: str, *which: Any) -> Problem:
    """Return a problem on a GPU. There is one at a time: the measured memory of a step would hold that of another."""
    return _prepared(*which).to(device)


@functools.lru_cache(maxsize=1)
def _without_test(device: str, *which: Any) -> Problem:
    problem = _prepared(*which) if device == "cpu" else _placed(device, *which)
    held = problem.without_test()
    held.provenance = {**problem.provenance, "validation_share": share_of_budget(problem, held)}
    return held


def problem_of(config: Mapping[str, Any], data_root: str | None) -> Problem:
    """Return the problem of a step; the last ones are cached, since neighbouring steps share theirs.

    A step that serves the choice of settings gets it without its test part.
    """
    dataset, device = config["dataset"], config["device"]
    content = dataset.get("source", {}).get("content", "")
    inductive = dataset.get("split") == "inductive"
    which = (config["task"]["name"], dataset["name"], content, config["seed"], data_root, inductive)
    if config.get("kind") == "validate":
        return _without_test(device, *which)
    return _prepared(*which) if device == "cpu" else _placed(device, *which)
