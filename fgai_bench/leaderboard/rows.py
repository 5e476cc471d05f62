"""Rows of leaderboards, one per (dataset, model, defense, attack): where they come from and how they rank.

Every row carries the values of its seeds, so that ranks and intervals are computed anew whenever rows come together.
The worst case (the attack ``worst``, lowered by any stronger attack inside the same threat model) ranks; every other
attack is shown beside it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from typing import Any, NamedTuple

from fgai_bench.records.flags import STRONGER, SUBMITTED, changes_allowed
from fgai_bench.records.result import REPORTED
from fgai_bench.statistics.cells import UNEQUAL, UNIFORM, Cell, Gap, null_cell, null_of
from fgai_bench.statistics.labels import CORRECTNESS, PAPERS_CHOICE
from fgai_bench.statistics.numbers import as_filed
from fgai_bench.statistics.ranking import Standing, standings
from fgai_bench.statistics.results import UNCHECKED, Better, Measurement, Place, Results

TOLD = "reported: {name}"  # a flag of a row that was added: a value that is not measured again
STANDARD = "worst"  # the attack that ranks, wherever a suite runs it
CONTINUED = ("worst-continued", "worst-twice")  # the same with further search; an older name
Values = Mapping[int, Mapping[str, float]]


@dataclass(frozen=True)
class Board:
    """One leaderboard."""

    name: str  # of its file
    task: str  # of its rows; empty for all
    score: str  # the metric that ranks the rows, and that tells the stronger attack
    better: Better  # which way, for the score
    metrics: tuple[str, ...]  # further columns; ``_clean`` at the end means without the attack
    # whether only steps count that had the machine to themselves; times of others say how busy it was
    alone: bool = False
    optional: bool = False  # whether it has a file only where it has rows

    @property
    def columns(self) -> tuple[str, ...]:
        """Return all metrics of a row."""
        return (self.score, *self.metrics)

    @property
    def nulls(self) -> dict[str, str]:
        """Return the metrics that a uniform attention has a value in, each with the name of that value."""
        return {metric: null_of(metric) for metric in self.columns if null_of(metric)}


STABILITY_METRICS = ("g_jsd", "g_tvd", "node_jsd", "topk_overlap", "prediction_kept")
COSTS = ("train_peak_mib", "attack_seconds", "attack_peak_mib", "evaluate_seconds", "evaluate_peak_mib")
BESIDE = ("macro_f1", "roc_auc")  # further scores, as columns where they were measured
FLOORS = ("certified_f1", "certified_roc_auc", "certified_explanations")  # further columns where something was proven
BOARDS = (
    Board("leaderboard_node", "node", "f1", "higher", ("f1_clean", *STABILITY_METRICS, "f_slope_pos", "f_slope_neg")),
    Board("leaderboard_link", "link", "roc_auc", "higher", ("roc_auc_clean", *STABILITY_METRICS)),
    Board(
        "leaderboard_node_roc_auc",
        "node",
        "roc_auc",
        "higher",
        ("roc_auc_clean", "f1", "f1_clean", *STABILITY_METRICS),
        optional=True,
    ),
    Board("leaderboard_cost", "", "train_seconds", "lower", COSTS, alone=True),
)


class BoardKey(NamedTuple):
    """The names of a row. Rows that share all but the defense are rivals.

    >>> str(BoardKey("node", "node", "cora", "gat", "fgai tuned", "worst"))
    'node/cora/gat/fgai-tuned/worst'
    """

    suite: str
    task: str
    dataset: str
    model: str
    defense: str
    attack: str

    @property
    def block(self) -> BoardKey:
        """Return what rivals share."""
        return self._replace(defense="")

    def __str__(self) -> str:
        parts = (self.suite, self.dataset, self.model, self.defense, self.attack)
        return "/".join(part.replace(" ", "-") for part in parts)


@dataclass(frozen=True)
class BoardRow:
    """One row before it is ranked."""

    key: BoardKey
    seeds: Values  # seed to metric to value
    gaps: tuple[Gap, ...] = ()  # the seeds without values
    flags: tuple[str, ...] = ()
    budgets: Mapping[int, tuple[str, Mapping[str, float]]] = field(default_factory=dict)  # seed to (threat, ledger)
    runs: tuple[str, ...] = ()  # identities of the runs that it comes from
    versions: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    # further columns: floors, how right its attention is, and metrics of its suite that are not built in
    own_metrics: tuple[str, ...] = ()
    found_by: tuple[str, ...] = ()  # for a worst case, the attacks that left the least at some seed
    # for a worst case, seed to how much less further search left
    slack: Mapping[int, float] = field(default_factory=dict)
    steps: Mapping[int, str] = field(default_factory=dict)  # seed to the recorded step, as ``verify`` names it
    trials: int = 0  # how many settings were tried to choose those of the row; 0 for the suite's own settings
    trust: tuple[str, ...] = ()  # of the board in each of its steps; empty for what was measured here

    def cell(self, metric: str) -> Cell:
        """Return one metric of the row as a cell that can be ranked."""
        values, null = (
            {seed: measured[name] for seed, measured in self.seeds.items() if name in measured}
            for name in (metric, null_of(metric))
        )
        absent = [Gap(seed, "absent", f"{metric} was not measured") for seed in self.seeds if seed not in values]
        place = Place(self.key.suite, "attack", *self.key[1:])
        return Cell(place, metric, values, (*self.gaps, *absent), self.flags, self.budgets, null, self.trials)

    def changes_allowed(self, seed: int) -> Mapping[str, Any]:
        """Return what the attack was allowed to change at a seed; how long it may search is no part of it."""
        return _changes(self.budgets[seed][0]) if seed in self.budgets else {}


@cache
def _changes(threat: str) -> Mapping[str, Any]:
    return changes_allowed(json.loads(threat))


@lru_cache(maxsize=8)
def entries(board: Board, results: Results) -> tuple[BoardRow, ...]:
    """Return the rows that a run has for a board, in the order of the plan; a suite of unequal budgets has none."""
    return tuple(
        _entry(results, place, seeds, board)
        for place, seeds in results.select(kind="attack")
        if _holds(board, place, results)
        and not any(UNEQUAL in step.flags for step in seeds.values())
        and not (board.alone and not _alone(results, place))
    )


def _holds(board: Board, place: Place, results: Results) -> bool:
    """Tell whether a board ranks a place: it has the task, and the score that ranks its dataset."""
    usual = next(other.score for other in BOARDS if other.task in ("", place.task))  # of the first board of the task
    score = results.scores.get((place.task, place.dataset), usual)
    return not board.task or (board.task, board.score) == (place.task, score)


def _alone(results: Results, place: Place) -> bool:
    """Tell whether the training behind a place was timed by itself: it then says over how many epochs."""
    trained = results.at(place._replace(kind="train", attack=""))
    return all("epochs_timed" in step.values for step in trained.values() if step.status == "ok")


def _entry(results: Results, place: Place, attacked: Mapping[int, Measurement], board: Board) -> BoardRow:
    """Return a row; a seed counts where its attack has values, or its training where the cost is the result."""
    clean, trained, floors = (results.at(place._replace(kind=k, attack="")) for k in ("clean", "train", "certify"))
    explained = results.at(place._replace(kind="explain", explainer=PAPERS_CHOICE))
    right = next((name for name in CORRECTNESS if any(name in step.values for step in explained.values())), "")
    seeds = trained if board.alone else attacked
    ok = {seed: step for seed, step in seeds.items() if step.status == "ok"}
    trust = tuple(REPORTED if board.alone and step.trust else step.trust for step in ok.values())  # nobody times again
    told = [right] if right and any(step.trust == REPORTED for step in explained.values()) else []
    own = [name for name in results.own_metrics if any(name in step.values for step in attacked.values())]
    told += own if any(step.trust for step in attacked.values()) else []
    flags = [flag for step in seeds.values() for flag in step.flags]
    flags += [UNCHECKED] if REPORTED in trust else []
    flags += [TOLD.format(name=name) for name in told]
    return BoardRow(
        BoardKey(place.suite, place.task, place.dataset, place.model, place.label, place.attack),
        {
            seed: _values(attacked[seed], clean.get(seed), trained.get(seed), floors.get(seed))
            | {name: as_filed(v) for name, v in _of(explained.get(seed)).items() if name == right}
            for seed in sorted(ok)
        },
        tuple(Gap(seed, step.status, step.reason) for seed, step in seeds.items() if seed not in ok),
        tuple(dict.fromkeys(flags)),
        {seed: (step.threat, step.ledger) for seed, step in sorted(attacked.items()) if step.status == "ok"},
        (results.identity,),
        tuple(dict.fromkeys(_program(step) for step in ok.values())),
        tuple(dict.fromkeys(step.device for step in ok.values())),
        (*(n for n in BESIDE if any(n in step.values for step in attacked.values())), *own)
        + tuple(name for name in FLOORS if any(name in step.values for step in floors.values()))
        + ((right,) if right else ()),
        steps={seed: step.step[:12] for seed, step in attacked.items() if seed in ok},
        trials=max((step.trials for step in attacked.values()), default=0),
        trust=trust,
    )


def _of(step: Measurement | None) -> Mapping[str, float]:
    return step.values if step else {}


def _program(step: Measurement) -> str:
    """Return the commit, or the version, of the program and of the plugins behind a step."""
    package, *plugins = step.package.split(" + ")
    return " + ".join([step.commit or package, *plugins])


def _values(
    attacked: Measurement, clean: Measurement | None, trained: Measurement | None, floor: Measurement | None
) -> dict[str, float]:
    """Return the values under attack, of the training, of a floor for the same budget, and clean ones with a suffix."""
    before = {f"{name}_clean": value for name, value in _of(clean).items()}
    same = floor is not None and floor.threat and _changes(floor.threat) == _changes(attacked.threat)
    proven = {name: floor.values[name] for name in FLOORS if name in floor.values} if floor and same else {}
    measured = {**_of(trained), **attacked.values}  # neither gives a clean score or a floor, whatever it is called
    own = {name: value for name, value in measured.items() if not name.endswith("_clean") and name not in FLOORS}
    return {name: as_filed(value) for name, value in {**own, **before, **proven}.items()}


def null_rows(board: Board, listed: Iterable[BoardRow]) -> list[BoardRow]:
    """Return a row for the uniform attention of every suite, dataset, model and attack in which it was measured."""
    blocks: dict[BoardKey, list[BoardRow]] = {}
    for row in listed:
        blocks.setdefault(row.key._replace(defense=UNIFORM), []).append(row)
    rows = []
    for key, block in blocks.items():
        nulls = {metric: null_cell(row.cell(metric) for row in block).values for metric in board.nulls}
        seeds = sorted({seed for values in nulls.values() for seed in values})
        if seeds:
            by_seed = {s: {metric: values[s] for metric, values in nulls.items() if s in values} for s in seeds}
            rows.append(BoardRow(key, by_seed))
    return rows


def lowered(board: Board, listed: Sequence[BoardRow]) -> list[BoardRow]:
    """Return the rows, each worst case lowered by any attack inside its threat model that left less, seed by seed.

    An attack that was run for some seeds of the row only lowers none, so that its seeds are attacked alike. A graph
    that somebody submitted lowers the seed that it was found for.
    """
    return [_lowered(board, row, listed) if row.key.attack == STANDARD else row for row in listed]


def _lowered(board: Board, worst: BoardRow, listed: Sequence[BoardRow]) -> BoardRow:
    seeds, names, slack = dict(worst.seeds), dict.fromkeys(worst.seeds, STANDARD), dict(worst.slack)
    settled = set()  # what did more harm than the standard attack is no reason for distrust once it counts
    for row in listed:
        if row.key[:5] != worst.key[:5] or row.key.attack == STANDARD:
            continue
        if row.key.attack in CONTINUED and not slack:
            shared = [seed for seed in row.seeds if board.score in row.seeds[seed] and seed in worst.seeds]
            slack = {seed: worst.seeds[seed][board.score] - row.seeds[seed][board.score] for seed in shared}
        if not (row.seeds.keys() >= worst.seeds.keys() or row.key.attack.startswith(SUBMITTED)):
            continue
        for seed, values in row.seeds.items():
            if seed not in seeds or row.changes_allowed(seed) != worst.changes_allowed(seed):
                continue
            settled.add(STRONGER.format(attack=row.key.attack))
            if values.get(board.score, math.inf) < seeds[seed].get(board.score, math.inf):
                seeds[seed], names[seed] = {**seeds[seed], **values}, row.key.attack
    finders = tuple(dict.fromkeys([*worst.found_by, *names.values()]))
    flags = tuple(flag for flag in worst.flags if flag not in settled)
    return replace(worst, seeds=seeds, found_by=finders, slack=slack, flags=flags)


@lru_cache(maxsize=8)
def worst_cases(results: Results) -> Results:
    """Return the results with every worst case lowered as leaderboards lower it: what claims and figures speak of."""
    places = dict(results.places)
    for board in BOARDS:
        for row in lowered(board, entries(board, results)):
            place = Place(row.key.suite, "attack", *row.key[1:])
            if row.key.attack == STANDARD and not board.alone:
                places[place] = {
                    seed: replace(step, values=row.seeds[seed], flags=row.flags) if seed in row.seeds else step
                    for seed, step in places[place].items()
                }
    return replace(results, places=places)


def ranked(listed: Sequence[BoardRow], metric: str, better: Better) -> dict[Hashable, Standing]:
    """Return how rows stand in a metric among the rivals of their block, by their keys."""
    timed = metric.endswith("seconds")
    blocks: dict[tuple[Any, ...], dict[Hashable, Cell]] = {}
    standard = {entry.key[:4] for entry in listed if entry.key.attack == STANDARD}
    for entry in listed:
        if timed or entry.key.attack == STANDARD or entry.key[:4] not in standard:
            machine = entry.devices if timed else ()  # times of different machines are no rivals
            blocks.setdefault((entry.key.block, machine), {})[entry.key] = entry.cell(metric)
    return {key: standing for cells in blocks.values() for key, standing in standings(cells, better).items()}
