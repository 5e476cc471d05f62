"""``fgai-bench data``: which datasets there are, whether their files are whole, and how to get them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fgai_bench.cli.terminal import print_table
from fgai_bench.data import DATASETS, Statistics

app = typer.Typer(help="List, verify and fetch datasets.")

RootOption = Annotated[
    Path | None,
    typer.Option(
        "--data-root", metavar="FOLDER", help="Where raw files lie; else $FGAI_BENCH_DATA, else your data folder."
    ),
]


@app.command("list")
def list_datasets(root: RootOption = None) -> None:
    """List the datasets with their declared sizes, and whether their files are here."""
    from fgai_bench.data import data_root

    folder = data_root(root)
    columns = ["name", "nodes", "edges", "features", "classes", "files"]
    print_table(f"datasets under {folder}", columns, [_declared(name, folder) for name in DATASETS])


@app.command()
def verify(
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME]...", help="Datasets; else all of them.")] = None,
    root: RootOption = None,
) -> None:
    """Load datasets and hold them against their declarations; exits 1 when one is wrong, or missing and needed."""
    chosen = [DATASETS.entry(name).name for name in names or []]
    from fgai_bench.data import verification_failed, verify_dataset, verify_datasets

    found = [verify_dataset(name, root) for name in chosen] if chosen else verify_datasets(root)
    columns = ["name", "status", "nodes", "edges", "features", "classes"]
    rows = [
        [f.name, f"{f.status}{' (optional)' * (f.status != 'ok' and f.optional)}", *counts(f.counts)] for f in found
    ]
    print_table("datasets", columns, rows)
    for each in found:
        if each.message:
            typer.echo(each.message)
    if verification_failed(found):
        raise typer.Exit(1)


@app.command()
def fetch(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A dataset; see `fgai-bench data list`.")],
    root: RootOption = None,
) -> None:
    """Download what is missing of a dataset and say where its files lie."""
    DATASETS.entry(name)
    from fgai_bench.data import fetch_dataset

    paths = fetch_dataset(name, root)
    for path in paths:
        typer.echo(path)
    if not paths:
        typer.echo(f"{name} is generated; there is nothing to fetch")


def counts(size: Statistics | None) -> list[str]:
    """Nodes, undirected edges, features and classes as cells of a table.

    >>> counts(Statistics(nodes=2708, edges=5278, features=1433, classes=7))
    ['2,708', '5,278', '1,433', '7']
    """
    return [f"{n:,}" for n in (size.nodes, size.edges, size.features, size.classes)] if size else [""] * 4


def _declared(name: str, folder: Path) -> list[str]:
    """Return one row; a dataset that a plugin registered as a plain function declares nothing but its name."""
    dataset = DATASETS[name]
    missing, total = len(dataset.missing(folder)), len(dataset.files)
    whereabouts = f"{missing} of {total} missing" if missing else "here" if total else "generated"
    return [name, *counts(dataset.statistics), "in the package" if dataset.embedded else whereabouts]
