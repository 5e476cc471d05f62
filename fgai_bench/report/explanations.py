"""Explanations of a run: how far an attack moves each of them, and how right each was to begin with.

Come here for what the figure ``stability_correctness``, the table ``explanations`` and the page read, and for whether
a stabler attention is also more right (``rightness.csv``). Correctness is the AUROC against the edges that truly
matter where the graph knows them, else the rank correlation with the true effect of edges, both on the clean graph and
of the edges that an explanation covers. Records of the second edition have both over the whole computation graph.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fgai_bench.explainers import EXPLAINERS
from fgai_bench.metrics import METRICS
from fgai_bench.statistics.cells import Cell, cell, scale_of
from fgai_bench.statistics.intervals import Comparison, mean, paired
from fgai_bench.statistics.labels import CORRECTNESS, PAPERS_CHOICE, ordered
from fgai_bench.statistics.numbers import as_csv
from fgai_bench.statistics.results import Place, Results
from fgai_bench.suites.schema import TUNED

STABILITY_METRIC = "explainer_topk_overlap_unchanged"
MEASURES = {
    "effect_spearman": "rank corr.",
    "effect_precision": "top-k precision",
    "turned_auroc": "AUROC of turning edges",
    "fidelity_plus": "fidelity+",
    "fidelity_minus": "fidelity-",
    "characterisation": "characterisation",
    "robust_fidelity": "partly deleted",
}
"""The measures of correctness, on covered edges of the clean graph."""
NO_VOTE = "characterisation"  # which both fidelities decide, and they have a vote each
FEWEST_VOTES = 4  # that a verdict rests on
ATTACKS_BY_PRECEDENCE = ("worst", "injection", "explanation")  # the first of them that a run has


@dataclass(frozen=True)
class Explained:
    """All explainers on one graph and model under one attack, with published settings or with searched ones."""

    suite: str
    tuned: bool  # whether the settings were searched for; a defense is held against a vanilla model that was, too
    dataset: str
    model: str
    attack: str
    measure: str  # the metric of correctness
    places: Mapping[tuple[str, str], Place]  # defense and explainer to place

    @property
    def origin(self) -> str:
        """Return the suite, as ``node, tuned`` where settings were searched for."""
        return f"{self.suite},{TUNED}" if self.tuned else self.suite

    @property
    def defenses(self) -> list[str]:
        """Return the defenses, in the paper's order."""
        return ordered(label for label, _ in self.places)

    @property
    def explainers(self) -> list[str]:
        """Return the explainers that know the model, in the order of the registry, then those of others."""
        return _in_order(name for _, name in self.places if not is_null(name))

    @property
    def nulls(self) -> list[str]:
        return _in_order(name for _, name in self.places if is_null(name))

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """Return every defense with every explainer that was asked about it, nulls last."""
        names = (*self.explainers, *self.nulls)
        return [(defense, name) for defense in self.defenses for name in names if (defense, name) in self.places]

    def cell(self, results: Results, defense: str, explainer: str, metric: str) -> Cell:
        """Return one metric of one explainer on one defense over the seeds."""
        place = self.places.get((defense, explainer))
        return Cell(None, metric) if place is None else cell(results, place, metric)

    def average(self, results: Results, explainer: str, metric: str) -> float | None:
        """Return the mean over the defenses of a metric of one explainer; None where nothing was measured."""
        cells = [self.cell(results, defense, explainer, metric) for defense in self.defenses]
        known = [found.mean for found in cells if found.values]
        return sum(known) / len(known) if known else None

    def null_metric(self, explainer: str, metric: str = "") -> str:
        """Return the metric in which a null is held against an explainer: on the edges that it covers, at its nodes."""
        tags = EXPLAINERS.entry(explainer).tags if explainer in EXPLAINERS else frozenset()
        scope = ("_into" if "into-node" in tags else "_covered") + ("_few" if "post-hoc" in tags else "")
        return (metric or self.measure).replace("_covered", scope)

    def best_null(self, results: Results, defense: str, metric: str) -> tuple[str, Cell] | None:
        """Return the best null in a metric, chosen for each seed by its mean over the others; None without others."""
        cells = {name: self.cell(results, defense, name, metric).values for name in self.nulls}
        cells = {name: values for name, values in cells.items() if len(values) > 1}

        def elsewhere(name: str, seed: int) -> float:
            return mean([value for other, value in cells[name].items() if other != seed])

        seeds = set.intersection(*map(set, cells.values())) if cells else set()
        chosen = {seed: max(cells, key=lambda name: elsewhere(name, seed)) for seed in sorted(seeds)}
        values = {seed: cells[name][seed] for seed, name in chosen.items()}
        return (", ".join(dict.fromkeys(chosen.values())), Cell(None, metric, values)) if values else None

    def side(self, results: Results, defense: str, explainer: str, null: str, measure: str) -> int | None:
        """Return 1, -1 or 0 where an explainer is better, worse or not told from a null; None without an interval."""
        metric = f"{measure}_covered_clean"
        own = self.cell(results, defense, explainer, metric)
        other = self.cell(results, defense, null, self.null_metric(explainer, metric))
        compared = Comparison.of(own.values, other.values, scale_of(metric))
        return None if compared.bounds is None else compared.side * better(metric)

    def sides(self, results: Results, defense: str, explainer: str, null: str) -> dict[str, int | None]:
        """Return the side of each measure against one null, and the verdict, by the heading of its column."""
        found = {measure: self.side(results, defense, explainer, null, measure) for measure in MEASURES}
        votes = [side for measure, side in found.items() if measure != NO_VOTE]
        return {**{MEASURES[measure]: side for measure, side in found.items()}, "verdict": verdict(votes)}

    def proven(self, results: Results, defense: str) -> float | None:
        """Return the share of test nodes whose attention provably stays as it was; None where nothing is proven."""
        label = f"{defense}{TUNED}" if self.tuned else defense
        place = Place(self.suite, "certify", "node", self.dataset, self.model, label)
        found = cell(results, place, "certified_explanations")
        return found.mean if found.values else None


