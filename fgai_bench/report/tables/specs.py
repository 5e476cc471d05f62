"""Table specifications: what stands in each table, as data; names come from the run, in the paper's order."""

from dataclasses import dataclass
from typing import Any, Literal

from fgai_bench.escaping import file_name
from fgai_bench.statistics.results import MAIN_SUITES, Better, Results

Style = Literal["fixed", "scientific", "seconds", "mebibytes"]
RowKey = Literal["dataset", "model", "label", "method", "terms"]


@dataclass(frozen=True)
class Column:
    """One column of a table."""

    title: str  # its heading, with an arrow where a direction is better
    metric: str  # the name under which it is recorded
    kind: str = "clean"  # of the steps that measure it
    # labels of attacks; of several the worst is taken seed by seed; empty for the suite's first attack
    attacks: tuple[str, ...] = ()
    better: Better = "none"  # which way; rows are compared within one dataset and model
    style: Style = "fixed"  # how numbers are written
    magnitude: bool = False  # write absolute values, with the positive ones underlined
    flat: bool = False  # compare absolute values, because the nearest to zero is the best
    group: str = ""  # a heading above the datasets


@dataclass(frozen=True)
class Spec:
    """One table."""

    name: str  # of its files
    title: str  # the first sentence of its caption
    columns: tuple[Column, ...]  # repeated for every dataset where datasets are spread
    rows: tuple[RowKey, ...] = ("model", "label")  # what a row is
    spread: bool = True  # whether datasets stand side by side instead of below each other
    suites: tuple[str, ...] = MAIN_SUITES  # where the cells come from: the first of them that the run has
    custom: bool = True  # whether a suite of the user's own may serve
    task: str = "node"  # of the cells
    optional: bool = False  # leave out columns that nothing in the run fills
    needs: str = ""  # a kind of steps without which there is no table
    since: str = ""  # labels are METHOD/CHANGE: show the paired change from the row METHOD/since


G_JSD = Column("g-JSD↓", "g_jsd", "attack", better="lower", style="scientific")
G_TVD = Column("g-TVD↓", "g_tvd", "attack", better="lower")
F1 = Column("F1↑", "f1", better="higher")
F1_ATTACKED = Column("F1 attacked↑", "f1", "attack", better="higher")
PREDICTION_ATTACKS = ("injection", "random-injection", "strong", "ensemble", "transfer", "worst", "learned-placement")


def _f_slopes(kind: str, group: str) -> tuple[Column, ...]:
    return (
        Column("F-↓", "f_slope_neg", kind, better="lower", magnitude=True, flat=True, group=group),
        # Steeper downwards is better: the arrow is that of the magnitude, the comparison that of the signed slope.
        Column("F+↑", "f_slope_pos", kind, better="lower", magnitude=True, group=group),
    )


def _under(attack: str, title: str) -> Column:
    return Column(title, "f1", "attack", (attack,), better="higher")


def _audited(title: str, metric: str) -> Column:
    return Column(title, metric, "audit", better="higher" if "beta " in title or "holds" in title else "lower")


def _per_row(
    name: str, title: str, columns: tuple[Column, ...], suites: tuple[str, ...] = MAIN_SUITES, **more: Any
) -> Spec:
    """Return a table with a row per dataset, model and method; columns that nothing fills are left out."""
    rows: tuple[RowKey, ...] = ("dataset", "model", "label")
    return Spec(name, title, columns, rows, spread=False, suites=suites, optional=True, **more)


