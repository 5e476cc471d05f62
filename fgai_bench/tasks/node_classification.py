"""Node classification: predict the class of each test node; the attacker injects nodes next to the test nodes."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import subgraph

from fgai_bench.attacks.objectives import Readout
from fgai_bench.data import Split, load_dataset
from fgai_bench.data.dataset import score_of
from fgai_bench.data.graph import select_rows
from fgai_bench.defenses.training import NodeSupervision
from fgai_bench.metrics import NotApplicable, degree_ranking, edges_into, f_acc_curve, random_ranking, uniform_ranking
from fgai_bench.metrics.f_slope import RATES
from fgai_bench.metrics.inputs import attention_of
from fgai_bench.metrics.prediction import unchanged
from fgai_bench.models import Attention, align
from fgai_bench.models.base import AttentionModel, Output, frozen_eval
from fgai_bench.tasks.base import Problem
from fgai_bench.tasks.measurement import Offers, clean_offers, not_empty, pair_offers, reached_by_attack, uniform_offers


class NodeProblem(Problem):
    """Node classification on one dataset and seed.

    Where it is ``inductive``, training and validation see the graph without its test nodes.
    """

    summary = "node classification: F1 or ROC-AUC, stability of outputs and attention, F-slope, explanations"
    tags = ("explained", "inductive")
    task = "node"

    def __init__(
        self,
        data: Data,
        split: Split,
        seed: int = 0,
        provenance: dict[str, Any] | None = None,
        inductive: bool = False,
    ) -> None:
        self.data, self.split, self.seed, self.inductive = data, split, seed, inductive
        hidden = without_test_nodes if inductive else without_test_labels
        self.training_data, self._training_split = hidden(data, split)
        self.supervision = NodeSupervision(self.training_data, self._training_split)
        self.targets = split.test
        self.num_outputs = int(data.y.max()) + 1
        self.provenance = provenance or {}

    @classmethod
    def prepare(
        cls, dataset: str, seed: int, root: Any = None, device: str = "cpu", inductive: bool = False
    ) -> NodeProblem:
        """Load the dataset with the split of this seed onto ``device``."""
        loaded = load_dataset(dataset, seed=seed, root=root, sparse=True)
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
        return cls(loaded, Split.of(loaded), seed, provenance, inductive).to(device)

    @property
    def training_split(self) -> Split:
        return self._training_split

    def to(self, device: str) -> NodeProblem:
        split = Split(*(part.to(device) for part in (self.split.train, self.split.val, self.split.test)))
        return NodeProblem(copy(self.data).to(device), split, self.seed, self.provenance, self.inductive)

    def without_test(self) -> NodeProblem:
        seen, split = self.training_data, self.training_split
        data = Data(x=seen.x, edge_index=seen.edge_index, y=seen.y, score=score_of(seen))
        held = NodeProblem(data, Split(split.train, split.val, split.test[:0]), self.seed, self.provenance)
        held.targets, held.num_outputs = split.val, self.num_outputs
        return held

    def training_targets(self, which: str) -> tuple[Tensor, Readout | None]:
        nodes = torch.arange(self.training_data.x.shape[0], device=self.targets.device)
        return (nodes if which == "all" else self.training_split.train), None

    def clean_offers(self, model: AttentionModel, nulls: bool = False) -> Offers:
        out, again = self.output(model, self.data), self.output(model, self.data)
        offers = clean_offers(out, again, lambda o: o.logits)
        offers.add(model=lambda: (model,), **self._score_offers(out))
        self._offer_curves(offers, model, self.data, out, lambda: attention_of(out))
        for null, ranking in self._nulls(model).items() if nulls else ():
            self._offer_curves(offers, model, self.data, out, ranking, null)
        return offers

    def attack_offers(self, model: AttentionModel, attacked: Data) -> Offers:
        nodes = self.data.x.shape[0]
        clean, perturbed = self.output(model, self.data), self.output(model, attacked)
        offers = pair_offers(clean, perturbed, lambda o: o.logits[:nodes])

        def weights_unchanged() -> tuple[Tensor, Tensor]:
            same = unchanged(clean.logits, perturbed.logits[:nodes])
            return align(edges_into(attention_of(clean), same), attention_of(perturbed), common=True)

        offers.add(
            **self._reached_offers(model, attacked, clean, perturbed),
            **self._score_offers(perturbed),
            weights_unchanged=weights_unchanged,
            model=lambda: (model,),
            **uniform_offers(self.data, attacked),
        )
        self._offer_curves(offers, model, attacked, clean, lambda: attention_of(perturbed))
        return offers

    def _reached_offers(
        self, model: AttentionModel, attacked: Data, clean: Output, perturbed: Output
    ) -> dict[str, Callable[[], tuple[Any, ...]]]:
        """Return the inputs of the metrics that look only at the nodes that the attack can reach, by name."""
        nodes = self.data.x.shape[0]
        reached = reached_by_attack(model, self.data, attacked, clean, perturbed)

        def attentions() -> tuple[Attention, Attention]:
            return edges_into(attention_of(clean), not_empty(reached)), attention_of(perturbed)

        def labels() -> tuple[Tensor, Tensor]:
            kept = not_empty(reached[self.split.test])
            predicted, truth = self._labels(perturbed)
            return predicted[kept], truth[kept]

        return {
            "reached": lambda: (reached,),
            "labels-reached": labels,
            "probabilities-reached": lambda: tuple(
                out.logits[:nodes][not_empty(reached)].softmax(1) for out in (clean, perturbed)
            ),
            "weights-reached": lambda: align(*attentions(), common=True),
            "weights-or-zero-reached": lambda: align(*attentions()),
        }

    def _score_offers(self, out: Output) -> dict[str, Callable[[], tuple[Any, ...]]]:
        """Return the inputs of the scores on the test nodes; ROC-AUC has some where there are two classes."""

        def scores() -> tuple[Tensor, Tensor]:
            logits, truth = out.logits[self.split.test], self.data.y[self.split.test]
            if truth.unique().numel() < 2:
                raise NotApplicable("the test nodes have one class only")
            return logits[:, 1] - logits[:, 0], truth

        return {"labels": lambda: self._labels(out)} | ({"scores": scores} if self.num_outputs == 2 else {})

    def _labels(self, out: Output) -> tuple[Tensor, Tensor]:
        return out.logits[self.split.test].argmax(1), self.data.y[self.split.test]

    def _offer_curves(
        self,
        offers: Offers,
        model: AttentionModel,
        graph: Data,
        clean: Output,
        ranking: Callable[[], Attention],
        null: str = "",
    ) -> None:
        """Offer F+ and F- on ``graph``; the nodes that count are the test nodes that were right on the clean graph."""
        for sign, end in (("pos", "highest"), ("neg", "lowest")):

            def curve(sign: str = sign, highest: bool = end == "highest") -> tuple[Any, ...]:
                attention, test, y = ranking(), self.split.test, self.data.y
                right = test[clean.logits[test].argmax(1) == y[test]]
                with frozen_eval(model), torch.no_grad():
                    embedded = model.embed(graph.x)

                    def predict(edges: Tensor) -> Tensor:
                        return model.propagate(embedded, edges).logits[: len(y)].argmax(1)

                    accuracies = f_acc_curve(predict, graph.edge_index, attention, y, right, highest)
                offers.curves[f"f_acc_{sign}{'_' if null else ''}{null}"] = (RATES, accuracies)
                return RATES, accuracies

            offers.add(**{f"curve-{end}{'-' if null else ''}{null}": curve})

    def _nulls(self, model: AttentionModel) -> dict[str, Callable[[], Attention]]:
        """Return rankings of the edges that know nothing of the model, and the attention of an untrained one."""
        edges = self.data.edge_index
        return {
            "random": lambda: random_ranking(edges, self.seed),
            "uniform": lambda: uniform_ranking(edges),
            "degree": lambda: degree_ranking(edges),
            "untrained": lambda: attention_of(self.output(model.rebuilt(self.seed + 1), self.data)),
        }


def without_test_labels(data: Data, split: Split) -> tuple[Data, Split]:
    """Return the same graph with label -1 on the test nodes, so that no defense can read them, and its split."""
    hidden = Data.from_dict(dict(data.to_dict()))
    hidden.y = data.y.clone()
    hidden.y[split.test] = -1
    return hidden, split


def without_test_nodes(data: Data, split: Split) -> tuple[Data, Split]:
    """Return the graph of all other nodes, numbered anew, and its split, which has no test nodes.

    >>> path = Data(x=torch.eye(3), edge_index=torch.tensor([[0, 1, 2, 0], [1, 2, 1, 2]]), y=torch.tensor([0, 1, 1]))
    >>> seen, split = without_test_nodes(path, Split(*torch.tensor([[1], [2], [0]])))
    >>> seen.edge_index.tolist(), seen.x.tolist()[0], split.train.tolist(), split.test.tolist()
    ([[0, 1], [1, 0]], [0.0, 1.0, 0.0], [0], [])
    """
    kept = torch.ones(data.x.shape[0], dtype=torch.bool, device=split.test.device).index_fill_(0, split.test, False)
    edges, _ = subgraph(kept, data.edge_index, relabel_nodes=True)
    number = kept.cumsum(0) - 1
    seen = Data(x=select_rows(data.x, kept.nonzero().view(-1)), edge_index=edges, y=data.y[kept], score=score_of(data))
    return seen, Split(number[split.train], number[split.val], split.test[:0])
