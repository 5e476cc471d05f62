"""``fgai-bench ls``: the names that the other commands understand."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from fgai_bench.cli.kinds import KINDS, kind_named
from fgai_bench.cli.plugins import PluginOption
from fgai_bench.cli.tables import print_table
from fgai_bench.registry import Entry, Registry


def ls(
    kind: Annotated[str | None, typer.Argument(metavar="KIND", help=f"One of {', '.join(KINDS)}; else all.")] = None,
    plugin: PluginOption = None,
) -> None:
    """List what is registered: names, what they are, where they come from."""
    for each in KINDS if kind is None else [kind_named(kind)]:
        _print_registry(each, KINDS[each])


def _print_registry(kind: str, registry: Registry[Any]) -> None:
    entries = [registry.entry(name) for name in registry]
    directed = any(entry.direction != "none" for entry in entries)
    columns = ["name", "summary", *(["better"] if directed else []), "paper", "tags"]
    print_table(kind, columns, [_row(entry, directed) for entry in entries])


def _row(entry: Entry[Any], directed: bool) -> list[str]:
    direction = "" if entry.direction == "none" else entry.direction
    paper = entry.paper.removeprefix("https://")
    return [entry.name, entry.summary, *([direction] if directed else []), paper, ", ".join(sorted(entry.tags))]
