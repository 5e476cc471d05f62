"""The tables of measures of correctness: what each says of every row, how they agree, which notice a planted lie."""

import pandas as pd

from fgai_bench.report.explanations import FEWEST_VOTES, MEASURES, NO_VOTE, Explained, better, explained
from fgai_bench.report.tables.build import Shown, Table, TableRow, no_value, show
from fgai_bench.report.tables.explanations import HEAD_TITLES
from fgai_bench.report.tables.specs import Column
from fgai_bench.statistics.intervals import paired
from fgai_bench.statistics.labels import PAPERS_CHOICE, title
from fgai_bench.statistics.results import Results

SIGNS = {1: "+", -1: "-", 0: "=", None: "."}
VARIANTS = {
    **MEASURES,
    "effect_spearman_logit": "rank corr., logit",
    "effect_spearman_loss": "rank corr., loss",
    "effect_spearman_signed": "rank corr., signed",
    "effect_spearman_signed_logit": "rank corr., signed, logit",
    "effect_spearman_signed_loss": "rank corr., signed, loss",
}
LIE, TRUTH = "planted-lie", "planted-truth"  # labels of the two networks of the suite `planted-lie`
VOTES = (*MEASURES.values(), "verdict")
COLUMNS = tuple((name,) for name in VOTES)
RULE = (
    f"The verdict is the side of more than half of the measures; {NO_VOTE} has no vote, and fewer than {FEWEST_VOTES} "
    "measures give no verdict."
)
FEWEST_ROWS = 4  # that a correlation over rows is shown for


def measured_rows(results: Results) -> list[tuple[Explained, str, str]]:
    """Return the rows (group, defense, explainer that is no null) whose measures are those of covered edges."""
    metric = f"{next(iter(MEASURES))}_covered_clean"
    return [
        (group, defense, explainer)
        for group in explained(results)
        for defense, explainer in group.pairs
        if explainer not in group.nulls and group.cell(results, defense, explainer, metric).values
    ]


def measure_table(results: Results) -> Table | None:
    """Return for every row and measure whether the explainer is above, below or not told from each null."""
    nulls, rows = _nulls(results), []
    for group, defense, explainer in measured_rows(results):
        sides = [group.sides(results, defense, explainer, null) for null in nulls]
        shown = tuple(Shown(" ".join(SIGNS[side[name]] for side in sides), n=1) for name in VOTES)
        heads = (title(group.dataset), group.origin, title(group.model), title(defense), title(explainer))
        rows.append(TableRow(heads, shown))
    caption = (
        f"Explanations against each null, in the order {', '.join(nulls)}: + shown above, - shown below, = not told "
        "from it, . not measured; paired by seed, on the covered edges of the clean graph, at the same nodes of every "
        f"model. {RULE}"
    )
    return Table("measures", caption, HEAD_TITLES, COLUMNS, tuple(rows), (), 4) if rows and nulls else None


def measure_counts_table(results: Results) -> Table | None:
    """Return in how many rows each measure has an explainer above, below and not told from each null."""
    counts: dict[tuple[str, str], list[dict[str, int | None]]] = {}
    for group, defense, explainer in measured_rows(results):
        for null in group.nulls:
            counts.setdefault((explainer, null), []).append(group.sides(results, defense, explainer, null))
    rows = []
    for heads, sides in counts.items():
        told = [[side[name] for side in sides if side[name] is not None] for name in VOTES]
        shown = tuple(Shown(" / ".join(str(found.count(side)) for side in (1, -1, 0)), n=1) for found in told)
        rows.append(TableRow((*map(title, heads), str(len(sides))), shown))
    caption = f"Rows in which an explainer is shown above / shown below / not told from a null, paired by seed. {RULE}"
    return Table("measure_counts", caption, ("Explainer", "Null", "Rows"), COLUMNS, tuple(rows)) if rows else None


def _nulls(results: Results) -> list[str]:
    return list(dict.fromkeys(null for group in explained(results) for null in group.nulls))


def agreement_table(results: Results) -> Table | None:
    """Return the rank correlation between measures over the rows; None where there are few."""
    listed = measured_rows(results)
    if len(listed) < FEWEST_ROWS:
        return None
    metrics = {measure: f"{measure}_covered_clean" for measure in VARIANTS}
    values = pd.DataFrame(
        {m: [better(metric) * group.cell(results, defense, name, metric).mean for group, defense, name in listed]
         for m, metric in metrics.items()}
    )  # fmt: skip
    found = values.corr("spearman", min_periods=FEWEST_ROWS)[list(MEASURES)]
    rows = [TableRow((name,), tuple(map(_correlation, found.loc[m]))) for m, name in VARIANTS.items()]
    caption = f"Agreement of measures: rank correlation over {len(listed)} rows of explainers, better ones higher."
    return Table("measure_agreement", caption, ("Measure",), tuple((name,) for name in MEASURES.values()), tuple(rows))


def _correlation(value: float) -> Shown:
    return Shown(f"{value:.2f}", mean=value, n=1) if value == value else no_value("too few rows differ")


def planted_lie_table(results: Results) -> Table | None:
    """Return which measures order an attention that lies and an honest one, and which expose it; None without both."""
    nulls, rows = _nulls(results), []
    for group in [group for group in explained(results) if {LIE, TRUTH} <= set(group.defenses)]:
        sides = [group.sides(results, LIE, PAPERS_CHOICE, null) for null in nulls]
        names = {"truth_share": "share on true edges", "truth_auroc": "truth AUROC", **VARIANTS}
        for measure, name in {**names, "verdict": "verdict"}.items():
            cells = _ordered(results, group, measure) if measure in names else (no_value("a verdict"),) * 4
            against = " ".join(SIGNS[side[name]] for side in sides) if name in VOTES else ""
            shown = Shown(against, n=1) if against else no_value("no measure of the model")
            rows.append(TableRow((title(group.dataset), title(group.model), name), (*cells, shown)))
    caption = (
        "The planted lie: two networks predict from known edges; the attention of one is trained to look at them, that "
        "of the other to look away. A measure orders the two if it is better for the honest attention at every seed "
        "where it was measured of both. It exposes the lie if it is below the nulls, here in the order "
        f"{', '.join(nulls)}: + above, - below, = not told from it, . not measured. {RULE}"
    )
    columns = (("lie",), ("honest",), ("seeds told",), ("orders the two",), ("lie against nulls",))
    return Table("planted_lie", caption, ("Dataset", "Model", "Measure"), columns, tuple(rows), (), 2) if rows else None


def _ordered(results: Results, group: Explained, measure: str) -> tuple[Shown, ...]:
    """Return the means of both networks, at how many seeds a measure tells them apart, and whether it always does."""
    metric = f"{measure}_covered_clean"
    lie, honest = (group.cell(results, label, PAPERS_CHOICE, metric) for label in (LIE, TRUTH))
    told = [better(metric) * difference > 0 for difference in paired(honest.values, lie.values).values()]
    passes = Shown("yes" if all(told) else "no", n=1) if told else Shown("not measured")
    means = [show(value, Column("", metric, "explain")) for value in (lie, honest)]
    return *means, Shown(f"{sum(told)}/{len(told)}", n=len(told)), passes
