"""Claims: the paper's, as a list that a run decides. Come here for how a verdict is reached.

A claim is looked at in each of its cells (dataset x model). In a cell it *holds* or *fails* when a t test of the paired
differences says so after Holm's correction over the cells, is *open* when the test leaves it undecided, and *missing*
when the run cannot tell. A claim about all cells is supported when every cell shows it without a correction (an
intersection-union test: all must reject, so the chance of a false verdict is not added up); a claim about most cells
when enough cells hold. It is *refuted* when so many cells fail that the required share is out of reach, *undecided*
when more seeds could still tell, and *not tested* when cells that were not measured could.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import yaml

from fgai_bench.report.cells import Cell, cell, scale_of, standings
from fgai_bench.report.escaping import csv_cell, markdown
from fgai_bench.report.labels import STATUS, ordered, title
from fgai_bench.report.published import text_of
from fgai_bench.report.results import Place, Results
from fgai_bench.report.statistics import Comparison, holm, mean, p_above, p_value, seeds_needed, sign_flip_p

Kind = Literal["greater", "close", "ratio", "best", "positive", "status"]
Outcome = Literal["holds", "fails", "open", "missing"]
Conclusion = Literal["supported", "refuted", "undecided", "not tested"]
OUTCOMES: tuple[Outcome, ...] = ("holds", "fails", "open", "missing")
KINDS_OF_STEPS = {"clean": "clean", "attacked": "attack", "train": "train", "explain": "explain"}
LEAST_SEEDS = 5  # below, no sign-flip test can even come near 0.05
SIGNIFICANT = 0.025  # in either direction: together the 5 % that a 95 % interval leaves out
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
    """One claim; fields as in ``baselines/fgai/claims.yaml``."""

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
        """Return the cells that the claim is about."""
        return [(dataset, model) for dataset in self.datasets for model in self.models]


@dataclass(frozen=True)
class Evidence:
    """What one cell measured, before it is held against the number of cells.

    Attributes:
        p_holds, p_fails: one-sided p of the claim's opposite and of the claim.
        comparison: what is shown: the two sides, or one side against zero.
        toward: differences that are positive where the claim holds; the seeds that are needed follow from them.
        missing: why the cell cannot be decided; empty where it can.
        why: what there is to say in place of a number.
    """

    p_holds: float = 1.0
    p_fails: float = 1.0
    comparison: Comparison | None = None
    toward: tuple[float, ...] = ()
    missing: str = ""
    why: str = ""


@dataclass(frozen=True)
class Decision:
    """What one cell says.

    Attributes:
        outcome: after Holm's correction over the cells of the claim.
        shown_alone: whether the cell shows the claim by itself, without a correction.
        enough: how many seeds would tell, if difference and spread stay as they are; None where no number would.
    """

    dataset: str
    model: str
    outcome: Outcome
    evidence: Evidence
    shown_alone: bool = False
    enough: int | None = None

    @property
    def seeds(self) -> int:
        """Return how many seeds both sides have."""
        return len(self.evidence.comparison.differences) if self.evidence.comparison else 0

    @property
    def is_ratio(self) -> bool:
        """Tell whether the cell is shown as a ratio: where logarithms are compared."""
        return self.evidence.comparison is not None and self.evidence.comparison.scale == "log"

    @property
    def value(self) -> float:
        """Return the difference in the metric's units, or the ratio; NaN where there is none."""
        comparison = self.evidence.comparison
        if comparison is None or not comparison.differences:
            return math.nan
        return comparison.ratio if self.is_ratio else comparison.difference

    @property
    def bounds(self) -> tuple[float, float] | None:
        """Return the 95 % interval of :attr:`value`."""
        comparison = self.evidence.comparison
        if comparison is None:
            return None
        return comparison.ratio_bounds if self.is_ratio else comparison.bounds

    @property
    def place(self) -> str:
        """Return the cell's name as pages write it."""
        return f"{title(self.dataset)}/{title(self.model)}"

    @property
    def more_seeds(self) -> str:
        """Say what an open cell would need, in words; empty for other cells."""
        if self.outcome != "open":
            return ""
        if self.enough is None:
            return "no number of seeds that one could run would tell"
        more = max(1, self.enough - self.seeds)
        return f"about {more} more seed{'s' if more != 1 else ''} would tell"

    def __str__(self) -> str:
        shown = self.evidence.missing or self.evidence.why
        if self.value == self.value:
            shown = number_text(self.value, self.bounds, self.is_ratio)
            if toward := self.evidence.toward:
                shown += f", p {p_value(toward):.2g} (sign flips {sign_flip_p(toward):.2g})"
        more = f"; {self.more_seeds}" if self.more_seeds else ""
        return f"{self.place} {self.outcome}: {shown}{more}"


