"""What the pages quote of the study: each function answers one kind of mark from the CSV files that reports write.

Values are texts, tables are lists of rows with the header first. ``docs/fill.py`` says how a page names them.
A defense is named as in the leaderboards: ``fgai`` has the published settings, ``fgai tuned`` the searched ones.
"""

from __future__ import annotations

import csv
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.standard_attack_tables import TABLES as STANDARD_ATTACK
from fgai_bench.data import DATASETS
from fgai_bench.statistics import numbers
from fgai_bench.statistics.intervals import Comparison, centre, interval, mean
from fgai_bench.statistics.labels import title
from fgai_bench.suites.schema import INDUCTIVE

ROOT = Path(__file__).parent.parent
GRAPHS = ("amazon-photo", "amazon-cs", "coauthor-cs", "coauthor-physics")
CITATIONS = ("cora", "citeseer", "pubmed")
MODELS = ("gat", "gatv2", "gt")
DEFENSES = ("vanilla", "ln", "at", "fgai")
REPLACED = ("gcn", "gnn-svd-sparse", "gnnguard-sparse")  # networks that take the place of GAT
NULL = "uniform-attention"
FAR = 0.02  # by how much twice the search may lower a worst case before it is called unreliable
H200 = "../benchmarks/measured/h200.csv"
WORST = "../benchmarks/measured/standard_attack_h200.csv"
SCORES = {"node": "f1", "link": "roc_auc", "stress": "f1", "ablation": "f1"}
STAGES = {
    "published": "Published attack, published settings",
    "worst": "Worst case, published settings",
    "tuned": "Worst case, tuned settings",
}

Row = dict[str, str]
Rows = list[list[str]]
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


# Reading


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
    name = f"{folder}leaderboard_{'link' if suite == 'link' else 'node'}_full.csv"
    return single(name, suite=suite, model=model, defense=defense, dataset=dataset, attack=attack)


def by_seed(row: Row, metric: str) -> dict[int, float]:
    """Return the values of a row of a leaderboard, seed by seed."""
    values = zip(row["seeds"].split(), row[f"{metric}_values"].split(), strict=True)
    return {int(seed): float(value) for seed, value in values}


def worst_rows(suite: str = "node") -> list[Row]:
    """Return the rows of the worst case, without nulls."""
    rows = select(f"leaderboard_{suite}_full.csv", suite=suite, attack="worst")
    return [row for row in rows if row["defense"] != NULL and row[f"{SCORES[suite]}_mean"]]


def trained(models: Sequence[str], dataset: str) -> list[Row]:
    """Return the rows of the worst case that are ways to train some models, not networks in their place."""
    rows = [row for row in worst_rows() if row["model"] in models and row["dataset"] == dataset]
    return [row for row in rows if row["defense"].removesuffix(" tuned") not in REPLACED]


def paired(model: str, left: str, right: str, dataset: str, suite: str = "node") -> Comparison:
    """Compare what two rows keep under the worst case, seed by seed."""
    values = [by_seed(board(model, name, dataset, suite=suite), SCORES[suite]) for name in (left, right)]
    return Comparison.of(*values, "identity")


def on_the_four(rows: Iterable[Row]) -> list[Row]:
    """Return the rows of a table that are about the four graphs of the study."""
    return [row for row in rows if row["dataset"] in map(title, GRAPHS)]


# Writing


def number(text: str | float, digits: int = 3) -> str:
    return f"{float(text):.{digits}f}"


def signed(middle: float, low: float, high: float, side: float) -> str:
    """Write a difference with its interval, bold where it is shown to lie on a side of 0."""
    text = f"{middle:+.3f} [{low:+.3f}, {high:+.3f}]"
    return f"**{text}**" if side else text


def listed(names: Iterable[str], nothing: str = "none") -> str:
    """Write names as a list in a sentence."""
    return numbers.listed(list(names) or [nothing])


def short_title(name: str) -> str:
    """Write a name as tables do, without what tells two versions of a method apart."""
    return title(name).replace(" (sparse)", "")


def clean_to_worst(row: Row, score: str = "f1") -> str:
    """Write ``clean → worst [interval]``, medians; bold ranks first, † is unreliable, § has seeds in two groups."""
    low, high = (float(row[f"{score}_{end}"]) for end in ("low", "high"))
    digits = 2 if number(low, 2) != number(high, 2) else 3
    text = f"{number(row[f'{score}_clean_median'])} → {number(row[f'{score}_median'])}"
    text += f" [{number(low, digits)}, {number(high, digits)}]" + ("†" if "unreliable" in row["flags"] else "")
    text += "§" if row["two_groups"] else ""
    return f"**{text}**" if row["rank"] == "1" else text


def sides(shown: Sequence[int]) -> dict[str, str]:
    """Return how many differences are shown to be above zero and below it, and how many there are."""
    return {"all": str(len(shown)), "above": str(shown.count(1)), "below": str(shown.count(-1))}


def shown_side(row: Row) -> int:
    """Return the side of zero of a difference in a table, which is bold where it is shown."""
    return int(row["bold"]) * (1 if float(row["mean"]) > 0 else -1)


def grid(corner: str, columns: Iterable[Any], rows: Mapping[str, Any], cell: Query) -> Rows:
    """Return a table with ``cell(row, column)`` in every place; columns are written as titles."""
    columns = list(columns)
    header = [corner, *(short_title(name) for name in columns)]
    return [header, *([label, *(cell(row, name) for name in columns)] for label, row in rows.items())]


# The worst case


@value
def clean(model: str, defense: str, dataset: str) -> str:
    """Return the mean F1 on the clean graph."""
    return number(board(model, defense, dataset)["f1_clean_mean"])


@value
def graphs_where(defense: str, relation: str, control: str) -> str:
    """Return the graphs on which a row in GAT's place is shown to keep more (above) or less (below) than another."""
    wanted = {"above": 1, "below": -1}[relation]
    graphs = (title(graph) for graph in GRAPHS if paired("gat", defense, control, graph).side == wanted)
    return listed(graphs, "no graph")


