"""The page: one HTML file that needs no network; the answer first, then a table to filter and look behind."""

from __future__ import annotations

import json
import math
import shlex
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from importlib import resources
from typing import Any

from fgai_bench.leaderboard.rows import BOARDS, Board, BoardRow, entries, lowered, null_rows, ranked
from fgai_bench.records.canonical import canonical
from fgai_bench.report.answer import TASKS, Answer, answers, headline, notes, score_text
from fgai_bench.report.claims import judge
from fgai_bench.report.explanations import null_levels, points
from fgai_bench.report.verdicts import Verdict
from fgai_bench.statistics.cells import UNIFORM, Cell, scale_of
from fgai_bench.statistics.intervals import centre_interval, mean
from fgai_bench.statistics.labels import CORRECTNESS, STATUS, ordered, title
from fgai_bench.statistics.numbers import written
from fgai_bench.statistics.ranking import Standing
from fgai_bench.statistics.results import Place, Results
from fgai_bench.suites.schema import TUNED

# Key, heading, which way is better, how it is written. ``score`` is what the board ranks by: F1 or ROC-AUC.
COLUMNS: tuple[tuple[str, str, Any, str], ...] = (
    ("score", "attacked score", "higher", "fixed"),
    ("score_clean", "clean score", "higher", "fixed"),
    ("g_jsd", "g-JSD", "lower", "scientific"),
    ("topk_overlap", "top-k overlap", "higher", "fixed"),
    ("attention_entropy_normalised_clean", "entropy", "none", "fixed"),
    ("g_tvd", "g-TVD", "lower", "fixed"),
    ("prediction_kept", "predictions kept", "higher", "fixed"),
    ("f_slope_pos", "F+ slope", "lower", "fixed"),
    ("f_slope_neg", "F- slope", "none", "fixed"),
    ("train_seconds", "training (s)", "none", "fixed"),
)
FLOOR_COLUMNS: tuple[tuple[str, str, Any, str], ...] = (
    ("certified_score", "floor (proven)", "higher", "fixed"),
    ("certified_explanations", "explanations that stay (proven)", "higher", "fixed"),
)
DIGITS = 4  # of a seed's value: more would double the file and say nothing


def page(results: Results) -> str:
    """Return the whole file: template, style, script and data in one; the same results give the same bytes."""
    script = _asset("plots.js") + _asset("page.js")
    data = json.dumps(packed(content(results)), sort_keys=True, separators=(",", ":"), allow_nan=False)
    data = data.replace("<", "\\u003c")  # "</script" and "<!--" would be read as HTML, even inside the data's script
    filled = _asset("page.html").replace("/*CSS*/", _asset("page.css")).replace("/*JS*/", script)
    return filled.replace("/*DATA*/", data)


