"""Define ``fgai-bench records``, which exports the records of runs as small files that can be committed."""

from pathlib import Path
from typing import Annotated

import typer

from fgai_bench.cli.options import OnlyOption, folder_of, listed, path_of, seeds_of
from fgai_bench.cli.terminal import print_table

app = typer.Typer(help="Records: export runs, or merge the pieces of one study.", no_args_is_help=True)


@app.command()
def export(
    runs: Annotated[
        list[Path],
        typer.Argument(metavar="RUN...", help="Run folders or exported records; several are merged.", parser=path_of),
    ],
    out: Annotated[
        Path, typer.Option(help="The folder to write; an earlier export there is replaced.", parser=folder_of)
    ] = Path("results/records"),
    extras: Annotated[
        str | None, typer.Option("--with", help="graphs (attacked ones), models, or both: what `verify` needs.")
    ] = None,
    suites: OnlyOption = None,
    datasets: OnlyOption = None,
    models: OnlyOption = None,
    defenses: OnlyOption = None,
    seeds: Annotated[
        str | None, typer.Option(help="Only records of these seeds (0,3), or of the first so many (5).")
    ] = None,
) -> None:
    """Write all records as compressed CSV with a manifest; every command that reads a run also reads such a folder.

    If several runs contain the same step, an ok result takes precedence over a failure, and two ok results must agree.
    Results of different trainings are refused. Models and attacked graphs are exported on request, as far as the runs
    hold them.
    """
    from fgai_bench.records.export import export as write
    from fgai_bench.records.merge import in_words

    named = [path.resolve() for path in runs]
    if twice := [path for path in runs if named.count(path.resolve()) > 1]:
        raise typer.BadParameter(f"{twice[0]} is named twice; name each run once")
    wanted = seeds_of(seeds)
    asked = {
        "suite": listed(suites),
        "dataset": listed(datasets),
        "model": listed(models),
        "defense": listed(defenses),
        "seed": range(wanted) if isinstance(wanted, int) else wanted,
    }
    only = {field: chosen for field, chosen in asked.items() if chosen is not None}
    manifest = write(runs, out, only, listed(extras) or (), typer.echo)
    rows = [
        [suite, str(sum(counts.values())), in_words(counts)] for suite, counts in sorted(manifest["suites"].items())
    ]
    print_table(f"records in {out}", ["suite", "steps", "by status"], rows)
    size = sum(about["bytes"] for about in manifest["files"].values())
    typer.echo(f"{manifest['steps']} steps, {size / 1e6:.1f} MB; their hashes are in {out / 'manifest.json'}")
    if dropped := manifest["superseded"]:
        typer.echo(f"{len(dropped)} results or places gave way to another; the manifest lists them with the reason")


@app.command("import")
def import_(
    records: Annotated[Path, typer.Argument(metavar="RECORDS", help="Exported records.", parser=path_of)],
    out: Annotated[Path, typer.Option(help="The run folder to make.", parser=folder_of)],
) -> None:
    """Make a run folder of exported records, to go on from: what they hold is not run again."""
    from fgai_bench.records.export import start_from

    kept, lacking = start_from(records, out)
    again = "were exported without their model or graph, which a run computes again if it needs it"
    rest = f"; {lacking} {again}" if lacking else ""
    typer.echo(f"{kept} steps in {out}{rest}")
