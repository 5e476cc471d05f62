"""Describe which program, which versions and which machine produced a result."""

import functools
import os
import platform
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fgai_bench import __version__
from fgai_bench.attacks import ATTACKS
from fgai_bench.certificates import CERTIFICATES
from fgai_bench.data import DATASETS
from fgai_bench.defenses import DEFENSES
from fgai_bench.explainers import EXPLAINERS
from fgai_bench.metrics import METRICS
from fgai_bench.models import MODELS
from fgai_bench.registry import Registry, distribution_version
from fgai_bench.tasks import TASKS

PACKAGES = ("torch", "torch-geometric", "numpy", "scipy", "scikit-learn", "deeprobust")
REGISTRIES: dict[str, Registry[Any]] = {
    "task": TASKS,
    "dataset": DATASETS,
    "model": MODELS,
    "defense": DEFENSES,
    "attack": ATTACKS,
    "certificate": CERTIFICATES,
    "explainer": EXPLAINERS,
    "metric": METRICS,
}
"""The registry of each part of a step's configuration."""


def environment(device: str = "cpu", threads: int = 1) -> dict[str, Any]:
    """Return what is the same for all steps of one process: program, versions, machine."""
    try:
        name = _device_name(device)
    except (RuntimeError, AssertionError):  # a GPU that does not answer: the step has failed, and says why
        name = device
    return {**_program(), "device": name, "threads": threads, "host": socket.gethostname()}


def plugins_used(config: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Return the packages and modules, with their versions, whose entries a step uses; nothing for built-in ones."""
    chosen = [(registry, config[key]["name"]) for key, registry in REGISTRIES.items() if config.get(key)]
    entries = [registry.entry(name) for registry, name in chosen if name in registry]  # a node may lack a plugin
    versions = {entry.origin: entry.origin_version or _commit_of(entry.target) for entry in entries if not entry.ours}
    return {"plugins": versions} if versions else {}


def _commit_of(target: Any) -> str:
    """Return the git commit of the file that an object of a plugin is defined in; empty where the file has none."""
    kind = target if hasattr(target, "__module__") else type(target)
    file = Path(getattr(sys.modules.get(kind.__module__), "__file__", None) or "")
    known = file.is_file() and _git(file.parent, "log", "-1", "--format=%H", "--", file.name)
    return known if known and not _git(file.parent, "status", "--porcelain", "--", file.name) else ""


@functools.cache
def _program() -> dict[str, Any]:
    return {
        "package": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "processors": os.cpu_count(),
        "versions": {name: distribution_version(name) or "not installed" for name in PACKAGES},
        **checkout(),
    }


def checkout() -> dict[str, Any]:
    """Return the git commit that the package runs from and whether files differ from it; None outside a checkout."""
    root = Path(__file__).parents[2]
    if not (root / ".git").exists():
        return {"commit": None, "dirty": None}
    commit = _git(root, "rev-parse", "--verify", "HEAD")
    return {"commit": commit, "dirty": commit is None or bool(_git(root, "status", "--porcelain"))}


def _git(root: Path, *arguments: str) -> str | None:
    """Return what a git command prints; None where it fails or there is no git."""
    try:
        done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


@functools.cache
def _device_name(device: str) -> str:
    """Return the name of a GPU, or of the processor as the system gives it; else its architecture."""
    if device != "cpu":
        import torch

        return torch.cuda.get_device_name(device)
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
