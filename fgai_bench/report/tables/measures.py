"""The tables of measures of correctness: what each says of every row, how they agree, which notice a planted lie."""

import pandas as pd

from fgai_bench.report.explanations import MEASURES, Explained, better, explained, verdict
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
    listed, nulls = measured_rows(results), list(dict.fromkeys(n for group in explained(results) for n in group.nulls))
    rows = []
    for group, defense, explainer in listed:
        sides = {
            null: [group.side(results, defense, explainer, null, measure) for measure in MEASURES] for null in nulls
        }
        each = [*zip(*sides.values(), strict=True), tuple(verdict(row) for row in sides.values())]
        shown = tuple(Shown(" ".join(SIGNS[side] for side in cell), n=1) for cell in each)
        heads = (title(group.dataset), group.origin, title(group.model), title(defense), title(explainer))
        rows.append(TableRow(heads, shown))
    caption = (
        f"Explanations against each null, in the order {', '.join(nulls)}: + above, - below, = not told from it, "
        ". not measured; by 95 % intervals, paired by seed, on the covered edges of the clean graph, at the same nodes "
        "of every model. The verdict is the side of more than half of the measures."
    )
    columns = tuple((name,) for name in (*MEASURES.values(), "verdict"))
    return Table("measures", caption, HEAD_TITLES, columns, tuple(rows), (), 4) if rows and nulls else None


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
    """Return at how many seeds each measure tells an attention that lies from an honest one; None without the two."""
    rows = []
    for group in [group for group in explained(results) if {LIE, TRUTH} <= set(group.defenses)]:
        for measure, name in {"truth_auroc": "truth AUROC", **VARIANTS}.items():
            metric = f"{measure}_covered_clean"
            lie, honest = (group.cell(results, label, PAPERS_CHOICE, metric) for label in (LIE, TRUTH))
            told = [better(metric) * difference > 0 for difference in paired(honest.values, lie.values)]
            seeds = len(honest.values) + len(honest.gaps)
            means = [show(value, Column("", metric, "explain")) for value in (lie, honest)]
            passes = Shown("yes" if seeds == sum(told) else "no", n=1)
            heads = (title(group.dataset), title(group.model), name)
            rows.append(TableRow(heads, (*means, Shown(f"{sum(told)}/{seeds}", n=1), passes)))
    caption = (
        "The planted lie: two networks predict from known edges; the attention of one is trained to look at them, that "
        "of the other to look away. A measure passes if it is better for the honest attention at every seed."
    )
    columns = (("lie",), ("honest",), ("seeds told",), ("passes",))
    return Table("planted_lie", caption, ("Dataset", "Model", "Measure"), columns, tuple(rows), (), 2) if rows else None
