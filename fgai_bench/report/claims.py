"""The claims of the paper, and how a run judges each of their cells; report.verdicts adds the cells up.

A claim is looked at in each of its cells (dataset x model). In a cell it *holds* or *fails* when the interval of the
paired differences excludes zero and a t test says so after Holm's correction over the cells. It is *open* when they
leave it undecided, and *missing* when the run cannot tell. A claim about all cells is supported when every cell shows
it without a correction (an intersection-union test: all must reject, so the chance of a false verdict is not added up);
a claim about most cells when enough cells hold. It is *refuted* when so many cells fail that the required share is out
of reach, *undecided* when more seeds could still tell, and *not tested* when cells that were not measured could.

The paper claims all this of its own settings, under its own attack, against its own rivals. :data:`CONDITIONS` says
under which others the same sentences are held against a run: under the worst case, there with the settings that an
equal search has chosen, and with those of the released program, under one budget or each under its own. Only in the
last of these are rows of unequal budgets compared. :func:`papers_own` applies the thresholds to the published means.
"""

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import yaml

from fgai_bench.leaderboard.rows import STANDARD, worst_cases
from fgai_bench.report.compare import OWN_BUDGETS
from fgai_bench.report.published import published_means, text_of
from fgai_bench.report.verdicts import LEAST_SEEDS, CellOutcome, Claim, ClaimSide, Decision, Evidence, Verdict
from fgai_bench.statistics.cells import UNEQUAL, Cell, cell, scale_of
from fgai_bench.statistics.intervals import SIGNIFICANT, Comparison, centre, holm, p_above, paired
from fgai_bench.statistics.labels import STATUS, ordered, title
from fgai_bench.statistics.power import seeds_needed
from fgai_bench.statistics.ranking import standings
from fgai_bench.statistics.results import Place, Results
from fgai_bench.suites.schema import RELEASED, TUNED

NODE = "node"
# Condition to the attack in place of the published one, to what is added to the label of a defense, and to the suite
# that a claim about `node` is looked at in.
CONDITIONS = {
    "worst case": (STANDARD, "", NODE),
    "worst case, tuned": (STANDARD, TUNED, NODE),
    "released": ("injection", RELEASED, NODE),
    "released, own budgets": ("injection", RELEASED, OWN_BUDGETS),
}
KINDS_OF_STEPS = {"clean": "clean", "attacked": "attack", "train": "train", "explain": "explain"}
MeanOf = Callable[[ClaimSide, str, str], float]  # of a side, on a dataset, with a model
SLOPES = ("f_slope_pos", "f_slope_neg")  # by which a claim of the kind ``only`` tells what explains


def load_claims() -> tuple[Claim, ...]:
    """Return the claims that travel with the package."""
    return tuple(_claim(row) for row in yaml.safe_load(text_of("claims.yaml")))


def _claim(row: Mapping[str, Any]) -> Claim:
    sides = {key: ClaimSide(**row[key]) for key in ("left", "right") if key in row}
    lists = {key: tuple(row[key]) for key in ("datasets", "models", "rivals") if key in row}
    where = tuple((ClaimSide(**pair["less"]), ClaimSide(**pair["than"])) for pair in row.get("where", ()))
    return Claim(**{**row, **sides, **lists, "where": where})


def judge(results: Results, claims: Iterable[Claim] | None = None) -> list[Verdict]:
    """Return a verdict on each claim, with what the paper's own tables say and what other thresholds would lead to."""
    verdicts = []
    for claim in load_claims() if claims is None else claims:
        near = [claim.loosened(factor) for factor in (0.5, 2)] if claim.threshold else []
        others = tuple(_verdict(results, other) for other in near)
        verdicts.append(replace(_verdict(results, claim), half_and_twice=others))
    return verdicts


def judge_everywhere(results: Results) -> list[Verdict]:
    """Return a verdict on each claim as the paper states it, then under every other condition that the run has."""
    lowest = worst_cases(results)
    return [*judge(results), *judge(lowest, restated(lowest))]


def restated(results: Results, claims: Iterable[Claim] | None = None) -> list[Claim]:
    """Return the claims under every other condition, as far as they say something else there and the run has cells."""
    known = load_claims() if claims is None else tuple(claims)
    changed = [_restated(results, claim, condition) for condition in CONDITIONS for claim in known]
    return [claim for claim in changed if claim is not None]


