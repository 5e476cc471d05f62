"""Leaderboards: come here for their rows, one per (dataset, model, defense, attack), for ranks and for merging runs.

Merging keeps, seed by seed, the stronger attack: the one that leaves the lower score. Rows are held to one budget: what
was attacked with another threat model, or with another spending, is refused and nothing is written. Every row carries
the values of its seeds, so that ranks and intervals are computed anew whenever rows come together.
"""

from __future__ import annotations

import json
import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from typing import Any

from fgai_bench.leaderboard.csv_cells import as_filed
from fgai_bench.leaderboard.identity import identity_of, refuse_other
from fgai_bench.records.flags import STRONGER
from fgai_bench.statistics.errors import ReportError
from fgai_bench.statistics.ranking import (
    TOLERANCE,
    UNEQUAL,
    UNIFORM,
    Better,
    Cell,
    Gap,
    Standing,
    equal_budgets,
    null_cell,
    null_of,
    standings,
)
from fgai_bench.statistics.results import Measurement, Place, Results

STANDARD, TWICE = "worst", "worst-twice"  # the attack that ranks, wherever a suite runs it; twice its search
KEY = ("suite", "task", "dataset", "model", "defense", "attack")
STOPPED = "non-finite gradient"  # a flag of attacks: the search ended there, before its budget of steps did
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
    return list(_entries(board, results))


@lru_cache(maxsize=8)
def _entries(board: Board, results: Results) -> tuple[BoardRow, ...]:
    """Return the rows; tables, the page and the boards of one report all ask for them."""
    return tuple(
        _entry(results, place, seeds, board)
        for place, seeds in results.select(kind="attack")
        if board.task in ("", place.task)
        and not any(UNEQUAL in step.flags for step in seeds.values())
        and not (board.alone and not _alone(results, place))
    )


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
    """Return the values under attack and of the training, and those of the clean graph with a suffix, as filed."""
    before = {f"{name}_clean": value for name, value in clean.values.items()} if clean else {}
    values = {**before, **(trained.values if trained else {}), **attacked.values}
    return {name: as_filed(value) for name, value in values.items()}


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
    rivals: dict[tuple[str, ...], list[tuple[str, ...]]] = {}
    for key in rows:
        rivals.setdefault(block_of(key), []).append(key)
    for entry in added:
        keys = rivals.setdefault(block_of(entry.key), [])
        for other in (rows[key] for key in keys):
            _refuse_unequal(entry, other)
            if entry.seeds and other.seeds:  # what has no value has nothing to be mixed with
                same_row = entry.key == other.key
                refuse_other(" ".join(entry.key[2:5]), entry.identity, other.identity, same_row)
        if entry.key in rows:
            rows[entry.key] = _stronger(rows[entry.key], entry, board)
        else:
            rows[entry.key] = entry
            keys.append(entry.key)
    return list(rows.values())


def block_of(key: tuple[str, ...]) -> tuple[str, ...]:
    """Return all of a row's names but its defense: rows that share them are rivals."""
    return (*key[:4], key[5])


def _refuse_unequal(entry: BoardRow, other: BoardRow) -> None:
    """Refuse two rows of one block whose budgets differ.

    An attack that left a part of its budget is no reason: its row stands there, and is not ranked. Nor is one that
    stopped early where it had no gradient to follow: its row says so.
    """
    if entry.trials and other.trials and entry.trials != other.trials:
        raise ReportError(
            f"the settings of {' '.join(entry.key[2:5])} were chosen from {entry.trials} trials, those of the "
            f"leaderboard's {other.key[4]} from {other.trials}; rows of unequal search are not ranked together"
        )
    threats = [{threat for threat, _ in row.budgets.values()} for row in (entry, other)]
    same = equal_budgets(entry.cell(""), other.cell(""), counted=()) and _searched_alike(entry, other)
    if not same or (all(threats) and threats[0] != threats[1]):
        names = " ".join(entry.key[2:5])
        raise ReportError(
            f"{names} under {entry.key[5]} was attacked with another budget than the leaderboard's {other.key[4]}; "
            "rows of unequal budgets are not ranked together, so run it with the suite's own budget"
        )


def _searched_alike(entry: BoardRow, other: BoardRow) -> bool:
    """Tell whether two rows took as many gradients where both have values, or the one with fewer had none to follow."""
    for seed in entry.seeds.keys() & other.seeds.keys() & entry.budgets.keys() & other.budgets.keys():
        mine, theirs = (row.budgets[seed][1].get("gradient_calls", 0.0) for row in (entry, other))
        shorter = entry if mine < theirs else other
        if not math.isclose(mine, theirs, rel_tol=TOLERANCE) and STOPPED not in shorter.flags:
            return False
    return True


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


def lowered(board: Board, listed: Sequence[BoardRow]) -> list[BoardRow]:
    """Return the rows, each worst case lowered by any attack inside its threat model that left less, seed by seed."""
    return [_lowered(board, row, listed) if row.key[5] == STANDARD else row for row in listed]


def _lowered(board: Board, worst: BoardRow, listed: Sequence[BoardRow]) -> BoardRow:
    seeds, names, slack = dict(worst.seeds), dict.fromkeys(worst.seeds, STANDARD), dict(worst.slack)
    settled = set()  # what did more harm than the standard attack is no reason for distrust once it counts
    for row in listed:
        if row.key[:5] != worst.key[:5] or row.key[5] == STANDARD:
            continue
        if row.key[5] == TWICE and not slack:
            shared = [seed for seed in row.seeds if board.score in row.seeds[seed] and seed in worst.seeds]
            slack = {seed: worst.seeds[seed][board.score] - row.seeds[seed][board.score] for seed in shared}
        for seed, values in row.seeds.items():
            if seed not in seeds or _allowed(row, seed) != _allowed(worst, seed):
                continue
            settled.add(STRONGER.format(attack=row.key[5]))
            if values.get(board.score, math.inf) < seeds[seed].get(board.score, math.inf):
                seeds[seed], names[seed] = {**seeds[seed], **values}, row.key[5]
    finders = tuple(dict.fromkeys([*worst.found_by, *names.values()]))
    flags = tuple(flag for flag in worst.flags if flag not in settled)
    return replace(worst, seeds=seeds, found_by=finders, slack=slack, flags=flags)


@lru_cache(maxsize=8)
def worst_cases(results: Results) -> Results:
    """Return the results with every worst case lowered as leaderboards lower it: what claims and figures speak of."""
    places = dict(results.places)
    for board in BOARDS:
        for row in lowered(board, entries(board, results)):
            suite, task, dataset, model, label, attack = row.key
            place = Place(suite, "attack", task, dataset, model, label, attack)
            if attack == STANDARD and not board.alone:
                places[place] = {
                    seed: replace(step, values=row.seeds[seed], flags=row.flags) if seed in row.seeds else step
                    for seed, step in places[place].items()
                }
    return replace(results, places=places)


def _allowed(row: BoardRow, seed: int) -> Mapping[str, Any]:
    """What the attack of a row was allowed to change at a seed."""
    return _changes(row.budgets[seed][0]) if seed in row.budgets else {}


@cache
def _changes(threat: str) -> Mapping[str, Any]:
    """What a threat model allows to change; how long an attack may search is no part of it."""
    return {key: value for key, value in json.loads(threat).items() if key not in ("step", "steps", "restarts")}


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
