"""Leaderboards: come here for the CSV files with one row per (dataset, model, defense, attack), and for merging runs.

Merging keeps, seed by seed, the stronger attack: the one that leaves the lower score. Rows are held to one budget: what
was attacked with another threat model, or with another spending, is refused and nothing is written. Every row carries
the values of its seeds, so that ranks and intervals are computed anew whenever rows come together.
"""

from __future__ import annotations

import csv
import io
import json
import math
import os
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fgai_bench.report.board_files import locked, read_board, write_boards
from fgai_bench.report.board_identity import identity_of, refuse_other
from fgai_bench.report.cells import (
    UNEQUAL,
    UNIFORM,
    Better,
    Cell,
    Gap,
    Standing,
    equal_budgets,
    null_cell,
    null_of,
    scale_of,
    standings,
)
from fgai_bench.report.errors import ReportError
from fgai_bench.report.escaping import csv_cell, csv_text
from fgai_bench.report.results import Measurement, Place, Results
from fgai_bench.report.statistics import centre_interval, mean
from fgai_bench.store.records import LEDGER

STANDARD, TWICE = "worst", "worst-twice"  # the attack that ranks, wherever a suite runs it; twice its search
KEY = ("suite", "task", "dataset", "model", "defense", "attack")
Values = Mapping[int, Mapping[str, float]]


@dataclass(frozen=True)
class Board:
    """One leaderboard.

    Attributes:
        name: of its file.
        task: of its rows; empty for all.
        score: the metric that ranks the rows, and that tells the stronger attack.
        better: which way, for the score.
        metrics: further columns; ``_clean`` at the end means without the attack.
        alone: whether only steps count that had the machine to themselves; times of others say how busy it was.
    """

    name: str
    task: str
    score: str
    better: Better
    metrics: tuple[str, ...]
    alone: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        """Return all metrics of a row."""
        return (self.score, *self.metrics)

    @property
    def nulls(self) -> dict[str, str]:
        """Return the metrics that a uniform attention has a value in, each with the name of that value."""
        return {metric: null_of(metric) for metric in self.columns if null_of(metric)}


STABILITY = ("g_jsd", "g_tvd", "node_jsd", "topk_overlap", "prediction_kept")
BOARDS = (
    Board("leaderboard_node", "node", "f1", "higher", ("f1_clean", *STABILITY, "f_slope_pos", "f_slope_neg")),
    Board("leaderboard_link", "link", "roc_auc", "higher", ("roc_auc_clean", *STABILITY)),
    Board(
        "leaderboard_cost",
        "",
        "train_seconds",
        "lower",
        ("train_peak_mib", "attack_seconds", "attack_peak_mib", "evaluate_seconds", "evaluate_peak_mib"),
        alone=True,
    ),
)


@dataclass(frozen=True)
class BoardRow:
    """One row before it is ranked.

    Attributes:
        key: suite, task, dataset, model, defense, attack.
        seeds: seed to metric to value.
        gaps: the seeds without values.
        budgets: seed to (threat, ledger).
        runs: identities of the runs that it comes from.
        own_metrics: further columns: the metrics that its suite names beyond the built-in ones.
        found_by: for a worst case, the attacks that left the least at some seed.
        slack: for a worst case, seed to how much less twice the search left.
        identity: data, settings and code that it was made with; empty where they were not recorded.
        trials: how many settings were tried to choose those of the row; 0 for the suite's own settings.
    """

    key: tuple[str, ...]
    seeds: Values
    gaps: tuple[Gap, ...] = ()
    flags: tuple[str, ...] = ()
    budgets: Mapping[int, tuple[str, Mapping[str, float]]] = field(default_factory=dict)
    runs: tuple[str, ...] = ()
    versions: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    own_metrics: tuple[str, ...] = ()
    found_by: tuple[str, ...] = ()
    slack: Mapping[int, float] = field(default_factory=dict)
    identity: Mapping[str, Any] = field(default_factory=dict)
    trials: int = 0

    def cell(self, metric: str) -> Cell:
        """Return one metric of the row as a cell that can be ranked."""
        values, null = (
            {seed: measured[name] for seed, measured in self.seeds.items() if name in measured}
            for name in (metric, null_of(metric))
        )
        absent = [Gap(seed, "absent", f"{metric} was not measured") for seed in self.seeds if seed not in values]
        gaps = (*self.gaps, *absent)
        return Cell(None, metric, values, gaps, self.flags, self.budgets, null=null, trials=self.trials)


