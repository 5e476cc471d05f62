"""What the pages quote of the study: each function answers one kind of mark from the CSV files that reports write.

Values are texts, tables are lists of rows with the header first. ``docs/fill.py`` says how a page names them.
A defense is named as in the leaderboards: ``fgai`` has the published settings, ``fgai tuned`` the searched ones.
"""

from __future__ import annotations

import csv
import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

from fgai_bench.statistics.intervals import Comparison, interval, mean
from fgai_bench.statistics.labels import title

ROOT = Path(__file__).parent.parent
GRAPHS = ("amazon-photo", "amazon-cs", "coauthor-cs", "coauthor-physics")
CITATIONS = ("cora", "citeseer", "pubmed")
MODELS = ("gat", "gatv2", "gt")
DEFENSES = ("vanilla", "ln", "at", "fgai")
REPLACED = ("gcn", "gnn-svd-sparse", "gnnguard-sparse")  # networks that take the place of GAT
NULL = "uniform-attention"
FAR = 0.02  # by how much twice the search may lower a worst case before it is called unreliable
STAGES = {
    "published": "Published attack, published settings / rank",
    "worst": "Worst case, published settings / rank",
    "tuned": "Worst case, tuned settings / rank",
}
SCORES = {"node": "f1", "link": "roc_auc"}

Row = dict[str, str]
Query = Callable[..., Any]
VALUES: dict[str, Query] = {}
TABLES: dict[str, Query] = {}


def value(query: Query) -> Query:
    """Make a function known to pages as a value."""
    VALUES[query.__name__] = query
    return query


def table(query: Query) -> Query:
    """Make a function known to pages as a table."""
    TABLES[query.__name__] = query
    return query


# --- reading


@cache
def read(name: str) -> list[Row]:
    """Return the rows of a CSV file below ``results``."""
    csv.field_size_limit(sys.maxsize)
    with (ROOT / "results" / name).open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def select(name: str, **wanted: str) -> list[Row]:
    """Return the rows of a file whose columns have these values."""
    return [row for row in read(name) if all(row[key] == value for key, value in wanted.items())]


def single(name: str, **wanted: str) -> Row:
    """Return the only row of a file whose columns have these values."""
    rows = select(name, **wanted)
    if len(rows) != 1:
        raise LookupError(f"{name} has {len(rows)} rows with {wanted}")
    return rows[0]


def board(model: str, defense: str, dataset: str, attack: str = "worst", suite: str = "node", folder: str = "") -> Row:
    """Return one row of a leaderboard."""
    name = f"{folder}leaderboard_{'link' if suite == 'link' else 'node'}.csv"
    return single(name, suite=suite, model=model, defense=defense, dataset=dataset, attack=attack)


def by_seed(row: Row, metric: str) -> dict[int, float]:
    """Return the values of a row of a leaderboard, seed by seed."""
    recorded = json.loads(row["seeds"])
    return dict(zip(recorded["seeds"], recorded["values"][metric], strict=True))


def worst_rows(suite: str = "node") -> list[Row]:
    """Return the rows of the worst case, without nulls."""
    rows = select(f"leaderboard_{suite}.csv", suite=suite, attack="worst")
    return [row for row in rows if row["defense"] != NULL and row[f"{SCORES[suite]}_mean"]]


# --- writing numbers and names


def number(text: str | float, digits: int = 3) -> str:
    return f"{float(text):.{digits}f}"


def bracket(low: float, high: float) -> str:
    """Write an interval with two digits, with three where two would be equal."""
    digits = 2 if f"{low:.2f}" != f"{high:.2f}" else 3
    return f"[{low:.{digits}f}, {high:.{digits}f}]"


def difference(compared: Comparison) -> str:
    low, high = compared.bounds or (compared.difference, compared.difference)
    return f"{compared.difference:+.3f} [{low:+.3f}, {high:+.3f}]"


def short_title(name: str) -> str:
    """Write a name as tables do, without what tells two versions of a method apart."""
    return title(name).replace(" (sparse)", "")


def listed(names: Iterable[str], nothing: str = "none") -> str:
    """Write names as a list in a sentence."""
    *first, last = list(names) or [nothing]
    return f"{', '.join(first)} and {last}" if first else last


def side(compared: Comparison) -> int:
    """Return 1 or -1 where the interval lies above or below zero, else 0."""
    low, high = compared.bounds or (0.0, 0.0)
    return (low > 0) - (high < 0)