@value
def graphs_where_gcn_beats(model: str) -> str:
    """Return the graphs on which the tuned GCN is shown to keep more than every way to train a model."""
    graphs = []
    for graph in GRAPHS:
        control = by_seed(board("gat", "gcn tuned", graph), "f1")
        compared = [Comparison.of(control, by_seed(row, "f1"), "identity") for row in trained([model], graph)]
        graphs += [title(graph)] if all(each.side > 0 for each in compared) else []
    return listed(graphs, "no graph")


# Further graphs

FURTHER = "../benchmarks/measured/graphs.csv"
PARTS = "../benchmarks/measured/heterophilous.csv"
NETWORKS = {"GCN": "gcn", "GAT": "vanilla"}  # to the name of the defense
THEIRS = {  # GCN and GAT of Platonov et al. 2023 (https://arxiv.org/abs/2302.11640), in percent; none for Actor
    "minesweeper": (89.75, 92.01),
    "tolokers": (83.64, 83.70),
    "squirrel-filtered": (39.47, 35.62),
    "chameleon-filtered": (40.89, 39.21),
}
SPLITS = {"transductive": "", "inductive": INDUCTIVE}


def means(column: str, file: str = FURTHER, **wanted: str) -> str:
    """Return mean and number of seeds of a column of the further graphs."""
    found = [float(row[column]) for row in select(file, **wanted) if row[column]]
    return f"{number(mean(found))} ({len(found)})" if found else "not measured"


@table
def defenses_on(dataset: str) -> Rows:
    """Clean score of every way to train a GAT, or network in its place, on one graph, with the number of seeds."""
    labels = ("vanilla", "clipped", "gcn", "soft-median", "rung", "elastic-gnn", "mlp")
    names = {label: title("gat" if label == "vanilla" else label) for label in labels}
    rows = [[name, means("clean", dataset=dataset, label=label)] for label, name in names.items()]
    return [["network", "clean F1 (seeds)"], *rows]


@table
def both_splits(*datasets: str) -> Rows:
    """What remains of a GAT whose training saw the test nodes, beside one whose training did not, where measured."""
    cells = {f"{part}, {split}": (part, split) for part in ("clean", "injection", "worst") for split in SPLITS}
    rows = {f"{title(name)}, {title(label)}": (name, label) for name in datasets for label in ("vanilla", "at", "fgai")}

    def cell(row: tuple[str, str], name: str) -> str:
        part, split = cells[name]
        return means(part, dataset=row[0] + SPLITS[split], label=row[1])

    def filled(some: Iterable[tuple[tuple[str, str], str]]) -> bool:
        return any(cell(*place) != "not measured" for place in some)

    columns = [name for name in cells if filled((row, name) for row in rows.values())]
    rows = {text: row for text, row in rows.items() if filled((row, name) for name in columns)}
    return grid("F1 (seeds)", columns, rows, cell)


@table
def gain_of_at(*datasets: str) -> Rows:
    """What adversarial training gains over no defense under the published attack, in either split, paired by seed."""

    def gain(dataset: str, split: str) -> str:
        scores = [
            {int(row["seed"]): float(row["injection"]) for row in select(FURTHER, dataset=dataset + split, label=label)}
            for label in ("at", "vanilla")
        ]
        found = Comparison.of(*scores, "identity")
        return signed(found.value, *(found.bounds or (0.0, 0.0)), found.side)

    return grid(
        "gain of AT", SPLITS, {title(name): name for name in datasets}, lambda row, name: gain(row, SPLITS[name])
    )


@table
def clean_beside_theirs() -> Rows:
    """Clean scores on the heterophilous graphs, with the number of splits, and what Platonov et al. report."""
    rows = [["graph", "score", "MLP", "GCN", "GAT", "GCN tuned", "GAT tuned", "their GCN", "their GAT"]]
    for graph in ("minesweeper", "tolokers", "actor", "squirrel-filtered", "chameleon-filtered"):
        networks = ("mlp", "gcn", "gat", "gcn-tuned", "gat-tuned")
        ours = [means("score", PARTS, dataset=graph, network=name) for name in networks]
        theirs = [number(percent / 100, 4) for percent in THEIRS[graph]] if graph in THEIRS else ["-", "-"]
        rows.append([title(graph), title(DATASETS[graph].score), *ours, *theirs])
    return rows


@table
def finals_on(*graphs: str) -> Rows:
    """Clean and worst-case scores on validation nodes in the final of a search: suite's settings, then the chosen."""
    found = select("../fgai_bench/suites/settings/graphs_heterophilous.csv")

    def cell(graph: str, column: str) -> str:
        name, _, settings = column.partition(", ")
        wanted = ("trial", "0") if settings == "suite's" else ("chosen", "yes")
        own = [row for row in found if (row["dataset"], row["defense"]) == (graph, NETWORKS[name])]
        (row,) = (row for row in own if row[wanted[0]] == wanted[1])
        return " → ".join(number(row[f"final_{when}"]) for when in ("clean", "attacked"))

    columns = [f"{name}, {settings}" for name in NETWORKS for settings in ("suite's", "tuned")]
    return grid("clean → worst case", columns, {title(graph): graph for graph in graphs}, cell)


@value
def best_clean(graph: str, network: str) -> str:
    """Return the highest clean validation score of a trial, whatever it keeps under attack."""
    found = select("../fgai_bench/suites/settings/graphs_heterophilous.csv", dataset=graph, defense=NETWORKS[network])
    return number(max(float(row["clean"]) for row in found))


@table
def parts_of_a_gat(dataset: str) -> Rows:
    """Clean scores of a GAT to which parts are added one by one, on the splits that were measured for all."""
    names = {
        "gat": "GAT of the suites: 2 layers of 8 heads x 8, dropout .6",
        "no-dropout": "no dropout, of features or attention",
        "head": "a linear layer after the two attention layers",
        "embedded": "and one before them",
        "residual": "and residual connections",
        "layer-norm": "and layer normalisation",
        "feed-forward": "and feed-forward blocks",
        "five-layers": "and five attention layers instead of two",
    }
    found = {name: select(PARTS, dataset=dataset, network=name) for name in names}
    common = set.intersection(*({row["split"] for row in rows} for rows in found.values()))
    scores = {name: [float(row["score"]) for row in rows if row["split"] in common] for name, rows in found.items()}
    rows = [[text, number(mean(scores[name]))] for name, text in names.items()]
    score = title(DATASETS[dataset].score)
    return [["each row has the changes above it, too", f"{score}, mean of {len(common)} splits"], *rows]