def entries(board: Board, results: Results) -> list[BoardRow]:
    """Return the rows that a run has for a board, in the order of the plan; a suite of unequal budgets has none."""
    return [
        _entry(results, place, seeds, board)
        for place, seeds in results.select(kind="attack")
        if board.task in ("", place.task)
        and not any(UNEQUAL in step.flags for step in seeds.values())
        and not (board.alone and not _alone(results, place))
    ]


def _alone(results: Results, place: Place) -> bool:
    """Tell whether the training behind a place was timed by itself: it then says over how many epochs."""
    trained = results.at(place._replace(kind="train", attack=""))
    return all("epochs_timed" in step.values for step in trained.values() if step.status == "ok")


def _entry(results: Results, place: Place, attacked: Mapping[int, Measurement], board: Board) -> BoardRow:
    """Return a row; a seed counts where its attack has values, or its training where the cost is the result."""
    clean, trained = (results.at(place._replace(kind=kind, attack="")) for kind in ("clean", "train"))
    seeds = trained if board.alone else attacked
    ok = {seed: step for seed, step in seeds.items() if step.status == "ok"}
    return BoardRow(
        (place.suite, place.task, place.dataset, place.model, place.label, place.attack),
        {seed: _values(attacked[seed], clean.get(seed), trained.get(seed)) for seed in sorted(ok)},
        tuple(Gap(seed, step.status, step.reason) for seed, step in seeds.items() if seed not in ok),
        tuple(dict.fromkeys(flag for step in seeds.values() for flag in step.flags)),
        {seed: (step.threat, step.ledger) for seed, step in sorted(attacked.items()) if step.status == "ok"},
        (results.identity,),
        tuple(dict.fromkeys(step.commit or step.package for step in ok.values())),
        tuple(dict.fromkeys(step.device for step in ok.values())),
        tuple(name for name in results.own_metrics if any(name in step.values for step in attacked.values())),
        identity=identity_of(results.headers(*(trained, clean, attacked))),
        trials=max((step.trials for step in attacked.values()), default=0),
    )


def _values(attacked: Measurement, clean: Measurement | None, trained: Measurement | None) -> dict[str, float]:
    """Return the values under attack and of the training, and those of the clean graph with a suffix."""
    before = {f"{name}_clean": value for name, value in clean.values.items()} if clean else {}
    return {**before, **(trained.values if trained else {}), **attacked.values}


def null_rows(board: Board, listed: Iterable[BoardRow]) -> list[BoardRow]:
    """Return a row for the uniform attention of every suite, dataset, model and attack in which it was measured."""
    blocks: dict[tuple[str, ...], list[BoardRow]] = {}
    for row in listed:
        blocks.setdefault((*row.key[:4], UNIFORM, row.key[5]), []).append(row)
    rows = []
    for key, block in blocks.items():
        nulls = {metric: null_cell(row.cell(metric) for row in block).values for metric in board.nulls}
        seeds = sorted({seed for values in nulls.values() for seed in values})
        if seeds:
            by_seed = {s: {metric: values[s] for metric, values in nulls.items() if s in values} for s in seeds}
            rows.append(BoardRow(key, by_seed))
    return rows


def merged(known: Iterable[BoardRow], added: Iterable[BoardRow], board: Board) -> list[BoardRow]:
    """Merge two lists of rows; where they meet, the stronger attack holds. Raises when budgets differ."""
    rows = {entry.key: entry for entry in known}
    for entry in added:
        for other in rows.values():
            _refuse_unequal(entry, other)
            if entry.key[:4] == other.key[:4] and entry.key[5] == other.key[5]:
                same_row = entry.key == other.key
                refuse_other(" ".join(entry.key[2:5]), entry.identity, other.identity, same_row)
        rows[entry.key] = _stronger(rows[entry.key], entry, board) if entry.key in rows else entry
    return list(rows.values())


