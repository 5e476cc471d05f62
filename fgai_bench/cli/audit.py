"""Define ``fgai-bench audit``, which checks the models of a run against Definition 1 of the paper."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fgai_bench.cli.options import OnlyOption, listed, path_of, takes_execution, whole
from fgai_bench.cli.run import conclude
from fgai_bench.cli.terminal import print_table

if TYPE_CHECKING:
    import pandas as pd

    from fgai_bench.run.resume import Run

ROW = ["dataset", "model", "label"]


@takes_execution
def audit(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.", parser=path_of)],
    suites: OnlyOption = None,
    datasets: OnlyOption = None,
    models: OnlyOption = None,
    defenses: Annotated[str | None, typer.Option(help="Only these defenses, by their label.")] = None,
    radius: Annotated[
        str | None, typer.Option(help="R, one or more (0.5,1,2), in units of an attention score.")
    ] = None,
    k1: Annotated[float, typer.Option(help="Share of a node's edges in the top-k of similarity.")] = 0.5,
    k2: Annotated[float, typer.Option(help="Share of a node's edges in the top-k of stability.")] = 0.5,
    steps: Annotated[int, typer.Option(help="Number of steps of each ascent.", parser=whole)] = 20,
    *,
    how: dict[str, Any],
) -> None:
    """Compute beta_1, beta_2, alpha_1 and alpha_2 of every (vanilla, defended) pair; add them to the run's records."""
    from fgai_bench.run.audit import audit_run

    options: dict[str, Any] = {"k1": k1, "k2": k2, "steps": steps}
    try:
        options |= {} if radius is None else {"radii": [float(text) for text in listed(radius) or []]}
    except ValueError:
        raise typer.BadParameter(f"--radius is a list of numbers such as 0.5,1,2, not {radius!r}") from None
    selected = {"suite": suites, "dataset": datasets, "model": models, "label": defenses}
    only = {key: names for key, value in selected.items() if (names := listed(value))}
    done = audit_run(folder, options, only=only, **how)
    show(done)
    conclude(done)


def show(done: Run) -> None:
    """Print the four constants: means over the nodes and over the seeds, and the share of nodes that are faithful."""
    closeness = _means(done.records().query("kind == 'audit'"), "metric", "value", ["beta_1_mean", "alpha_1_mean"])
    columns = ["beta_2_mean", "alpha_2_mean", "holds_alpha0.1_beta0.9"]
    stability = _means(done.curves().query("kind == 'audit'"), "curve", "y", columns, ["x"])
    print_table("closeness to vanilla", [*ROW, "beta_1", "alpha_1"], closeness)
    heads = [*ROW, "R", "beta_2", "alpha_2", "holds for alpha 0.1, beta 0.9"]
    print_table("under the worst perturbation found", heads, stability)


def _means(
    frame: pd.DataFrame, names: str, values: str, columns: list[str], more: list[str] | None = None
) -> list[list[str]]:
    """Return one row per model of the run, with values averaged over its seeds."""
    chosen = frame[frame[names].isin(columns)]
    table = chosen.pivot_table(index=[*ROW, *(more or [])], columns=names, values=values, sort=False)
    return [[*map(str, place), *(f"{row[name]:.4f}" for name in columns)] for place, row in table.iterrows()]
