"""Labels: how names are written in tables and figures, and the order in which the paper has them."""

from collections.abc import Iterable

from fgai_bench.suites.schema import INDUCTIVE, RELEASED, TUNED

TITLES = {
    "f1": "F1",
    "roc_auc": "ROC-AUC",
    "gat": "GAT",
    "gatv2": "GATv2",
    "gt": "GT",
    "gat-one-hop": "one-hop GAT",
    "gatv2-one-hop": "one-hop GATv2",
    "mlp": "MLP",
    "votes": "Votes",
    "vanilla": "Vanilla",
    "ln": "LN",
    "at": "AT",
    "fgai": "FGAI",
    "fgai-attention": "FGAI-attention",
    "row-norm": "Row-norm",
    "uniform-attention": "Uniform attention",
    "gcn": "GCN",
    "pro-gnn": "Pro-GNN",
    "gnn-svd": "GNN-SVD",
    "gnn-svd-sparse": "GNN-SVD (sparse)",
    "gnnguard": "GNNGuard",
    "gnnguard-sparse": "GNNGuard (sparse)",
    "soft-median": "Soft Median",
    "rung": "RUNG",
    "elastic-gnn": "Elastic GNN",
    "clipped": "Clipped attention",
    "amazon-photo": "Amazon-Photo",
    "amazon-cs": "Amazon-CS",
    "coauthor-cs": "Coauthor-CS",
    "coauthor-physics": "Coauthor-Physics",
    "ogbn-arxiv": "ogbn-arXiv",
    "arxiv-topology": "arXiv-topology",
    "cora": "Cora",
    "pubmed": "Pubmed",
    "citeseer": "Citeseer",
    "tolokers": "Tolokers",
    "minesweeper": "Minesweeper",
    "actor": "Actor",
    "squirrel-filtered": "Squirrel (filtered)",
    "chameleon-filtered": "Chameleon (filtered)",
    "attention-last": "last attention",
    "attention-mean": "mean attention",
    "attention-rollout": "rollout",
    "gatt": "GAtt",
    "attention-gradient": "attention x gradient",
    "integrated-gradients": "integrated gradients",
    "gnn-explainer": "GNNExplainer",
    "pg-explainer": "PGExplainer",
}
# The paper's order, suites by the order of its tables; what it does not have follows in the order of the plan.
ORDER = (
    *("node", "link", "ablation", "cost", "definition", "stress", "truth", "scale", "published-budgets", "deviations"),
    *("inductive", "graphs"),
    *("gat", "gatv2", "gt", "gat-one-hop", "gatv2-one-hop"),
    *("vanilla", "ln", "at", "fgai", "fgai-attention", "clipped"),
    *("mlp", "votes", "gcn", "pro-gnn", "gnn-svd", "gnn-svd-sparse", "gnnguard", "gnnguard-sparse"),
    *("soft-median", "rung", "elastic-gnn"),
    *("amazon-photo", "amazon-cs", "coauthor-cs", "coauthor-physics", "ogbn-arxiv", "arxiv-topology"),
    *("cora", "pubmed", "citeseer"),
    *("ba-house", "ba-grid", "ba-tree", "infection", "csbm-planted-strong", "csbm-planted", "csbm-planted-weak"),
)
STATUS = {
    "oom": "OOM",
    "timeout": "timeout",
    "failed": "failed",
    "not-applicable": "n/a",
    "missing": "not run",
    "absent": "--",
}
PAPERS_CHOICE = "attention-last"  # the explainer that the paper reads
# How right an explanation is, best measure first; rows have the first that was measured.
CORRECTNESS = {
    "truth_auroc_covered_clean": "AUROC against the edges that truly matter, of covered edges",
    "truth_auroc_clean": "AUROC against the edges that truly matter",
    "effect_spearman_covered_clean": "rank correlation with the true effect of covered edges",
    "effect_spearman_clean": "rank correlation with the true effect of edges",
}
TERMS = ("similarity", "prediction", "explanation")


def title(name: str) -> str:
    """Return a name as tables write it; what is no text is spelled out.

    >>> title("gatv2"), title("my-defense"), title("fgai tuned")
    ('GATv2', 'my-defense', 'FGAI tuned')
    """
    own = name.removesuffix(TUNED).removesuffix(RELEASED).removesuffix(INDUCTIVE)
    return (TITLES.get(own, own) + name[len(own) :]).encode("utf-8", "backslashreplace").decode()


def ordered(names: Iterable[str]) -> list[str]:
    """Return each name once: the paper's first, in its order, then the rest as they came.

    >>> ordered(["mine", "fgai", "vanilla", "fgai"])
    ['vanilla', 'fgai', 'mine']
    """
    known = list(dict.fromkeys(names))
    return sorted(known, key=lambda name: (ORDER.index(name) if name in ORDER else len(ORDER), known.index(name)))


def terms(label: str) -> tuple[bool, ...] | None:
    """Return which of FGAI's regularisers an ablation's label switches on; None for any other label.

    >>> terms("similarity+explanation")
    (True, False, True)
    """
    parts = label.split("+")
    return tuple(term in parts for term in TERMS) if set(parts) <= set(TERMS) else None