# Floors


@cache
def proven(model: str, defense: str, dataset: str, column: str) -> dict[int, float]:
    """Return a column of the measured floors by seed: clean, floor, worst_case or explanations."""
    rows = select("../benchmarks/measured/floors_h200.csv", model=model, label=defense, dataset=dataset)
    return {int(row["seed"]): float(row[column]) for row in rows}


@value
def graphs_where_floor_beats(model: str, defense: str, rivals: str, how: str) -> str:
    """Return the graphs on which a floor lies above what every attacked way to train some models keeps.

    ``how`` is ``median``, or ``paired`` for paired differences that are shown to be above zero.
    """
    graphs = []
    for graph in GRAPHS:
        rows = trained(rivals.split(), graph)
        floor = proven(model, defense, graph, "floor")
        compared = [Comparison.of(floor, by_seed(row, "f1"), "identity") for row in rows]
        higher = [median(floor.values()) > float(row["f1_median"]) for row in rows]
        shown = [each.side > 0 for each in compared]
        graphs += [title(graph)] if all(higher if how == "median" else shown) else []
    return "all four graphs" if len(graphs) == len(GRAPHS) else listed(graphs, "no graph")


@value
def graphs_where_floor_is_higher(one: str, other: str) -> str:
    """Return the graphs on which the mean floor of a row, ``model/defense``, is higher than that of another."""
    means = [
        {graph: mean(list(proven(*row.split("/"), graph, "floor").values())) for graph in GRAPHS}
        for row in (one, other)
    ]
    return listed((title(graph) for graph in GRAPHS if means[0][graph] > means[1][graph]), "no graph")


@value
def largest_gap(model: str, defense: str) -> str:
    """Return the largest difference between worst case and floor of a row, over graphs and seeds."""
    columns = [[proven(model, defense, graph, name) for graph in GRAPHS] for name in ("worst_case", "floor")]
    gaps = [worst[seed] - floor[seed] for worst, floor in zip(*columns, strict=True) for seed in floor]
    return number(max(gaps), 4)


@table
def headline() -> Rows:
    """Clean score / proven floor / worst case of eight networks, medians of seeds; the highest worst case is bold."""
    studied = {
        "GAT": "vanilla",
        "GAT, layer norm": "ln",
        "GAT, adversarial training": "at",
        "GAT, FGAI": "fgai",
        "GCN": "gcn",
        "GNNGuard": "gnnguard-sparse",
    }
    controls = {"one-hop GAT": ("gat-one-hop", "vanilla tuned"), "MLP": ("gat", "mlp tuned")}

    def scores(name: str, graph: str) -> list[float | None]:
        if name in controls:
            return [median(proven(*controls[name], graph, part).values()) for part in ("clean", "floor", "worst_case")]
        row = board("gat", f"{studied[name]} tuned", graph)
        return [float(row["f1_clean_median"]), None, float(row["f1_median"])]

    def cell(name: str, graph: str) -> str:
        *others, worst = ("\N{EN DASH}" if score is None else number(score) for score in scores(name, graph))
        highest = max(scores(other, graph)[-1] or 0.0 for other in names)
        return " / ".join([*others, f"**{worst}**" if worst == number(highest) else worst])

    names = [*studied, *controls]
    return grid("clean / proven / found", GRAPHS, {name: name for name in names}, cell)


@table
def floors() -> Rows:
    """Clean score, floor and worst case of the controls and voters, by graph."""
    rows = {
        "MLP (no graph)": ("gat", "mlp tuned"),
        "one-hop GAT": ("gat-one-hop", "vanilla tuned"),
        "one-hop GATv2": ("gatv2-one-hop", "vanilla tuned"),
        "votes (one-hop ensemble)": ("gat", "votes tuned"),
    }

    def cell(row: tuple[str, str], graph: str) -> str:
        clean_score, floor, worst = (
            number(median(proven(*row, graph, column).values())) for column in ("clean", "floor", "worst_case")
        )
        return f"{clean_score} → {floor} to {worst}"

    return grid("clean → proven floor to worst case", GRAPHS, rows, cell)


@table
def worst_case(model: str, settings: str, *others: str) -> Rows:
    """Defenses of a model by graph, clean → worst case; ``others`` are networks in its place."""
    suffix = {"tuned": " tuned", "published": ""}[settings]
    replacing = {f"*{short_title(name)} instead of {title(model)}*": name for name in others}
    rows = {title(name): name for name in DEFENSES} | replacing
    cell: Query = lambda name, graph: clean_to_worst(board(model, name + suffix, graph))  # noqa: E731
    return grid(f"{title(model)}, {settings} settings", GRAPHS, rows, cell)


@table
def repeated_search() -> Rows:
    """What three searches of one cell chose, beside the suite's own settings: scores of the final, and the settings."""
    found = select("../benchmarks/measured/repeated_search.csv")
    chosen = {f"search {int(row['repeat']) + 1}": row for row in found if row["chosen"] == "yes"}
    rows = {"the suite's settings": next(row for row in found if row["trial"] == "0"), **chosen}
    options = {"dropout": "model.dropout", "of attention": "model.attention_dropout", "learning rate": "training.lr"}

    def cell(row: Row, column: str) -> str:
        if column in options:
            return str(json.loads(row["settings"]).get(options[column], "-"))
        return number(row[f"final_{column.partition(', ')[2]}"])

    return grid("search", ("F1, clean", "F1, attacked", *options), rows, cell)