def clean_to_worst(row: Row, score: str = "f1") -> str:
    """Write ``clean → worst [interval]``; bold ranks first, † is unreliable."""
    kept = f"{number(row[f'{score}_clean_mean'])} → {number(row[f'{score}_mean'])}"
    text = f"{kept} {bracket(float(row[f'{score}_low']), float(row[f'{score}_high']))}"
    text += "†" if "unreliable" in row["flags"] else ""
    return f"**{text}**" if row["rank"] == "1" else text


# --- the worst case


@value
def kept(model: str, defense: str, dataset: str, attack: str = "worst", suite: str = "node") -> str:
    """Return the mean score under an attack."""
    return number(board(model, defense, dataset, attack, suite)[f"{SCORES.get(suite, 'f1')}_mean"])


@value
def clean(model: str, defense: str, dataset: str, suite: str = "node") -> str:
    """Return the mean score on the clean graph."""
    return number(board(model, defense, dataset, suite=suite)[f"{SCORES.get(suite, 'f1')}_clean_mean"])


@value
def gain(model: str, defense: str, dataset: str, suite: str = "node") -> str:
    """Return what searched settings add under the worst case, paired by seed, with its interval."""
    return difference(paired(model, f"{defense} tuned", defense, dataset, suite))


@value
def added(defense: str, control: str, dataset: str) -> str:
    """Return what one row keeps beyond another in GAT's place under the worst case, paired, with its interval."""
    return difference(paired("gat", defense, control, dataset))


@value
def graphs_where(defense: str, relation: str, control: str, model: str = "gat") -> str:
    """Return the graphs on which the interval of ``defense - control`` lies above or below zero."""
    wanted = {"above": 1, "below": -1}[relation]
    found = [graph for graph in GRAPHS if side(paired(model, defense, control, graph)) == wanted]
    return listed(map(title, found), "no graph")


def paired(model: str, left: str, right: str, dataset: str, suite: str = "node") -> Comparison:
    """Compare what two rows keep under the worst case, seed by seed."""
    values = [by_seed(board(model, name, dataset, suite=suite), SCORES[suite]) for name in (left, right)]
    return Comparison.of(*values, "identity")


def trains_the_model(row: Row) -> bool:
    """Tell whether a row trains the model itself, so that no other network takes its place."""
    return row["defense"].removesuffix(" tuned") not in REPLACED


@value
def graphs_where_gcn_is_above_every(model: str) -> str:
    """Return the graphs on which the tuned GCN keeps more than any way to train a model, by paired intervals."""
    found = []
    for graph in GRAPHS:
        rivals = [row for row in worst_rows() if (row["dataset"], row["model"]) == (graph, model)]
        control = by_seed(board("gat", "gcn tuned", graph), "f1")
        compared = [Comparison.of(control, by_seed(row, "f1"), "identity") for row in rivals if trains_the_model(row)]
        found += [graph] if all(side(each) == 1 for each in compared) else []
    return listed(map(title, found), "no graph")


@table
def worst_case(model: str, settings: str, *others: str) -> list[list[str]]:
    """Defenses of a model by graph, clean → worst case; ``others`` are networks in its place."""
    suffix = {"tuned": " tuned", "published": ""}[settings]
    rows = [[f"{title(model)}, {settings} settings", *map(title, GRAPHS)]]
    for name in (*DEFENSES, *others):
        label = f"*{short_title(name)} in its place*" if name in REPLACED else short_title(name)
        rows.append([label, *(clean_to_worst(board(model, name + suffix, graph)) for graph in GRAPHS)])
    return rows


@table
def best_of_every_model() -> list[list[str]]:
    """The networks in GAT's place beside the best way to train each model, searched settings."""
    rows = [["clean → worst case", *map(title, GRAPHS)]]
    for name in REPLACED:
        rows.append([short_title(name), *(clean_to_worst(board("gat", f"{name} tuned", graph)) for graph in GRAPHS)])
    for model in MODELS:
        best = [
            max(
                (board(model, f"{name} tuned", graph) for name in DEFENSES),
                key=lambda row: float(row["f1_mean"]),
            )
            for graph in GRAPHS
        ]
        cells = [
            f"{clean_to_worst(row).replace('**', '')}, {title(row['defense'].removesuffix(' tuned'))}" for row in best
        ]
        rows.append([f"the best of {title(model)}", *cells])
    return rows


