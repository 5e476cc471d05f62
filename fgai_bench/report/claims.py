"""Claims: the paper's, as a list that a run decides. A verdict names the interval and the cells that decide it.

A claim is looked at in each of its cells (dataset x model). In a cell it *holds* when the interval of the paired
difference says so after Holm's correction over the cells, it *fails* when the interval says the opposite, it is *open*
otherwise, and *missing* when the run cannot tell. It is supported when it holds in the required share of all its cells,
not supported when that can no longer happen, and not tested when the missing cells could still change the answer.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import yaml

from fgai_bench.report.cells import Cell, cell, standings
from fgai_bench.report.labels import STATUS, ordered, title
from fgai_bench.report.published import text_of
from fgai_bench.report.results import Place, Results
from fgai_bench.report.statistics import holm, interval, mean, p_value, paired

Kind = Literal["greater", "close", "ratio", "best", "positive", "status"]
Outcome = Literal["holds", "fails", "open", "missing"]
KINDS_OF_STEPS = {"clean": "clean", "attacked": "attack", "train": "train", "explain": "explain"}
LEAST_SEEDS = 3  # two seeds have four resamples: they decide nothing
SIGNIFICANT = 0.05
DATASETS = ("amazon-photo", "amazon-cs", "coauthor-cs", "coauthor-physics")
MODELS = ("gat", "gatv2", "gt")


@dataclass(frozen=True)
class Side:
    """One side of a claim: which cell of a (dataset, model) it is about."""

    defense: str
    metric: str
    when: str
    model: str = ""
    explainer: str = ""
    attack: str = "injection"


@dataclass(frozen=True)
class Claim:
    """One claim; fields as in ``baselines/claims.yaml``."""

    id: str
    text: str
    source: str
    suite: str
    kind: Kind
    left: Side
    right: Side | None = None
    task: str = "node"
    datasets: tuple[str, ...] = DATASETS
    models: tuple[str, ...] = MODELS
    margin: float = 0.0
    limit: float = 1.0
    share: float = 1.0
    better: Literal["higher", "lower"] = "higher"
    status: str = ""
    magnitude: bool = False

    @property
    def places(self) -> list[tuple[str, str]]:
        """The cells that the claim is about."""
        return [(dataset, model) for dataset in self.datasets for model in self.models]


@dataclass(frozen=True)
class Decision:
    """What one cell says."""

    dataset: str
    model: str
    outcome: Outcome
    value: float = math.nan
    bounds: tuple[float, float] | None = None
    why: str = ""

    def __str__(self) -> str:
        found = f"{self.value:+.3g}" if self.value == self.value else self.why
        bounds = f" [{self.bounds[0]:+.3g}, {self.bounds[1]:+.3g}]" if self.bounds else ""
        return f"{title(self.dataset)}/{title(self.model)} {self.outcome}: {found}{bounds}"


@dataclass(frozen=True)
class Verdict:
    """A claim with what its cells say together."""

    claim: Claim
    decisions: tuple[Decision, ...]

    def count(self, *outcomes: Outcome) -> int:
        """How many cells say one of these."""
        return sum(one.outcome in outcomes for one in self.decisions)

    @property
    def needed(self) -> int:
        """In how many cells the claim must hold."""
        return math.ceil(self.claim.share * len(self.decisions))

    @property
    def said(self) -> str:
        """``supported``, ``not supported`` or ``not tested``."""
        if self.count("holds") >= self.needed:
            return "supported"
        return "not supported" if self.count("holds", "missing") < self.needed else "not tested"

    @property
    def bounds(self) -> tuple[float, float] | None:
        """From the lowest to the highest bound of all measured cells."""
        known = [one.bounds for one in self.decisions if one.bounds]
        return (min(low for low, _ in known), max(high for _, high in known)) if known else None

    @property
    def value(self) -> float:
        """The mean over the measured cells."""
        return mean([one.value for one in self.decisions if one.value == one.value])

    @property
    def deciding(self) -> list[Decision]:
        """The cells to look at: against the claim or open where it is not supported, else the weakest ones."""
        against = [one for one in self.decisions if one.outcome in ("fails", "open")]
        if self.said == "not supported":
            return against
        held = [one for one in self.decisions if one.outcome == "holds"]
        return sorted(held, key=lambda one: one.value)[:2] if self.said == "supported" else [*against, *held]

    @property
    def advice(self) -> str:
        """What to run, where cells are missing."""
        if not self.count("missing"):
            return ""
        reasons = dict.fromkeys(one.why for one in self.decisions if one.outcome == "missing")
        return f"{'; '.join(reasons)}: fgai-bench run --suite {self.claim.suite}"


def load_claims() -> tuple[Claim, ...]:
    """The claims that travel with the package."""
    return tuple(_claim(row) for row in yaml.safe_load(text_of("claims.yaml")))


def _claim(row: Mapping[str, Any]) -> Claim:
    sides = {key: Side(**row[key]) for key in ("left", "right") if key in row}
    lists = {key: tuple(row[key]) for key in ("datasets", "models") if key in row}
    return Claim(**{**row, **sides, **lists})


def judge(results: Results, claims: Iterable[Claim] | None = None) -> list[Verdict]:
    """A verdict on each claim."""
    return [_verdict(results, claim) for claim in (load_claims() if claims is None else claims)]


def _verdict(results: Results, claim: Claim) -> Verdict:
    raw = [JUDGES[claim.kind](results, claim, dataset, model) for dataset, model in claim.places]
    measured = [i for i, (_, differences) in enumerate(raw) if differences]
    adjusted = dict(zip(measured, holm([p_value(raw[i][1]) for i in measured]), strict=True))
    return Verdict(
        claim,
        tuple(
            Decision(one.dataset, one.model, "open", one.value, one.bounds, "not significant after Holm's correction")
            if one.outcome == "holds" and adjusted.get(i, 0.0) >= SIGNIFICANT
            else one
            for i, (one, _) in enumerate(raw)
        ),
    )


Judged = tuple[Decision, tuple[float, ...]]  # a cell's own answer, and the differences that Holm's correction is over


def _of(results: Results, claim: Claim, side: Side, dataset: str, model: str) -> Cell:
    kind = KINDS_OF_STEPS[side.when]
    attack = side.attack if kind in ("attack", "explain") else ""
    where = (claim.suite, kind, claim.task, dataset, side.model or model, side.defense, attack, side.explainer)
    return cell(results, Place(*where), side.metric, claim.magnitude)


def _missing(dataset: str, model: str, *cells: Cell, least: int = LEAST_SEEDS) -> Decision | None:
    """Why a cell cannot be decided; None when it can."""
    for one in cells:
        if one.status != "ok":
            reason = "not measured" if one.status in ("absent", "missing") else f"{STATUS[one.status]}: {one.reason}"
            return Decision(dataset, model, "missing", why=reason)
        if len(one.values) < least:
            return Decision(dataset, model, "missing", why=f"only {len(one.values)} of 5 seeds")
        if one.unequal:
            return Decision(dataset, model, "missing", why="unequal budgets")
    return None


def _sides(results: Results, claim: Claim, dataset: str, model: str) -> tuple[Cell, Cell]:
    assert claim.right is not None  # kinds with two sides have two
    return _of(results, claim, claim.left, dataset, model), _of(results, claim, claim.right, dataset, model)


def _greater(results: Results, claim: Claim, dataset: str, model: str) -> Judged:
    left, right = _sides(results, claim, dataset, model)
    if missing := _missing(dataset, model, left, right):
        return missing, ()
    return _signed(dataset, model, tuple(d - claim.margin for d in paired(left.values, right.values)))


def _positive(results: Results, claim: Claim, dataset: str, model: str) -> Judged:
    left = _of(results, claim, claim.left, dataset, model)
    if missing := _missing(dataset, model, left):
        return missing, ()
    return _signed(dataset, model, tuple(left.values.values()))


def _signed(dataset: str, model: str, differences: tuple[float, ...]) -> Judged:
    bounds = interval(differences)
    if bounds is None:
        return Decision(dataset, model, "missing", why="the two sides share no two seeds"), ()
    outcome: Outcome = "holds" if bounds[0] > 0 else "fails" if bounds[1] < 0 else "open"
    return Decision(dataset, model, outcome, mean(differences), bounds), differences


def _close(results: Results, claim: Claim, dataset: str, model: str) -> Judged:
    left, right = _sides(results, claim, dataset, model)
    if missing := _missing(dataset, model, left, right):
        return missing, ()
    differences = paired(left.values, right.values)
    bounds = interval(differences) or (-math.inf, math.inf)
    inside = -claim.margin <= bounds[0] and bounds[1] <= claim.margin
    outside = bounds[0] > claim.margin or bounds[1] < -claim.margin
    outcome: Outcome = "holds" if inside else "fails" if outside else "open"
    return Decision(dataset, model, outcome, mean(differences), bounds), ()


def _ratio(results: Results, claim: Claim, dataset: str, model: str) -> Judged:
    left, right = _sides(results, claim, dataset, model)
    if missing := _missing(dataset, model, left, right, least=1):
        return missing, ()
    ratios = [left.values[seed] / right.values[seed] for seed in left.values if right.values.get(seed)]
    if not ratios:
        return Decision(dataset, model, "missing", why="the two sides share no seed"), ()
    bounds = interval(ratios) or (ratios[0], ratios[0])
    outcome: Outcome = "holds" if bounds[1] <= claim.limit else "fails" if bounds[0] > claim.limit else "open"
    return Decision(dataset, model, outcome, mean(ratios), bounds), ()


def _best(results: Results, claim: Claim, dataset: str, model: str) -> Judged:
    mine = _of(results, claim, claim.left, dataset, model)
    if missing := _missing(dataset, model, mine):
        return missing, ()
    kind = KINDS_OF_STEPS[claim.left.when]
    where = {"suite": claim.suite, "kind": kind, "task": claim.task, "dataset": dataset, "model": model}
    labels = ordered(results.names("label", **where))
    rivals: dict[Hashable, Cell] = {
        label: _of(results, claim, Side(label, claim.left.metric, claim.left.when), dataset, model) for label in labels
    }
    standing = standings(rivals, claim.better)[claim.left.defense]
    if standing.rank is None:
        return Decision(dataset, model, "missing", why="nothing of equal budget to rank it with"), ()
    outcome: Outcome = "holds" if standing.bold else "fails"
    return Decision(dataset, model, outcome, mean(standing.difference), standing.bounds), ()


def _status(results: Results, claim: Claim, dataset: str, model: str) -> Judged:
    found = _of(results, claim, claim.left, dataset, model)
    if found.status in ("absent", "missing"):
        return Decision(dataset, model, "missing", why="not measured"), ()
    said = "it runs" if found.status == "ok" else f"{STATUS[found.status]}: {found.reason}"
    return Decision(dataset, model, "holds" if found.status == claim.status else "fails", why=said), ()


JUDGES = {
    "greater": _greater,
    "positive": _positive,
    "close": _close,
    "ratio": _ratio,
    "best": _best,
    "status": _status,
}
COLUMNS = ("id", "claim", "verdict", "holds", "fails", "open", "missing", "mean", "low", "high", "deciding", "advice")


def rows(verdicts: Sequence[Verdict]) -> list[list[Any]]:
    """Verdicts as rows under ``COLUMNS``."""
    found = []
    for one in verdicts:
        counts = [one.count(outcome) for outcome in ("holds", "fails", "open", "missing")]
        low, high = one.bounds or ("", "")
        value = one.value if one.value == one.value else ""
        deciding = "; ".join(map(str, one.deciding))
        found.append([one.claim.id, one.claim.text, one.said, *counts, value, low, high, deciding, one.advice])
    return found


def to_csv(verdicts: Sequence[Verdict]) -> str:
    """One line per claim."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerows([COLUMNS, *rows(verdicts)])
    return out.getvalue()


def to_markdown(verdicts: Sequence[Verdict], results: Results) -> str:
    """The verdicts as a page, each with its cells."""
    lines = [f"# Verdicts on the paper's claims, run {results.identity}", "", f"{results.version}.", ""]
    for one in verdicts:
        counted = ", ".join(f"{one.count(o)} {o}" for o in ("holds", "fails", "open", "missing") if one.count(o))
        lines += [f"## {one.claim.id}: {one.said}", "", f"{one.claim.text} ({one.claim.source})", ""]
        bounds = (
            f"; cell means average {one.value:+.3g}, bounds [{one.bounds[0]:+.3g}, {one.bounds[1]:+.3g}]"
            if one.bounds
            else ""
        )
        lines += [f"Needed in {one.needed} of {len(one.decisions)} cells; {counted}{bounds}."]
        lines += [f"- {decision}" for decision in one.deciding]
        lines += [one.advice] if one.advice else []
        lines += [""]
    return "\n".join(lines)