def searched(suite: str, models: Sequence[str]) -> list[tuple[str, str]]:
    """Return every (model, defense) that has both kinds of settings."""
    extra = {"gat": REPLACED} if suite == "node" else {}
    return [(model, name) for model in models for name in (*DEFENSES, *extra.get(model, ()))]


def gain(suite: str, model: str, defense: str, graph: str) -> Comparison:
    """Compare searched with published settings under the worst case."""
    return paired(model, f"{defense} tuned", defense, graph, suite)


@value
def tuning_gains(suite: str, relation: str) -> str:
    """Return in how many cells searched settings keep more (above) or less (below) under the worst case, or all."""
    rows = [gain(suite, *row, graph) for row in searched(suite, MODELS) for graph in GRAPHS]
    return sides([row.side for row in rows])[relation]


@table
def gains(suite: str, *models: str) -> Rows:
    """What searched settings add under the worst case, paired by seed."""
    rows = {f"{title(model)}, {short_title(name)}": (model, name) for model, name in searched(suite, models)}

    def cell(row: tuple[str, str], graph: str) -> str:
        by = gain(suite, *row, graph)
        return signed(by.value, *(by.bounds or (0.0, 0.0)), by.side)

    return grid("tuned minus published", CITATIONS if suite == "link" else GRAPHS, rows, cell)


ATTACKS = {"random features": "random-injection", "published attack": "injection", "worst case": "worst"}


@value
def mean_f1(name: str, column: str) -> str:
    """Return the mean F1 of a defense over the twelve cells, published settings: ``clean``, or under an attack."""
    attack, key = ATTACKS.get(column, "worst"), "f1_mean" if column in ATTACKS else "f1_clean_mean"
    return number(mean([float(board(model, name, graph, attack)[key]) for graph in GRAPHS for model in MODELS]))


@table
def attacks_side_by_side() -> Rows:
    """Mean F1 over the twelve cells, published settings: clean and under three attacks."""
    rows = {title(name): name for name in DEFENSES}
    return grid("mean over the 12 cells", ("clean", *ATTACKS), rows, mean_f1)


@table
def three_attacks(suite: str, *names: str) -> Rows:
    """Clean → published attack → worst case: models on one graph of nodes, or graphs of links for one model."""
    columns = CITATIONS if suite == "link" else MODELS
    rows = [*DEFENSES, *(f"{name} tuned" for name in DEFENSES if suite == "link")]

    def cell(defense: str, column: str) -> str:
        model, graph = (names[0], column) if suite == "link" else (column, names[0])
        weak = number(board(model, defense, graph, "injection", suite)[f"{SCORES[suite]}_median"])
        return clean_to_worst(board(model, defense, graph, suite=suite), SCORES[suite]).replace("→", f"→ {weak} →")

    return grid(title(names[0]), columns, {title(name): name for name in rows}, cell)


@table
def stress(*attacks: str) -> Rows:
    """What other attacks leave of GAT on amazon-photo with published settings."""
    rows = {f"`{attack}`": attack for attack in attacks}
    cell: Query = lambda attack, name: number(board("gat", name, "amazon-photo", attack, "stress")["f1_mean"])  # noqa: E731
    return grid("attack", DEFENSES, rows, cell)


@table
def ablation() -> Rows:
    """F1 under the attack ``worst`` of FGAI with some of its terms."""
    terms = ("similarity+prediction+explanation", "prediction", "similarity+prediction", "prediction+explanation",
             "similarity+explanation")  # fmt: skip
    columns = [f"{model}{suffix}" for model in MODELS for suffix in ("", " tuned")]

    def cell(term: str, column: str) -> str:
        model, tuned, _ = column.partition(" tuned")
        return number(board(model, term + tuned, "amazon-photo", suite="ablation")["f1_mean"])

    return grid("terms of FGAI", columns, {term.replace("+", ", "): term for term in terms}, cell)


@table
def tuned_on_cora() -> Rows:
    """Published and searched settings on Cora."""
    cell: Query = lambda name, attack: clean_to_worst(board("gat", name, "cora", attack, folder="tuned/"))  # noqa: E731
    rows = {title(name + suffix): name + suffix for suffix in ("", " tuned") for name in DEFENSES}
    return grid("Cora, GAT, clean → attacked", ("injection", "worst"), rows, cell)


# Ranks, and how far they can be trusted


def first_places(method: str, stage: str, how: str) -> str:
    """Return in how many of the twelve cells a way to train the model ranks first, ``alone`` or ``shared``."""
    first = on_the_four(select("tables/rank_changes.csv", column=f"{STAGES[stage]} / rank", text="1"))
    leaders = Counter((row["dataset"], row["model"]) for row in first)
    own = [leaders[row["dataset"], row["model"]] for row in first if row["method"] == method]
    return str(sum((number == 1) == (how == "alone") for number in own))


@table
def first_places_of_all() -> Rows:
    """In how many cells each way to train the model ranks first, alone and shared."""
    rows = {stage: key for key, stage in STAGES.items()}
    places: Query = lambda key, name: " + ".join(first_places(title(name), key, how) for how in ("alone", "shared"))  # noqa: E731
    return grid("first of 12 cells: alone + shared", DEFENSES, rows, places)


@value
def twice_the_search(suite: str, what: str) -> str:
    """Return the rows on which twice the search was run, or how many it lowers by more than .02."""
    slack = [float(row["worst_slack"]) for row in worst_rows(suite) if row["worst_slack"]]
    return str({"rows": len(slack), "lowered": sum(by > FAR for by in slack)}[what])


@value
def learned_placement(what: str) -> str:
    """Return the rows that both attacks have attacked, or how many have a seed where ``learned-placement`` won."""
    second = select("leaderboard_node_full.csv", suite="node", attack="learned-placement")
    both = {(row["dataset"], row["model"], row["defense"]) for row in second if row["f1_mean"]}
    found_by = [row["found_by"] for row in worst_rows() if (row["dataset"], row["model"], row["defense"]) in both]
    return str({"rows": len(found_by), "lower": sum("learned-placement" in names for names in found_by)}[what])