@table
def gains(suite: str, *models: str) -> list[list[str]]:
    """What searched settings add under the worst case, paired by seed; bold where the interval excludes 0."""
    graphs = CITATIONS if suite == "link" else GRAPHS
    rows = [["tuned minus published", *map(title, graphs)]]
    names = [(model, name) for model in models for name in DEFENSES]
    names += [("gat", name) for name in REPLACED] if (suite, models) == ("node", ("gat",)) else []
    for model, name in names:
        compared = [paired(model, f"{name} tuned", name, graph, suite) for graph in graphs]
        cells = [f"**{difference(each)}**" if side(each) else difference(each) for each in compared]
        rows.append([f"{title(model)}, {short_title(name)}", *cells])
    return rows


@table
def attacks_side_by_side(settings: str) -> list[list[str]]:
    """Mean F1 over the twelve cells: clean, published attack, worst case."""
    suffix = {"tuned": " tuned", "published": ""}[settings]
    rows = [["mean over the 12 cells", "clean", "random features", "published attack", "worst case"]]
    for name in DEFENSES:
        cells = [(model, name + suffix, graph) for graph in GRAPHS for model in MODELS]
        means = [mean([float(board(*cell)["f1_clean_mean"]) for cell in cells])]
        for attack in ("random-injection", "injection", "worst"):
            means.append(mean([float(board(*cell, attack)["f1_mean"]) for cell in cells]))
        rows.append([title(name), *map(number, means)])
    return rows


@table
def large_graph() -> list[list[str]]:
    """Clean → published attack → worst case on arxiv-topology."""
    rows = [["arxiv-topology", *map(title, MODELS)]]
    for name in DEFENSES:
        cells = []
        for model in MODELS:
            weak, worst = (board(model, name, "arxiv-topology", attack) for attack in ("injection", "worst"))
            cells.append(" → ".join(map(number, (worst["f1_clean_mean"], weak["f1_mean"], worst["f1_mean"]))))
        rows.append([title(name), *cells])
    return rows


# --- ranks


@value
def first_places(method: str, stage: str) -> str:
    """Return in how many of the twelve cells a way to train the model ranks first, alone or tied."""
    return str(len(ranked_first(method, stage)))


def ranked_first(method: str, stage: str) -> list[Row]:
    rows = select("tables/rank_changes.csv", method=method, column=STAGES[stage], text="1")
    return [row for row in rows if row["dataset"] in map(title, GRAPHS)]


@table
def first_places_of_all() -> list[list[str]]:
    """In how many cells each way to train the model ranks first, and how ranks change."""
    changes = ("intervals", "attack", "settings")
    rows = [
        [
            "ranks first, alone or tied, in cells of 12",
            *("published attack and settings", "worst case, published settings", "worst case, tuned settings"),
            *(f"mean change of rank by {what}" for what in changes),
        ]
    ]
    for name in map(title, DEFENSES):
        moved = []
        for what in changes:
            cells = select("tables/rank_changes.csv", method=name, column=f"Change of rank by / {what}")
            moved.append(mean([float(row["mean"]) for row in cells if row["dataset"] in map(title, GRAPHS)]))
        rows.append([name, *(first_places(name, stage) for stage in STAGES), *(f"{by:+.1f}" for by in moved)])
    return rows


# --- how far the attacks can be trusted


@value
def searched_twice(suite: str = "node") -> str:
    """Return the number of rows on which twice the search was run."""
    return str(len(slack(suite)))


@value
def lowered_by_twice_the_search(suite: str = "node") -> str:
    """Return how many of them it lowers by more than .02."""
    return str(sum(by > FAR for by in slack(suite)))


def slack(suite: str) -> list[float]:
    return [float(row["worst_slack"]) for row in worst_rows(suite) if row["worst_slack"]]


@value
def under_both_attacks() -> str:
    """Return the number of rows that ``worst`` and ``learned-placement`` have both attacked."""
    return str(len(learned_placement()))


@value
def lowered_by_learned_placement() -> str:
    """Return in how many rows of the worst case a seed was found by ``learned-placement``."""
    return str(sum("learned-placement" in row["found_by"] for row in learned_placement()))


