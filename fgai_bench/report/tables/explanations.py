"""The tables of explanations: how stable and how right every explainer is, beside the best null on the same models."""

from collections.abc import Sequence

from fgai_bench.report.explanations import STABILITY_METRIC, Explained, against, explained, shared_defenses
from fgai_bench.report.tables.build import NOT_BETTER, Shown, Table, TableRow, no_value, show, show_difference, sourced
from fgai_bench.report.tables.specs import Column
from fgai_bench.statistics.cells import Cell, scale_of
from fgai_bench.statistics.intervals import centre_interval
from fgai_bench.statistics.labels import CORRECTNESS, title
from fgai_bench.statistics.results import Results

HEAD_TITLES = ("Dataset", "Suite", "Model", "Method", "Explainer")
CLEAN = (
    Column("truth AUROC, covered↑", "truth_auroc_covered_clean", "explain", better="higher"),
    Column("effect rank corr., covered↑", "effect_spearman_covered_clean", "explain", better="higher"),
    Column("share covered", "edge_share_covered_clean", "explain"),
    Column("effect rank corr., into node↑", "effect_spearman_into_clean", "explain", better="higher"),
    Column("share into node", "edge_share_into_clean", "explain"),
    Column("truth AUROC↑", "truth_auroc_clean", "explain", better="higher"),
    Column("effect rank corr.↑", "effect_spearman_clean", "explain", better="higher"),
)
ATTACKED = (
    Column("truth AUROC, covered↑", "truth_auroc_covered", "explain", better="higher"),
    Column("effect rank corr., covered↑", "effect_spearman_covered", "explain", better="higher"),
    Column("truth AUROC↑", "truth_auroc", "explain", better="higher"),
    Column("effect rank corr.↑", "effect_spearman", "explain", better="higher"),
    Column("top edges kept↑", STABILITY_METRIC, "explain", better="higher"),
    Column("top edges kept, all nodes↑", "explainer_topk_overlap", "explain", better="higher"),
    Column("kept, no attack↑", "explainer_topk_overlap_floor", "explain"),
    Column("rank corr. kept↑", "explainer_rank_correlation_unchanged", "explain", better="higher"),
)
REMOVED = (  # of records of the second edition; the table `measures` has those of covered edges
    Column("fidelity+↑", "fidelity_plus_clean", "explain", better="higher"),
    Column("fidelity-↓", "fidelity_minus_clean", "explain", better="lower"),
    Column("unfaithfulness↓", "unfaithfulness_clean", "explain", better="lower"),
    Column("F+ slope↓", "explainer_f_slope_pos_clean", "explain", better="lower"),
    Column("F- slope↑", "explainer_f_slope_neg_clean", "explain", better="higher"),
)
CAPTION = (
    "Explanations: how right they are on the clean graph (AUROC against known edges, rank correlation with the true "
    "effect of edges), by how much more than the best null of the same models, which is chosen for each seed on the "
    f"others (paired by seed, 95 % interval; bold: a shown difference; {NOT_BETTER}: not shown to be above it), and "
    "what is left under attack. "
)


def explanation_table(results: Results) -> Table | None:
    """Return the table, or None where a run asked no explainer."""
    groups = explained(results, with_unmeasured=True)
    if not groups:
        return None
    rows, cells = [], []
    for group in groups:
        for defense, explainer in group.pairs:
            row, used = _row(results, group, defense, explainer)
            rows.append(row)
            cells += used
    columns = (
        *(("clean", column.title) for column in CLEAN),
        ("clean", "above the best null"),
        *(("attacked", column.title) for column in ATTACKED),
        *(("clean, edges removed", column.title) for column in REMOVED),
    )
    kept = [i for i in range(len(columns)) if any(row.cells[i].n for row in rows)]  # no run measures all of them
    if not kept:
        return None
    measured = {cell.metric for cell in cells if cell.values}
    cells = [cell for cell in cells if cell.metric in measured]
    suites, attacks = _names(groups)
    table = Table("explanations", f"{CAPTION}Attack: {attacks}.", HEAD_TITLES, columns, tuple(rows), merged=4)
    return sourced(table.narrowed(kept), results, suites, cells)


def _names(groups: Sequence[Explained]) -> tuple[str, str]:
    """Return the suites and the attacks of groups, each once."""
    suites, attacks = (dict.fromkeys(getattr(group, key) for group in groups) for key in ("suite", "attack"))
    return ", ".join(suites), ", ".join(attacks)


def _row(results: Results, group: Explained, defense: str, explainer: str) -> tuple[TableRow, list[Cell]]:
    columns = (*CLEAN, *ATTACKED, *REMOVED)
    cells = [group.cell(results, defense, explainer, column.metric) for column in columns]
    shown = [show(value, column) for value, column in zip(cells, columns, strict=True)]
    shown.insert(len(CLEAN), _above_null(results, group, defense, explainer))
    heads = (title(group.dataset), group.origin, title(group.model), title(defense), title(explainer))
    return TableRow(heads, tuple(shown)), cells


def _above_null(results: Results, group: Explained, defense: str, explainer: str) -> Shown:
    """Return by how much an explainer is above the best null of the same models, in the group's correctness."""
    null = group.best_null(results, defense, group.null_metric(explainer))
    own = group.cell(results, defense, explainer, group.measure)
    if explainer in group.nulls or null is None or not own.values:
        return no_value("it is a null itself, or none was measured")
    return show_difference(against(own, null[1]), "higher", f" ({null[0]})")


def correctness_table(results: Results) -> Table | None:
    """Return how right every explainer is, with intervals: a row for each, methods beside each other."""
    groups = explained(results)
    if not groups:
        return None
    methods = shared_defenses(groups)
    rows, cells = [], []
    for group in groups:
        for explainer in (*group.explainers, *group.nulls):
            used = [
                group.cell(results, method, explainer, metric)
                for method in methods
                for metric in (group.measure, group.measure.removesuffix("_clean"))
            ]
            heads = (title(group.dataset), group.origin, title(group.model), title(explainer))
            rows.append(TableRow(heads, tuple(_with_interval(value) for value in used)))
            cells += used
    columns = tuple((title(method), when) for method in methods for when in ("clean", "attacked"))
    measures = " and ".join(dict.fromkeys(CORRECTNESS[group.measure] for group in groups))
    suites, attacks = _names(groups)
    caption = (
        f"How right explanations are: {measures}, on the clean graph and on the attacked one ({attacks}). Median with "
        "its 95 % interval over the seeds; their number stands behind where not all of them have a node to ask about."
    )
    table = Table("correctness", caption, HEAD_TITLES[:3] + HEAD_TITLES[4:], columns, tuple(rows), merged=3)
    return sourced(table, results, suites, cells)


def _with_interval(value: Cell) -> Shown:
    """Return ``median [low, high]`` of a cell, and how many seeds it has if not all."""
    bounds = centre_interval(value.values, scale_of(value.metric))
    if bounds is None:
        return show(value, Column("", value.metric, "explain"))
    asked = len(value.values) + len(value.gaps)
    few = f" ({len(value.values)} of {asked})" if len(value.values) < asked else ""
    low, high = (f"{bound:.2f}" for bound in bounds)
    text = f"{value.median:.2f} [{low}, {high}]{few}"
    return Shown(text, mean=value.mean, std=value.std, n=len(value.values))