GRIDS: tuple[Spec, ...] = (
    Spec("table1", "Stability of attention (g-JSD) and of prediction (g-TVD) under injection.", (G_JSD, G_TVD)),
    Spec("table2", "Micro-averaged F1 before and after injection.", (F1, F1_ATTACKED)),
    Spec(
        "f_slope",
        "F-slopes: magnitudes; values that were positive are underlined.",
        (*_f_slopes("clean", "Before attack"), *_f_slopes("attack", "After attack")),
    ),
    Spec(
        "link",
        "Link prediction: stability, and ROC-AUC before and after injection.",
        (
            G_JSD,
            G_TVD,
            Column("ROC-AUC↑", "roc_auc", better="higher"),
            Column("attacked↑", "roc_auc", "attack", better="higher"),
            Column("worst↑", "roc_auc", "attack", ("worst",), better="higher"),
        ),
        suites=("link", "quick"),
        task="link",
        optional=True,
    ),
    Spec(
        "ablation",
        "Ablation: FGAI's regularisers switched off, and its other choices varied.",
        (G_JSD, G_TVD, F1, F1_ATTACKED, _under("worst", "F1 worst↑")),
        rows=("model", "terms"),
        suites=("ablation",),
        custom=False,
        optional=True,
    ),
    Spec(
        "cost",
        "Time and peak memory of training, each step alone on the machine.",
        (
            Column("Time", "train_seconds", "train", style="seconds"),
            Column("Memory", "train_peak_mib", "train", style="mebibytes"),
        ),
        rows=("method",),
        suites=("cost", "scale"),
        custom=False,
    ),
    _per_row(
        "deviations",
        "From the released program to our settings, one deviation at a time: values, and the change from the released "
        "row, paired by seed, with its 95 % interval (g-JSD: a ratio); bold: a shown change. The published attack has "
        "the budgets of the released configurations, the worst case one budget for all; nothing is ranked.",
        (
            Column("F1↑", "f1"),
            Column("F1, published attack↑", "f1", "attack", ("injection",)),
            Column("F1, worst case↑", "f1", "attack", ("worst",)),
            Column("g-JSD, published attack↓", "g_jsd", "attack", ("injection",), style="scientific"),
        ),
        suites=("deviations",),
        custom=False,
        since="released",
    ),
    _per_row(
        "worst_case",
        "Worst case: F1 clean, under each injection, under the worst of them seed by seed (attacks on edges and on "
        "features have other threat models and are not among them), and the attack on the explanation.",
        (
            F1,
            _under("injection", "injection↑"),
            _under("random-injection", "random↑"),
            _under("transfer", "transfer↑"),
            _under("strong", "strong↑"),
            _under("ensemble", "ensemble↑"),
            _under("worst", "worst↑"),
            _under("worst in-domain", "worst in-domain↑"),
            _under("worst-continued", "continued↑"),
            _under("worst-twice", "twice its search↑"),
            _under("learned-placement", "learned placement↑"),
            Column("worst of these↑", "f1", "attack", PREDICTION_ATTACKS, better="higher"),
            Column("kept by expl. attack", "prediction_kept", "attack", ("explanation",)),
            Column("overlap, expl. attack↑", "topk_overlap", "attack", ("explanation",), better="higher"),
            Column("g-JSD, expl. attack↓", "g_jsd", "attack", ("explanation",), better="lower", style="scientific"),
        ),
        suites=("node", "stress", "quick"),
    ),
    _per_row(
        "floors",
        "Proven and found: F1 clean; the floor, below which no attack inside the threat model can go; the worst case, "
        "the lowest score that an attack was found to leave; and the share of test nodes whose attention provably "
        "stays. The truth lies between floor and worst case. Beside them other scores under the standard attack.",
        (
            F1,
            Column("floor↑", "certified_f1", "certify", better="higher"),
            Column("worst case↑", "f1", "attack", PREDICTION_ATTACKS, better="higher"),
            Column("explanations that stay↑", "certified_explanations", "certify", better="higher"),
            Column("macro F1, worst↑", "macro_f1", "attack", ("worst",), better="higher"),
            Column("ROC-AUC, worst↑", "roc_auc", "attack", ("worst",), better="higher"),
        ),
        suites=("node", "stress", "quick"),
        needs="certify",
    ),
    _per_row(
        "definition",
        "Definition 1, audited: beta 1 and alpha 1 against the vanilla model, beta 2 and alpha 2 under the worst "
        "perturbation of the scores found within R, means over nodes; and the share of nodes on which all four "
        "conditions hold for alpha = 0.1 and beta = 0.75. The vanilla model is held against itself.",
        (
            _audited("beta 1↑", "beta_1_mean"),
            _audited("alpha 1↓", "alpha_1_mean"),
            _audited("beta 2 (R=0.5)↑", "beta_2_mean@0.5"),
            _audited("alpha 2 (R=0.5)↓", "alpha_2_mean@0.5"),
            _audited("beta 2 (R=2)↑", "beta_2_mean@2"),
            _audited("alpha 2 (R=2)↓", "alpha_2_mean@2"),
            _audited("holds (R=0.1)↑", "holds_alpha0.1_beta0.75@0.1"),
            _audited("holds (R=0.5)↑", "holds_alpha0.1_beta0.75@0.5"),
        ),
        suites=("definition", "stress", "node", "quick"),
        needs="audit",
    ),
    _per_row(
        "sanity",
        "Sanity: how uniform the attention is (entropy as a share of the largest possible), and the noise floor.",
        (
            Column("entropy", "attention_entropy_normalised"),
            Column("g-JSD floor", "g_jsd_floor", style="scientific"),
            Column("g-TVD floor", "g_tvd_floor", style="scientific"),
        ),
        suites=("node", "stress", "quick"),
    ),
    _per_row(
        "agreement",
        "Agreement of the attention with that of a model trained with another seed, on the clean graph.",
        (
            Column("overlap", "topk_overlap", "agree"),
            Column("node overlap", "node_topk_overlap", "agree"),
            Column("g-JSD", "g_jsd", "agree", style="scientific"),
        ),
        suites=("stress",),
        needs="agree",
    ),
    _per_row(
        "stability",
        "Stability in other measures: on published scales, per node, and where the prediction did not change.",
        (
            Column("g-JSD published↓", "g_jsd_published", "attack", better="lower", style="scientific"),
            Column("g-TVD raw↓", "g_tvd_raw", "attack", better="lower"),
            Column("node JSD↓", "node_jsd", "attack", better="lower", style="scientific"),
            Column("overlap↑", "topk_overlap", "attack", better="higher"),
            Column("node overlap↑", "node_topk_overlap", "attack", better="higher"),
            Column("g-JSD unchanged↓", "g_jsd_unchanged", "attack", better="lower", style="scientific"),
            Column("g-TVD unchanged↓", "g_tvd_unchanged", "attack", better="lower"),
            Column("kept↑", "prediction_kept", "attack", better="higher"),
        ),
    ),
)


ARROWS = {"higher": "↑", "lower": "↓", "none": ""}


def grids_of(results: Results) -> list[Spec]:
    """Return the tables that a run may fill: ours, and those of the metrics that its suites name."""
    columns = tuple(
        Column(f"{name}{' clean' if kind == 'clean' else ''}{ARROWS[better]}", name, kind, better=better)
        for name, better in results.own_metrics.items()
        for kind in ("clean", "attack")
    )
    own = [
        _per_row(
            "metrics" if task == "node" else file_name(f"metrics_{task}"),
            "Metrics that the suite names beyond the built-in ones, without and under its first attack.",
            columns,
            suites=(),
            task=task,
        )
        for task in results.names("task")
        if columns
    ]
    return [*GRIDS, *own]