def learned_placement() -> list[Row]:
    both = {
        (row["dataset"], row["model"], row["defense"])
        for row in select("leaderboard_node.csv", suite="node", attack="learned-placement")
        if row["f1_mean"]
    }
    return [row for row in worst_rows() if (row["dataset"], row["model"], row["defense"]) in both]


# --- attention beside its nulls


@value
def rows_against_uniform(relation: str = "") -> str:
    """Return how many rows of the worst case have a g-JSD above or below a uniform attention's; all if not said."""
    rows = [row for row in worst_rows() if row["g_jsd_mean"]]
    bounds = [[float(row[f"g_jsd_vs_uniform_{end}"] or "nan") for end in ("low", "high")] for row in rows]
    counts = {"": len(rows), "above": sum(low > 0 for low, _ in bounds), "below": sum(high < 0 for _, high in bounds)}
    return str(counts[relation])


@value
def rows_below_uniform() -> str:
    """Return the rows whose attention is stabler than a uniform one, by name."""
    rows = [row for row in worst_rows() if float(row["g_jsd_vs_uniform_high"] or "nan") < 0]
    return listed(f"{short_title(row['defense'])} on {title(row['dataset'])}" for row in rows)


@value
def fgai_below_vanilla(condition: str) -> str:
    """Return in how many cells the seeds show a smaller g-JSD of FGAI than of vanilla."""
    return single("claims.csv", id="fgai-attention-more-stable", condition=condition)["shown_alone"]


@value
def fgai_above_uniform() -> str:
    """Return in how many cells FGAI's mean g-JSD under the published attack exceeds a uniform attention's."""
    cells = [(model, graph) for model in MODELS for graph in GRAPHS]
    pairs = [[float(board(model, name, graph, "injection")["g_jsd_mean"]) for name in ("fgai", NULL)]
             for model, graph in cells]  # fmt: skip
    return str(sum(own > null for own, null in pairs))


@value
def fgai_nearer_to_uniform() -> str:
    """Return in how many cells FGAI's attention has a higher entropy than vanilla's."""
    entropy = {
        (row["dataset"], row["model"], row["method"]): float(row["mean"])
        for row in select("tables/sanity.csv", column="entropy")
        if row["mean"]
    }
    cells = [(title(graph), title(model)) for graph in GRAPHS for model in MODELS]
    return str(sum(entropy[*cell, "FGAI"] > entropy[*cell, "Vanilla"] for cell in cells))


@value
def slopes(method: str, relation: str) -> str:
    """Return in how many cells the F+ slope of the attention is steeper or flatter than that of a ranking by degree."""
    rows = select("tables/f_slope_nulls_pos.csv", method=method, column="degree / difference")
    bounds = [tuple(map(float, re.findall(r"-?[\d.]+", row["text"])[1:3])) for row in rows
              if row["dataset"] in map(title, GRAPHS)]  # fmt: skip
    return str(sum(high < 0 if relation == "steeper" else low > 0 for low, high in bounds))


# --- explanations


def compared_attention(origin: str, folder: str = "") -> list[Row]:
    return select(f"{folder}tables/rightness.csv", origin=origin)


@value
def stabler(origin: str, model: str = "") -> str:
    """Return how many defended models have a last attention that is stabler than vanilla's."""
    return str(sum(model in ("", row["model"]) for row in compared_attention(origin)))


@value
def more_right(origin: str) -> str:
    """Return how many of them are shown to be more right than vanilla's."""
    return str(sum(float(row["more_right_low"]) > 0 for row in compared_attention(origin)))


@value
def less_right(origin: str) -> str:
    """Return how many of them are shown to be less right."""
    return str(sum(float(row["more_right_high"]) < 0 for row in compared_attention(origin)))


@value
def more_right_beyond_uniform(origin: str) -> str:
    """Return how many of those that are more right gain more than a uniform attention on the same models."""
    rows = [row for row in compared_attention(origin) if float(row["more_right_low"]) > 0]
    return str(sum(float(row["beyond_null_low"]) > 0 for row in rows))


