"""The page: one HTML file that needs no network, to sort, filter and look behind every cell of a run."""

from __future__ import annotations

import json
import math
from collections.abc import Hashable
from importlib import resources
from typing import Any

from fgai_bench.report.cells import UNIFORM, Cell, Standing, standings
from fgai_bench.report.claims import judge
from fgai_bench.report.figures.attention import layout, samples
from fgai_bench.report.labels import STATUS, ordered, title
from fgai_bench.report.leaderboard import BOARDS, Board, BoardRow, entries, lowered, null_rows
from fgai_bench.report.numbers import written
from fgai_bench.report.results import Place, Results

# Key, heading, which way is better, how it is written. ``score`` is F1 of nodes and ROC-AUC of links.
COLUMNS: tuple[tuple[str, str, Any, str], ...] = (
    ("score", "attacked score", "higher", "fixed"),
    ("score_clean", "clean score", "higher", "fixed"),
    ("g_jsd", "g-JSD", "lower", "scientific"),
    ("g_jsd_vs_uniform", "log(g-JSD / uniform)", "none", "fixed"),
    ("g_tvd", "g-TVD", "lower", "fixed"),
    ("topk_overlap", "top-k overlap", "higher", "fixed"),
    ("prediction_kept", "predictions kept", "higher", "fixed"),
    ("f_slope_pos", "F+ slope", "lower", "fixed"),
    ("f_slope_neg", "F- slope", "none", "fixed"),
    ("train_seconds", "training (s)", "none", "fixed"),
)
VERSUS = "_vs_uniform"
NAMES = ("suite", "task", "dataset", "model", "defense", "attack")


def page(results: Results) -> str:
    """Return the whole file: template, style, script and data in one; the same results give the same bytes."""
    parts = {name: _asset(f"page.{name}") for name in ("html", "css", "js")}
    data = json.dumps(content(results), sort_keys=True, separators=(",", ":"), allow_nan=False)
    data = data.replace("<", "\\u003c")  # "</script" and "<!--" would be read as HTML, even inside the data's script
    filled = parts["html"].replace("/*CSS*/", parts["css"]).replace("/*JS*/", parts["js"])
    return filled.replace("/*DATA*/", data)


def _asset(name: str) -> str:
    return resources.files("fgai_bench.report.page").joinpath(name).read_text(encoding="utf-8")


def content(results: Results) -> dict[str, Any]:
    """Return everything that the page shows, as plain data."""
    return {
        "run": {"id": results.identity, "suites": list(map(results.title, results.suites)), "version": results.version},
        "columns": [{"key": key, "title": words, "better": better} for key, words, better, _ in columns_of(results)],
        "order": {name: ordered(results.names(name)) for name in ("dataset", "model")},
        "titles": {name: title(name) for name in _all_names(results)},
        "rows": [row for board in BOARDS[:2] for row in _rows(board, results)],
        "curves": _curves(results),
        "graphs": _graphs(results),
        "claims": [
            {"id": verdict.claim.id, "text": verdict.claim.text, "verdict": verdict.conclusion}
            | {"change": verdict.would_change, "advice": verdict.advice}
            | {"cells": [str(decision) for decision in verdict.deciding]}
            for verdict in judge(results)
        ],
    }


def columns_of(results: Results) -> tuple[tuple[str, str, Any, str], ...]:
    """Return the columns of the table: ours, then the metrics that suites of the run name."""
    own = tuple((name, name, better, "fixed") for name, better in results.own_metrics.items())
    return (*COLUMNS, *own)


def _all_names(results: Results) -> list[str]:
    used = {name for place in results.places for name in (place.dataset, place.model, place.label)}
    return sorted(used | {UNIFORM})


def _rows(board: Board, results: Results) -> list[dict[str, Any]]:
    listed = lowered(board, entries(board, results))
    standing = {key: _standings(board, listed, key, better) for key, _, better, _ in columns_of(results)}
    blocks = list(dict.fromkeys(_block(entry) for entry in listed))
    together = sorted([*listed, *null_rows(board, listed)], key=lambda entry: blocks.index(_block(entry)))
    return [_row(board, results, entry, standing) for entry in together]


def _block(entry: BoardRow) -> tuple[str, ...]:
    """Return all of a row's names but its defense."""
    return (*entry.key[:4], entry.key[5])