def number_text(value: float, bounds: tuple[float, float] | None, is_ratio: bool) -> str:
    """Write a difference or a ratio with its interval.

    >>> number_text(0.5, (0.25, 0.75), False), number_text(4.0, (2.0, 8.0), True)
    ('+0.5 [+0.25, +0.75]', 'x4 [x2, x8]')
    """
    sign = "x{:.3g}" if is_ratio else "{:+.3g}"
    within = f" [{sign.format(bounds[0])}, {sign.format(bounds[1])}]" if bounds else ""
    return sign.format(value) + within


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' if number != 1 else ''}"


@dataclass(frozen=True)
class Verdict:
    """A claim with what its cells say together."""

    claim: Claim
    decisions: tuple[Decision, ...]

    def count(self, *outcomes: Outcome) -> int:
        """Return how many cells say one of these."""
        return len(self.cells(*outcomes))

    def cells(self, *outcomes: Outcome) -> list[Decision]:
        """Return the cells that say one of these."""
        return [decision for decision in self.decisions if decision.outcome in outcomes]

    @property
    def everywhere(self) -> bool:
        """Tell whether the claim is about all of its cells."""
        return self.needed == len(self.decisions)

    @property
    def needed(self) -> int:
        """Return in how many cells the claim must hold."""
        return math.ceil(self.claim.share * len(self.decisions))

    @property
    def showing(self) -> list[Decision]:
        """Return the cells that count for the claim: without a correction where all of them have to."""
        return [d for d in self.decisions if (d.shown_alone if self.everywhere else d.outcome == "holds")]

    @property
    def conclusion(self) -> Conclusion:
        """Return what the cells say together."""
        if len(self.showing) >= self.needed:
            return "supported"
        if self.count("holds", "open", "missing") < self.needed:
            return "refuted"
        return "not tested" if len(self.showing) + self.count("missing") >= self.needed else "undecided"

    @property
    def is_ratio(self) -> bool:
        """Tell whether the cells are shown as ratios."""
        return any(decision.is_ratio for decision in self.decisions)

    @property
    def bounds(self) -> tuple[float, float] | None:
        """Return the lowest and the highest bound of all measured cells."""
        known = [decision.bounds for decision in self.decisions if decision.bounds]
        return (min(low for low, _ in known), max(high for _, high in known)) if known else None

    @property
    def value(self) -> float:
        """Return the mean over the measured cells, the geometric mean of ratios."""
        values = [decision.value for decision in self.decisions if decision.value == decision.value]
        return math.exp(mean([math.log(value) for value in values])) if values and self.is_ratio else mean(values)

    @property
    def deciding(self) -> list[Decision]:
        """Return the cells to look at: the weakest of a supported claim, else those that do not show it."""
        if self.conclusion == "supported":
            return sorted(self.showing, key=lambda decision: -decision.evidence.p_holds)[:2]
        against = [d for d in self.decisions if d not in self.showing and d.outcome != "missing"]
        return [*against, *self.showing] if self.conclusion == "not tested" else against

    @property
    def would_change(self) -> str:
        """Say what would change the verdict."""
        if self.claim.kind == "status" and self.conclusion != "not tested":
            return "a run that ends otherwise"
        if self.conclusion == "supported":
            return (
                "a single cell that no longer shows it"
                if self.everywhere
                else (f"fewer than {self.needed} cells that hold; {self.count('holds')} do")
            )
        if self.conclusion == "refuted":
            failing = self.count("fails")
            turning = failing - (len(self.decisions) - self.needed)
            return (
                "the failing cell would have to turn"
                if failing == 1
                else (f"{turning} of the {failing} failing cells would have to turn")
            )
        if self.conclusion == "not tested":
            return f"measuring {_counted(self.count('missing'), 'cell')} that the run has no answer for"
        return self._ways_out

    @property
    def _ways_out(self) -> str:
        """Say what would decide an undecided claim either way, and how many seeds its open cells would need."""
        showing = _counted(self.needed - len(self.showing), "more cell")
        failing = _counted(len(self.decisions) - self.needed + 1 - self.count("fails"), "more failing cell")
        waiting = [d for d in self.decisions if d not in self.showing and d.outcome == "open"]
        seeds = [d.enough for d in waiting if d.enough is not None]
        told = (
            f"; with {max(seeds)} seeds {len(seeds)} of {_counted(len(waiting), 'open cell')} would tell"
            if seeds
            else ""
        )
        return f"{showing} to show it would support it; {failing} would refute it{told}"

    @property
    def advice(self) -> str:
        """Say what to run, where cells are missing."""
        if not self.count("missing"):
            return ""
        reasons = dict.fromkeys(decision.evidence.missing for decision in self.cells("missing"))
        few = f" --seeds {LEAST_SEEDS}" if any(reason.startswith("only ") for reason in reasons) else ""
        return f"{'; '.join(reasons)}: fgai-bench run --suite {self.claim.suite}{few}"


