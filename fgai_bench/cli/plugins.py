"""``--plugin MODULE``: a user's own package joins the registries before a command looks anything up.

The option stands before the command or, for commands that take names, after it: both are the same option.
"""

from __future__ import annotations

import os
import sys
from typing import Annotated, Any

import typer

from fgai_bench.registry import load_plugins


def _load(modules: list[str] | None) -> list[str] | None:
    """Import the modules; the working directory is searched last, so it cannot hide an installed package."""
    if modules:
        if os.getcwd() not in sys.path:
            sys.path.append(os.getcwd())
        load_plugins(modules)
    return modules


PluginOption = Annotated[
    list[str] | None,
    typer.Option(
        "--plugin",
        metavar="MODULE",
        help="Import MODULE so that what it registers can be named; may be repeated.",
        callback=_load,
        is_eager=True,
    ),
]


def plugins_of(context: typer.Context) -> list[str]:
    """Every module named by ``--plugin``, before or after the command: what a worker process must import too."""
    named: list[str] = []
    level: Any = context
    while level is not None:
        named = [*(level.params.get("plugin") or []), *named]
        level = level.parent
    return list(dict.fromkeys(named))