@table
def stabler_attention(*origins: str) -> list[list[str]]:
    """Every defense whose last attention is stabler than vanilla's, and whether it is also more right."""
    rows = [
        [
            "graph, model, defense",
            "top edges kept, vanilla's",
            "more right than vanilla's by",
            "beyond a uniform attention",
        ]
    ]
    for origin in origins:
        for row in compared_attention(origin, "explanations/" if origin == "truth" else ""):
            name = ", ".join(title(row[key]) for key in ("dataset", "model", "defense"))
            kept = f"{number(row['kept'], 2)}, {number(row['kept_by_vanilla'], 2)}"
            cells = []
            for what in ("more_right", "beyond_null"):
                middle, low, high = (float(row[f"{what}{end}"]) for end in ("", "_low", "_high"))
                text = f"{middle:+.3f} [{low:+.3f}, {high:+.3f}]"
                cells.append(f"**{text}**" if low > 0 or high < 0 else text)
            rows.append([name + (" (stress)" if origin == "stress" else ""), kept, *cells])
    return rows


@value
def against_best_null(explainer: str, relation: str = "") -> str:
    """Return in how many rows an explainer is above or below the best null on the clean graph; all if not said."""
    rows = select("tables/explanations.csv", explainer=explainer, column="clean / above the best null")
    bounds = [tuple(map(float, re.findall(r"-?\d+\.\d+", row["text"])[1:3])) for row in rows]
    counts = {"": len(rows), "above": sum(low > 0 for low, _ in bounds), "below": sum(high < 0 for _, high in bounds)}
    return str(counts[relation])


@table
def explainers_against_nulls() -> list[list[str]]:
    """How many rows of every explainer are above and below the best null on the clean graph."""
    column = "clean / above the best null"
    names = dict.fromkeys(row["explainer"] for row in select("tables/explanations.csv", column=column) if row["mean"])
    rows = [["explainer", "rows", "above the best null", "below it"]]
    for name in names:
        rows.append([name, *(against_best_null(name, relation) for relation in ("", "above", "below"))])
    return rows


@table
def correctness() -> list[list[str]]:
    """Every explainer on two graphs: rank correlation with the true effects, clean → worst."""
    cells = {
        (row["dataset"], row["explainer"], row["column"]): row["text"]
        for row in select("tables/correctness.csv", suite="stress", model="GAT")
    }
    places = [(graph, method) for graph in ("Amazon-Photo", "Cora") for method in ("Vanilla", "FGAI")]
    rows = [["explainer", *(f"{graph}, {method}" for graph, method in places)]]
    for name in dict.fromkeys(explainer for _, explainer, _ in cells):
        pairs = [
            " → ".join(cells[graph, name, f"{method} / {when}"] for when in ("clean", "attacked"))
            for graph, method in places
        ]
        rows.append([name, *pairs])
    return rows


@table
def known_edges() -> list[list[str]]:
    """AUROC against the edges that truly matter, clean → worst, where the graph knows them."""
    recorded = read("explanations/tables/correctness.csv")
    cells = {tuple(row[key] for key in ("model", "dataset", "explainer", "column")): row for row in recorded}
    shown = ("last attention", "GAtt", "integrated gradients")
    rows = [["graph, model, training", *shown, "best null, clean"]]
    for graph in ("infection", "csbm-planted", "csbm-planted-weak", "ba-house", "ba-grid", "ba-tree"):
        for model in ("GAT", "GATv2"):
            for method in ("Vanilla", "FGAI"):
                pairs = [
                    " → ".join(
                        cells[model, graph, name, f"{method} / {when}"]["text"] for when in ("clean", "attacked")
                    )
                    for name in shown
                ]
                nulls = [(name, cells[model, graph, name, f"{method} / clean"])
                         for name in ("random", "uniform", "degree", "untrained")]  # fmt: skip
                name, best = max(nulls, key=lambda pair: float(pair[1]["mean"]))
                rows.append([f"{graph}, {model}, {method}", *pairs, f"{name} {best['text']}"])
    return rows


# --- the paper's claims


@value
def verdicts(verdict: str, condition: str = "published") -> str:
    """Return how many claims have a verdict under a condition."""
    return str(len(select("claims.csv", verdict=verdict, condition=condition)))


@value
def claims() -> str:
    """Return the number of claims."""
    return str(len(select("claims.csv", condition="published")))


@table
def verdicts_by_condition() -> list[list[str]]:
    """How many claims have which verdict under which condition."""
    names = ("supported", "refuted", "undecided", "not tested")
    rows = [["condition", *names]]
    for condition in dict.fromkeys(row["condition"] for row in read("claims.csv")):
        rows.append([condition, *(verdicts(name, condition) for name in names)])
    return rows