def load_claims() -> tuple[Claim, ...]:
    """Return the claims that travel with the package."""
    return tuple(_claim(row) for row in yaml.safe_load(text_of("claims.yaml")))


def _claim(row: Mapping[str, Any]) -> Claim:
    sides = {key: Side(**row[key]) for key in ("left", "right") if key in row}
    lists = {key: tuple(row[key]) for key in ("datasets", "models") if key in row}
    return Claim(**{**row, **sides, **lists})


def judge(results: Results, claims: Iterable[Claim] | None = None) -> list[Verdict]:
    """Return a verdict on each claim."""
    return [_verdict(results, claim) for claim in (load_claims() if claims is None else claims)]


def outcomes(evidence: Sequence[Evidence]) -> list[Outcome]:
    """Return what each cell of a claim says, with Holm's correction over the cells in either direction.

    >>> outcomes([Evidence(p_holds=0.01), Evidence(p_holds=0.02), Evidence(missing="not measured")])
    ['holds', 'holds', 'missing']
    >>> outcomes([Evidence(p_holds=0.02), Evidence(p_holds=0.02), Evidence(p_fails=0.001)])  # 0.06, 0.06 and 0.003
    ['open', 'open', 'fails']
    """
    measured = [i for i, cell_evidence in enumerate(evidence) if not cell_evidence.missing]
    holds = dict(zip(measured, holm([evidence[i].p_holds for i in measured]), strict=True))
    fails = dict(zip(measured, holm([evidence[i].p_fails for i in measured]), strict=True))
    return [
        "missing"
        if i not in holds
        else "holds"
        if holds[i] < SIGNIFICANT
        else "fails"
        if fails[i] < SIGNIFICANT
        else "open"
        for i in range(len(evidence))
    ]


def _verdict(results: Results, claim: Claim) -> Verdict:
    evidence = [JUDGES[claim.kind](results, claim, dataset, model) for dataset, model in claim.places]
    measured = sum(not cell_evidence.missing for cell_evidence in evidence)
    decisions = []
    for (dataset, model), cell_evidence, outcome in zip(claim.places, evidence, outcomes(evidence), strict=True):
        alone = not cell_evidence.missing and cell_evidence.p_holds < SIGNIFICANT
        # What a claim about all cells waits for needs no correction; what is shown already waits to hold by itself.
        uncorrected = claim.share == 1 and not alone and mean(cell_evidence.toward or (0.0,)) > 0
        alpha = SIGNIFICANT if uncorrected else SIGNIFICANT / max(1, measured)
        enough = seeds_needed(cell_evidence.toward, alpha)
        decisions.append(Decision(dataset, model, outcome, cell_evidence, alone, enough))
    return Verdict(claim, tuple(decisions))


def _of(results: Results, claim: Claim, side: Side, dataset: str, model: str) -> Cell:
    kind = KINDS_OF_STEPS[side.when]
    attack = side.attack if kind in ("attack", "explain") else ""
    where = (claim.suite, kind, claim.task, dataset, side.model or model, side.defense, attack, side.explainer)
    return cell(results, Place(*where), side.metric, claim.magnitude)


def _missing(*cells: Cell) -> Evidence | None:
    """Return why a cell cannot be decided; None when it can."""
    for side in cells:
        if side.status != "ok":
            reason = "not measured" if side.status in ("absent", "missing") else f"{STATUS[side.status]}: {side.reason}"
            return Evidence(missing=reason)
        if side.unequal:
            return Evidence(missing="unequal budgets")
    shared = set.intersection(*(set(side.values) for side in cells))
    if len(shared) < LEAST_SEEDS:
        return Evidence(missing=f"only {len(shared)} of {LEAST_SEEDS} seeds")
    return None


