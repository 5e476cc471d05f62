"""The published numbers, as they travel with the package, each beside the cell of a run that it is comparable with."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from typing import Any

from fgai_bench.report.words import TERMS

PACKAGE = "fgai_bench.baselines"
JSD_NOTE = "published: symmetrised KL by position over |E| squared; ours is the same quantity, not g-JSD as printed"
TVD_NOTE = "published on raw outputs, so it can exceed 1; ours is g_tvd on raw outputs"
COST_NOTE = "published: estimates on a V100; ours on the device of the run"
STAND_IN = "surrogate features on the real topology: for scale and cost, not for scores"
NODE = ("node", "definition", "stress")
COST_METHODS = {
    "GAT": "vanilla",
    "GAT+LN": "ln",
    "GAT+AT": "at",
    "GAT+FGAI": "fgai",
    "Pro-GNN": "pro-gnn",
    "GNN-SVD": "gnn-svd",
    "GNNGuard": "gnnguard",
}


@dataclass(frozen=True)
class Published:
    """One published number and where ours stands.

    Attributes:
        metric: its name in the paper.
        ours: the metric of a run that has the same scale.
        kind: of the steps that measure it.
        suites: that measure it; the first is the one to run.
        note: how the scales differ.
    """

    table: str
    task: str
    dataset: str
    model: str
    label: str
    metric: str
    ours: str
    kind: str
    mean: float
    std: float
    status: str
    suites: tuple[str, ...]
    note: str = ""


def text_of(name: str) -> str:
    """A file of the baselines."""
    return resources.files(PACKAGE).joinpath(name).read_text(encoding="utf-8")


def rows_of(name: str) -> list[dict[str, str]]:
    """A table of the baselines."""
    return list(csv.DictReader(io.StringIO(text_of(name))))


@cache
def published() -> tuple[Published, ...]:
    """Every number of the paper's tables; those on arXiv also for its stand-in."""
    found = [*_stability(), *_f1(), *_f_slope(), *_link(), *_ablation(), *_cost()]
    return tuple(each for one in found for each in _with_stand_in(one))


def _with_stand_in(one: Published) -> Iterator[Published]:
    yield one
    if one.dataset == "ogbn-arxiv":
        yield replace(one, dataset="arxiv-topology", note="; ".join(filter(None, [one.note, STAND_IN])))


def _number(text: str) -> float:
    return float(text) if text else math.nan


def _cell(row: dict[str, str], table: str, **more: Any) -> Published:
    status = row.get("status", "ok").lower()
    values: dict[str, Any] = {"mean": _number(row["mean"]), "std": _number(row["std"]), "status": status}
    where: dict[str, Any] = {
        "dataset": row["dataset"],
        "model": row["model"],
        "label": row["defense"],
        "metric": row["metric"],
    }
    return Published(table=table, **where, **{**values, **more})


def _stability() -> Iterator[Published]:
    scales = {"g_jsd": ("g_jsd_published", JSD_NOTE), "g_tvd": ("g_tvd_raw", TVD_NOTE)}
    for row in rows_of("table1_stability.csv"):
        ours, note = scales[row["metric"]]
        yield _cell(row, "table1", task="node", ours=ours, kind="attack", suites=NODE, note=note)


def _f1() -> Iterator[Published]:
    for row in rows_of("table2_f1.csv"):
        kind = "attack" if row["metric"] == "f1_attacked" else "clean"
        yield _cell(row, "table2", task="node", ours="f1", kind=kind, suites=NODE)


def _f_slope() -> Iterator[Published]:
    """The table prints magnitudes: a slope is negative unless it is underlined."""
    for row in rows_of("table_f_slope.csv"):
        sign = 1 if row["underlined"] == "1" else -1
        kind = "attack" if row["condition"] == "attacked" else "clean"
        metric = f"{row['metric']}{'_attacked' if kind == 'attack' else ''}"
        mean = sign * _number(row["mean"])
        common = {"task": "node", "ours": row["metric"], "kind": kind, "suites": NODE}
        yield _cell({**row, "metric": metric}, "f_slope", mean=mean, **common)


def _link() -> Iterator[Published]:
    names = {"g_jsd": "g_jsd_published", "roc_auc_attacked": "roc_auc"}
    for row in rows_of("table_link_prediction.csv"):
        kind = "clean" if row["metric"] == "roc_auc" else "attack"
        ours = names.get(row["metric"], row["metric"])
        note = JSD_NOTE if row["metric"] == "g_jsd" else ""
        yield _cell(row, "link", task="link", ours=ours, kind=kind, suites=("link",), note=note)


def _ablation() -> Iterator[Published]:
    columns = {
        "g_jsd": ("g_jsd_published", "attack", JSD_NOTE),
        "g_tvd": ("g_tvd_raw", "attack", TVD_NOTE),
        "f1": ("f1", "clean", ""),
        "f1_attacked": ("f1", "attack", ""),
    }
    for row in rows_of("table_ablation.csv"):
        label = "+".join(term for term, key in zip(TERMS, ("l1", "l2", "l3"), strict=True) if row[key] == "1")
        for metric, (ours, kind, note) in columns.items():
            where = ("ablation", "node", "amazon-photo", row["model"], label, metric, ours, kind)
            yield Published(*where, _number(row[metric]), math.nan, "ok", ("ablation",), note)


def _cost() -> Iterator[Published]:
    columns = {"seconds": "train_seconds", "gpu_mib": "train_peak_mib"}
    for row in rows_of("table_cost.csv"):
        for metric, ours in columns.items():
            where = ("cost", "node", row["dataset"], "gat", COST_METHODS[row["method"]], metric, ours, "train")
            yield Published(*where, _number(row[metric]), math.nan, row["status"], ("cost",), COST_NOTE)