def _restated(results: Results, claim: Claim, condition: str) -> Claim | None:
    attack, ending, suite = CONDITIONS[condition]
    if suite == OWN_BUDGETS and claim.suite != NODE:
        return None

    def other(side: ClaimSide) -> ClaimSide:
        published = (side.attack, side.when) == ("injection", "attacked")
        return replace(side, attack=attack if published else side.attack, defense=side.defense + ending)

    changed = replace(
        claim,
        suite=suite if claim.suite == NODE else claim.suite,
        left=other(claim.left),
        right=claim.right and other(claim.right),
        rivals=tuple(rival + ending for rival in claim.rivals),
        where=tuple((other(less), other(than)) for less, than in claim.where),
        condition=condition,
    )
    places = [
        place
        for place in claim.places
        if all(_of(results, changed, side, *place).status != "absent" for side in _sides(changed))
    ]
    if not places or _sides(changed) == _sides(claim):
        return None
    datasets, models = (tuple(dict.fromkeys(names)) for names in zip(*places, strict=True))
    return replace(changed, datasets=datasets, models=models)


def _sides(claim: Claim) -> list[ClaimSide]:
    """Return every side that a claim compares: its own, the other's or its rivals', each in all metrics it needs."""
    metrics = SLOPES if claim.kind == "only" else (claim.left.metric,)
    names = (claim.left.defense, *claim.rivals)
    own = [replace(claim.left, defense=name, metric=metric) for name in names for metric in metrics]
    return [*own, claim.right] if claim.right else own


def outcomes(evidence: Sequence[Evidence]) -> list[CellOutcome]:
    """Return what each cell of a claim says, with Holm's correction over the cells in either direction.

    >>> outcomes([Evidence(p_holds=0.01), Evidence(p_holds=0.02), Evidence(missing="not measured")])
    ['holds', 'holds', 'missing']
    >>> outcomes([Evidence(p_holds=0.02), Evidence(p_holds=0.02), Evidence(p_fails=0.001)])  # 0.06, 0.06 and 0.003
    ['open', 'open', 'fails']
    """
    measured = [i for i, cell_evidence in enumerate(evidence) if not cell_evidence.missing]
    cells: list[CellOutcome] = ["missing" if cell_evidence.missing else "open" for cell_evidence in evidence]
    holds, fails = holm([evidence[i].p_holds for i in measured]), holm([evidence[i].p_fails for i in measured])
    for i, p_holds, p_fails in zip(measured, holds, fails, strict=True):
        cells[i] = "holds" if p_holds < SIGNIFICANT else "fails" if p_fails < SIGNIFICANT else "open"
    return cells


def _verdict(results: Results, claim: Claim) -> Verdict:
    places = [place for place in claim.places if _is_about(results, claim, *place)]
    evidence = [_evidence(results, claim, dataset, model) for dataset, model in places]
    measured = sum(not cell_evidence.missing for cell_evidence in evidence)
    decisions = []
    for (dataset, model), cell_evidence, outcome in zip(places, evidence, outcomes(evidence), strict=True):
        alone = not cell_evidence.missing and cell_evidence.p_holds < SIGNIFICANT
        # What a claim about all cells waits for needs no correction; what is shown already waits to hold by itself.
        uncorrected = claim.share == 1 and not alone and centre(cell_evidence.toward or (0.0,)) > 0
        alpha = SIGNIFICANT if uncorrected else SIGNIFICANT / max(1, measured)
        enough = seeds_needed(cell_evidence.toward, alpha)
        decisions.append(Decision(dataset, model, outcome, cell_evidence, alone, enough))

    def mean_of(side: ClaimSide, dataset: str, model: str) -> float:
        return _of(results, claim, side, dataset, model).mean

    ours = () if claim.kind == "status" else by_means(claim, mean_of)
    return Verdict(claim, tuple(decisions), papers_own(claim), ours)


def _is_about(results: Results, claim: Claim, dataset: str, model: str) -> bool:
    """Tell whether the condition of a claim holds in a cell, or cannot be looked at there."""
    for less, than in claim.where:
        low, high = (_of(results, claim, side, dataset, model) for side in (less, than))
        if Comparison.of(low.values, high.values, scale_of(less.metric)).difference_on_scale >= 0:
            return False
    return True


