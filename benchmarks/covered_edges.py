"""Explanations on the edges that they cover: the theorem of one-hop networks, the planted lie, all rows, and time.

    python -m benchmarks.covered_edges contribution --datasets cora --seeds 0 1 --nodes 64
    python -m benchmarks.covered_edges edges --datasets cora
    python -m benchmarks.covered_edges time --datasets coauthor-physics
    python -m benchmarks.covered_edges lie --models gat gat-one-hop --run runs/lie
    python -m benchmarks.covered_edges rows --models gat --datasets amazon-photo --seeds 0 1 --run runs/rows

``contribution``: ``contribution``, the last attention and the nulls against true effects, one row for each network.
``edges``: how far new edges move explanations, ``explanation-edges`` beside random ones. ``time``: seconds of the true
effects and of every explainer that reads attention. ``lie``: the suite ``planted-lie``. ``rows``: the rows of the
study, published and tuned settings; its attack decides how stable explanations are; how right they are, it does not.

Every command goes on where it was stopped: it leaves out the rows of its CSV file, or the steps of its run folder.
``lie`` and ``rows`` write the tables of all that their run folder holds by then.
"""

from __future__ import annotations

import argparse
import csv
import io
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from tabulate import tabulate

import fgai_bench as fb
from fgai_bench.attacks import ATTACKS, ThreatModel
from fgai_bench.explainers import EXPLAINERS
from fgai_bench.metrics import measure
from fgai_bench.report.explanations import MEASURES
from fgai_bench.report.tables.build import Table
from fgai_bench.report.tables.markdown import to_csv
from fgai_bench.report.tables.measures import agreement_table, measure_counts_table, measure_table, planted_lie_table
from fgai_bench.statistics.results import Results
from fgai_bench.suites import load_suite
from fgai_bench.suites.overrides import changed
from fgai_bench.tasks.explanations import explain_offers, measured_effects
from fgai_bench.tasks.measurement import measured
from fgai_bench.tasks.node_classification import NodeProblem

GRAPHS = ("amazon-photo", "amazon-cs", "coauthor-cs", "coauthor-physics")
DEFENSES = ("vanilla", "ln", "at", "fgai", "fgai-attention")
SEEDS = {"gat": 10, "gatv2": 5, "gt": 5, "gat-one-hop": 5, "gatv2-one-hop": 5}
NULLS = ("random", "uniform", "degree", "untrained")
STABILITY = ("explainer_topk_overlap_unchanged", "explainer_rank_correlation_unchanged", "attention_topk_overlap")
IN_WORDS = ("measures", "counts")  # tables whose cells are signs or counts, and no numbers
ROOT = os.environ.get("FGAI_BENCH_DATA")
Row = dict[str, Any]


def trained(asked: argparse.Namespace, dataset: str, model: str, seed: int) -> tuple[NodeProblem, Any]:
    """Return a problem and a vanilla model with the settings of the suite ``node``, but for the epochs."""
    problem = NodeProblem.prepare(dataset, seed, ROOT, asked.device)
    built = fb.build_model(model, problem.data, seed=seed).to(asked.device)
    return problem, fb.fit("vanilla", built, problem.data, seed=seed, epochs=asked.epochs)


def explained(
    problem: NodeProblem, network: Any, attacked: Any, asked: argparse.Namespace, seed: int, names: tuple[str, ...]
) -> Iterator[tuple[str, dict[str, float], float, float]]:
    """Yield the metrics, seconds and peak memory of the true effects and of explainers; those of effects are none."""
    with measure(asked.device) as cost:
        effects = measured_effects(problem, network, attacked, seed, asked.nodes)
    yield "effects", {"explained_nodes": effects.clean.nodes.numel()}, cost.seconds, cost.peak_mib
    for name in names:
        with measure(asked.device) as cost:
            found = measured(explain_offers(EXPLAINERS[name](), problem, network, attacked, effects, seed)).metrics
        yield name, found, cost.seconds, cost.peak_mib


