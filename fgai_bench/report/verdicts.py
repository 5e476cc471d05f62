"""Claims and the verdicts on them: what a claim says, what its cells say, and what they say together.

Come here for how cells make a verdict; :mod:`fgai_bench.report.claims` judges the cells.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from fgai_bench.statistics.intervals import Comparison, mean, p_value, sign_flip_p
from fgai_bench.statistics.labels import title

Kind = Literal["greater", "close", "ratio", "best", "positive", "status"]
Outcome = Literal["holds", "fails", "open", "missing"]
Conclusion = Literal["supported", "refuted", "undecided", "not tested"]
PUBLISHED = "published"  # the paper's own attack and settings
OUTCOMES: tuple[Outcome, ...] = ("holds", "fails", "open", "missing")
LEAST_SEEDS = 5  # below, no sign-flip test can even come near 0.05
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
    """One claim; fields as in ``baselines/fgai/claims.yaml``, and the condition under which it is looked at."""

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
    condition: str = PUBLISHED

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
