"""The outcome of one search: all its trials, which of them keep the clean score, and the choice."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from fgai_bench.records.canonical import sha256
from fgai_bench.suites.schema import TunedSetting
from fgai_bench.tuning.cells import SearchCell

TOLERANCE = 0.01  # of the vanilla model's clean validation score, which a chosen setting may lose
SCORES = ("validation_clean", "validation_attacked")


@dataclass(frozen=True)
class Tried:
    """One trial: its settings, and its scores by split seed; trial 0 has the suite's own settings.

    ``reason`` says why a seed has no scores. ``final`` has the scores under the standard attack, by split seed of the
    final; it is empty for what did not reach the final.
    """

    number: int
    values: Mapping[str, Any]
    by_seed: Mapping[int, Mapping[str, float]]
    reason: str = ""
    seconds: float = 0.0
    final: Mapping[int, Mapping[str, float]] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Tell whether every split seed has finite scores."""
        measured = (*self.by_seed.values(), *self.final.values())
        return not self.reason and all(math.isfinite(value) for scores in measured for value in scores.values())

    def mean(self, name: str) -> float:
        """Return the mean of a score over the split seeds; NaN where a seed lacks it."""
        values = [scores.get(name, math.nan) for scores in self.by_seed.values()]
        return sum(values) / len(values) if values else math.nan

    @property
    def clean(self) -> float:
        return self.mean("validation_clean")

    @property
    def attacked(self) -> float:
        return self.mean("validation_attacked")


@dataclass(frozen=True)
class SearchOutcome:
    """All trials of one cell, and the vanilla model's clean validation score by split seed."""

    cell: SearchCell
    tried: Sequence[Tried]
    references: Mapping[int, float]

    def reference(self, tried: Tried) -> float:
        """Return the vanilla model's clean validation score on the splits of a trial, averaged."""
        known = [self.references[seed] for seed in tried.by_seed if seed in self.references]
        return sum(known) / len(known) if known else -math.inf

    def feasible(self, tried: Tried) -> bool:
        """Tell whether a trial keeps the clean score within the tolerance of the vanilla model's."""
        return tried.ok and self.violation(tried) <= 0

    def violation(self, tried: Tried) -> float:
        """Return by how much the clean score falls short of what is allowed; 0 or less is allowed."""
        return self.reference(tried) - TOLERANCE - tried.clean

    def value(self, tried: Tried) -> float | None:
        """Return what the search maximises: the attacked score, or minus the violation of the constraint.

        So every trial that keeps the clean score is above every trial that does not; None for a trial that failed.
        """
        if not tried.ok:
            return None
        return tried.attacked if self.feasible(tried) else -self.violation(tried)

    def best(self, count: int) -> list[Tried]:
        """Return the trials of the highest values, of equals the first ones; trials that failed are none of them."""
        scored = [tried for tried in self.tried if tried.ok]
        return sorted(scored, key=lambda tried: (-(self.value(tried) or 0.0), tried.number))[:count]

    @cached_property
    def finalists(self) -> list[Tried]:
        """Return the trials that the choice is made among, with the scores of the final alone; all without a final."""
        return [replace(tried, by_seed=tried.final) for tried in self.tried if tried.final] or list(self.tried)

    @cached_property
    def choice(self) -> Tried | None:
        return next(iter(replace(self, tried=self.finalists).best(1)), None)

    @property
    def evidence(self) -> str:
        """Return the hash of all trials with their settings and scores."""
        return sha256([[t.number, dict(t.values), {**t.by_seed, **t.final}, t.reason] for t in self.tried])

    @property
    def chosen(self) -> TunedSetting | None:
        """Return the choice as a setting of a suite; None if all trials failed."""
        if self.choice is None:
            return None
        return self.cell.setting(
            self.choice.number,
            self.choice.values,
            feasible=self.feasible(self.choice),
            space=self.cell.space_hash,
            evidence=self.evidence,
        )