def contribution(asked: argparse.Namespace, dataset: str, model: str, seed: int) -> Iterator[Row]:
    """Yield how right ``contribution``, the last attention and the nulls are, on the edges into the node."""
    problem, network = trained(asked, dataset, model, seed)
    names = ("contribution", "attention-last", *NULLS)
    _, *rows = explained(problem, network, problem.data, asked, seed, names)
    for name, found, _, _ in rows:
        measures = {m: found.get(f"{m}_into_clean") for m in ("effect_spearman_logit", *MEASURES)}
        yield {"explainer": name, "nodes": int(found["explained_nodes"]), "epochs": asked.epochs, **measures}


def edges(asked: argparse.Namespace, dataset: str, model: str, seed: int) -> Iterator[Row]:
    """Yield how much of every explanation is left after the attack on explanations by edges, and after random edges."""
    problem, network = trained(asked, dataset, model, seed)
    threat = ThreatModel(scenario="edges", edges=asked.edges, steps=20)
    for attack in ("explanation-edges", "random-edges"):
        attacked = ATTACKS[attack]()(network, problem.data, problem.targets, threat=threat, seed=seed).data
        names = tuple(name for name in EXPLAINERS.names() if "post-hoc" not in EXPLAINERS.entry(name).tags)
        _, *rows = explained(problem, network, attacked, asked, seed, names)
        for name, found, _, _ in rows:
            stable = {metric: found.get(metric) for metric in STABILITY}
            yield {"edges": asked.edges, "attack": attack, "explainer": name, "epochs": asked.epochs, **stable}


def time(asked: argparse.Namespace, dataset: str, model: str, seed: int) -> Iterator[Row]:
    """Yield seconds of effects and of every explainer that reads attention, with all of its metrics, and their sum."""
    problem, network = trained(asked, dataset, model, seed)
    attacked = ATTACKS["random-injection"]()(network, problem.data, problem.targets, seed=seed).data
    names = tuple(name for name in EXPLAINERS.names() if "attention" in EXPLAINERS.entry(name).tags)
    warm = argparse.Namespace(**{**vars(asked), "nodes": 8})
    for _ in explained(problem, network, attacked, warm, seed, names):  # compiles kernels
        pass
    total = 0.0
    for name, found, seconds, peak in explained(problem, network, attacked, asked, seed, names):
        total += seconds
        nodes = int(found["explained_nodes"])
        yield {"what": name, "nodes": nodes, "device": asked.device, "seconds": seconds, "peak MiB": peak}
    yield {"what": "sum", "nodes": nodes, "device": asked.device, "seconds": total, "peak MiB": None}


def lie(asked: argparse.Namespace) -> None:
    """Run the suite of the planted lie and write its table."""
    suite = changed(load_suite("planted-lie"), explained_nodes=asked.nodes)
    chosen = {"models": asked.models, "seeds": asked.seeds, "device": asked.device, "assignments": epochs_of(asked)}
    fb.run(suite, asked.run, executor="inline", **chosen)
    write_tables(asked, planted_lie=planted_lie_table)


def rows(asked: argparse.Namespace) -> None:
    """Run the rows of the study and write what each measure says of them; floors and the rest are not needed."""
    attack = "injection"
    unneeded = {"certificates": [], "agreement": False, "sanity": False, "metrics": []}
    kept = {**unneeded, "explained_attacks": [attack], "explained_nodes": asked.nodes}
    where = {"datasets": asked.datasets or GRAPHS, "attacks": [attack], "device": asked.device, "data_root": ROOT}
    for model in asked.models or SEEDS:
        settings = "both" if model in ("gat", "gatv2", "gt") else "published"
        seeds = SEEDS.get(model, 5) if asked.seeds is None else asked.seeds
        suite = changed(load_suite("node"), **kept, explained_datasets=[])
        grid = {"models": [model], "defenses": asked.defenses or DEFENSES, "seeds": seeds, "settings": settings}
        fb.run(suite, asked.run, jobs=asked.jobs, assignments=epochs_of(asked), retry_failed=True, **grid, **where)
    write_tables(asked, measures=measure_table, counts=measure_counts_table, agreement=agreement_table)