def better(metric: str) -> int:
    """Return 1 for a metric of which more is better, -1 for one of which less is."""
    return -1 if METRICS.entry(metric).direction == "lower" else 1


def verdict(sides: Iterable[int | None]) -> int | None:
    """Return the side that more than half of the measured ones take, each by its interval; 0 where there is none.

    Fewer than four measures give no verdict.

    >>> verdict([1, 1, 1, 0, None]), verdict([1, 1, 0, -1]), verdict([1, 1, 1, None])
    (1, 0, None)
    """
    told = [side for side in sides if side is not None]
    sides = (side for side in (1, -1) if 2 * told.count(side) > len(told))
    return next(sides, 0) if len(told) >= FEWEST_VOTES else None


def _in_order(names: Iterable[str]) -> list[str]:
    order = {name: place for place, name in enumerate(EXPLAINERS.names())}
    return sorted(set(names), key=lambda name: (order.get(name, len(order)), name))


def is_null(explainer: str) -> bool:
    """Tell whether an explainer knows nothing of the trained model."""
    return explainer in EXPLAINERS and "null" in EXPLAINERS.entry(explainer).tags


def explained(results: Results, with_unmeasured: bool = False) -> list[Explained]:
    """Return what a run says about explanations: for each suite, graph, model and kind of settings.

    Each under its strongest attack. ``with_unmeasured`` takes also those whose correctness was not measured.
    """
    groups: dict[tuple[str, bool, str, str], dict[Place, Any]] = {}
    for place, seeds in results.select(kind="explain"):
        group = (place.suite, place.label.endswith(TUNED), place.dataset, place.model)
        groups.setdefault(group, {})[place] = seeds
    found = []
    for (suite, tuned, dataset, model), places in groups.items():
        attacks = [place.attack for place in places]
        attack = next((name for name in ATTACKS_BY_PRECEDENCE if name in attacks), attacks[0])
        values = {metric for seeds in places.values() for step in seeds.values() for metric in step.values}
        measure = next((metric for metric in CORRECTNESS if metric in values), None)
        if measure or with_unmeasured:
            here = {(p.label.removesuffix(TUNED), p.explainer): p for p in places if p.attack == attack}
            found.append(Explained(suite, tuned, dataset, model, attack, measure or next(iter(CORRECTNESS)), here))
    return sorted(found, key=lambda group: ordered([g.dataset for g in found]).index(group.dataset))


