"""Link prediction: tell links from non-links by the dot product of their ends; the attacker breaks the test links."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.data import Data

from fgai_bench.attacks.objectives import Readout
from fgai_bench.data import load_dataset
from fgai_bench.data.link_splits import LinkSplit, random_link_split
from fgai_bench.metrics.prediction import score_function
from fgai_bench.models.base import AttentionModel, Output
from fgai_bench.tasks.base import Problem
from fgai_bench.tasks.measurement import Offers, clean_offers, pair_offers, reached_by_attack, uniform_offers

EMBEDDING = 64


def link_scores(z: Tensor, pairs: Tensor) -> Tensor:
    """Return the scores ``s_uv = z_u . z_v`` of pairs: ``(N, D), (2, P) -> (P,)``.

    >>> link_scores(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([[0], [1]]))
    tensor([11.])
    """
    return (z[pairs[0]] * z[pairs[1]]).sum(1)


def as_two_classes(scores: Tensor) -> Tensor:
    """Return the logits of (no link, link), whose softmax is (1 - sigmoid(s), sigmoid(s)): ``(P,) -> (P, 2)``."""
    return torch.stack([torch.zeros_like(scores), scores], dim=1)


class LinkSupervision:
    """Binary cross-entropy on the training pairs, ROC-AUC on the validation pairs."""

    def __init__(self, split: LinkSplit) -> None:
        self.train, self.train_labels = split.pairs("train")
        self.val, labels = split.pairs("val")
        self.val_score = score_function("roc_auc", labels)

    def outputs(self, out: Output) -> Tensor:
        """Return the two-class logits of the training pairs: ``(P, 2)``."""
        return as_two_classes(link_scores(out.logits, self.train))

    def loss(self, out: Output) -> Tensor:
        return F.binary_cross_entropy_with_logits(link_scores(out.logits, self.train), self.train_labels)

    def score(self, out: Output) -> Tensor:
        return self.val_score(as_two_classes(link_scores(out.logits, self.val)))


class LinkReadout:
    """Readout of an attack on links: the two-class logits of some pairs, and whether they are links."""

    def __init__(self, pairs: Tensor, labels: Tensor) -> None:
        self.pairs, self.labels = pairs, labels

    def __call__(self, out: Output) -> Tensor:
        """Return the logits of (no link, link) of the pairs: ``(P, 2)``."""
        return as_two_classes(link_scores(out.logits, self.pairs))


class LinkProblem(Problem):
    """Link prediction on one dataset and seed. Messages pass over the training links only."""

    summary = "link prediction: ROC-AUC, stability of link probabilities and attention"
    cost: ClassVar[dict[str, float]] = {"outputs": 64}
    task = "link"

    def __init__(self, data: Data, split: LinkSplit, seed: int = 0, provenance: dict[str, Any] | None = None) -> None:
        self.data = Data(x=data.x, edge_index=split.message_edges)
        self.training_data = self.data
        self.split, self.seed = split, seed
        self.supervision = LinkSupervision(split)
        self.test, self.test_labels = split.pairs("test")
        self.readout = LinkReadout(self.test, self.test_labels)
        self.targets = torch.unique(self.test)
        self.num_outputs = EMBEDDING
        self.provenance = provenance or {}

    @classmethod
    def prepare(cls, dataset: str, seed: int, root: Any = None, device: str = "cpu") -> LinkProblem:
        """Load the dataset and split its links by this seed."""
        loaded = load_dataset(dataset, seed=seed, root=root, sparse=True)
        nodes = loaded.x.shape[0]
        split = random_link_split(loaded.edge_index, nodes, seed)
        provenance = {
            "dataset": dataset,
            "checksum": loaded.checksum,
            "split_hash": split.hash,
            "nodes": nodes,
            "edges": 2 * (split.train_pos.size(1) + split.val_pos.size(1)),
            "features": loaded.x.shape[1],
            "train_links": split.train_pos.size(1),
            "val_links": 2 * split.val_pos.size(1),
            "test_links": 2 * split.test_pos.size(1),
        }
        return cls(loaded, split, seed, provenance).to(device)

    def to(self, device: str) -> LinkProblem:
        return LinkProblem(copy(self.data).to(device), self.split.to(device), self.seed, self.provenance)

    def without_test(self) -> LinkProblem:
        none = self.split.test_pos[:, :0]
        held = LinkProblem(self.data, replace(self.split, test_pos=none, test_neg=none), self.seed, self.provenance)
        held.readout = LinkReadout(*self.split.pairs("val"))
        held.targets = torch.unique(held.readout.pairs)
        return held

    def training_targets(self, which: str) -> tuple[Tensor, Readout | None]:
        nodes = torch.arange(self.data.x.shape[0], device=self.targets.device)
        return (nodes if which == "all" else torch.unique(self.split.train_pos)), self.supervision.outputs

    def clean_offers(self, model: AttentionModel, nulls: bool = False) -> Offers:
        # No curve over deleted edges is drawn for links, so there is none for other rankings either.
        out, again = self.output(model, self.data), self.output(model, self.data)
        offers = clean_offers(out, again, self.readout)
        return offers.add(scores=lambda: self._scores(out), model=lambda: (model,))

    def attack_offers(self, model: AttentionModel, attacked: Data) -> Offers:
        clean, perturbed = self.output(model, self.data), self.output(model, attacked)
        offers = pair_offers(clean, perturbed, self.readout)
        reached = reached_by_attack(model, self.data, attacked, clean, perturbed)
        offers.add(reached=lambda: (reached,), **uniform_offers(self.data, attacked))
        return offers.add(scores=lambda: self._scores(perturbed), model=lambda: (model,))

    def _scores(self, out: Output) -> tuple[Tensor, Tensor]:
        return link_scores(out.logits, self.test), self.test_labels
