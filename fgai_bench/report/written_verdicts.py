"""Verdicts on claims as files: one line per claim, one line per cell, and a page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fgai_bench.leaderboard.csv_cells import as_csv
from fgai_bench.records.escaping import markdown
from fgai_bench.report.verdicts import OUTCOMES, PUBLISHED, Claim, Decision, Verdict, number_text
from fgai_bench.statistics.intervals import p_value, sign_flip_p
from fgai_bench.statistics.results import Results

COLUMNS = (
    *("id", "condition", "claim", "verdict", *OUTCOMES, "shown_alone", "mean", "low", "high", "is_ratio"),
    *("deciding", "would_change", "advice"),
)
CELL_COLUMNS = (
    *("id", "condition", "dataset", "model", "outcome", "shown_alone", "value", "low", "high", "is_ratio", "scale"),
    *("p", "p_sign_flips", "seeds", "seeds_that_would_tell", "reason"),
)


def rows(verdicts: Sequence[Verdict]) -> list[list[Any]]:
    """Return verdicts as rows under ``COLUMNS``."""
    return [
        [
            *(verdict.claim.id, verdict.claim.condition, verdict.claim.text, verdict.conclusion),
            *(verdict.count(name) for name in OUTCOMES),
            sum(decision.shown_alone for decision in verdict.decisions),
            *(verdict.value, *(verdict.bounds or ("", "")), int(verdict.is_ratio)),
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
        *(claim.id, claim.condition, decision.dataset, decision.model, decision.outcome, int(decision.shown_alone)),
        *(decision.value, *(decision.bounds or ("", "")), int(decision.is_ratio)),
        evidence.comparison.scale if evidence.comparison else "",
        *((p_value(toward), sign_flip_p(toward)) if toward else ("", "")),
        *(decision.seeds, "" if decision.enough is None else decision.enough, evidence.missing or evidence.why),
    ]


def as_files(verdicts: Sequence[Verdict], results: Results) -> dict[str, str]:
    """Return the text of each file that verdicts are written to, by name."""
    texts = to_csv(verdicts), to_markdown(verdicts, results), cells_to_csv(verdicts)
    return dict(zip(("claims.csv", "claims.md", "claims_cells.csv"), texts, strict=True))


def to_csv(verdicts: Sequence[Verdict]) -> str:
    """Write one line per claim."""
    return as_csv([COLUMNS, *rows(verdicts)])


def cells_to_csv(verdicts: Sequence[Verdict]) -> str:
    """Write one line per claim and cell, with both p-values and the seeds that would tell."""
    return as_csv([CELL_COLUMNS, *cell_rows(verdicts)])


HOW = (
    "Differences are paired by seed and tested by Student's t on the metric's scale; intervals are 95 %, a factor `x` "
    "is a ratio. A cell holds or fails after Holm's correction over the cells of its claim; a claim about all cells "
    "needs every cell to show it, each without a correction. Where a claim names a margin or a limit, p is against "
    "that, and the difference is shown as it is. Seeds that would tell: for 80 % power, if difference and spread stay "
    "as they are."
)


OTHERWISE = (
    "The same sentences under other conditions, in the cells that were run there: *worst case*, the standard attack in "
    "place of the published one; *tuned*, with settings that an equal search has chosen. In brackets: the cells that "
    "show a claim, of those that were looked at."
)


def to_markdown(verdicts: Sequence[Verdict], results: Results) -> str:
    """Write the verdicts as a page: a table of conclusions under all conditions, then the paper's own with cells."""
    lines = [f"# Verdicts on the paper's claims, run {results.identity}", "", f"{results.version}.", "", HOW, ""]
    lines += _conditions(verdicts)
    for verdict in verdicts:
        if verdict.claim.condition != PUBLISHED:
            continue
        claim = verdict.claim
        lines += [f"## {claim.id}: {verdict.conclusion}", "", f"{claim.text} ({claim.source})", ""]
        lines += [f"{summary(verdict)}."]
        lines += [f"- {markdown(str(decision))}" for decision in verdict.deciding]
        lines += ["", f"What would change it: {verdict.would_change}."]
        lines += [f"To run: {verdict.advice}"] if verdict.advice else []
        lines += [""]
    return "\n".join(lines)


def _conditions(verdicts: Sequence[Verdict]) -> list[str]:
    """Return the lines of a table of conclusions, one column for each condition; none where there is but one."""
    by_claim: dict[str, dict[str, Verdict]] = {}
    for verdict in verdicts:
        by_claim.setdefault(verdict.claim.id, {})[verdict.claim.condition] = verdict
    names = list(dict.fromkeys(verdict.claim.condition for verdict in verdicts))
    if len(names) < 2:
        return []
    lines = [OTHERWISE, "", f"| claim | {' | '.join(names)} |", "|---" * (1 + len(names)) + "|"]
    lines += [
        f"| {id} | {' | '.join(_in_short(under.get(name)) for name in names)} |" for id, under in by_claim.items()
    ]
    return [*lines, ""]


def _in_short(verdict: Verdict | None) -> str:
    return f"{verdict.conclusion} ({len(verdict.showing)}/{len(verdict.decisions)})" if verdict else "--"


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