@table
def coverage() -> Rows:
    """How often intervals of recorded rows and differences cover, and how often a verdict on one is false."""
    found = read("../benchmarks/measured/coverage.csv")
    rows = {f"{row['what']}, {row['kind']} ({row['populations']})": (row["what"], row["kind"]) for row in found}
    ways = {row["way"]: row["way"] for row in found}
    columns = [f"{way}: {seeds} seeds" for way in ways for seeds in ("5", "10")]

    def cell(row: tuple[str, str], column: str) -> str:
        way, _, seeds = column.removesuffix(" seeds").partition(": ")
        (own,) = (r for r in found if (r["what"], r["kind"], r["way"], r["seeds"]) == (*row, way, seeds))
        return own["covered"] + (f", {own['false']} false" if own["false"] else "")

    return grid("covered, false verdicts", columns, rows, cell)


# Attention beside its nulls


@value
def against_uniform(relation: str) -> str:
    """Return how many rows of the worst case have a g-JSD above or below a uniform attention's, or all."""
    rows = [row for row in worst_rows() if row["g_jsd_mean"]]
    return sides([{"no": 1, "yes": -1}.get(row["beats_uniform"], 0) for row in rows])[relation]


@value
def rows_below_uniform() -> str:
    """Return the rows of the worst case whose attention is stabler than a uniform one, by name."""
    rows = [row for row in worst_rows() if row["beats_uniform"] == "yes"]
    return listed(f"{short_title(row['defense'])} on {title(row['dataset'])}" for row in rows)


@value
def fgai_below_vanilla(condition: str) -> str:
    """Return in how many cells the seeds show a smaller g-JSD of FGAI than of vanilla."""
    return single("claims.csv", id="fgai-attention-more-stable", condition=condition)["shown_alone"]


@value
def fgai_nearer_to_uniform() -> str:
    """Return in how many cells FGAI's attention has a higher entropy than vanilla's."""
    rows = (on_the_four(select("tables/sanity.csv", column="entropy", method=name)) for name in ("FGAI", "Vanilla"))
    return str(sum(float(own["mean"]) > float(other["mean"]) for own, other in zip(*rows, strict=True)))


@value
def rows_without_attention() -> str:
    """Return the tuned rows whose attention is uniform to seven digits."""
    rows = [row for row in select("tables/sanity.csv", column="entropy") if row["method"].endswith(" tuned")]
    off = [row for row in rows if row["mean"] and float(row["mean"]) > 1 - 5e-8]
    return listed(f"{row['model']} with {row['method']} on {row['dataset']}" for row in off)


@value
def slopes(method: str, relation: str) -> str:
    """Return in how many cells the F+ slope is below (steeper) or above that of a ranking by degree."""
    rows = on_the_four(select("tables/f_slope_nulls_pos.csv", method=method, column="degree / difference"))
    return sides([shown_side(row) for row in rows])[relation]


@value
def definition_holds(method: str) -> str:
    """Return the share of nodes on which all conditions of Definition 1 hold for GAT at R = 0.1."""
    return number(single("tables/definition.csv", model="GAT", method=method, column="holds (R=0.1)↑")["mean"])


# Explanations


@value
def stabler(origin: str, what: str = "all") -> str:
    """Return how many defended models have a stabler last attention than vanilla's, and how right it is.

    ``what``: all, a model's name, ``more right``, ``less right``, or ``beyond`` (also beyond a uniform attention).
    """
    rows = select("tables/rightness.csv", origin=origin)
    more = [row for row in rows if row["more_right_side"] == "1"]
    counts = {
        "all": len(rows),
        "more right": len(more),
        "less right": sum(row["more_right_side"] == "-1" for row in rows),
        "beyond": sum(row["beyond_null_side"] == "1" for row in more),
        **Counter(row["model"] for row in rows),
    }
    return str(counts[what])


@table
def stabler_counts() -> Rows:
    """How many stabler attentions are more or less right than vanilla's, by kind of settings."""
    rows = {"tuned, `node`": "node, tuned", "published, `node`": "node", "published, `stress`": "stress"}
    made = [["settings", "stabler models", "more right", "less right", "more right, and beyond"]]
    for name, origin in rows.items():
        made.append([name, *(stabler(origin, what) for what in ("all", "more right", "less right", "beyond"))])
    return made


@table
def stabler_attention(origin: str) -> Rows:
    """Every defense whose last attention is stabler than vanilla's, and whether it is also more right."""
    made = [["graph, model, defense", "top edges kept, vanilla's", "more right by", "beyond a uniform attention"]]
    for row in select("tables/rightness.csv", origin=origin):
        name = ", ".join(title(row[key]) for key in ("dataset", "model", "defense"))
        kept = f"{number(row['kept'], 2)}, {number(row['kept_by_vanilla'], 2)}"
        bounds = [[float(row[f"{what}{end}"]) for end in ("", "_low", "_high", "_side")]
                  for what in ("more_right", "beyond_null")]  # fmt: skip
        made.append([name, kept, *(signed(*each) for each in bounds)])
    return made


@table
def correctness() -> Rows:
    """Every explainer on two graphs: median rank correlation with the true effects, clean → worst."""
    found = select("tables/correctness.csv", suite="stress", model="GAT")
    cells = {(row["dataset"], row["explainer"], row["column"]): row["text"] for row in found}

    def cell(name: str, column: str) -> str:
        graph, method = column.split(", ")
        return " → ".join(cells[graph, name, f"{method} / {when}"].split(" [")[0] for when in ("clean", "attacked"))

    columns = [f"{graph}, {method}" for graph in ("Amazon-Photo", "Cora") for method in ("Vanilla", "FGAI")]
    return grid("explainer", columns, {row["explainer"]: row["explainer"] for row in found}, cell)