def _refuse_unequal(entry: BoardRow, other: BoardRow) -> None:
    """Refuse two rows of one block (all but the defense) whose budgets differ."""
    block = tuple(zip(entry.key, other.key, strict=True))
    rivals = all(mine == theirs for i, (mine, theirs) in enumerate(block) if KEY[i] != "defense")
    if not rivals:
        return
    if entry.trials and other.trials and entry.trials != other.trials:
        raise ReportError(
            f"the settings of {' '.join(entry.key[2:5])} were chosen from {entry.trials} trials, those of the "
            f"leaderboard's {other.key[4]} from {other.trials}; rows of unequal search are not ranked together"
        )
    threats = [{threat for threat, _ in row.budgets.values()} for row in (entry, other)]
    same = equal_budgets(entry.cell(""), other.cell(""))
    if not same or (all(threats) and threats[0] != threats[1]):
        names = " ".join(entry.key[2:5])
        raise ReportError(
            f"{names} under {entry.key[5]} was attacked with another budget than the leaderboard's {other.key[4]}; "
            "rows of unequal budgets are not ranked together, so run it with the suite's own budget"
        )


def _stronger(row: BoardRow, other: BoardRow, board: Board) -> BoardRow:
    """Return all seeds of both rows; at a seed that both have, the values of the attack that left the lower score."""
    sign = 1 if board.better == "higher" else -1

    def score(values: Mapping[str, float]) -> float:
        return sign * values.get(board.score, math.inf)

    seeds, budgets = dict(row.seeds), dict(row.budgets)
    for seed, values in other.seeds.items():
        if seed not in seeds or score(values) < score(seeds[seed]):
            seeds[seed] = values
            budgets |= {seed: other.budgets[seed]} if seed in other.budgets else {}
    gaps = {gap.seed: gap for gap in (*row.gaps, *other.gaps) if gap.seed not in seeds}
    joined: dict[str, Any] = {
        name: tuple(dict.fromkeys([*getattr(row, name), *getattr(other, name)]))
        for name in ("flags", "runs", "versions", "devices", "own_metrics")
    }
    return replace(
        row,
        seeds=dict(sorted(seeds.items())),
        budgets=dict(sorted(budgets.items())),
        gaps=tuple(gaps.values()),
        identity={**other.identity, **row.identity},
        **joined,
    )


def rows(board: Board, listed: Iterable[BoardRow]) -> list[dict[str, Any]]:
    """Return the rows of the file, ranked within their suite, dataset, model and attack; g-JSD has its own rank."""
    entries = lowered(board, list(listed))
    standing = {metric: ranked(entries, metric, better) for metric, better in _ranked_by(board).items()}
    columns = columns_of(board, entries)
    return [
        _row(board, columns, entry, {metric: standing[metric].get(entry.key, Standing()) for metric in standing})
        for entry in sorted([*entries, *null_rows(board, entries)], key=_in_block)
    ]


def lowered(board: Board, listed: Sequence[BoardRow]) -> list[BoardRow]:
    """Return the rows, each worst case lowered by any attack inside its threat model that left less, seed by seed."""
    return [_lowered(board, row, listed) if row.key[5] == STANDARD else row for row in listed]


def _lowered(board: Board, worst: BoardRow, listed: Sequence[BoardRow]) -> BoardRow:
    seeds, names, slack = dict(worst.seeds), dict.fromkeys(worst.seeds, STANDARD), dict(worst.slack)
    for row in listed:
        if row.key[:5] != worst.key[:5] or row.key[5] == STANDARD:
            continue
        if row.key[5] == TWICE and not slack:
            shared = [seed for seed in row.seeds if board.score in row.seeds[seed] and seed in worst.seeds]
            slack = {seed: worst.seeds[seed][board.score] - row.seeds[seed][board.score] for seed in shared}
        for seed, values in row.seeds.items():
            inside = seed in seeds and _allowed(row, seed) == _allowed(worst, seed)
            if inside and values.get(board.score, math.inf) < seeds[seed].get(board.score, math.inf):
                seeds[seed], names[seed] = {**seeds[seed], **values}, row.key[5]
    finders = tuple(dict.fromkeys([*worst.found_by, *names.values()]))
    return replace(worst, seeds=seeds, found_by=finders, slack=slack)


def _allowed(row: BoardRow, seed: int) -> dict[str, Any]:
    """What the attack of a row was allowed to change at a seed; how long it may search is no part of it."""
    threat = json.loads(row.budgets[seed][0]) if seed in row.budgets else {}
    return {key: value for key, value in threat.items() if key not in ("step", "steps", "restarts")}


def _in_block(entry: BoardRow) -> tuple[Any, ...]:
    """Sort by suite, task, dataset, model, attack; the uniform attention comes last."""
    return (*entry.key[:4], entry.key[4] == UNIFORM, entry.key[4:])


