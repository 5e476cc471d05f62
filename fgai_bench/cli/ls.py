"""Define ``fgai-bench ls``, which lists the registered names that the other commands accept."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from fgai_bench.cli.options import path_of
from fgai_bench.cli.terminal import print_table
from fgai_bench.registry import Entry, Registry, RegistryError, registry_path

KINDS: Registry[Registry[Any]] = Registry("kind")
for _kind in ("datasets", "models", "defenses", "attacks", "certificates", "explainers", "metrics", "suites", "tasks"):
    KINDS.declare(_kind, registry_path(_kind))
CHECKED = tuple(kind for kind in KINDS if kind != "tasks")
"""The kinds whose entries have a contract that ``fgai-bench check`` can test."""


def kind_named(name: str) -> str:
    """Return the kind that ``name`` means, in singular or plural.

    >>> kind_named("model"), kind_named("models")
    ('models', 'models')
    >>> kind_named("modles")
    Traceback (most recent call last):
    ...
    fgai_bench.registry.RegistryError: unknown kind 'modles'; the nearest names are: models, ...
    """
    plural = name if name in KINDS else f"{name}s"
    return plural if plural in KINDS else KINDS.entry(name).name


def kinds_holding(name: str) -> list[str]:
    """Return the kinds with a contract in which ``name`` is registered; raise if there is none, with similar names."""
    holding = [kind for kind in CHECKED if name in KINDS[kind]]
    if not holding:
        every: Registry[Any] = Registry("name")
        for known in dict.fromkeys(known for kind in CHECKED for known in KINDS[kind]):
            every.declare(known, known)
        every.entry(name)
    return holding


def ls(
    kind: Annotated[
        str | None,
        typer.Argument(metavar="KIND", help=f"One of {', '.join(KINDS)}, zoo; else all but the zoo."),
    ] = None,
    spaces: Annotated[
        bool, typer.Option("--spaces", help="With defenses or models: the search spaces that they declare.")
    ] = False,
    source: Annotated[
        Path | None, typer.Option("--source", help="With zoo: a run folder or an export with models.", parser=path_of)
    ] = None,
) -> None:
    """List the registered names, each with a summary and its origin; ``ls zoo`` lists the trained models."""
    if kind == "zoo":
        _print_zoo(source)
        return
    if spaces:
        _print_spaces(kind_named(kind or "defenses"))
        return
    for chosen in KINDS if kind is None else [kind_named(kind)]:
        _print_registry(chosen, KINDS[chosen])


def _print_spaces(kind: str) -> None:
    """Print the search space of every defense or model: one row per setting that a study varies."""
    from fgai_bench.options import OPTIMISER

    if kind not in ("defenses", "models"):
        raise RegistryError(f"search spaces are declared by defenses and models, not by {kind}")
    rows = [("every training", name, str(dimension)) for name, dimension in OPTIMISER.items()]
    for name in KINDS[kind]:
        space = getattr(KINDS[kind][name], "search_space", None)
        rows += [(name, setting, str(dimension)) for setting, dimension in (space or {}).items()]
        if not space:
            told = "nothing of its own" if space is not None else "declares none: the optimiser's only"
            rows.append((name, "", told))
    print_table(f"search spaces of {kind}", [kind.removesuffix("s"), "setting", "values"], rows)


def _print_zoo(source: Path | None) -> None:
    """Print every trained model that ``fb.load_model`` can return, with its recorded scores."""
    from fgai_bench.zoo import zoo_rows, zoo_store

    with zoo_store(source) as store:
        rows, folder = zoo_rows(store), store.folder
    columns = ["name", "seed", "clean", "injection", "worst", "attacks"]
    lines = [
        [name, str(seed), *(_score(scores.get(a, {})) for a in ("", "injection", "worst")), str(len(scores) - 1)]
        for (name, seed), scores in rows.items()
    ]
    print_table(f"zoo: {folder}", columns, lines)
    typer.echo("fb.load_model(NAME, seed=SEED) returns the model, fb.load_attacked(NAME, seed=SEED) the attacked graph")


def _score(values: Mapping[str, float]) -> str:
    return next((f"{values[name]:.3f}" for name in ("f1", "roc_auc") if name in values), "--")


def _print_registry(kind: str, registry: Registry[Any]) -> None:
    entries = [_entry(registry, name) for name in registry]
    columns = {"name": [entry.name for entry in entries], "summary": [entry.summary for entry in entries]}
    if any(entry.direction != "none" for entry in entries):
        columns["better"] = ["" if entry.direction == "none" else entry.direction for entry in entries]
    columns["paper"] = [entry.paper.removeprefix("https://") for entry in entries]
    columns["tags"] = [", ".join(sorted(entry.tags)) for entry in entries]
    if not all(entry.ours for entry in entries):
        columns["from"] = ["" if entry.ours else f"{entry.origin} {entry.origin_version}".strip() for entry in entries]
    print_table(kind, list(columns), list(zip(*columns.values(), strict=True)))


def _entry(registry: Registry[Any], name: str) -> Entry[Any]:
    """Return the entry of a name; if its package cannot be loaded, an entry whose summary is the reason."""
    try:
        return registry.entry(name)
    except RegistryError as reason:
        return Entry(name, None, summary=str(reason), origin="")