@table
def known_edges() -> Rows:
    """AUROC of vanilla GAT against the edges that truly matter, on the clean graph, and the best null."""
    found = select("explanations/tables/correctness.csv", model="GAT", column="Vanilla / clean")
    cells = {(row["dataset"], row["explainer"]): row for row in found}
    nulls = ("random", "uniform", "degree", "untrained")

    def cell(graph: str, name: str) -> str:
        if name != "best null":
            return cells[graph, name]["text"]
        best = max((cells[graph, null] for null in nulls), key=lambda at: float(at["mean"]))
        return f"{best['explainer']} {best['text']}"

    graphs = {row["dataset"]: row["dataset"] for row in found}
    return grid("AUROC", ("last attention", "GAtt", "integrated gradients", "best null"), graphs, cell)


def measured_of(what: str, **wanted: str) -> list[Row]:
    """Return rows of the benchmark of covered edges."""
    return select(f"../benchmarks/measured/covered_edges_{what}.csv", **wanted)


@value
def explained_rows(model: str = "") -> str:
    """Return how many rows, of all models or of one, are asked about their explanations."""
    of_model = {"model": model} if model else {}
    return str(len(measured_of("measures", explainer="last attention", **of_model)))


COUNTS_HEAD = "better / worse / undecided"


@value
def against_null(explainer: str, null: str, measure: str, relation: str) -> str:
    """Return in how many rows a measure, or the verdict of all, has an explainer above or below a null."""
    (row,) = measured_of("counts", explainer=explainer, null=null)
    return row[measure].split(" / ")[("above", "below").index(relation)]


@table
def verdicts_by_null() -> Rows:
    """In how many rows every explainer is above / below / not told from every null, by the majority of measures."""
    found = {(row["explainer"], row["null"]): row["verdict"] for row in measured_of("counts")}
    names, nulls = ({pair[place]: pair[place] for pair in found} for place in (0, 1))
    return grid(COUNTS_HEAD, nulls, names, lambda name, null: found[name, null])


@table
def measures_agree() -> Rows:
    """Rank correlation between the measures that have a vote, over rows of explainers."""
    found = {(row["measure"], row["column"]): row["text"] for row in measured_of("agreement")}
    names = [other for measure, other in found if measure == "rank corr." and other != "characterisation"]
    return grid("rank correlation", names, {name: name for name in names}, lambda one, other: found[one, other])


@table
def measures_by_null(explainer: str) -> Rows:
    """In how many rows an explainer is above / below / not told from every null, measure by measure."""
    found = {row["null"]: row for row in measured_of("counts", explainer=explainer)}
    no_measure = ("explainer", "null", "rows", "characterisation", "verdict")  # or one that has no vote
    measures = {name: name for name in next(iter(found.values())) if name not in no_measure}
    return grid(COUNTS_HEAD, found, measures, lambda name, null: found[null][name])


@value
def one_hop_sample() -> str:
    """Return how many seeds and nodes the comparison of one-hop networks has."""
    rows = measured_of("contribution", explainer="contribution")
    seeds, nodes = ({row[key] for row in rows} for key in ("seed", "nodes"))
    return f"{len(seeds)} seed{'s' if len(seeds) > 1 else ''}, {' or '.join(sorted(nodes))} nodes"


@table
def one_hop_contribution() -> Rows:
    """Rank correlation with true effects in one-hop GAT: mean over the seeds."""
    rows = {"`contribution`": "contribution", "last attention": "attention-last"}
    rows |= {"uniform": "uniform", "random": "random"}

    def cell(name: str, graph: str) -> str:
        found = measured_of("contribution", dataset=graph, explainer=name)
        return number(mean([float(row["effect_spearman"]) for row in found])) if found else "not measured"

    return grid("rank correlation with true effects", GRAPHS, rows, cell)


@table
def planted_lie() -> Rows:
    """Every measure of the lie and of the honest attention, at how many seeds it tells them apart, and the nulls."""
    cells = {(row["model"], row["measure"], row["column"]): row for row in measured_of("planted_lie")}
    models, measures = (dict.fromkeys(key[place] for key in cells) for place in (0, 1))
    made = [
        ["measure", *(f"{model}, {part}" for model in models for part in ("lie / honest", "seeds", "against nulls"))]
    ]
    for name in measures:
        texts = [name]
        for model in models:
            lie, honest, seeds, nulls = (
                cells[model, name, part] for part in ("lie", "honest", "seeds told", "lie against nulls")
            )
            both = f"{float(lie['mean']):.2f} / {float(honest['mean']):.2f}" if lie["mean"] and honest["mean"] else ""
            texts += [both, seeds["text"], nulls["text"]]
        made.append([text.replace("--", "") for text in texts])
    return made


def lie_measures(model: str, column: str, passes: Callable[[str], bool]) -> str:
    """Return the measures whose cell in a column of the planted lie passes; a verdict is none."""
    rows = measured_of("planted_lie", model=model, column=column)
    return listed(row["measure"] for row in rows if row["measure"] != "verdict" and passes(row["text"]))


@value
def lie_not_ordered(model: str) -> str:
    """Return the measures that do not prefer the honest attention at every seed."""
    return lie_measures(model, "orders the two", lambda text: text == "no")


@value
def lie_exposed(model: str) -> str:
    """Return the measures in which the attention that lies is below all nulls."""
    return lie_measures(model, "lie against nulls", lambda text: set(text.split()) == {"-"})


@value
def edge_attack_size() -> str:
    """Return how many new edges the compared attacks have."""
    return measured_of("edges")[0]["edges"]


@table
def edge_attack() -> Rows:
    """Share of the top edges of every explanation that is left after new edges, chosen or random."""
    rows = {f"`{row['explainer']}`": row["explainer"] for row in measured_of("edges")}

    def cell(name: str, attack: str) -> str:
        (row,) = measured_of("edges", explainer=name, attack=attack, dataset="cora", model="gat")
        return number(row["explainer_topk_overlap_unchanged"], 2)

    return grid("top edges kept", ("explanation-edges", "random-edges"), rows, cell)


# The paper


@value
def claims_the_paper_fails() -> str:
    """Return how many claims the paper's own tables do not show."""
    return str(len(select("claims.csv", condition="published", paper="fails")))


AS_RELEASED = "released, own budgets"  # the condition of claims whose records lie in a folder of their own