@table
def budget_shares() -> list[list[str]]:
    """Which share of the published gap between FGAI and vanilla comes from the unequal budgets."""
    rows = [
        [
            "share of the gap that is due to the budget",
            "equal at the small one",
            "equal at the large one",
            "Shapley mean",
        ]
    ]
    for measure in dict.fromkeys(row["measure"] for row in read("tables/budgets.csv")):
        cells = []
        for which in ("equal at the small", "equal at the large", "Shapley mean"):
            found = select("tables/budgets.csv", measure=measure, column=f"Share of the gap / {which}")
            shares = [float(row["mean"]) for row in found if row["mean"]]
            low, high = interval(shares) or (shares[0], shares[0])
            cells.append(f"{mean(shares):.0%} [{low:.0%}, {high:.0%}], {len(shares)} cells")
        rows.append([measure.rstrip("↑↓"), *cells])
    return rows


# --- other tables of the study


@table
def links(model: str) -> list[list[str]]:
    """ROC-AUC of links: clean → published attack → worst case."""
    rows = [[f"{title(model)}, links", *map(title, CITATIONS)]]
    for name in (*DEFENSES, *(f"{name} tuned" for name in DEFENSES)):
        cells = []
        for graph in CITATIONS:
            weak = number(board(model, name, graph, "injection", "link")["roc_auc_mean"])
            worst = clean_to_worst(board(model, name, graph, suite="link"), "roc_auc")
            cells.append(worst.replace("→", f"→ {weak} →"))
        rows.append([title(name), *cells])
    return rows


@value
def link_first_places(defense: str) -> str:
    """Return in how many of the nine cells of links a tuned defense ranks first, alone or tied."""
    return str(sum(row["rank"] == "1" and row["defense"] == f"{defense} tuned" for row in worst_rows("link")))


@value
def highest_link() -> str:
    """Return the most ROC-AUC that any row of links keeps under the worst case."""
    return number(max(float(row["roc_auc_mean"]) for row in worst_rows("link")))


@table
def stress(*attacks: str) -> list[list[str]]:
    """What other attacks leave of GAT on amazon-photo with published settings."""
    rows = [["attack", *map(title, DEFENSES)]]
    for attack in attacks:
        found = [board("gat", name, "amazon-photo", attack, "stress")["f1_mean"] for name in DEFENSES]
        rows.append([f"`{attack}`", *map(number, found)])
    return rows


@table
def ablation() -> list[list[str]]:
    """F1 under the attack ``worst`` of FGAI with some of its terms."""
    terms = ("similarity+prediction+explanation", "prediction", "similarity+prediction", "prediction+explanation",
             "similarity+explanation")  # fmt: skip
    kinds = [(model, suffix) for model in MODELS for suffix in ("", " tuned")]
    rows = [["terms of FGAI", *(title(model) + suffix for model, suffix in kinds)]]
    for term in terms:
        found = [board(model, term + suffix, "amazon-photo", suite="ablation")["f1_mean"] for model, suffix in kinds]
        rows.append([term.replace("+", ", "), *map(number, found)])
    return rows


@value
def definition_holds(method: str) -> str:
    """Return the share of nodes on which all conditions of Definition 1 hold for GAT at R = 0.1."""
    return number(single("tables/definition.csv", model="GAT", method=method, column="holds (R=0.1)↑")["mean"])


@value
def cost_ratio(what: str, dataset: str) -> str:
    """Return how many times the seconds or the memory of vanilla FGAI needs."""
    key = {"seconds": "train_seconds_mean", "memory": "train_peak_mib_mean"}[what]
    pair = [
        float(single("leaderboard_cost.csv", suite="cost", dataset=dataset, defense=name)[key])
        for name in ("fgai", "vanilla")
    ]
    return number(pair[0] / pair[1], 1 if what == "seconds" else 2)


@table
def epochs_at_scale() -> list[list[str]]:
    """Seconds and memory of an epoch on the two largest graphs."""
    rows = [["seconds of an epoch, MiB", "vanilla", "at", "fgai"]]
    for graph, nodes in (("csbm-products", "2.4 million nodes"), ("arxiv-topology", "169,343 nodes")):
        for model in MODELS:
            cells = []
            for defense in rows[0][1:]:
                found = select("leaderboard_cost.csv", suite="scale", dataset=graph, model=model, defense=defense)
                timed = [row for row in found if row["train_seconds_mean"]]
                cells += [f"{float(row['train_seconds_mean']) / 20:.3f}, {float(row['train_peak_mib_mean']):,.0f}"
                          for row in timed] or ["not run"]  # fmt: skip
            rows.append([f"{title(model)}, {nodes}", *cells])
    return rows