def _of(results: Results, claim: Claim, side: ClaimSide, dataset: str, model: str) -> Cell:
    kind = KINDS_OF_STEPS[side.when]
    attack = side.attack if kind in ("attack", "explain") else ""
    where = (claim.suite, kind, claim.task, dataset, side.model or model, side.defense, attack, side.explainer)
    measured = cell(results, Place(*where), side.metric, claim.magnitude)
    if claim.suite != OWN_BUDGETS:
        return measured
    return replace(measured, budgets={}, flags=tuple(flag for flag in measured.flags if flag != UNEQUAL))


def _evidence(results: Results, claim: Claim, dataset: str, model: str) -> Evidence:
    """Return what one cell of a claim measured, or why it cannot be decided."""
    sides = [_of(results, claim, side, dataset, model) for side in _sides(claim)]
    if claim.kind == "status":
        return _status(results, claim, *sides)
    if claim.kind == "ratio" and claim.limit >= 1 and _outlasts(sides[1], sides[0]):
        return Evidence(p_holds=0.0, why=f"the other was {sides[1].reason}, in which this one ends")
    if reason := _missing(*sides):
        return Evidence(missing=reason)
    return JUDGES[claim.kind](claim, *sides)


def _missing(*sides: Cell) -> str:
    """Return why cells cannot be compared; empty when they can."""
    for side in sides:
        if side.status != "ok":
            return "not measured" if side.status in ("absent", "missing") else f"{STATUS[side.status]}: {side.reason}"
        if side.unequal:
            return "unequal budgets"
    shared = set.intersection(*(set(side.values) for side in sides))
    return f"only {len(shared)} of {LEAST_SEEDS} seeds" if len(shared) < LEAST_SEEDS else ""


def _status(results: Results, claim: Claim, measured: Cell) -> Evidence:
    """Return whether a method ends as claimed: neither its dense form nor a sparse one of ours runs there."""
    if measured.status in ("absent", "missing"):
        return Evidence(missing="not measured")
    why = "it runs" if measured.status == "ok" else f"{STATUS[measured.status]}: {measured.reason}"
    as_claimed = measured.status == claim.status
    if claim.sparse and as_claimed:
        trained = results.select(kind="train", label=claim.sparse)
        graphs = ordered(place.dataset for place, seeds in trained if any(s.status == "ok" for s in seeds.values()))
        why += f"; {title(claim.sparse)} ran on {', '.join(map(title, graphs)) or 'no graph of this run'}"
        as_claimed = False
        if not set(graphs) & set(claim.datasets):
            command = f"fgai-bench run --suite node --defenses {claim.sparse} --datasets {','.join(claim.datasets)}"
            return Evidence(missing=f"{title(claim.sparse)} was not run there: {command}", why=why)
    return Evidence(p_holds=float(not as_claimed), p_fails=float(as_claimed), why=why)


def _outlasts(slow: Cell, quick: Cell) -> bool:
    """Tell whether one training was still going on at the time limit of its suite, and the other ended within it."""
    timed = slow.metric == quick.metric == "train_seconds" and slow.status == "timeout"
    return timed and quick.status == "ok" and not any(flag.startswith("extrapolated") for flag in quick.flags)


def _signed(comparison: Comparison, toward: Sequence[float]) -> Evidence:
    """Return the evidence of differences that are positive where the claim holds."""
    away = [-difference for difference in toward]
    return Evidence(p_above(toward), p_above(away), comparison, tuple(toward))


def _greater(claim: Claim, left: Cell, right: Cell) -> Evidence:
    scales = {scale_of(side.metric) for side in (left, right)}
    # A margin is a number in the metric's units, so it is tested on them.
    scale = scales.pop() if len(scales) == 1 and not claim.margin else "identity"
    comparison = Comparison.of(left.values, right.values, scale)
    return _signed(comparison, [difference - claim.margin for difference in comparison.differences])


def _positive(claim: Claim, left: Cell) -> Evidence:
    comparison = Comparison(tuple(left.values.values()))
    return _signed(comparison, comparison.differences)


def _close(claim: Claim, left: Cell, right: Cell) -> Evidence:
    comparison = Comparison.of(left.values, right.values, "identity")
    below, above = ([claim.margin + sign * difference for difference in comparison.differences] for sign in (-1, 1))
    nearer = min(below, above, key=centre)
    p_holds = max(p_above(below), p_above(above))
    p_fails = min(p_above([-d for d in below]), p_above([-d for d in above]))
    return Evidence(p_holds, p_fails, comparison, tuple(nearer))


