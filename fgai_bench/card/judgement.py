"""Judge what was measured: the numbers of a card with their intervals, the verdicts, and the alarms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from fgai_bench.attacks.auto_threat import ChosenThreat
from fgai_bench.attacks.catalogue import scenario_of
from fgai_bench.card.edge_effect import EdgeEffect
from fgai_bench.card.evaluation import AttackOutcome, Evaluation
from fgai_bench.statistics.intervals import mean_interval, share_interval

if TYPE_CHECKING:
    import pandas as pd

LOSS_THAT_STANDS = 0.05  # of the test nodes: predictions stand if no more than that is lost, interval included
UNIFORM_ENTROPY = 0.98  # of the largest entropy: such an attention says next to nothing about neighbours
FEW_TEST_NODES = 30  # test nodes below which intervals say little
CONTROL_MARGIN = 0.005  # of the test nodes: what a control may take beyond an attack without an alarm


@dataclass(frozen=True)
class CardRow:
    """One number of a card.

    Attributes:
        part: ``prediction`` or ``explanation``.
        quantity: what was measured; attack: under which attack, ``clean`` for none.
        value: its mean over attack seeds and nodes; low, high: its 95 % interval over both.
        null: what knowing nothing gives.
        seeds, nodes: how many stand behind it.
    """

    part: str
    quantity: str
    attack: str
    value: float
    low: float
    high: float
    null: float
    seeds: int
    nodes: int


@dataclass(frozen=True)
class Judgement:
    """What the measurements of one network on one graph say.

    Attributes:
        title: what was evaluated, in words.
        facts: sizes of the graph and of the network, by name.
        measured: everything that was measured.
        chosen: the attacker's budget.
        notes: what was decided on the way, one sentence each.
    """

    title: str
    facts: dict[str, int]
    measured: Evaluation
    chosen: ChosenThreat
    notes: tuple[str, ...] = field(default=())

    @cached_property
    def rows(self) -> list[CardRow]:
        """Return all numbers: predictions first, then the explanation."""
        prediction = [self._score_row("clean", [self.measured.right])]
        prediction += [self._score_row(o.name, list(o.right)) for o in self.measured.outcomes.values()]
        return [*prediction, *self._stability_rows(), *self._explanation_rows()]

    @property
    def frame(self) -> pd.DataFrame:
        """Return all numbers as a table, one row each."""
        import pandas as pd

        return pd.DataFrame([asdict(row) for row in self.rows])

    def row(self, quantity: str, attack: str = "clean") -> CardRow | None:
        """Return one number, or None where it was not measured."""
        return next((row for row in self.rows if (row.quantity, row.attack) == (quantity, attack)), None)

    @property
    def worst(self) -> AttackOutcome | None:
        """Return the attack that leaves the least; None where there was none."""
        return min(self.measured.outcomes.values(), key=lambda outcome: outcome.right.mean(), default=None)

    @property
    def lowest_score(self) -> float | None:
        """Return the lowest score that an attack of the floor's threat model left; None where there was none."""
        scores = [
            float(outcome.right.mean(1).min())
            for outcome in self.measured.outcomes.values()
            if scenario_of(outcome.name) == self.chosen.threat.scenario
        ]
        return min(scores, default=None)

    @property
    def prediction(self) -> str:
        """Return the verdict on predictions: ``stand``, ``weaken``, ``fall``, or ``no better than a guess``."""
        clean, worst = self.row(self.measured.score), self.worst
        assert clean is not None
        if clean.low <= self.measured.guess:
            return "no better than a guess"
        if worst is None:
            return "not attacked"
        attacked = self.row(self.measured.score, worst.name)
        assert attacked is not None
        if attacked.high < self.measured.guess:
            return "fall"
        lost = mean_interval([self.measured.right.astype(float) - row for row in worst.right.astype(float)])
        return "stand" if lost[2] <= LOSS_THAT_STANDS else "weaken"

    @property
    def explanation(self) -> str:
        """Return the verdict on attention: ``none``, ``unproven``, ``unstable`` or ``stands``.

        ``unproven``: it does not rank edges by their effect better than rankings that know nothing; ``unstable``: it
        does, but under attack it changes at least as much as a uniform attention; ``stands``: neither.
        """
        if self.measured.entropy is None:
            return "none"
        if not self._beats_nulls():
            return "unproven"
        change = [row for row in self.rows if row.quantity == "attention_change"]
        return "unstable" if any(row.high >= row.null for row in change) else "stands"

    @property
    def all_notes(self) -> list[str]:
        """Return what was decided on the way, and how much of the graph each attack reaches."""
        known = [(o.name, o.stability) for o in self.measured.outcomes.values() if o.stability]
        reach = [f"{name} reaches {np.mean(stability.reached):.0%} of the nodes" for name, stability in known]
        return [*self.notes, *reach]

    @property
    def alarms(self) -> list[str]:
        """Return every reason to distrust the card or the network, one sentence each."""
        return [*self.chosen.alarms, *self._prediction_alarms(), *self._explanation_alarms()]

    def _score_row(self, attack: str, draws: Sequence[np.ndarray]) -> CardRow:
        interval, about = share_interval(draws), (self.measured.guess, len(draws), draws[0].size)
        return CardRow("prediction", self.measured.score, attack, *interval, *about)

    def _stability_rows(self) -> list[CardRow]:
        known = [(o.name, o.stability) for o in self.measured.outcomes.values() if o.stability and o.stability.overlap]
        change = [
            _mean("attention_change", name, stability.divergence, _mean_of(stability.null), (0.0, float(np.log(2))))
            for name, stability in known
        ]
        kept = [_mean("attention_top_half_kept", name, stability.overlap, 1.0, (0.0, 1.0)) for name, stability in known]
        return [*change, *kept]

    def _explanation_rows(self) -> list[CardRow]:
        effect = self.measured.effect
        if not isinstance(effect, EdgeEffect):
            return []
        null = float(max(effect.random.mean(), effect.degree.mean()))
        return [_mean("edge_effect_correlation", "clean", [effect.attention], null, (-1.0, 1.0))]

    def _beats_nulls(self) -> bool:
        """Tell whether attention ranks edges by their effect better than both nulls, beyond the spread of the nodes."""
        effect = self.measured.effect
        if not isinstance(effect, EdgeEffect):
            return False
        return all(mean_interval([effect.attention - null])[1] > 0 for null in (effect.random, effect.degree))

    def _prediction_alarms(self) -> list[str]:
        alarms, test = [], self.facts["test nodes"]
        if test < FEW_TEST_NODES:
            alarms.append(f"only {test} test nodes: every number here is rough")
        if self.prediction == "no better than a guess":
            alarms.append(
                f"on the clean graph the network is no better than a guess, which scores {self.measured.guess:.3f}"
            )
        for outcome in self.measured.outcomes.values():
            alarms += [f"{outcome.name}: {flag}" for flag in outcome.flags]
        floor = self.measured.floor
        if not isinstance(floor, str) and self.lowest_score is not None and self.lowest_score < floor.score:
            alarms.append(
                f"an attack leaves {self.lowest_score:.4f}, below the floor {floor.score:.4f}: one of them is wrong"
            )
        control, worst = self.measured.control, self.worst
        if control is not None and worst is not None:
            further = float(worst.right.mean(1).min() - control.right.mean(1).min())
            if further > CONTROL_MARGIN:
                alarms.append(
                    f"random features at random places do more harm than {worst.name}: the search is too weak"
                )
        return alarms

    def _explanation_alarms(self) -> list[str]:
        words = {
            "unproven": "the attention does not rank edges by their effect better than rankings that know nothing",
            "unstable": "under attack the attention changes as much as a uniform attention, which knows nothing",
        }
        alarms = [words[self.explanation]] if self.explanation in words else []
        if self.measured.entropy is not None and self.measured.entropy >= UNIFORM_ENTROPY:
            share = f"{self.measured.entropy:.3f} of the largest entropy"
            alarms.append(f"the attention is nearly uniform ({share}): it hardly prefers one neighbour to another")
        if self.measured.entropy is not None and isinstance(self.measured.effect, str):
            alarms.append(f"the effect of edges was not measured: {self.measured.effect}")
        return alarms


def _mean_of(draws: Sequence[np.ndarray]) -> float:
    return float(np.mean([values.mean() for values in draws]))


def _mean(quantity: str, attack: str, draws: Sequence[np.ndarray], null: float, bounds: tuple[float, float]) -> CardRow:
    value, low, high = mean_interval(draws)
    nodes = min(values.size for values in draws)
    return CardRow(
        "explanation", quantity, attack, value, max(low, bounds[0]), min(high, bounds[1]), null, len(draws), nodes
    )
