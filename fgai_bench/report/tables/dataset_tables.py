"""Tables that are lists: statistics of the datasets, reasons for distrust."""

from typing import Any

from fgai_bench.report.tables.build import Shown, Table, TableRow, no_value
from fgai_bench.statistics.cells import UNEQUAL
from fgai_bench.statistics.labels import ordered, title
from fgai_bench.statistics.results import Place, Results

GRAPH_FACTS = {"#Nodes": "nodes", "#Edges": "edges", "#Node Features": "features"}
PARTS = {"Training": "train", "Validation": "val", "Test": "test"}
NODE_FACTS = GRAPH_FACTS | {"#Classes": "classes"} | {f"#{word} Nodes": f"{key}_nodes" for word, key in PARTS.items()}
LINK_FACTS = GRAPH_FACTS | {f"#{word} Links": f"{key}_links" for word, key in PARTS.items()}
FACTS = {"node": (NODE_FACTS, "node classification"), "link": (LINK_FACTS, "link prediction")}


def dataset_table(results: Results, task: str) -> Table | None:
    """Return the statistics of the datasets of a task, as the runs saw them."""
    facts, words = FACTS[task]
    names = ordered(results.names("dataset", task=task))
    if not names:
        return None
    known = [_facts(results, task, name) for name in names]
    rows = [TableRow((word,), tuple(_counted(recorded.get(key)) for recorded in known)) for word, key in facts.items()]
    caption = f"Statistics of the datasets used for {words}, as loaded. {results.version}."
    return Table(f"dataset_{task}", caption, ("Statistic",), tuple((title(n),) for n in names), tuple(rows), merged=0)


def _facts(results: Results, task: str, dataset: str) -> dict[str, Any]:
    """Return what the steps recorded about a dataset."""
    steps = {
        step.step: None
        for _, seeds in results.select(task=task, dataset=dataset)
        for step in seeds.values()
        if step.status == "ok"
    }
    rows = results.provenance
    known = rows[rows["hash"].isin(list(steps))].filter(regex="^data_") if len(rows) else rows
    told = {str(key).removeprefix("data_"): values.dropna() for key, values in known.items()}
    return {key: values.iloc[0] for key, values in told.items() if len(values)}


def _counted(value: Any) -> Shown:
    if value is None:
        return no_value("not recorded")
    return Shown(f"{int(value):,}", mean=float(value), n=1)


def flag_table(results: Results) -> Table | None:
    """Return every reason for distrust, with the place and the seeds that it concerns."""
    seeds_by_flag: dict[tuple[Place, str], list[int]] = {}
    for place, seeds in results.places.items():
        for seed, measured in seeds.items():
            for flag in measured.flags:
                if flag != UNEQUAL:  # a property of the suite, not a finding
                    seeds_by_flag.setdefault((place, flag), []).append(seed)
    if not seeds_by_flag:
        return None
    keys = ("suite", "dataset", "model", "label", "attack")
    rows = tuple(
        TableRow(
            tuple(title(getattr(place, key)) or "none" for key in keys),
            (Shown(flag), Shown(", ".join(map(str, sorted(seeds))))),
        )
        for (place, flag), seeds in seeds_by_flag.items()
    )
    caption = f"Reliability: reasons for distrust, found by the attacks or by comparing them. {results.version}."
    heads = ("Suite", "Dataset", "Model", "Method", "Attack")
    return Table("reliability", caption, heads, (("Reason",), ("Seeds",)), rows, merged=0)