def _ratio(claim: Claim, left: Cell, right: Cell) -> Evidence:
    comparison = Comparison.of(left.values, right.values, "log")
    return _signed(comparison, [math.log(claim.limit) - difference for difference in comparison.differences])


def _best(claim: Claim, *cells: Cell) -> Evidence:
    rows: dict[Hashable, Cell] = dict(zip((claim.left.defense, *claim.rivals), cells, strict=True))
    standing = standings(rows, claim.better)[claim.left.defense]
    if standing.rank is None:
        return Evidence(missing="nothing of equal budget to rank it with")
    comparison = Comparison.of(cells[0].values, rows[standing.rival].values, scale_of(claim.left.metric))
    sign = 1 if claim.better == "higher" else -1
    toward = tuple(sign * difference for difference in comparison.differences)
    p_holds = 1.0 if standing.beats_null is False else standing.p_ahead
    return Evidence(p_holds, standing.p_beaten, comparison, toward)


def _only(claim: Claim, *cells: Cell) -> Evidence:
    """Return whether one defense alone explains: its F+ falls faster than its F-, and F- does not rise."""
    explains, fails = [], []
    for pos, neg in zip(cells[::2], cells[1::2], strict=True):
        lead, falling = [*paired(neg.values, pos.values).values()], [-slope for slope in neg.values.values()]
        explains.append(max(p_above(lead), p_above(falling)))
        fails.append(min(1.0, 2 * min(p_above([-d for d in lead]), p_above([-slope for slope in falling]))))
    labels = zip((claim.left.defense, *claim.rivals), explains, strict=True)
    names = [title(label) for label, p in labels if p < SIGNIFICANT]
    p_fails = min(1.0, len(explains) * min(fails[0], *explains[1:]))
    return Evidence(max(explains[0], *fails[1:]), p_fails, why=f"shown to explain: {', '.join(names) or 'none'}")


def papers_own(claim: Claim) -> tuple[bool, ...]:
    """Return what the published means say under the thresholds of a claim, in each of its cells that the tables have.

    There is nothing to test: the tables have no seeds.
    """
    if claim.kind == "status":
        places = [(claim.task, *place, claim.left.defense) for place in claim.places]
        known = ([status for key, (_, status) in published_means().items() if key[:4] == place] for place in places)
        return tuple(claim.status in statuses for statuses in known if statuses)

    def mean_of(side: ClaimSide, dataset: str, model: str) -> float:
        place = (claim.task, dataset, side.model or model, side.defense.removesuffix(TUNED).removesuffix(RELEASED))
        value, _ = published_means().get((*place, KINDS_OF_STEPS[side.when], side.metric), (math.nan, ""))
        return abs(value) if claim.magnitude else value

    return by_means(claim, mean_of)


def by_means(claim: Claim, mean_of: MeanOf) -> tuple[bool, ...]:
    """Return what bare means say under the thresholds of a claim, in each of its cells where they are known."""
    told = (_told(claim, *place, mean_of) for place in claim.places)
    return tuple(one for one in told if one is not None)


def _told(claim: Claim, dataset: str, model: str, mean_of: MeanOf) -> bool | None:
    """Return what means say in one cell; None where one is lacking or the condition does not hold."""

    def of(side: ClaimSide) -> float:
        return mean_of(side, dataset, model)

    values = [of(side) for side in _sides(claim)]
    if any(map(math.isnan, values)) or not all(of(less) < of(than) for less, than in claim.where):
        return None
    sign, alone = 1 if claim.better == "higher" else -1, [True, *[False] * len(claim.rivals)]
    rules: dict[str, Callable[..., bool]] = {
        "greater": lambda left, right: left - right > claim.margin,
        "close": lambda left, right: abs(left - right) <= claim.margin,
        "ratio": lambda left, right: left <= claim.limit * right,
        "positive": lambda left: left > 0,
        "best": lambda left, *rivals: all(sign * (left - rival) > 0 for rival in rivals),
        "only": lambda *slopes: [pos < neg <= 0 for pos, neg in zip(slopes[::2], slopes[1::2], strict=True)] == alone,
    }
    return rules[claim.kind](*values)


JUDGES: dict[str, Callable[..., Evidence]] = {
    "greater": _greater,
    "positive": _positive,
    "close": _close,
    "ratio": _ratio,
    "best": _best,
    "only": _only,
}
