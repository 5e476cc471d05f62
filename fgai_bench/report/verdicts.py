"""Verdicts on claims: what the cells of a claim say together, in words and as files.

:mod:`fgai_bench.report.claims` judges the cells. The files are ``claims.csv``, ``claims_cells.csv`` and ``claims.md``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from fgai_bench.report.tables.markdown import pipe_table
from fgai_bench.statistics.intervals import Comparison, mean, p_value
from fgai_bench.statistics.labels import title
from fgai_bench.statistics.numbers import as_csv, difference_text
from fgai_bench.statistics.results import Results
from fgai_bench.suites.schema import RELEASED

ClaimKind = Literal["greater", "close", "ratio", "best", "only", "positive", "status"]
CellOutcome = Literal["holds", "fails", "open", "missing"]
Conclusion = Literal["supported", "refuted", "undecided", "not tested"]
PUBLISHED_CONDITION = "published"  # the paper's own attack and settings
OUTCOMES: tuple[CellOutcome, ...] = ("holds", "fails", "open", "missing")
LEAST_SEEDS = 5  # below, a cell is not decided
PAPERS_DATASETS = ("amazon-photo", "amazon-cs", "coauthor-cs", "coauthor-physics")
PAPERS_MODELS = ("gat", "gatv2", "gt")
COMMAND = "fgai-bench run"
NOTHING_COMPARED = Comparison(())


@dataclass(frozen=True)
class ClaimSide:
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
    kind: ClaimKind
    left: ClaimSide
    right: ClaimSide | None = None
    rivals: tuple[str, ...] = ()  # the rows that it is held against, where there is no right side
    where: tuple[tuple[ClaimSide, ClaimSide], ...] = ()  # cells count where each first side is the lower one
    task: str = "node"
    datasets: tuple[str, ...] = PAPERS_DATASETS
    models: tuple[str, ...] = PAPERS_MODELS
    margin: float = 0.0
    limit: float = 1.0
    share: float = 1.0
    better: Literal["higher", "lower"] = "higher"
    status: str = ""
    magnitude: bool = False
    sparse: str = ""  # the entry that does without the dense matrix which a status is about; it must not run either
    condition: str = PUBLISHED_CONDITION

    @property
    def places(self) -> list[tuple[str, str]]:
        """Return the cells that the claim is about."""
        return [(dataset, model) for dataset in self.datasets for model in self.models]

    @property
    def compared(self) -> str:
        """Return the rows that the claim compares, as ``FGAI with Vanilla, LN, AT``; empty where it is about one."""
        names = self.rivals or ((self.right.defense,) if self.right else ())
        others = [title(name) for name in names if name != self.left.defense]
        return f"{title(self.left.defense)} with {', '.join(others)}" if others else ""

    @property
    def threshold(self) -> str:
        """Return the field that holds a number of ours which decides the claim; empty where there is none."""
        ours = {"margin": bool(self.margin), "limit": self.kind == "ratio" and self.limit != 1, "share": self.share < 1}
        return next((name for name, is_ours in ours.items() if is_ours), "")

    def loosened(self, factor: float) -> Claim:
        """Return the claim with its threshold times a factor; of a limit what exceeds 1 is meant, a share ends at 1."""
        value = getattr(self, self.threshold)
        scaled = {"margin": value * factor, "limit": 1 + (value - 1) * factor, "share": min(1.0, value * factor)}
        return replace(self, **{self.threshold: scaled[self.threshold]})


@dataclass(frozen=True)
class Evidence:
    """What one cell measured, before it is held against the number of cells."""

    p_holds: float = 1.0  # p_holds, p_fails: one-sided p of the claim's opposite and of the claim
    p_fails: float = 1.0
    # what is shown: the two sides, or one side against zero; without differences where nothing is
    comparison: Comparison = NOTHING_COMPARED
    # differences that are positive where the claim holds; the seeds that are needed follow from them
    toward: tuple[float, ...] = ()
    missing: str = ""  # why the cell cannot be decided; empty where it can
    why: str = ""  # what there is to say in place of a number


@dataclass(frozen=True)
class Decision:
    """What one cell says."""

    dataset: str
    model: str
    outcome: CellOutcome  # after Holm's correction over the cells of the claim
    evidence: Evidence
    shown_alone: bool = False  # whether the cell shows the claim by itself, without a correction
    # how many seeds would tell, if difference and spread stay as they are; None where no number would
    enough: int | None = None

    def __str__(self) -> str:
        """Return the cell with what it says: ``Cora/GAT holds: +0.5 [+0.25, +0.75]``."""
        shown, compared = self.evidence.missing or self.evidence.why, self.evidence.comparison
        if compared.differences:
            shown = difference_text(compared.value, compared.bounds, compared.is_ratio)
        return f"{title(self.dataset)}/{title(self.model)} {self.outcome}: {shown}"


@dataclass(frozen=True)
class Verdict:
    """A claim with what its cells say together."""

    claim: Claim
    decisions: tuple[Decision, ...]
    published: tuple[bool, ...] = ()  # what the paper's own means say in each cell that its tables have
    means: tuple[bool, ...] = ()  # what our means say in each cell, likewise without a test
    half_and_twice: tuple[Verdict, ...] = ()  # on the claim with half and with twice its threshold, if it has one

    @property
    def paper_fails(self) -> bool:
        """Tell whether the paper's own means do not show its claim, by the thresholds that a run is held to."""
        return sum(self.published) < math.ceil(self.claim.share * len(self.published))

    @property
    def papers_own(self) -> str:
        """Return what the paper's own tables say: ``fails (9/12)``."""
        if not self.published:
            return "no table"
        return f"{'fails' if self.paper_fails else 'holds'} ({sum(self.published)}/{len(self.published)})"

    def count(self, *outcomes: CellOutcome) -> int:
        """Return how many cells say one of these."""
        return len(self.cells(*outcomes))

    def cells(self, *outcomes: CellOutcome) -> list[Decision]:
        """Return the cells that say one of these."""
        return [decision for decision in self.decisions if decision.outcome in outcomes]

    @property
    def needed(self) -> int:
        """Return in how many cells the claim must hold."""
        return math.ceil(self.claim.share * len(self.decisions))

    @property
    def showing(self) -> list[Decision]:
        """Return the cells that count for the claim: without a correction where all of them have to."""
        everywhere = self.needed == len(self.decisions)
        return [d for d in self.decisions if (d.shown_alone if everywhere else d.outcome == "holds")]

    @property
    def conclusion(self) -> Conclusion:
        """Return what the cells say together."""
        if not self.decisions:
            return "not tested"
        if len(self.showing) >= self.needed:
            return "supported"
        if self.count("holds", "open", "missing") < self.needed:
            return "refuted"
        return "not tested" if len(self.showing) + self.count("missing") >= self.needed else "undecided"

    @property
    def comparisons(self) -> list[Comparison]:
        """Return what the measured cells compared."""
        return [d.evidence.comparison for d in self.decisions if d.evidence.comparison.differences]

    @property
    def is_ratio(self) -> bool:
        """Tell whether the cells are shown as ratios."""
        return any(compared.is_ratio for compared in self.comparisons)

    @property
    def bounds(self) -> tuple[float, float] | None:
        """Return the lowest and the highest bound of all measured cells."""
        known = [compared.bounds for compared in self.comparisons if compared.bounds]
        return (min(low for low, _ in known), max(high for _, high in known)) if known else None

    @property
    def value(self) -> float:
        """Return the mean over the measured cells, the geometric mean of ratios."""
        values = [compared.value for compared in self.comparisons]
        return math.exp(mean([math.log(value) for value in values])) if self.is_ratio else mean(values)

    @property
    def advice(self) -> str:
        """Say what to run, where cells are missing."""
        if not self.decisions:
            return "its condition holds in no cell"
        if not self.count("missing"):
            return ""
        reasons = dict.fromkeys(decision.evidence.missing for decision in self.cells("missing"))
        few = f" --seeds {LEAST_SEEDS}" if any(reason.startswith("only ") for reason in reasons) else ""
        released = " --settings released" if self.claim.left.defense.endswith(RELEASED) else ""
        text = "; ".join(reasons)
        return text if COMMAND in text else f"{text}: {COMMAND} --suite {self.claim.suite}{released}{few}"

    @property
    def shown(self) -> str:
        """Return the average of the cells with the bounds of all of them; empty where nothing was measured."""
        return difference_text(self.value, self.bounds, self.is_ratio) if self.bounds else ""

    @property
    def counts(self) -> str:
        """Return in how many cells the claim has to hold, and how many cells say what."""
        counts = ", ".join(f"{self.count(name)} {name}" for name in OUTCOMES if self.count(name)) or "none"
        return f"needed in {self.needed} of {len(self.decisions)} cells, shown in {len(self.showing)}: {counts}"


