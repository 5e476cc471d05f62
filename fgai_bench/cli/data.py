"""Define ``fgai-bench data``, which lists the datasets, verifies their files and downloads them."""

from typing import Annotated

import typer

from fgai_bench.cli.options import RootOption
from fgai_bench.cli.terminal import print_table
from fgai_bench.data import DATASETS, Statistics

app = typer.Typer(help="List, verify and fetch datasets.")


@app.command("list")
def list_datasets(root: RootOption = None) -> None:
    """List the datasets with their declared sizes and whether their files are present."""
    from fgai_bench.data import data_root

    folder, rows = data_root(root), []
    for name in DATASETS:
        dataset = DATASETS[name]
        missing, total = len(dataset.missing(folder)), len(dataset.files)
        whereabouts = f"{missing} of {total} missing" if missing else "here" if total else "generated"
        rows.append([name, *counts(dataset.statistics), "in the package" if dataset.embedded else whereabouts])
    print_table(f"datasets under {folder}", ["name", "nodes", "edges", "features", "classes", "files"], rows)


@app.command()
def verify(
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME]...", help="Datasets; else all of them.")] = None,
    root: RootOption = None,
) -> None:
    """Load datasets and compare them with their declarations; exit 1 when one is wrong, or missing and required."""
    chosen = [DATASETS.entry(name).name for name in names or []]
    from fgai_bench.data import verify_dataset, verify_datasets

    verifications = [verify_dataset(name, root) for name in chosen] if chosen else verify_datasets(root)
    columns = ["name", "status", "nodes", "edges", "features", "classes"]
    rows = [
        [v.name, f"{v.status}{' (optional)' * (v.status != 'ok' and v.optional)}", *counts(v.counts)]
        for v in verifications
    ]
    print_table("datasets", columns, rows)
    for verification in verifications:
        if verification.message:
            typer.echo(verification.message)
    if any(verification.failed for verification in verifications):
        raise typer.Exit(1)


@app.command()
def fetch(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A dataset; see `fgai-bench data list`.")],
    root: RootOption = None,
) -> None:
    """Download the missing files of a dataset and print the paths of all its files."""
    DATASETS.entry(name)
    from fgai_bench.data import fetch_dataset

    paths = fetch_dataset(name, root)
    for path in paths:
        typer.echo(path)
    if not paths:
        typer.echo(f"{name} is generated; there is nothing to fetch")


def counts(size: Statistics | None) -> list[str]:
    """Return the numbers of nodes, undirected edges, features and classes as cells of a table."""
    return [f"{n:,}" for n in (size.nodes, size.edges, size.features, size.classes)] if size else [""] * 4