def _cell(board: Board, entry: BoardRow, key: str) -> Cell:
    """Return the cell of a column; one that ends in ``_vs_uniform`` holds differences from the uniform attention."""
    metric = key.replace("score", board.score)
    if not metric.endswith(VERSUS):
        return entry.cell(metric)
    cell = entry.cell(metric.removesuffix(VERSUS))
    seeds = sorted(cell.values.keys() & cell.null.keys())
    differences = cell.relative.differences if cell.relative else ()
    return Cell(None, metric, dict(zip(seeds, differences, strict=True)))


def _standings(board: Board, listed: list[BoardRow], key: str, better: Any) -> dict[Hashable, Standing]:
    blocks: dict[Hashable, dict[Hashable, Cell]] = {}
    for entry in listed:
        blocks.setdefault(_block(entry), {})[entry.key] = _cell(board, entry, key)
    return {name: standing for cells in blocks.values() for name, standing in standings(cells, better).items()}


def _row(
    board: Board, results: Results, entry: BoardRow, standing: dict[str, dict[Hashable, Standing]]
) -> dict[str, Any]:
    names = dict(zip(NAMES, entry.key, strict=True))
    place = Place(names["suite"], "attack", *(names[n] for n in ("task", "dataset", "model", "defense", "attack")))
    measured = results.at(place)
    return {
        **names,
        "flags": list(entry.flags),
        "cells": {
            key: _shown(_cell(board, entry, key), standing[key].get(entry.key, Standing()), style)
            for key, _, _, style in columns_of(results)
        },
        "ledger": {str(seed): dict(step.ledger) for seed, step in measured.items() if step.ledger},
        "threat": next((json.loads(step.threat) for step in measured.values() if step.threat), {}),
        "steps": {str(seed): step.step for seed, step in measured.items()},
        "where": {
            "device": "; ".join(entry.devices) or "--",
            "commit": ", ".join(entry.versions) or "--",
            "run": results.identity,
        },
    }


def _shown(row: Cell, standing: Standing, style: str) -> dict[str, Any]:
    text = written(row.mean, row.std, style) if row.values else STATUS[row.status]
    if row.values and row.gaps:
        text += f" ({STATUS[row.status]} {len(row.gaps)}/{len(row.values) + len(row.gaps)})"
    number = row.mean if math.isfinite(row.mean) else None
    return {
        "text": text,
        "mean": number,
        "bold": standing.bold,
        "rank": standing.rank,
        "unequal": standing.unequal,
        "beatsNull": standing.beats_null,
        "status": row.status,
        "reason": row.reason,
        "seeds": {str(seed): value for seed, value in sorted(row.values.items()) if math.isfinite(value)},
        "gaps": {str(gap.seed): f"{STATUS[gap.status]}: {gap.reason}" for gap in row.gaps},
    }


def _curves(results: Results) -> list[dict[str, Any]]:
    """Return F-acc curves, clean and under the published attack, averaged over seeds."""
    frame = results.curves
    wanted = frame["curve"].isin(["f_acc_pos", "f_acc_neg"]) & frame["attack_label"].isin(["", "injection"])
    keys = ["suite", "dataset", "model", "label", "attack_label", "curve"]
    lines = []
    for names, group in frame[wanted].groupby(keys, sort=False):
        points = group.groupby("x")["y"].mean()
        line = [[float(x), round(float(y), 6)] for x, y in points.items()]
        lines.append({**dict(zip(keys, names, strict=True)), "points": line})
    return lines


def _graphs(results: Results) -> list[dict[str, Any]]:
    """Return the sampled neighbourhoods with positions, one per dataset, model and defense."""
    drawn = []
    for (dataset, model), of in samples(results).items():
        for label, sample in of.items():
            place = layout(sample)
            edges = [
                [int(a), int(b), float(f"{w:.4g}"), float(f"{v:.4g}")]
                for (a, b), w, v in zip(sample.edge_index.T, sample.clean, sample.attacked, strict=True)
            ]
            nodes = [[n, round(x, 4), round(y, 4), int(n >= sample.nodes)] for n, (x, y) in sorted(place.items())]
            about = {"dataset": dataset, "model": model, "label": label, "centre": sample.centre}
            drawn.append({**about, "nodes": nodes, "edges": edges})
    return drawn