def _signed(comparison: Comparison, toward: Sequence[float]) -> Evidence:
    """Return the evidence of differences that are positive where the claim holds."""
    away = [-difference for difference in toward]
    return Evidence(p_above(toward), p_above(away), comparison, tuple(toward))


def _sides(results: Results, claim: Claim, dataset: str, model: str) -> tuple[Cell, Cell]:
    assert claim.right is not None  # kinds with two sides have two
    return _of(results, claim, claim.left, dataset, model), _of(results, claim, claim.right, dataset, model)


def _greater(results: Results, claim: Claim, dataset: str, model: str) -> Evidence:
    left, right = _sides(results, claim, dataset, model)
    if missing := _missing(left, right):
        return missing
    scales = {scale_of(side.metric) for side in (left, right)}
    # A margin is a number in the metric's units, so it is tested on them.
    scale = scales.pop() if len(scales) == 1 and not claim.margin else "identity"
    comparison = Comparison.of(left.values, right.values, scale)
    return _signed(comparison, [difference - claim.margin for difference in comparison.differences])


def _positive(results: Results, claim: Claim, dataset: str, model: str) -> Evidence:
    left = _of(results, claim, claim.left, dataset, model)
    if missing := _missing(left):
        return missing
    comparison = Comparison(tuple(left.values.values()))
    return _signed(comparison, comparison.differences)


def _close(results: Results, claim: Claim, dataset: str, model: str) -> Evidence:
    left, right = _sides(results, claim, dataset, model)
    if missing := _missing(left, right):
        return missing
    comparison = Comparison.of(left.values, right.values, "identity")
    below, above = ([claim.margin + sign * difference for difference in comparison.differences] for sign in (-1, 1))
    nearer = min(below, above, key=mean)
    p_holds = max(p_above(below), p_above(above))
    p_fails = min(p_above([-d for d in below]), p_above([-d for d in above]))
    return Evidence(p_holds, p_fails, comparison, tuple(nearer))


def _ratio(results: Results, claim: Claim, dataset: str, model: str) -> Evidence:
    left, right = _sides(results, claim, dataset, model)
    if missing := _missing(left, right):
        return missing
    comparison = Comparison.of(left.values, right.values, "log")
    return _signed(comparison, [math.log(claim.limit) - difference for difference in comparison.differences])


def _best(results: Results, claim: Claim, dataset: str, model: str) -> Evidence:
    mine = _of(results, claim, claim.left, dataset, model)
    if missing := _missing(mine):
        return missing
    kind = KINDS_OF_STEPS[claim.left.when]
    where = {"suite": claim.suite, "kind": kind, "task": claim.task, "dataset": dataset, "model": model}
    labels = ordered(results.names("label", **where))
    rivals: dict[Hashable, Cell] = {
        label: _of(results, claim, Side(label, claim.left.metric, claim.left.when), dataset, model) for label in labels
    }
    standing = standings(rivals, claim.better)[claim.left.defense]
    if standing.rank is None:
        return Evidence(missing="nothing of equal budget to rank it with")
    comparison = Comparison.of(mine.values, rivals[standing.rival].values, scale_of(claim.left.metric))
    sign = 1 if claim.better == "higher" else -1
    toward = tuple(sign * difference for difference in comparison.differences)
    p_holds = 1.0 if standing.beats_null is False else standing.p_ahead
    return Evidence(p_holds, standing.p_beaten, comparison, toward)


def _status(results: Results, claim: Claim, dataset: str, model: str) -> Evidence:
    measured = _of(results, claim, claim.left, dataset, model)
    if measured.status in ("absent", "missing"):
        return Evidence(missing="not measured")
    why = "it runs" if measured.status == "ok" else f"{STATUS[measured.status]}: {measured.reason}"
    as_claimed = measured.status == claim.status
    return Evidence(p_holds=float(not as_claimed), p_fails=float(as_claimed), why=why)