def epochs_of(asked: argparse.Namespace) -> list[str]:
    """Return the assignments of a run: none with the epochs of the suite."""
    return [] if asked.epochs is None else [f"training.epochs={asked.epochs}"]


def write_tables(asked: argparse.Namespace, **tables: Callable[[Results], Any]) -> None:
    """Write each table that the run folder has something for as a CSV file: ``covered_edges_NAME.csv``."""
    asked.out.mkdir(parents=True, exist_ok=True)
    results = Results.read(asked.run)
    for name, make in tables.items():
        if (table := make(results)) is not None:
            text = in_words(table) if name in IN_WORDS else to_csv(table)
            (asked.out / f"covered_edges_{name}.csv").write_text(text, encoding="utf-8")
            print(tabulate([[*r.heads, *(c.text for c in r.cells)] for r in table.rows]))


def in_words(table: Table) -> str:
    """Return a table as CSV with one line per row: its heads, then the text of every cell."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*(head.lower() for head in table.heads), *(" / ".join(path) for path in table.columns)])
    writer.writerows([*row.heads, *(cell.text for cell in row.cells)] for row in table.rows)
    return out.getvalue()


def by_network(asked: argparse.Namespace, what: Callable[..., Iterator[Row]]) -> None:
    """Add the rows of every network that the CSV file does not have yet, network by network."""
    path = asked.out / f"covered_edges_{asked.what}.csv"
    known: list[dict[str, str]] = []
    if path.is_file():
        with path.open(newline="", encoding="utf-8") as file:
            known = list(csv.DictReader(file))
    done = {(row["dataset"], row["model"], row["seed"]) for row in known}
    for dataset in asked.datasets or GRAPHS:
        for model in asked.models:
            for seed in asked.seeds or [0]:
                if (dataset, model, str(seed)) in done:
                    continue
                found = [
                    {"dataset": dataset, "model": model, "seed": seed, **row}
                    for row in what(asked, dataset, model, seed)
                ]
                lines = [{key: shown(value) for key, value in row.items()} for row in found]
                with path.open("a", newline="", encoding="utf-8") as file:
                    writer = csv.DictWriter(file, list(lines[0]), lineterminator="\n")
                    if not file.tell():
                        writer.writeheader()
                    writer.writerows(lines)
                print(tabulate(lines, headers="keys"), flush=True)


def shown(value: Any) -> Any:
    """Return a cell: four digits of a number, nothing where nothing was measured."""
    return f"{value:.4f}" if isinstance(value, float) else "" if value is None else value


def main(arguments: list[str] | None = None) -> None:
    """Do what the command line asks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("contribution", "edges", "time", "lie", "rows"))
    parser.add_argument("--datasets", nargs="+", help="the four real graphs if none is named")
    parser.add_argument("--models", nargs="+")
    parser.add_argument("--defenses", nargs="+", help="of rows")
    parser.add_argument("--seeds", nargs="+", type=int)
    parser.add_argument("--nodes", type=int, default=256, help="that are explained")
    parser.add_argument("--epochs", type=int, help="of a training; those of the suite if not given")
    parser.add_argument("--edges", type=int, default=40, help="that the attack `edges` may add")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--run", type=Path, help="run folder of lie and rows")
    parser.add_argument("--jobs", type=int, help="steps of rows at a time, as of `fgai-bench run`")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "measured", help="folder of the CSV files")
    asked = parser.parse_args(arguments)
    if asked.what in ("lie", "rows"):
        asked.run = asked.run or Path("runs") / f"covered-edges-{asked.what}"
        {"lie": lie, "rows": rows}[asked.what](asked)
    else:
        asked.epochs = asked.epochs or {"time": 20}.get(asked.what, 200)
        asked.models = asked.models or [{"contribution": "gat-one-hop"}.get(asked.what, "gat")]
        by_network(asked, {"contribution": contribution, "edges": edges, "time": time}[asked.what])


if __name__ == "__main__":
    main()
