"""Define ``fgai-bench doctor``, which prints what a bug report should contain: versions, devices and folders."""

import importlib
import importlib.metadata
import os
import platform
import re
import sys
import time
from typing import Annotated

import typer

from fgai_bench import __version__
from fgai_bench.cli.terminal import print_table
from fgai_bench.registry import distribution_version

# Distributions whose import name is not their own name with underscores.
IMPORT_NAMES = {"PyYAML": "yaml", "scikit-learn": "sklearn"}

# Packages built for one build of torch. One that does not fit is no failure: runs on a CPU use neither.
BESIDE_TORCH = ("torchvision", "triton")


def doctor(
    imports: Annotated[
        bool, typer.Option("--imports", help="Import every dependency, to see which one fails or is slow.")
    ] = False,
) -> None:
    """Print versions, devices, threads and folders; exit 1 when a dependency is missing or broken."""
    from fgai_bench.data import data_root
    from fgai_bench.records.provenance import checkout

    source = checkout()
    commit = f"{source['commit']}{'+' if source['dirty'] else ''}" if source["commit"] else "none: not a git checkout"
    python = f"{platform.python_version()} ({sys.executable})"
    program = [("fgai-bench", __version__), ("commit", commit), ("python", python), ("data root", str(data_root()))]
    declared = (importlib.metadata.requires("fgai-bench") if distribution_version("fgai-bench") else None) or []
    required = [re.split(r"[^\w.-]", line, maxsplit=1)[0] for line in declared if "extra ==" not in line]
    machine = machine_facts()
    packages, beside = (
        [(name, distribution_version(name) or absent, import_verdict(name) if imports else "") for name in names]
        for names, absent in ((required, "missing"), (BESIDE_TORCH, "not installed"))
    )
    print_table("program", ["", ""], program)
    print_table("machine", ["", ""], machine)
    print_table("packages", ["name", "version", "import" if imports else ""], [*packages, *beside])
    if any(cell == "missing" or cell.startswith("fails") for row in [*machine, *packages] for cell in row):
        raise typer.Exit(1)


def import_verdict(name: str) -> str:
    """Import a distribution's package and return how long that took, or how it failed.

    >>> import_verdict("no-such-distribution")
    "fails: ModuleNotFoundError: No module named 'no_such_distribution'"
    """
    began = time.perf_counter()
    try:
        importlib.import_module(IMPORT_NAMES.get(name, name.replace("-", "_")))
    except Exception as error:  # a broken installation can raise anything, and the report must show it
        return f"fails: {type(error).__name__}: {error}"
    return f"{time.perf_counter() - began:.1f} s"


def machine_facts() -> list[tuple[str, str]]:
    """Return names and values that describe the machine as torch sees it, or why torch cannot be imported."""
    facts = [("platform", platform.platform()), ("processors", str(os.cpu_count()))]
    try:
        import torch
    except Exception as error:  # as above: a broken torch must not hide the rest of the report
        return [*facts, ("torch", f"fails: {type(error).__name__}: {error}")]
    devices = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    return [
        *facts,
        ("torch threads", str(torch.get_num_threads())),
        ("torch's CUDA", str(torch.version.cuda or "none: a build for the CPU")),
        ("devices", ", ".join(devices) or "cpu"),
    ]