JUDGES = {
    "greater": _greater,
    "positive": _positive,
    "close": _close,
    "ratio": _ratio,
    "best": _best,
    "status": _status,
}
COLUMNS = (
    *("id", "claim", "verdict", *OUTCOMES, "shown_alone", "mean", "low", "high", "is_ratio"),
    *("deciding", "would_change", "advice"),
)
CELL_COLUMNS = (
    *("id", "dataset", "model", "outcome", "shown_alone", "value", "low", "high", "is_ratio", "scale"),
    *("p", "p_sign_flips", "seeds", "seeds_that_would_tell", "reason"),
)


def rows(verdicts: Sequence[Verdict]) -> list[list[Any]]:
    """Return verdicts as rows under ``COLUMNS``."""
    return [
        [
            *(verdict.claim.id, verdict.claim.text, verdict.conclusion, *(verdict.count(name) for name in OUTCOMES)),
            sum(decision.shown_alone for decision in verdict.decisions),
            *(_number(verdict.value), *(verdict.bounds or ("", "")), int(verdict.is_ratio)),
            *("; ".join(map(str, verdict.deciding)), verdict.would_change, verdict.advice),
        ]
        for verdict in verdicts
    ]


def cell_rows(verdicts: Sequence[Verdict]) -> list[list[Any]]:
    """Return every cell of every claim as rows under ``CELL_COLUMNS``."""
    return [_cell_row(verdict.claim, decision) for verdict in verdicts for decision in verdict.decisions]


def _cell_row(claim: Claim, decision: Decision) -> list[Any]:
    evidence = decision.evidence
    toward = evidence.toward
    return [
        *(claim.id, decision.dataset, decision.model, decision.outcome, int(decision.shown_alone)),
        *(_number(decision.value), *(decision.bounds or ("", "")), int(decision.is_ratio)),
        evidence.comparison.scale if evidence.comparison else "",
        *((p_value(toward), sign_flip_p(toward)) if toward else ("", "")),
        *(decision.seeds, "" if decision.enough is None else decision.enough, evidence.missing or evidence.why),
    ]


def _number(value: float) -> float | str:
    return value if value == value else ""


def to_csv(verdicts: Sequence[Verdict]) -> str:
    """Write one line per claim."""
    return _csv([COLUMNS, *rows(verdicts)])


def cells_to_csv(verdicts: Sequence[Verdict]) -> str:
    """Write one line per claim and cell, with both p-values and the seeds that would tell."""
    return _csv([CELL_COLUMNS, *cell_rows(verdicts)])


def _csv(lines: Iterable[Sequence[Any]]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([csv_cell(value) for value in line] for line in lines)
    return out.getvalue()


HOW = (
    "Differences are paired by seed and tested by Student's t on the metric's scale; intervals are 95 %, a factor `x` "
    "is a ratio. A cell holds or fails after Holm's correction over the cells of its claim; a claim about all cells "
    "needs every cell to show it, each without a correction. Where a claim names a margin or a limit, p is against "
    "that, and the difference is shown as it is. Seeds that would tell: for 80 % power, if difference and spread stay "
    "as they are."
)


def to_markdown(verdicts: Sequence[Verdict], results: Results) -> str:
    """Write the verdicts as a page, each with its cells."""
    lines = [f"# Verdicts on the paper's claims, run {results.identity}", "", f"{results.version}.", "", HOW, ""]
    for verdict in verdicts:
        claim = verdict.claim
        lines += [f"## {claim.id}: {verdict.conclusion}", "", f"{claim.text} ({claim.source})", ""]
        lines += [f"{summary(verdict)}."]
        lines += [f"- {markdown(str(decision))}" for decision in verdict.deciding]
        lines += ["", f"What would change it: {verdict.would_change}."]
        lines += [f"To run: {verdict.advice}"] if verdict.advice else []
        lines += [""]
    return "\n".join(lines)


def summary(verdict: Verdict) -> str:
    """Say in how many cells a claim has to hold, what the cells say, and their average."""
    counted = ", ".join(f"{verdict.count(name)} {name}" for name in OUTCOMES if verdict.count(name))
    return f"Needed in {verdict.needed} of {len(verdict.decisions)} cells; {counted}{_together(verdict)}"


def _together(verdict: Verdict) -> str:
    alone = sum(decision.shown_alone for decision in verdict.decisions)
    shown = f", {alone} show it without the correction" if verdict.everywhere and len(verdict.decisions) > 1 else ""
    if verdict.bounds is None:
        return shown
    return f"{shown}; cells average {number_text(verdict.value, verdict.bounds, verdict.is_ratio)}"
