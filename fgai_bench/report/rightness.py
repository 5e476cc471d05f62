"""Is a stabler attention also more right? One sentence for each defense whose attention moves less than vanilla's.

Two comparisons, each paired by seed. The first asks whether the attention ranks edges better than the vanilla model's
does. But the two models differ, and so do the true effects of edges in them: where effects follow the degrees more
closely, any ranking that knows the degrees does better. So the second asks the same of what the attention has beyond a
uniform attention (``1 / d``) on the same model, which no training enters.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from fgai_bench.report.explanations import CORRECTNESS, STABILITY, Explained, against, explained
from fgai_bench.statistics.intervals import Comparison
from fgai_bench.statistics.labels import title
from fgai_bench.statistics.results import Results

SUBJECT = "attention-last"  # what the paper reads
REFERENCE = "vanilla"
NULL = "uniform"


@dataclass(frozen=True)
class Rightness:
    """The attention of a defense held against that of the vanilla model on one graph.

    Attributes:
        origin: the suite, and whether the settings of both were searched for.
        kept, kept_by_vanilla: shares of the top edges that stay under the attack.
        more_right: correctness minus vanilla's.
        beyond_null: the same of what each has beyond a uniform attention; without differences where none was asked.
    """

    origin: str
    dataset: str
    model: str
    defense: str
    attack: str
    measure: str
    kept: float
    kept_by_vanilla: float
    more_right: Comparison
    beyond_null: Comparison

    @property
    def sentence(self) -> str:
        """Say what stays, whether it is also more right, and whether a uniform attention would be as well."""
        words = {
            1: "it is more right than vanilla's",
            -1: "it is less right than vanilla's",
            0: "whether it is more right than vanilla's the seeds do not tell",
        }[_side(self.more_right)]
        text = (
            f"{title(self.dataset)}, {title(self.model)}, {self.origin}: of the top edges of {title(self.defense)}'s "
            f"last attention {self.kept:.2f} stay under {self.attack}, of vanilla's {self.kept_by_vanilla:.2f}; "
            f"{words}, {_interval(self.more_right)} in {CORRECTNESS[self.measure]} on the clean graph"
        )
        if self.beyond_null.bounds is None:
            return f"{text}."
        rest = {1: "", 0: "", -1: ": it adds less to that than vanilla's does"}[_side(self.beyond_null)]
        if _side(self.more_right) > 0 and _side(self.beyond_null) == 0:
            rest = ": a uniform attention gains as much"
        return f"{text}, and {_interval(self.beyond_null)} beyond a uniform attention on the same models{rest}."


def rightness(results: Results) -> list[Rightness]:
    """Return the comparison for every graph, model and defense whose attention is stabler than vanilla's."""
    compared = [_rightness(results, group, defense) for group in explained(results) for defense in group.defenses]
    return [each for each in compared if each is not None]


def as_csv(compared: Iterable[Rightness]) -> str:
    """Return the comparisons as a table: one row for each, differences with their 95 % intervals."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    names = ("origin", "dataset", "model", "defense", "attack", "measure", "kept", "kept_by_vanilla")
    numbers = ("more_right", "beyond_null")
    writer.writerow([*names, *(f"{name}{end}" for name in numbers for end in ("", "_low", "_high"))])
    for one in compared:
        row = [getattr(one, name) for name in names]
        for difference in (one.more_right, one.beyond_null):
            row += ["", "", ""] if difference.bounds is None else [difference.difference, *difference.bounds]
        writer.writerow([f"{value:.7g}" if isinstance(value, float) else value for value in row])
    return file.getvalue()


def _rightness(results: Results, group: Explained, defense: str) -> Rightness | None:
    """Return the comparison; None for an attention that is not stabler than vanilla's, which vanilla's own is not."""
    kept, kept_by_vanilla = (group.cell(results, name, SUBJECT, STABILITY) for name in (defense, REFERENCE))
    mine, vanilla = (group.cell(results, name, SUBJECT, group.measure) for name in (defense, REFERENCE))
    if _side(against(kept, kept_by_vanilla)) <= 0 or against(mine, vanilla).bounds is None:
        return None
    own, theirs = (group.cell(results, name, NULL, group.measure) for name in (defense, REFERENCE))
    beyond = Comparison.of(_minus(mine.values, own.values), _minus(vanilla.values, theirs.values), "identity")
    names = (group.origin, group.dataset, group.model, defense, group.attack, group.measure)
    return Rightness(*names, kept.mean, kept_by_vanilla.mean, against(mine, vanilla), beyond)


def _minus(left: Mapping[int, float], right: Mapping[int, float]) -> dict[int, float]:
    return {seed: left[seed] - right[seed] for seed in left.keys() & right.keys()}


def _side(compared: Comparison) -> int:
    """Return 1 or -1 where the interval lies above or below zero, else 0."""
    bounds = compared.bounds
    return 0 if bounds is None else (bounds[0] > 0) - (bounds[1] < 0)


def _interval(compared: Comparison) -> str:
    low, high = compared.bounds or (float("nan"), float("nan"))
    return f"{compared.difference:+.3f} [{low:+.3f}, {high:+.3f}]".replace("0.", ".")
