"""Which code decides a step: a fingerprint for each part of it, so that changed code is a new step and nothing more.

=============  ======================================================================================================
part           what it covers
=============  ======================================================================================================
``task``       of a training: how it is carried out, and the side of the task that supervises and splits
``dataset``    the reader, and what every graph goes through
``model``      the model with its kernels; ``defense``, ``inner``: the defense and the attack inside its training
``attack``     of an attack: the search; ``explainer``, ``metric``: likewise
``measure``    how a result is measured: the other side of the task and, where all of them count, the built-in metrics
``audit``      the audit of Definition 1
=============  ======================================================================================================

A measurement names the training that it builds on by its hash, so that the code of the training counts there too. A
changed metric therefore repeats measurements and attacks, and trains nothing again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cache
from typing import Any

from fgai_bench.attacks import ATTACKS
from fgai_bench.data import DATASETS
from fgai_bench.defenses import DEFENSES
from fgai_bench.explainers import EXPLAINERS
from fgai_bench.metrics import METRICS
from fgai_bench.models import MODELS
from fgai_bench.records.same_code import EVERY, PARTS
from fgai_bench.registry import Entry, Registry, RegistryError
from fgai_bench.run.identity import Part, fingerprint, forget_files, listed, modules_of, written_in_no_file
from fgai_bench.tasks import TASKS

REGISTRIES: dict[str, Registry[Any]] = {
    "dataset": DATASETS,
    "model": MODELS,
    "defense": DEFENSES,
    "inner": ATTACKS,
    "attack": ATTACKS,
    "validation": ATTACKS,
    "explainer": EXPLAINERS,
    "metric": METRICS,
}
EXECUTE, STEPS = "fgai_bench.run.execute", "STEPS"  # where the functions are listed that carry out kinds of steps
# The methods of a task that measure, and what they measure with.
MEASURING = frozenset(("clean_offers", "attack_offers", "clean", "attacked"))
MEASUREMENT = frozenset(("fgai_bench.tasks.measurement",))
WITH_DATA = "fgai_bench.data.load"


def code_of(kind: str, config: Mapping[str, Any]) -> dict[str, str]:
    """Return the fingerprints of the code that decides a step, by part.

    >>> sorted(code_of("attack", {"task": {"name": "node"}, "attack": {"name": "injection"}}))
    ['attack', 'measure']
    """
    return _code_of(kind, config["task"]["name"], tuple(_names(kind, config)))


@cache
def _code_of(kind: str, task: str, parts: tuple[tuple[str, str], ...]) -> dict[str, str]:
    return {part: _fingerprint(part, kind, task, name) for part, name in parts}


def forget() -> None:
    """Forget every fingerprint, as after files have changed under a process that goes on."""
    _code_of.cache_clear()
    _fingerprint.cache_clear()
    forget_files()


def is_present(kind: str, config: Mapping[str, Any]) -> bool | None:
    """Tell whether a recorded step was made by the code that is here; None without the plugin that it needs."""
    try:
        return bool(config.get("code") == code_of(kind, config))
    except (RegistryError, KeyError):
        return None


def _names(kind: str, config: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the parts of a step, each with the name of its entry; parts without one have an empty name."""
    named = []
    for part in PARTS.get(kind, EVERY):
        entry = config.get(part)
        if part in ("task", "measure", "audit"):
            named.append((part, ""))
        elif entry:
            named.append((part, entry["attack"] if part == "inner" else entry["name"]))
    return [(part, name) for part, name in named if not (part == "attack" and config["attack"].get("by"))]


@cache
def _fingerprint(part: str, kind: str, task: str, name: str) -> str:
    if part in REGISTRIES:
        entry = REGISTRIES[part].entry(name)
        return _of_entry(entry, (WITH_DATA,) if part == "dataset" else ())
    functions = listed(EXECUTE, STEPS)
    others = frozenset(functions.values()) - {functions[kind]} | {STEPS}
    carried_out = Part(EXECUTE, others)
    modules = modules_of(TASKS.entry(task).target)
    if part == "task":
        return fingerprint([carried_out, *(Part(module, MEASURING) for module in modules)], MEASUREMENT)
    metrics = [METRICS.entry(metric) for metric in METRICS if METRICS.entry(metric).ours]
    measured = kind not in ("measure", "audit")
    text = repr([(entry.name, entry.target, sorted(entry.tags)) for entry in metrics]) if measured else ""
    counted = [module for entry in metrics for module in modules_of(entry.target)] if measured else []
    return _joined(fingerprint([carried_out, *modules, *counted]), text)


def _of_entry(entry: Entry[Any], modules: tuple[str, ...]) -> str:
    return _joined(fingerprint([*modules_of(entry.target), *modules]), written_in_no_file(entry.target))


def _joined(code: str, text: str) -> str:
    """Return a fingerprint of code and of a text beside it; the code's own where there is no text."""
    return hashlib.sha256(f"{code}{text}".encode()).hexdigest()[:16] if text else code
