"""Nulls of recorded injection attacks: what a uniform attention would have scored, without any model.

Come here to add the null of stability to records that were made before attacks measured it. A uniform attention depends
on the two graphs alone, and the edges of an injection at random places on dataset, threat model and seed alone, so a
CPU reproduces both. An attack counts as reproduced only if the sample of attention that it recorded shows the same
injected edges, but for draws that tie: a GPU may take the other of two targets with equal random numbers. Each null
becomes a ``measure`` step with its own provenance, which counts the edges that were compared; the places of all rows
that faced these edges share it.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import torch
from safetensors.numpy import load
from torch import Tensor
from torch_geometric.data import Data

from fgai_bench.attacks import ThreatModel
from fgai_bench.attacks.injection import injected_edges
from fgai_bench.metrics import METRICS
from fgai_bench.records.canonical import plain, sha256
from fgai_bench.records.errors import RequestError
from fgai_bench.records.export import export
from fgai_bench.records.provenance import environment
from fgai_bench.records.result import Result
from fgai_bench.records.store import Store, StoreReader
from fgai_bench.run.execute import problem_of
from fgai_bench.run.identity import code_of
from fgai_bench.run.plan import Step
from fgai_bench.tasks.measurement import Offers, uniform_offers, value_of

KEPT = ("task", "dataset", "seed", "threat")  # of an attack's configuration: all that its edges depend on
SAME = 0.9  # of the injected edges that a sample shows must be among those that were drawn again
SEARCHED = ("step", "steps", "restarts", "feature_low", "feature_high")  # of a threat model: not what is attached where


@dataclass(frozen=True)
class Attacks:
    """The recorded attacks that attached the same edges to the same graph.

    Attributes:
        config: task, dataset, seed and threat model.
        members: their places.
        samples: per step, the sample of attention that it recorded.
    """

    config: dict[str, Any]
    members: list[dict[str, Any]]
    samples: list[bytes]


def add_nulls(
    records: str | os.PathLike[str], out: str | os.PathLike[str], data_root: str | None = None
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Write the records with the nulls of their injection attacks to ``out``; return its manifest and the nulls.

    Args:
        records: exported records, or a run folder.
        out: a folder for the new export; ``records`` itself is replaced only if it is named here.
        data_root: where the datasets lie.
    """
    computed = []
    with tempfile.TemporaryDirectory() as folder:
        with StoreReader(records) as store:
            groups = list(attacks_by_edges(store))
        with closing(Store(folder)) as new:
            for group in groups:
                for step, result in null_steps(group, data_root):
                    metric = step.config["metric"]["name"]
                    new.record(step, result)
                    new.place({**member, "step": step.hash, "metric": metric} for member in group.members)
                    computed.append({**group.config, "metric": metric, "value": result.metrics[metric]})
        if not computed:
            raise RequestError(f"{records} holds no injection attack whose edges can be reproduced and lack a null")
        return export([records, folder], out), computed


def attacks_by_edges(store: StoreReader) -> Iterator[Attacks]:
    """Yield the recorded injection attacks without a null, grouped by the edges that they attach."""
    steps = {step["hash"]: step for step in store.steps() if step["kind"] == "attack" and step["status"] == "ok"}
    samples = store.reported()
    groups: dict[str, Attacks] = {}
    for member in store.members():
        step = steps.get(member["step"])
        sample = samples.get((member["step"], "attention"))
        if step is None or sample is None or member.get("metric") or not _lacks_null(step):
            continue
        config = {key: step["config"][key] for key in KEPT}
        config["threat"] = {key: value for key, value in config["threat"].items() if key not in SEARCHED}
        group = groups.setdefault(sha256(config), Attacks(config, [], []))
        group.members.append(member)
        group.samples.append(sample)
    yield from groups.values()


def _lacks_null(step: Mapping[str, Any]) -> bool:
    measured = {row["name"] for row in step["metrics"]}
    return step["config"]["threat"]["scenario"] == "injection" and not measured.intersection(METRICS.names("null"))


def null_steps(group: Attacks, data_root: str | None = None) -> Iterator[tuple[Step, Result]]:
    """Yield a step and its result for each null of a group; nothing where its edges are not the recorded ones."""
    problem = problem_of({**group.config, "device": "cpu"}, data_root)
    threat = ThreatModel(**group.config["threat"])
    nodes = problem.data.x.shape[0]
    targets = problem.targets if threat.targets == "test" else torch.arange(nodes)
    edges = injected_edges(nodes, targets, threat, group.config["seed"])
    shared, recorded = edges_in_common(group.samples, edges, nodes)
    if shared < SAME * recorded or not recorded:
        return
    facts = {**problem.provenance, "injected_edges_recorded": recorded, "injected_edges_the_same": shared}
    attacked = Data(
        x=torch.empty(nodes + threat.nodes, 0), edge_index=torch.cat([problem.data.edge_index, edges], dim=1)
    )
    offers = Offers(uniform_offers(problem.data, attacked))
    for name in METRICS.names("null"):
        started, clock = time.time(), time.perf_counter()
        entry = METRICS.entry(name)
        metric = {"name": name, "version": entry.version, "direction": entry.direction}
        config = {**group.config, "kind": "measure", "metric": metric}
        config = plain({**config, "code": code_of("measure", config)})
        value = value_of(name, offers)
        seconds = time.perf_counter() - clock
        result = Result(metrics={name: value}, facts=facts, environment=environment(), started=started, seconds=seconds)
        yield Step(sha256(config), "measure", config, {}, sha256(config)), result


def edges_in_common(samples: Iterable[bytes], edges: Tensor, nodes: int) -> tuple[int, int]:
    """Return how many of the injected edges that recorded samples show are among ``edges``, and how many they show."""
    shown = {
        (int(source), int(destination))
        for sample in samples
        for source, destination in load(sample)["edge_index"].T
        if max(source, destination) >= nodes
    }
    return len(shown & {(int(source), int(destination)) for source, destination in edges.T}), len(shown)


def summary(computed: list[dict[str, Any]]) -> list[list[str]]:
    """Return the nulls as rows of text: dataset, task, budget, metric, mean over seeds."""
    groups: dict[tuple[str, ...], list[float]] = {}
    for null in computed:
        threat = null["threat"]
        budget = f"{threat['nodes']} x {threat['edges_per_node']}"
        key = (null["dataset"]["name"], null["task"]["name"], budget, null["metric"])
        groups.setdefault(key, []).append(null["value"])
    return [[*key, str(len(values)), f"{sum(values) / len(values):.3g}"] for key, values in sorted(groups.items())]
