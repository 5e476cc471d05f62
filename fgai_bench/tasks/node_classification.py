"""Node classification: predict the class of each test node; the attacker injects nodes next to the test nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from fgai_bench.attacks import Attacked
from fgai_bench.attacks.objectives import Readout
from fgai_bench.data import Split, load_dataset
from fgai_bench.defenses.training import NodeSupervision
from fgai_bench.metrics import (
    degree_ranking,
    f_acc_curve,
    f_slope,
    micro_f1,
    random_ranking,
    unchanged,
    uniform_ranking,
)
from fgai_bench.metrics.f_slope import RATES
from fgai_bench.models import Attention
from fgai_bench.models.base import AttentionModel, Output, undisturbed
from fgai_bench.tasks.problem import (
    Measured,
    Problem,
    attention_of,
    measure_attention,
    measure_noise_floor,
    measure_stability,
    measure_stability_of_unchanged,
)


class NodeProblem(Problem):
    """Node classification on one dataset and seed."""

    task = "node"

    def __init__(self, data: Data, split: Split, seed: int = 0, provenance: dict[str, Any] | None = None) -> None:
        self.data, self.split, self.seed = data, split, seed
        self.training_data = without_test_labels(data, split)
        self.supervision = NodeSupervision(self.training_data, split)
        self.targets = split.test
        self.num_outputs = int(data.y.max()) + 1
        self.provenance = provenance or {}

    @classmethod
    def prepare(cls, dataset: str, seed: int, root: Any = None, device: str = "cpu") -> NodeProblem:
        """Load the dataset with the split of this seed onto ``device``."""
        loaded = load_dataset(dataset, seed=seed, root=root)
        provenance = {
            "dataset": dataset,
            "checksum": loaded.checksum,
            "split_hash": loaded.split_hash,
            "nodes": loaded.x.shape[0],
            "edges": loaded.edge_index.size(1) // 2,
            "features": loaded.x.shape[1],
            "classes": int(loaded.y.max()) + 1,
            "train_nodes": loaded.train_index.numel(),
            "val_nodes": loaded.val_index.numel(),
            "test_nodes": loaded.test_index.numel(),
        }
        data = loaded.to(device)
        return cls(data, Split.of(data), seed, provenance)

    def training_targets(self, which: str) -> tuple[Tensor, Readout | None]:
        if which not in ("all", "train"):
            raise ValueError(f"an inner attack aims at 'all' nodes or the 'train' nodes, not at {which!r}")
        nodes = torch.arange(self.data.x.shape[0], device=self.targets.device)
        return (nodes if which == "all" else self.split.train), None

    def clean(self, model: AttentionModel, sanity: bool = False) -> Measured:
        out = self.output(model, self.data)
        found = Measured()
        found.add("f1", lambda: self._f1(out))
        measure_attention(found, out)
        again = self.output(model, self.data)
        measure_noise_floor(found, out.logits, again.logits, out, again)
        self._measure_f_slope(found, model, self.data, out, attention_of, "")
        if sanity:
            self._measure_sanity(found, model, out)
        return found

    def attacked(self, model: AttentionModel, attacked: Attacked) -> Measured:
        nodes = self.data.x.shape[0]
        clean, perturbed = self.output(model, self.data), self.output(model, attacked.data)
        found = Measured()
        found.add("f1", lambda: self._f1(perturbed))
        measure_stability(found, clean.logits, perturbed.logits[:nodes], clean, perturbed)
        same = unchanged(clean.logits, perturbed.logits[:nodes])
        measure_stability_of_unchanged(found, same, clean, perturbed)
        self._measure_f_slope(found, model, attacked.data, clean, lambda _: attention_of(perturbed), "")
        return found

    def _f1(self, out: Output) -> float:
        return micro_f1(out.logits[self.split.test].argmax(1), self.data.y[self.split.test])

    def _measure_f_slope(
        self,
        found: Measured,
        model: AttentionModel,
        graph: Data,
        clean: Output,
        ranking: Callable[[Output], Attention],
        label: str,
    ) -> None:
        """F+ and F- on ``graph``; the nodes that count are the test nodes that were right on the clean graph."""
        with undisturbed(model), torch.no_grad():
            embedded = model.embed(graph.x)
            for sign, highest in (("pos", True), ("neg", False)):

                def slope(sign: str = sign, highest: bool = highest) -> float:
                    curve = self._f_acc(model, embedded, graph, ranking(clean), clean, highest)
                    found.curves[f"f_acc_{sign}{label}"] = (RATES, curve)
                    return f_slope(RATES, curve)

                found.add(f"f_slope_{sign}{label}", slope)

    def _f_acc(
        self, model: AttentionModel, embedded: Tensor, graph: Data, ranking: Attention, clean: Output, highest: bool
    ) -> tuple[float, ...]:
        test = self.split.test
        right = test[clean.logits[test].argmax(1) == self.data.y[test]]
        nodes = self.data.x.shape[0]
        return f_acc_curve(
            lambda edges: model.propagate(embedded, edges).logits[:nodes].argmax(1),
            graph,
            ranking,
            self.data.y,
            right,
            highest=highest,
            right_before=True,
        )

    def _measure_sanity(self, found: Measured, model: AttentionModel, clean: Output) -> None:
        """The same curves for rankings that know nothing of the model, and for the attention of an untrained one."""
        rankings = {
            "_random": lambda out: random_ranking(self.data.edge_index, self.seed),
            "_uniform": lambda out: uniform_ranking(self.data.edge_index),
            "_degree": lambda out: degree_ranking(self.data.edge_index),
            "_untrained": lambda out: attention_of(self.output(model.rebuilt(self.seed + 1), self.data)),
        }
        for label, ranking in rankings.items():
            self._measure_f_slope(found, model, self.data, clean, ranking, label)


def without_test_labels(data: Data, split: Split) -> Data:
    """The same graph with label -1 on the test nodes, so that no defense can read them."""
    hidden = Data.from_dict(dict(data.to_dict()))
    hidden.y = data.y.clone()
    hidden.y[split.test] = -1
    return hidden