COLUMNS = (
    *("id", "condition", "claim", "compared", "paper", "paper_shows", "paper_cells", "verdict", *OUTCOMES),
    *("shown_alone", "means_show", "means_cells", "needed", "mean", "low", "high", "is_ratio"),
    *("threshold", "half", "twice", "advice"),
)
CELL_COLUMNS = (
    *("id", "condition", "dataset", "model", "outcome", "shown_alone", "value", "low", "high", "is_ratio", "scale"),
    *("p", "seeds", "seeds_that_would_tell", "reason"),
)
METHOD = (
    "Differences are paired by seed and shown as medians with the sign test's 95 % interval; a factor `x` is a ratio. "
    "A cell holds or fails if that interval excludes zero and Student's t test agrees, after Holm's correction over "
    "the cells of its claim. A claim about all cells needs every cell to show it, each without a correction. In "
    "brackets: the cells that show a claim, of those that were looked at. A claim has the paper's rivals and no "
    "others. *Paper's own* is what its published means say under the same thresholds, without a test; `claims.csv` has "
    "the same count of our means, and `claims_cells.csv` every cell."
)


def as_files(verdicts: Sequence[Verdict], results: Results) -> dict[str, str]:
    """Return the text of each file that verdicts are written to, by name."""
    cells = [_cell_line(verdict.claim, decision) for verdict in verdicts for decision in verdict.decisions]
    return {
        "claims.csv": as_csv([COLUMNS, *map(_claim_line, verdicts)]),
        "claims.md": to_markdown(verdicts, results),
        "claims_cells.csv": as_csv([CELL_COLUMNS, *cells]),
    }