def packed(shown: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content with the names of columns and fields said once, not in every cell: a fifth fewer bytes.

    A cell is the list of what its fields say, those that most cells have first, up to the last that it has.
    """
    cells_with = Counter(field for row in shown["rows"] for cell in row["cells"].values() for field in cell)
    fields = sorted(cells_with, key=lambda field: (-cells_with[field], field))
    keys = [column["key"] for column in shown["columns"]]
    rows = [{**row, "cells": [_listed(row["cells"][key], fields) for key in keys]} for row in shown["rows"]]
    return {**shown, "fields": fields, "rows": rows}


def _listed(cell: Mapping[str, Any], fields: Sequence[str]) -> list[Any]:
    last = max(place for place, field in enumerate(fields) if field in cell)
    return [cell.get(field) for field in fields[: last + 1]]


def _asset(name: str) -> str:
    return resources.files("fgai_bench.report.page").joinpath(name).read_text(encoding="utf-8")


def content(results: Results) -> dict[str, Any]:
    """Return everything that the page shows, as plain data."""
    answered = answers(results)
    rows = [row for board in BOARDS if board.task for row in _rows(board, results)]
    used = {name for at in results.places for name in (at.dataset, at.model, at.label, at.explainer, UNIFORM)}
    return {
        "run": {"id": results.identity, "suites": list(map(results.title, results.suites)), "version": results.version}
        | {"commands": commands(results)},
        "answers": [_answer(answer) for answer in answered],
        "headlines": _headlines(answered),
        "notes": [*notes(answered), *(f"{remark}." for remark in results.remarks)],
        "explanations": _shortened({"points": points(results), "nulls": null_levels(results), "measures": CORRECTNESS}),
        "columns": [{"key": key, "title": words, "better": better} for key, words, better, _ in columns_of(results)],
        "models": ordered(answer.model for answer in answered) or ordered(results.names("model")),
        "titles": {name: title(name) for name in sorted(used - {""})},
        "shared": {name: _told_once(name, rows) for name in ("ledger", "threat", "where")},
        "rows": rows,
        "claims": [_claim(verdict) for verdict in judge(results)],
    }


def _headlines(answered: Sequence[Answer]) -> dict[str, list[str]]:
    """Return the first sentences for each model, about its first task."""
    first = {answer.model: answer.task for answer in reversed(answered)}
    return {
        model: headline([answer for answer in answered if (answer.model, answer.task) == (model, task)])
        for model, task in first.items()
    }


def commands(results: Results) -> list[str]:
    """Return commands that make such a run: a line per suite, with its graphs, models and seeds."""
    lines = []
    for name in results.suites:
        words = ["fgai-bench run --suite", shlex.quote(name)]
        for option, key in (("datasets", "dataset"), ("models", "model")):
            if used := results.names(key, suite=name, kind="train"):
                words += [f"--{option}", shlex.quote(",".join(used))]
        if seeds := sorted({seed for _, places in results.select(suite=name, kind="train") for seed in places}):
            words += ["--seeds", str(len(seeds)) if seeds == list(range(len(seeds))) else ",".join(map(str, seeds))]
        tuned = any(label.endswith(TUNED) for label in results.names("label", suite=name))
        lines.append(" ".join([*words, *(["--settings both"] if tuned else [])]))
    return [*lines, "fgai-bench report RUN"]


def columns_of(results: Results) -> tuple[tuple[str, str, Any, str], ...]:
    """Return the columns of the table: ours, floors where some are proven, the metrics that suites of the run name."""
    own = tuple((name, name, better, "fixed") for name, better in results.own_metrics.items())
    return (*COLUMNS, *(FLOOR_COLUMNS if results.names("label", kind="certify") else ()), *own)


def _answer(answer: Answer) -> dict[str, Any]:
    return {
        **{key: getattr(answer, key) for key in ("suite", "task", "dataset", "model", "attack", "subject", "verdict")},
        "score": title(answer.score),
        "question": TASKS.get(answer.task, answer.task),
        "stands": [
            {"defense": stand.defense, "clean": score_text(stand.clean), "interval": stand.interval}
            | {"attacked": score_text(stand.attacked), "gap": not stand.attacked.values}
            | {"rank": stand.standing.rank, "unreliable": stand.attacked.unreliable}
            for stand in answer.stands
        ],
    }


def _rows(board: Board, results: Results) -> list[dict[str, Any]]:
    listed = lowered(board, entries(board, results))
    standing = {key: ranked(listed, _metric(board, key), better) for key, _, better, _ in columns_of(results)}
    blocks = list(dict.fromkeys(entry.key.block for entry in listed))
    together = sorted([*listed, *null_rows(board, listed)], key=lambda entry: blocks.index(entry.key.block))
    return [_row(board, results, entry, standing) for entry in together]


def _told_once(name: str, rows: Sequence[dict[str, Any]]) -> list[Any]:
    """Return the different values that rows have of a name, which is replaced by the place of theirs among them."""
    places = {text: place for place, text in enumerate(dict.fromkeys(canonical(row[name]) for row in rows))}
    for row in rows:
        row[name] = places[canonical(row[name])]
    return [json.loads(text) for text in places]


def _metric(board: Board, key: str) -> str:
    return key.replace("score", board.score)


def _row(
    board: Board, results: Results, entry: BoardRow, standing: Mapping[str, Mapping[Hashable, Standing]]
) -> dict[str, Any]:
    measured = results.at(Place(entry.key.suite, "attack", *entry.key[1:]))
    return {
        **entry.key._asdict(),
        "flags": list(entry.flags),
        "seeds": list(entry.seeds),
        "cells": {
            key: _shown(entry.cell(_metric(board, key)), standing[key].get(entry.key, Standing()), style, entry.seeds)
            for key, _, _, style in columns_of(results)
        },
        "ledger": [{"seed": seed, "spent": dict(step.ledger)} for seed, step in measured.items() if step.ledger],
        "threat": next((json.loads(step.threat) for step in measured.values() if step.threat), {}),
        "steps": {str(seed): step.step[:12] for seed, step in measured.items()},
        "where": {
            "device": "; ".join(entry.devices) or "--",
            "commit": ", ".join(entry.versions) or "--",
            "run": results.identity,
        },
    }


def _shown(row: Cell, standing: Standing, style: str, seeds: Iterable[int]) -> dict[str, Any]:
    """Return a cell as the page shows it; what is not said (no gap, no null, not bold) is left out.

    Values of ``seeds`` are in the order of the row's own.
    """
    text = written(row.median, style=style) if row.values else STATUS[row.status]
    if row.values and row.gaps:
        text += f" ({STATUS[row.status]} {len(row.gaps)}/{len(row.values) + len(row.gaps)})"
    bounds = centre_interval(row.values, scale_of(row.metric))
    null = mean(list(row.null.values()))
    optional = {
        "std": f"{row.std:.2g}" if math.isfinite(row.std) else "",
        "interval": "[{}, {}]".format(*(written(bound, style=style) for bound in bounds)) if bounds else "",
        "null": written(null, style=style) if math.isfinite(null) else "",
        "bold": standing.bold,
        "rank": standing.rank,
        "unequal": standing.unequal,
        "seeds": [_rounded(row.values[seed]) if seed in row.values else None for seed in seeds] if row.values else [],
    }
    if row.gaps:  # the seeds without a value, with the gravest of their reasons
        seeds_without = ", ".join(str(gap.seed) for gap in row.gaps)
        optional["gaps"] = {seeds_without: f"{STATUS[row.status]}: {row.reason}"}
    kept = {key: value for key, value in optional.items() if value}
    beaten = {} if standing.beats_null is None else {"beatsNull": standing.beats_null}
    status = {} if row.status == "ok" else {"status": row.status}
    return {"text": text, "mean": _rounded(row.mean), **status, **beaten, **kept}


def _rounded(value: float) -> float | None:
    return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None


def _shortened(value: Any) -> Any:
    """Return plain data with every number as short as that of a seed."""
    if isinstance(value, dict):
        return {key: _shortened(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_shortened(inner) for inner in value]
    return _rounded(value) if isinstance(value, float) else value


def _claim(verdict: Verdict) -> dict[str, Any]:
    """Return a claim with its verdict and its cells, counted and one by one."""
    return {
        "text": verdict.claim.text,
        "verdict": verdict.conclusion,
        "counted": f"paper's own tables: {verdict.papers_own}; {verdict.counts}"
        + (f"; {verdict.claim.left.metric}: {verdict.shown}" if verdict.shown else ""),
        "cells": list(map(str, verdict.decisions)),
        "advice": verdict.advice,
    }