def claims_file(condition: str) -> str:
    return "paper/claims.csv" if condition == AS_RELEASED else "claims.csv"


@value
def claims(condition: str = "published", verdict: str = "") -> str:
    """Return how many claims apply under a condition, or have a verdict there."""
    return str(sum(verdict in ("", row["verdict"]) for row in select(claims_file(condition), condition=condition)))


@table
def verdicts() -> Rows:
    """How many claims have which verdict under which condition."""
    conditions = dict.fromkeys([AS_RELEASED, *(row["condition"] for row in read("claims.csv"))])
    rows = {condition: condition for condition in conditions}
    return grid("condition", ("supported", "refuted", "undecided", "not tested"), rows, claims)


@value
def claim(id: str, condition: str, what: str) -> str:
    """Return a column of a claim's verdict, such as in how many cells it is shown."""
    return single(claims_file(condition), id=id, condition=condition)[what]


@table
def verdicts_as_released() -> Rows:
    """Every claim about nodes as released: cells that means show, the paper's and ours, that seeds show, verdict."""
    rows = {row["id"]: row for row in select("paper/claims.csv", condition=AS_RELEASED)}

    def cell(id: str, column: str) -> str:
        row, cells = rows[id], sum(int(rows[id][name]) for name in ("holds", "fails", "open", "missing"))
        shown = row["shown_alone"] if int(row["needed"]) == cells else row["holds"]  # as in claims.md
        own = f"{row['paper_shows']} of {row['paper_cells']}" if int(row["paper_cells"]) else "no table"
        ours = f"{row['means_show']} of {row['means_cells']}"
        return {"paper, means": own, "ours, means": ours, "ours, shown": shown, "verdict": row["verdict"]}[column]

    names = {row["claim"].rstrip("."): id for id, row in rows.items()}
    return grid("claim", ("paper, means", "ours, means", "ours, shown", "verdict"), names, cell)


@value
def in_the_paper(model: str, defense: str, dataset: str, whose: str, settings: str = "") -> str:
    """Return the clean F1 of Table 2, ``published`` or ``ours``, with our settings or the ``released`` ones."""
    file = "paper/comparison.csv" if settings else "comparison.csv"
    label = f"{defense} {settings}".strip()
    about = {"table": "table2", "model": model, "defense": label, "dataset": dataset, "metric": "f1"}
    return number(single(file, **about)[f"{whose}_mean"])


@value
def reproduced(method: str, column: str) -> str:
    """Return the share of a method's values in Table 2 that come out: ``SETTINGS, BUDGETS, LIMIT``."""
    settings, budgets, limit = column.split(", ")
    about = {"table": "table2", "settings": settings, "budgets": budgets, "method": title(method)}
    file = "paper/comparison_shares.csv" if settings == "released" else "comparison_shares.csv"
    return single(file, **about)[f"within {limit}"]


@table
def reproduced_scores(limit: str) -> Rows:
    """Which share of Table 2 comes out within a limit, by method, settings and budgets."""
    kinds = {
        "our settings, one budget": "published, equal",
        "our settings, released budgets": "published, published",
        "released settings and budgets": "released, published",
    }
    methods = {title(name): name for name in ("all", *DEFENSES)}
    return grid("method", kinds, methods, lambda name, kind: reproduced(name, f"{kinds[kind]}, {limit}"))


DEVIATIONS = {
    "one-attack": "one inner attack for both terms (not ours)",
    "aim": "what the inner attack aims at",
    "inner-budget": "budget of the inner attack",
    "prediction-weight": "weight of the prediction term",
    "weights": "weights of the top-k terms, and k",
    "layer-norm": "layer normalisation",
    "self-loops": "self-loops",
    "no-elu": "no ELU on the logits",
    "best-epoch": "best epoch (FGAI: of its teacher)",
    "learning-rate": "learning rate .01",
    "published": "our settings",
}


@table
def deviations(score: str) -> Rows:
    """F1 of the released program by method and graph, then what each deviation changes; bold: shown."""
    found = {(row["method"], row["dataset"]): row for row in select("paper/tables/deviations.csv", column=score)}
    columns = [f"{title(name)}, {graph}" for name in ("fgai", "ln", "at") for graph in ("Amazon-Photo", "Coauthor-CS")]

    def cell(deviation: str, column: str) -> str:
        method, graph = column.split(", ")
        row = found.get((f"{method.lower()}/{deviation}", graph))
        if row is None:
            return "-"
        if deviation == "released":
            return number(row["mean"])
        mark = "**" * int(row["bold"])
        return f"{mark}{row['text'].split(', ')[1].split(' [')[0]}{mark}"

    rows = {"released program": "released"} | {label: name for name, label in DEVIATIONS.items()}
    return grid("F1, or its change", columns, rows, cell)


@value
def deviation(name: str, graph: str, score: str, what: str = "change") -> str:
    """Return the ``value`` of a line of the bridge, as FGAI/SELF-LOOPS, or its ``change`` with its interval."""
    row = single("paper/tables/deviations.csv", method=name, dataset=graph, column=score)
    return number(row["mean"]) if what == "value" else row["text"].split(", ", 1)[1]


@value
def budget_share(measure: str, which: str) -> str:
    """Return which share of the published gap between FGAI and vanilla the unequal budgets make."""
    return _share_of_budgets(measure, which)[0]


def _share_of_budgets(measure: str, which: str) -> tuple[str, str]:
    """Return the share, and its interval with the number of cells."""
    found = select("tables/budgets.csv", column=f"Share of the gap / {which}")
    shares = [float(row["mean"]) for row in found if row["measure"].rstrip("↑↓") == measure and row["mean"]]
    low, high = interval(shares) or (shares[0], shares[0])
    return f"{centre(shares):.0%}", f"[{low:.0%}, {high:.0%}], {len(shares)} cells"


@table
def budget_shares() -> Rows:
    """Which share of the published gap between FGAI and vanilla comes from the unequal budgets."""
    measures = {row["measure"].rstrip("↑↓"): row["measure"].rstrip("↑↓") for row in read("tables/budgets.csv")}
    columns = ("equal at the small", "equal at the large", "Shapley mean")
    return grid("share due to the budget", columns, measures, lambda *of: " ".join(_share_of_budgets(*of)))