def points(results: Results) -> list[dict[str, Any]]:
    """Return every explainer on every defense as plain data, with the mean and spread of stability and correctness.

    Nulls are left out, and so is what was not measured.
    """
    rows = []
    for group in explained(results):
        about = {name: getattr(group, name) for name in ("origin", "dataset", "model", "attack", "measure")}
        for defense, explainer in group.pairs:
            stable, right = (group.cell(results, defense, explainer, m) for m in (STABILITY_METRIC, group.measure))
            if stable.values and right.values and not is_null(explainer):
                values = {"stability": _plain(stable), "correctness": _plain(right)}
                about["proven"] = group.proven(results, defense)
                rows.append({**about, "defense": defense, "explainer": explainer, **values})
    return rows


def null_levels(results: Results) -> list[dict[str, Any]]:
    """Return how right and how stable each null is on each graph and model, averaged over the defenses."""
    return [
        {"origin": group.origin, "dataset": group.dataset, "model": group.model, "name": name}
        | {"correctness": level, "stability": group.average(results, name, STABILITY_METRIC)}
        for group in explained(results)
        for name in group.nulls
        if (level := group.average(results, name, group.measure)) is not None
    ]


def _plain(measured: Cell) -> dict[str, float | None]:
    return {"mean": measured.mean, "std": measured.std if measured.std == measured.std else None}


def against(left: Cell, right: Cell) -> Comparison:
    """Compare two cells seed by seed, in the metric's own units."""
    return Comparison.of(left.values, right.values, "identity")


def shared_defenses(groups: Sequence[Explained]) -> list[str]:
    """Return the defenses of all groups, each once, in the paper's order."""
    return ordered(label for group in groups for label in group.defenses)


@dataclass(frozen=True)
class Rightness:
    """The attention of a defense held against that of the vanilla model on one graph: is a stabler one more right?

    Two comparisons, each paired by seed. The first asks whether the attention ranks edges better than the vanilla
    model's does. But the two models differ, and so do the true effects of edges in them: where effects follow the
    degrees more closely, any ranking that knows the degrees does better. So the second asks the same of what the
    attention has beyond a uniform attention (``1 / d``) on the same model, which no training enters.
    """

    origin: str  # the suite, and whether the settings of both were searched for
    dataset: str
    model: str
    defense: str
    attack: str
    measure: str
    kept: float  # share of the top edges that stay under the attack, and that of the vanilla model
    kept_by_vanilla: float
    more_right: Comparison  # correctness minus vanilla's
    # the same of what each has beyond a uniform attention; without differences where none was asked
    beyond_null: Comparison


def rightness(results: Results) -> list[Rightness]:
    """Return the comparison for every graph, model and defense whose attention is stabler than vanilla's."""
    compared = [_rightness(results, group, defense) for group in explained(results) for defense in group.defenses]
    return [comparison for comparison in compared if comparison is not None]


def rightness_csv(compared: Iterable[Rightness]) -> str:
    """Return the comparisons as a table: one row for each, differences with 95 % intervals and the shown side."""
    names = ("origin", "dataset", "model", "defense", "attack", "measure", "kept", "kept_by_vanilla")
    ends = ("", "_low", "_high", "_side")
    header = [*names, *(f"{name}{end}" for name in ("more_right", "beyond_null") for end in ends)]
    rows = []
    for row in compared:
        both = (row.more_right, row.beyond_null)
        numbers = [(c.value, *c.bounds, c.side) if c.bounds else ("",) * 4 for c in both]
        rows.append([*(getattr(row, name) for name in names), *numbers[0], *numbers[1]])
    return as_csv([header, *rows])


def _rightness(results: Results, group: Explained, defense: str) -> Rightness | None:
    """Return the comparison; None for an attention that is not stabler than vanilla's, which vanilla's own is not."""

    def both(explainer: str, metric: str) -> tuple[Cell, Cell]:
        return group.cell(results, defense, explainer, metric), group.cell(results, "vanilla", explainer, metric)

    kept, kept_by_vanilla = both(PAPERS_CHOICE, STABILITY_METRIC)
    mine, vanilla = both(PAPERS_CHOICE, group.measure)
    if against(kept, kept_by_vanilla).side <= 0 or against(mine, vanilla).bounds is None:
        return None
    own, theirs = both("uniform", group.null_metric(PAPERS_CHOICE))
    beyond = Comparison.of(paired(mine.values, own.values), paired(vanilla.values, theirs.values), "identity")
    names = (group.origin, group.dataset, group.model, defense, group.attack, group.measure)
    return Rightness(*names, kept.mean, kept_by_vanilla.mean, against(mine, vanilla), beyond)
