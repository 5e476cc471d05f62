"""Judge what was measured: the numbers of a card with their intervals, the verdicts, and the alarms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from fgai_bench.attacks import ATTACKS
from fgai_bench.attacks.auto_threat import ChosenThreat
from fgai_bench.attacks.catalogue import scenario_of
from fgai_bench.card.attention_check import EdgeEffect
from fgai_bench.card.evaluation import CONTROLS, AttackOutcome, Evaluation
from fgai_bench.statistics.intervals import mean_interval, share_interval

if TYPE_CHECKING:
    import pandas as pd

LOSS_THAT_STANDS = 0.05  # of the test nodes: predictions stand if no more than that is lost, interval included
LEAST_REACH = 0.2  # of the test nodes: an attacker that reaches fewer has not shown that predictions stand
SAME_LOGIT = 1e-4  # difference of a logit between two passes that rounding explains
UNIFORM_ENTROPY = 0.98  # of the largest entropy: such an attention says next to nothing about neighbours
FEW_TEST_NODES = 30  # test nodes below which intervals say little
CONTROL_MARGIN = 0.005  # of the test nodes: what a control may take beyond an attack without an alarm


@dataclass(frozen=True)
class CardRow:
    """One number of a card."""

    part: str  # ``prediction`` or ``explanation``
    quantity: str
    attack: str  # ``clean`` for none
    value: float  # mean over attack seeds and nodes
    low: float  # of its 95 % interval over both
    high: float
    null: float  # what knowing nothing gives
    seeds: int
    nodes: int


@dataclass(frozen=True)
class Judgement:
    """What the measurements of one network on one graph say."""

    title: str  # what was evaluated, in words
    facts: dict[str, int]  # sizes of the graph and of the network, by name
    measured: Evaluation
    chosen: ChosenThreat  # the attacker's budget
    notes: tuple[str, ...] = ()  # what was decided on the way, one sentence each

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

    @cached_property
    def scores(self) -> dict[str, CardRow]:
        """Return the scores of the predictions by attack, ``clean`` first."""
        return {row.attack: row for row in self.rows if row.part == "prediction"}

    def row(self, quantity: str, attack: str = "clean") -> CardRow | None:
        """Return one number, or None where it was not measured."""
        return next((row for row in self.rows if (row.quantity, row.attack) == (quantity, attack)), None)

    @cached_property
    def counted(self) -> dict[str, AttackOutcome]:
        """Return the attacks of the attacker's scenario, by name; others are outside what he may do."""
        outcomes, scenario = self.measured.outcomes, self.chosen.threat.scenario
        return {name: outcome for name, outcome in outcomes.items() if scenario_of(name, scenario) == scenario}

    @property
    def worst(self) -> AttackOutcome | None:
        """Return the attack of the attacker's scenario that leaves the least; None where there was none."""
        outcomes = reversed(self.counted.values())  # of equal ones the last, a search and not the control
        return min(outcomes, key=lambda outcome: outcome.right.mean(), default=None)

    @property
    def lowest_score(self) -> float | None:
        """Return the lowest score that an attack of the floor's threat model left; None where there was none."""
        return min((float(outcome.right.mean(1).min()) for outcome in self.counted.values()), default=None)

    @property
    def reach(self) -> float:
        """Return the share of the test nodes that the strongest attack reaches."""
        return float(self.worst.reached.mean()) if self.worst else 0.0

    @property
    def lost_among_reached(self) -> float | None:
        """Return the share of the reached test nodes that the strongest attack takes; None where that says nothing.

        An attack can also help a few nodes; a share below 0 is none.
        """
        if self.worst is None or not self.worst.reached.any() or self.measured.score != "f1":
            return None
        return max(0.0, float((self.measured.right - self.worst.right)[self.worst.reached].mean()))

    @property
    def control_beats(self) -> str:
        """Return a sentence if the random control does more harm than every search of its scenario, else nothing."""
        control = CONTROLS.get(self.chosen.threat.scenario, "")
        left = {name: float(outcome.right.mean(1).min()) for name, outcome in self.counted.items()}
        searched = [name for name in left if name != control]
        best = min(searched, key=left.__getitem__, default=None)
        if best is None or control not in left or left[best] - left[control] <= CONTROL_MARGIN:
            return ""
        guesses = "random edges" if control == "random-edges" else "random features at random places"
        return f"{guesses} do more harm than {best}: the search is too weak"

    @property
    def too_weak(self) -> list[str]:
        """Return why the attacks are no test of whether predictions stand; nothing where a proof makes it needless."""
        floor, threat = self.measured.floor, self.chosen.threat
        if not isinstance(floor, str) and not floor.lost and any(threat.limits().values()):
            return []
        searched = any("fixed-search" in ATTACKS.entry(name).tags for name in self.counted)
        reasons = [] if searched else ["no long search ran, such as worst"]
        if self.reach < LEAST_REACH:
            reasons.append(f"the attacker reaches less than {LEAST_REACH:.0%} of the test nodes")
        return [*reasons, *filter(None, [self.control_beats]), *self.chosen.narrow]

    @property
    def prediction(self) -> str:
        """Return the verdict: ``stand``, ``weaken``, ``fall``, ``untested`` or ``no better than a guess``.

        ``untested``: little is lost, but the attacks are too weak to say that predictions stand (:attr:`too_weak`).
        """
        worst = self.worst
        if self.scores["clean"].low <= self.measured.guess:
            return "no better than a guess"
        if worst is None:
            return "not attacked"
        if self.scores[worst.name].high < self.measured.guess:
            return "fall"
        lost = mean_interval([self.measured.right.astype(float) - row for row in worst.right.astype(float)])
        if lost[2] > LOSS_THAT_STANDS:
            return "weaken"
        return "untested" if self.too_weak else "stand"

    @property
    def explanation(self) -> str:
        """Return the verdict on attention: ``none``, ``unproven``, ``unstable`` or ``stands``.

        ``unproven``: it does not rank edges by their effect better than rankings that know nothing; ``unstable``: it
        does, but under attack it changes at least as much as a uniform attention; ``stands``: neither.
        """
        if self.measured.entropy is None:
            return "none"
        if not self.beats_nulls:
            return "unproven"
        change = [row for row in self.rows if row.quantity == "attention_change" and row.attack in self.counted]
        return "unstable" if any(row.high >= row.null for row in change) else "stands"

    @property
    def all_notes(self) -> list[str]:
        """Return what was decided on the way, and how many test nodes each attack reaches."""
        shares = [f"{name} {outcome.reached.mean():.1%}" for name, outcome in self.measured.outcomes.items()]
        reach = [f"test nodes that are reached: {', '.join(shares)}"] if shares else []
        effect = self.measured.effect
        missing = [f"the effect of edges was not measured: {effect}"] if isinstance(effect, str) and effect else []
        beside = [name for name in self.measured.outcomes if name not in self.counted]
        other = [f"{name} is outside the attacker's scenario and does not count in the verdict" for name in beside]
        return [*self.notes, *reach, *other, *missing]

    @property
    def alarms(self) -> list[str]:
        """Return every reason to distrust the card or the network, one sentence each."""
        return [*self.chosen.alarms, *self._prediction_alarms(), *self._explanation_alarms()]

    def _score_row(self, attack: str, draws: Sequence[np.ndarray]) -> CardRow:
        interval, about = share_interval(draws), (self.measured.guess, len(draws), draws[0].size)
        return CardRow("prediction", self.measured.score, attack, *interval, *about)

    def _stability_rows(self) -> list[CardRow]:
        change, kept = [], []
        for name, outcome in self.measured.outcomes.items():
            if stability := outcome.stability:
                null = float(np.mean([values.mean() for values in stability.null]))
                change.append(_mean("attention_change", name, stability.divergence, null, (0.0, float(np.log(2)))))
                kept.append(_mean("attention_top_half_kept", name, stability.overlap, 1.0, (0.0, 1.0)))
        return [*change, *kept]

    def _explanation_rows(self) -> list[CardRow]:
        effect = self.measured.effect
        if not isinstance(effect, EdgeEffect):
            return []
        null = float(max(effect.random.mean(), effect.degree.mean()))
        quantity = "edge_effect_correlation" if self.measured.entropy is not None else "gradient_effect_correlation"
        return [_mean(quantity, "clean", [effect.explained], null, (-1.0, 1.0))]

    @property
    def beats_nulls(self) -> bool:
        """Tell whether the explanation ranks edges by their effect better than both nulls, beyond the nodes' spread."""
        effect = self.measured.effect
        if not isinstance(effect, EdgeEffect):
            return False
        return all(mean_interval([effect.explained - null])[1] > 0 for null in (effect.random, effect.degree))

    def _prediction_alarms(self) -> list[str]:
        alarms, test = [], self.facts["test nodes"]
        if test < FEW_TEST_NODES:
            alarms.append(f"only {test} test nodes: every number here is rough")
        if self.prediction == "no better than a guess":
            alarms.append(
                f"on the clean graph the network is no better than a guess, which scores {self.measured.guess:.3f}"
            )
        if self.measured.noise > SAME_LOGIT:
            alarms.append(
                f"two passes over the clean graph differ by up to {self.measured.noise:.2g}: a random part such as "
                "dropout is on at evaluation; use F.dropout(x, p, training=self.training)"
            )
        for outcome in self.measured.outcomes.values():
            alarms += [f"{outcome.name}: {flag}" for flag in outcome.flags]
        floor = self.measured.floor
        if not isinstance(floor, str) and self.lowest_score is not None and self.lowest_score < floor.score:
            alarms.append(
                f"an attack leaves {self.lowest_score:.4f}, below the floor {floor.score:.4f}: one of them is wrong"
            )
        return [*alarms, *filter(None, [self.control_beats])]

    def _explanation_alarms(self) -> list[str]:
        alarms = []
        if self.explanation == "unproven":
            alarms.append("the attention does not rank edges by their effect better than rankings that know nothing")
        searched = [name for name in self.counted if name not in CONTROLS.values()]
        for row in self.rows:
            if row.quantity == "attention_change" and row.attack in searched and row.high >= row.null:
                much = "more than" if row.low > row.null else "about as much as"
                numbers = f"{row.value:.3f} against {row.null:.3f}"
                alarms.append(f"under {row.attack} the attention changes {much} a uniform one ({numbers})")
        if self.measured.entropy is not None and self.measured.entropy >= UNIFORM_ENTROPY:
            share = f"{self.measured.entropy:.3f} of the largest entropy"
            alarms.append(f"the attention is nearly uniform ({share}): it hardly prefers one neighbour to another")
        return alarms


def _mean(quantity: str, attack: str, draws: Sequence[np.ndarray], null: float, bounds: tuple[float, float]) -> CardRow:
    value, low, high = mean_interval(draws)
    nodes = min(values.size for values in draws)
    return CardRow(
        "explanation", quantity, attack, value, max(low, bounds[0]), min(high, bounds[1]), null, len(draws), nodes
    )