# Cost, and what was run


@value
def cost_ratio(what: str, dataset: str) -> str:
    """Return how many times the seconds or the memory of vanilla FGAI needs."""
    key = {"seconds": "train_seconds_mean", "memory": "train_peak_mib_mean"}[what]
    file = "leaderboard_cost_full.csv"
    own, vanilla = (single(file, suite="cost", dataset=dataset, defense=name) for name in ("fgai", "vanilla"))
    return number(float(own[key]) / float(vanilla[key]), 1 if what == "seconds" else 2)


@table
def layers() -> Rows:
    """One attention layer beside PyG's: milliseconds, ratios, and how far it is from the bandwidth limit."""
    made = [["layer", "ours, ms", "PyG, ms", "ratio", "times the bandwidth limit", "ratio without CUDA graph"]]
    for model in MODELS:
        for graph in ("amazon-photo", "coauthor-cs", "coauthor-physics"):
            ours, launched = (single(H200, what=f"layer {model}{how}", dataset=graph) for how in (", recorded", ""))
            digits = {"ours ms": 3, "peer ms": 2, "ratio": 1, "above": 1}
            cells = [number(ours[key], places) for key, places in digits.items()]
            made.append([f"{title(model)}, {title(graph)}", *cells, number(launched["ratio"], 1)])
    return made


@table
def jobs() -> Rows:
    """Epochs and injection attacks of GAT beside PyG's: milliseconds and peak memory."""
    made = [["job", "ours, ms", "PyG, ms", "ratio", "ours, MiB", "PyG, MiB"]]
    for row in sorted(read(H200), key=lambda row: row["what"]):
        if row["what"].startswith(("epoch gat", "injection")):
            times = [number(row["ours ms"], 2), number(row["peer ms"], 1), number(row["ratio"], 1)]
            memory = [f"{float(row[side]):,.0f}" for side in ("ours MiB", "peer MiB")]
            made.append([f"{row['what']}, {row['dataset']}".replace("gat", "of GAT"), *times, *memory])
    return made


@table
def explainer_seconds() -> Rows:
    """Seconds of every explainer by graph, on the H200 / on two CPU cores."""
    files = [f"../benchmarks/measured/explainers_{where}.csv" for where in ("h200", "two_cores")]
    rows = {}
    for row in select(files[0], dataset=GRAPHS[0]):
        few = "" if int(row["nodes"]) > 64 else f", {row['nodes']} nodes"
        rows[("true effects" if row["what"] == "effects" else f"`{row['what']}`") + few] = row["what"]

    def cell(name: str, graph: str) -> str:
        timed = [select(file, dataset=graph, what=name) for file in files]
        return " / ".join(f"{float(found[0]['seconds']):.2g}" if found else "not timed" for found in timed)

    return grid("explainer", GRAPHS, rows, cell)


@value
def seconds_of_worst(graph: str) -> str:
    """Return the seconds of the standard attack on a trained GAT, alone on an H200."""
    return next(f"{float(row['seconds']):.1f}" for row in read(WORST) if row["dataset"] == graph and row["seconds"])


@value
def lowered_by_version_2(defense: str) -> str:
    """Return by how much version 2 of the standard attack lowers a seed of a row of GAT at most; the same network."""
    lower = []
    for row in select(WORST, model="gat", label=defense):
        recorded, seed = board("gat", defense, row["dataset"]), int(row["seed"])
        if abs(by_seed(recorded, "f1_clean")[seed] - float(row["clean"])) < 1e-6:
            lower.append(by_seed(recorded, "f1")[seed] - float(row["worst"]))
    return number(max(lower), 2)


@table
def standard_attack(name: str) -> Rows:
    """A table on the standard attack against others and further search, and under both threats (the first seed)."""
    return STANDARD_ATTACK[name](select(WORST, seed="0") if name == "threats" else read(WORST))


@table
def epochs_at_scale() -> Rows:
    """Seconds and memory of an epoch on the two largest graphs; the suite times twenty."""
    sizes = {"csbm-products": "2.4 million nodes", "arxiv-topology": "169,343 nodes"}
    rows = {f"{title(model)}, {size}": (model, graph) for graph, size in sizes.items() for model in MODELS}

    def cell(row: tuple[str, str], defense: str) -> str:
        found = select("leaderboard_cost_full.csv", suite="scale", model=row[0], dataset=row[1], defense=defense)
        timed = [[float(at[f"train_{key}_mean"]) for key in ("seconds", "peak_mib")] for at in found if at["n"] != "0"]
        return f"{timed[0][0] / 20:.3f}, {timed[0][1]:,.0f}" if timed else "not run"

    return grid("seconds of an epoch, MiB", ("vanilla", "at", "fgai"), rows, cell)


@cache
def manifest() -> dict[str, Any]:
    """Return what the export says of itself."""
    return json.loads((ROOT / "results" / "records" / "manifest.json").read_text(encoding="utf-8"))


@value
def repeated() -> str:
    """Return how many results of the pieces were measured more than once, with the same values."""
    return f"{Counter(entry['why'] for entry in manifest()['superseded'])['the same values']:,}"


@table
def steps() -> Rows:
    """Recorded steps of every suite by status."""
    rows = {f"`{suite}`": counts for suite, counts in manifest()["suites"].items()}
    statuses = ("ok", "oom", "timeout", "failed", "missing")
    return grid("suite", statuses, rows, lambda counts, status: f"{counts.get(status, 0):,}")


@value
def trials(model: str, suite: str = "node") -> str:
    """Return the number of trials that every tuned row of a model had."""
    return listed(sorted({row["trials"] for row in worst_rows(suite) if row["model"] == model and row["trials"]}))


@value
def seeds(model: str) -> str:
    """Return the number of seeds of a model on the four graphs."""
    return board(model, "fgai tuned", GRAPHS[0])["n"]