def columns_of(board: Board, listed: Iterable[BoardRow]) -> tuple[str, ...]:
    """Return the metrics of a file: the board's own, then those that suites of its rows name."""
    return tuple(dict.fromkeys([*board.columns, *sorted({name for row in listed for name in row.own_metrics})]))


def _ranked_by(board: Board) -> dict[str, Better]:
    return {board.score: board.better, **({"g_jsd": "lower"} if "g_jsd" in board.metrics else {})}


def ranked(listed: Sequence[BoardRow], metric: str, better: Better) -> dict[Hashable, Standing]:
    """Return how rows stand in a metric within their suite, dataset, model and attack, by their keys."""
    blocks: dict[tuple[Any, ...], dict[Hashable, Cell]] = {}
    standard = {entry.key[:4] for entry in listed if entry.key[5] == STANDARD}
    for entry in listed:
        if entry.key[:4] in standard and entry.key[5] != STANDARD and not metric.endswith("seconds"):
            continue  # the worst case ranks; every other attack is a column beside it
        # Times of different machines are no rivals.
        machine = entry.devices if metric.endswith("seconds") else ()
        block = (*entry.key[:4], entry.key[5], machine)
        blocks.setdefault(block, {})[entry.key] = entry.cell(metric)
    return {key: standing for cells in blocks.values() for key, standing in standings(cells, better).items()}


def _row(board: Board, columns: Sequence[str], entry: BoardRow, standing: Mapping[str, Standing]) -> dict[str, Any]:
    row: dict[str, Any] = dict(zip(KEY, entry.key, strict=True))
    cell = entry.cell(board.score)
    row |= {"status": cell.status, "reason": cell.reason, "n": len(cell.values)}
    if entry.key[4] == UNIFORM:
        row |= {"status": "null", "reason": "attention 1/(d+1) on the same graphs", "n": len(entry.seeds)}
    row |= {("rank" if name == board.score else f"rank_{name}"): place.rank for name, place in standing.items()}
    if board.nulls:
        row["beats_uniform"] = {True: "yes", False: "no", None: None}[standing["g_jsd"].beats_null]
    for metric in columns:
        row |= _summary(entry.cell(metric))
    for metric in board.nulls:
        row |= _relative(entry.cell(metric))
    if entry.found_by:
        row["found_by"] = ", ".join(entry.found_by)
        row["worst_slack"] = mean(list(entry.slack.values())) if entry.slack else math.nan
    if entry.trials:
        row |= {"settings": "tuned", "trials": entry.trials}
    row["flags"] = "; ".join(entry.flags)
    for name in LEDGER:
        spent = [ledger[name] for _, ledger in entry.budgets.values() if name in ledger]
        row[f"ledger_{name}"] = max(spent) if spent else math.nan
    threats = list(dict.fromkeys(threat for threat, _ in entry.budgets.values()))
    row |= {"threat": json.dumps([json.loads(threat) for threat in threats], sort_keys=True)}
    row |= {"run": " ".join(entry.runs), "commit": " ".join(entry.versions), "device": "; ".join(entry.devices)}
    row["seeds"] = json.dumps(_kept(board, entry), sort_keys=True)
    return row


def _summary(cell: Cell) -> dict[str, float]:
    bounds = centre_interval(cell.values, scale_of(cell.metric)) or (math.nan, math.nan)
    names = (f"{cell.metric}_{part}" for part in ("mean", "std", "low", "high"))
    return dict(zip(names, (cell.mean, cell.std, *bounds), strict=True))


def _relative(cell: Cell) -> dict[str, float]:
    """Return a cell against the uniform attention: the mean difference on the metric's scale, with its interval."""
    relative = cell.relative
    bounds = (relative.bounds_on_scale if relative else None) or (math.nan, math.nan)
    centre = mean(relative.differences) if relative else math.nan
    names = (f"{cell.metric}_vs_uniform{part}" for part in ("", "_low", "_high"))
    return dict(zip(names, (centre, *bounds), strict=True))