def _claim_line(verdict: Verdict) -> list[Any]:
    return [
        *(verdict.claim.id, verdict.claim.condition, verdict.claim.text, verdict.claim.compared),
        *(verdict.papers_own.split(" (")[0], sum(verdict.published), len(verdict.published), verdict.conclusion),
        *(verdict.count(name) for name in OUTCOMES),
        *(sum(decision.shown_alone for decision in verdict.decisions), sum(verdict.means), len(verdict.means)),
        *(verdict.needed, verdict.value, *(verdict.bounds or ("", "")), int(verdict.is_ratio)),
        *(verdict.claim.threshold, *(tuple(other.conclusion for other in verdict.half_and_twice) or ("", ""))),
        verdict.advice,
    ]


def _cell_line(claim: Claim, decision: Decision) -> list[Any]:
    evidence, toward, compared = decision.evidence, decision.evidence.toward, decision.evidence.comparison
    return [
        *(claim.id, claim.condition, decision.dataset, decision.model, decision.outcome, int(decision.shown_alone)),
        *(compared.value, *(compared.bounds or ("", "")), int(compared.is_ratio)),
        compared.scale if compared.differences else "",
        p_value(toward) if toward else "",
        *(len(compared.differences), decision.enough, evidence.missing or evidence.why),
    ]


def to_markdown(verdicts: Sequence[Verdict], results: Results) -> str:
    """Write the verdicts as a page: which claims the paper's own tables fail, conclusions, thresholds, the claims.

    A condition under which nothing was tested is left out.
    """
    tested = {verdict.claim.condition for verdict in verdicts if verdict.conclusion != "not tested"}
    verdicts = [verdict for verdict in verdicts if verdict.claim.condition in tested] or verdicts
    conditions = list(dict.fromkeys(verdict.claim.condition for verdict in verdicts))
    concluded: dict[str, dict[str, str]] = {}
    for verdict in verdicts:
        text = f"{verdict.conclusion} ({len(verdict.showing)}/{len(verdict.decisions)}) {verdict.shown}".rstrip()
        concluded.setdefault(verdict.claim.id, {})[verdict.claim.condition] = text
    first = {verdict.claim.id: verdict for verdict in reversed(verdicts)}
    rows = [
        [id, first[id].papers_own, *(text.get(name, "--") for name in conditions)] for id, text in concluded.items()
    ]
    failing = [f"{id} {first[id].papers_own.removeprefix('fails ')}" for id in concluded if first[id].paper_fails]
    own = f"**The paper's own tables fail {len(failing)} of its claims**: {', '.join(failing) or 'none'}."
    claims = [first[id].claim for id in concluded]
    texts = [f"- {c.id}: {c.text} ({c.source}{f'; {c.compared}' if c.compared else ''})" for c in claims]
    head = [f"# Verdicts on the paper's claims, run {results.identity}", own, f"{results.version}.", METHOD]
    table = pipe_table([["claim", "paper's own", *conditions], *rows])
    return "\n".join(["\n\n".join(head), "", *table, "", *_thresholds(verdicts), *_facts(verdicts), *texts]) + "\n"


def _facts(verdicts: Sequence[Verdict]) -> list[str]:
    """Return a line for each claim on whether something runs: what was seen."""
    told = [verdict for verdict in verdicts if verdict.claim.kind == "status"]
    lines = [f"- {v.claim.id}: {v.conclusion}; {d.evidence.why}" for v in told for d in v.decisions if d.evidence.why]
    head = "A method cannot run if neither its dense form nor a sparse one of ours does:"
    return [head, "", *lines, ""] if lines else []


def _thresholds(verdicts: Sequence[Verdict]) -> list[str]:
    """Return a line for each threshold of ours: the verdicts for half of it, itself and twice."""
    lines = []
    for verdict in (verdict for verdict in verdicts if verdict.half_and_twice):
        half, twice, name = *verdict.half_and_twice, verdict.claim.threshold
        texts = (f"{getattr(v.claim, name):g} {v.conclusion}, {v.papers_own}" for v in (half, verdict, twice))
        lines.append(f"- {verdict.claim.id}, {verdict.claim.condition}: {name} {'; '.join(texts)}")
    head = "Verdict and paper's own for half of each threshold, itself and twice; all but the 150 % of memory are ours:"
    return [head, "", *lines, ""] if lines else []