@value
def cost_at_scale(defense: str, what: str) -> str:
    """Return seconds or MiB of 200 epochs of GAT at the size of ogbn-products."""
    row = single("scale/leaderboard_cost.csv", defense=defense)
    if what == "seconds":
        return number(row["train_seconds_mean"], 1)
    return f"{float(row['train_peak_mib_mean']):,.0f}"


@table
def tuned_on_cora() -> list[list[str]]:
    """Published and searched settings on Cora."""
    rows = [["Cora, GAT", "published: clean", "published attack", "worst", "tuned: clean", "published attack", "worst"]]
    for name in DEFENSES:
        cells = []
        for label in (name, f"{name} tuned"):
            weak, worst = (board("gat", label, "cora", attack, folder="tuned/") for attack in ("injection", "worst"))
            cells += [number(weak["f1_clean_mean"]), number(weak["f1_mean"])]
            cells.append(f"{number(worst['f1_mean'])} {bracket(float(worst['f1_low']), float(worst['f1_high']))}")
        rows.append([title(name), *cells])
    return rows


# --- what was run


@cache
def manifest() -> dict[str, Any]:
    return json.loads((ROOT / "results" / "records" / "manifest.json").read_text(encoding="utf-8"))


@value
def repeated() -> str:
    """Return how many results of the pieces were measured more than once, with the same values."""
    return f"{Counter(entry['why'] for entry in manifest()['superseded'])['the same values']:,}"


@table
def steps() -> list[list[str]]:
    """Recorded steps of every suite by status."""
    statuses = ("ok", "oom", "timeout", "failed", "missing")
    rows = [["suite", *statuses]]
    for suite, counts in manifest()["suites"].items():
        rows.append([f"`{suite}`", *(f"{counts.get(status, 0):,}" for status in statuses)])
    return rows


@value
def trials(model: str, suite: str = "node") -> str:
    """Return the number of trials that every tuned row of a model had."""
    found = {row["trials"] for row in worst_rows(suite) if row["model"] == model and row["trials"]}
    return listed(sorted(found))


@value
def without_feasible_trial(settings: str) -> str:
    """Return the defenses of a search, with graph, of which no trial kept the clean score."""
    rows = read(f"../fgai_bench/suites/settings/{settings}.csv")
    kept = {(row["defense"], row["dataset"]) for row in rows if row["feasible"] == "yes"}
    lost = dict.fromkeys((row["defense"], row["dataset"]) for row in rows)
    graphs = {name: [title(graph) for other, graph in lost if other == name and (name, graph) not in kept]
              for name, _ in lost}  # fmt: skip
    return listed(f"{short_title(name)} on {listed(where)}" for name, where in graphs.items() if where)


@value
def rows_without_attention() -> str:
    """Return the tuned rows whose attention is uniform to seven digits."""
    rows = [row for row in select("tables/sanity.csv", column="entropy") if row["mean"]]
    off = [row for row in rows if float(row["mean"]) > 1 - 5e-8 and row["method"].endswith(" tuned")]
    return listed(f"{row['model']} with {row['method']} on {row['dataset']}" for row in off)


@value
def seeds(model: str) -> str:
    """Return the number of seeds of a model on the four graphs."""
    return board(model, "fgai tuned", GRAPHS[0])["n"]


@value
def measured_models(task: str) -> str:
    """Return the number of models on which the standard attack was held against its rivals."""
    return str(len(moved_by_twice(task)))


@value
def moved_on_average(task: str) -> str:
    """Return how much twice the search lowered them on average."""
    return number(mean(moved_by_twice(task)), 4)


@value
def moved_far(task: str) -> str:
    """Return how many of them it lowered by more than .02."""
    return str(sum(by > FAR for by in moved_by_twice(task)))


def moved_by_twice(task: str) -> list[float]:
    rows = select("../benchmarks/measured/standard_attack_h200.csv", task=task)
    return [float(row["worst"]) - float(row["worst-twice"]) for row in rows]