def _kept(board: Board, entry: BoardRow) -> dict[str, Any]:
    """Return everything that a later merge needs: values, budgets and gaps of the seeds."""
    return {
        "values": {
            seed: {m: v[m] for m in (*board.columns, *board.nulls.values(), *entry.own_metrics) if m in v}
            for seed, v in entry.seeds.items()
        },
        "budgets": {seed: [threat, dict(ledger)] for seed, (threat, ledger) in entry.budgets.items()},
        "gaps": [[gap.seed, gap.status, gap.reason] for gap in entry.gaps],
        "devices": list(entry.devices),
        **({"own_metrics": list(entry.own_metrics)} if entry.own_metrics else {}),
        **({"found_by": list(entry.found_by), "slack": dict(entry.slack)} if entry.found_by else {}),
        **({"identity": entry.identity} if entry.identity else {}),
        **({"trials": entry.trials} if entry.trials else {}),
    }


def to_csv(board: Board, listed: Sequence[BoardRow]) -> str:
    """Return the text of a board's file."""
    lines = rows(board, listed)
    out = io.StringIO()
    columns = columns_of(board, listed)
    empty = _row(board, columns, BoardRow(("",) * len(KEY), {}), dict.fromkeys(_ranked_by(board), Standing()))
    header = [*empty, *(["found_by", "worst_slack"] if any("found_by" in row for row in lines) else [])]
    header += ["settings", "trials"] if any("settings" in row for row in lines) else []
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(map(csv_cell, header))
    for row in lines:
        values = (row.get(name) for name in header)
        writer.writerow("" if value is None or value != value else csv_cell(value) for value in values)
    return out.getvalue()


def read(text: str) -> list[BoardRow]:
    """Read the rows of a file, as far as a merge needs them."""
    listed = []
    for cells in csv.DictReader(io.StringIO(text, newline="")):
        row = {name: csv_text(cell) for name, cell in cells.items()}
        if row["defense"] == UNIFORM:
            continue  # it is made anew from the rows of its block
        kept = json.loads(row["seeds"])
        listed.append(
            BoardRow(
                tuple(row[name] for name in KEY),
                {int(seed): values for seed, values in kept["values"].items()},
                tuple(Gap(*gap) for gap in kept["gaps"]),
                tuple(flag for flag in row["flags"].split("; ") if flag),
                {int(seed): (threat, ledger) for seed, (threat, ledger) in kept["budgets"].items()},
                tuple(row["run"].split()),
                tuple(row["commit"].split()),
                tuple(kept["devices"]),
                tuple(kept.get("own_metrics", ())),
                tuple(kept.get("found_by", ())),
                {int(seed): value for seed, value in kept.get("slack", {}).items()},
                kept.get("identity", {}),
                kept.get("trials", 0),
            )
        )
    return listed


def write_leaderboards(results: Results, folder: Path) -> list[Path]:
    """Write the three files of one run; a board without rows is a file with a header."""
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder):
        return _write({board: entries(board, results) for board in BOARDS}, folder)


def add(run: str | os.PathLike[str], folder: str | os.PathLike[str], write: bool = True) -> list[Path]:
    """Merge a run into the leaderboards of a folder; raises, and writes nothing, when like would not meet like.

    A folder is read under its lock, since another process may be replacing its files. Without ``write`` everything is
    checked and nothing is written.
    """
    results, target = Results.read(run), Path(folder)
    if results.names("suite", kind="attack") and not any(entries(board, results) for board in BOARDS):
        raise ReportError(
            f"{run} holds only {', '.join(results.suites)}, where each defense has a budget of its own; leaderboards "
            "rank rows of one budget, so run a suite such as node"
        )
    added = {board: entries(board, results) for board in BOARDS}
    if not target.is_dir():
        for board, listed in added.items():
            merged([], listed, board)  # what is refused leaves no folder behind
        if not write:
            return []
        target.mkdir(parents=True, exist_ok=True)
    with locked(target):
        together = _together(added, target)
        return _write(together, target) if write else []


def _together(added: Mapping[Board, list[BoardRow]], folder: Path) -> dict[Board, list[BoardRow]]:
    """Return the rows of a folder's files merged with others."""
    together = {}
    for board, listed in added.items():
        path = folder / f"{board.name}.csv"
        text = read_board(path)
        try:
            known = read(text) if text is not None else []
        except (AttributeError, KeyError, ValueError, TypeError, csv.Error):
            raise ReportError(f"{path} is not a leaderboard of fgai-bench; choose another folder") from None
        together[board] = merged(known, listed, board)
    return together


def _write(boards: Mapping[Board, list[BoardRow]], folder: Path) -> list[Path]:
    return write_boards(folder, {f"{board.name}.csv": to_csv(board, listed) for board, listed in boards.items()})
