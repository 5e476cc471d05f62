"""Handle ``--plugin MODULE|FILE``, which imports a user's own code before a command looks up registered names.

The option may stand anywhere on the command line, before or after the name of a command, and is removed before the
command reads its own options: so every command has the option and none has to declare it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from fgai_bench.plugins import load_plugins
from fgai_bench.registry import RegistryError

OPTION = "--plugin"
_named: list[str] = []

PluginOption = Annotated[
    list[str] | None,
    typer.Option(
        OPTION,
        metavar="MODULE|FILE",
        help="Import a module or a Python file, so that what it registers can be named; for every command, repeatable.",
    ),
]


def take_plugins(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split the command line into the plugins that it names and everything else.

    >>> take_plugins(["report", "runs/quick", "--plugin", "mine", "--plugin=./more.py"])
    (['mine', './more.py'], ['report', 'runs/quick'])
    """
    plugins: list[str] = []
    others: list[str] = []
    rest = iter(arguments)
    for argument in rest:
        if argument == OPTION:
            plugins.append(next(rest, ""))
        elif argument.startswith(f"{OPTION}="):
            plugins.append(argument.partition("=")[2])
        else:
            others.append(argument)
    if not all(plugins):
        raise RegistryError(f"{OPTION} needs a module or a Python file, as in {OPTION} my_package or ./mine.py")
    return plugins, others


def load_named(plugins: Sequence[str]) -> None:
    """Import the plugins; the working directory is searched last, so that it hides no installed package."""
    if plugins and os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    _named[:] = [str(Path(name).absolute()) if name.endswith(".py") else name for name in dict.fromkeys(plugins)]
    load_plugins(plugins)


def plugins_of_command() -> tuple[str, ...]:
    """Return the plugins that the command line names, which worker processes must import as well."""
    return tuple(_named)
