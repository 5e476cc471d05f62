"""Define Pro-GNN (Jin et al. 2020, https://arxiv.org/abs/2005.10203): a graph learned together with a GCN on it."""

from types import SimpleNamespace
from typing import Any

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor
from torch_geometric.data import Data

from fgai_bench.data.splits import Split
from fgai_bench.defenses.base import Fit
from fgai_bench.defenses.deeprobust_gcn import Aggregation, GCNModel, GCNOptions, dense_adjacency, normalised, quiet
from fgai_bench.defenses.training import Progress, Training, finished
from fgai_bench.defenses.vanilla import ReplacedModel
from fgai_bench.models.base import AttentionModel
from fgai_bench.seeds import isolated_rng

with quiet():
    from deeprobust.graph.defense import ProGNN as DeepRobustProGNN
    from deeprobust.graph.defense.pgd import PGD, prox_operators
    from deeprobust.graph.defense.prognn import EstimateAdj


class ProGNNOptions(GCNOptions):
    """Weights and steps of Pro-GNN; the defaults are its authors' (their letters in brackets).

    Attributes:
        sparsity: weight of ``|S|_1`` [alpha].
        low_rank: weight of the nuclear norm of S [beta].
        classification: weight of the GCN's loss in the structure's objective [gamma].
        smoothness: weight of the features' smoothness over S [lambda].
        symmetry: weight of ``|S - S^T|_F`` [phi].
        symmetric: use ``(S + S^T) / 2``.
        lr_structure: learning rate of S.
        structure_steps: steps on S per epoch.
        network_steps: steps on the GCN per epoch.
    """

    sparsity: float = Field(5e-4, ge=0, serialization_alias="alpha")
    low_rank: float = Field(1.5, ge=0, serialization_alias="beta")
    classification: float = Field(1.0, ge=0, serialization_alias="gamma")
    smoothness: float = Field(0.0, ge=0, serialization_alias="lambda_")
    symmetry: float = Field(0.0, ge=0, serialization_alias="phi")
    symmetric: bool = False
    lr_structure: float = Field(0.01, gt=0, serialization_alias="lr_adj")
    structure_steps: int = Field(1, ge=0, serialization_alias="outer_steps")
    network_steps: int = Field(2, ge=1, serialization_alias="inner_steps")

    def arguments(self, training: Training) -> SimpleNamespace:
        """Return the options under the names that DeepRobust's ProGNN reads."""
        of_training = training.model_dump(include={"epochs", "lr", "weight_decay"})
        return SimpleNamespace(**self.model_dump(by_alias=True), **of_training, only_gcn=False, debug=False)


class ProGNNModel(GCNModel):
    """A GCN on the graph that Pro-GNN learned, ``S``, for graphs that contain the training graph's nodes first.

    Pro-GNN learns S for the nodes it was trained on. The changes of a test graph A' to the training graph A are taken
    as given: the model sees ``S + (A' - A)``, clipped to [0, 1] and normalised as S was. On the training graph that is
    S, and the edges of injected nodes count as they are. ``num_nodes`` are those of the training graph.
    """

    global_because = "its learned graph depends on all nodes"

    correction: Tensor  # (num_nodes, num_nodes), S - A

    def __init__(
        self, in_channels: int, num_classes: int, num_nodes: int, symmetric: bool = False, **arguments: Any
    ) -> None:
        super().__init__(in_channels, num_classes, num_nodes=num_nodes, symmetric=symmetric, **arguments)
        self.register_buffer("correction", torch.zeros(num_nodes, num_nodes))

    def structure(self, profile: Tensor, edge_index: Tensor, edge_weight: Tensor | None) -> Aggregation:
        new = profile.shape[0] - self.config["num_nodes"]
        if new < 0:
            raise ValueError(
                f"Pro-GNN learned a graph of {self.config['num_nodes']} nodes and cannot predict on {profile.shape[0]}"
            )
        given = dense_adjacency(edge_index, profile.shape[0], edge_weight)
        graph = (given + F.pad(self.correction, (0, new, 0, new))).clamp(0, 1)
        adjacency = normalised((graph + graph.t()) / 2 if self.config["symmetric"] else graph)
        return lambda h: adjacency @ h

    def rebuilt(self, seed: int = 0, **changes: Any) -> AttentionModel:
        """Return a freshly initialised model; the learned graph is kept, since it belongs to the nodes."""
        fresh = super().rebuilt(seed, **changes)
        fresh.load_state_dict({"correction": self.correction}, strict=False)
        return fresh


class _Structure(EstimateAdj):
    """DeepRobust's learned adjacency, normalised without N x N diagonal matrices."""

    def normalize(self) -> Tensor:
        raw = self.estimated_adj
        return normalised((raw + raw.t()) / 2 if self.symmetric else raw)


def shrink_singular_values(matrix: Tensor, alpha: float) -> Tensor:
    """Apply the proximal operator of the nuclear norm, ``U max(s - alpha, 0) V^T``: ``(N, N) -> (N, N)``.

    With the eigenvectors V of ``M^T M`` it is ``M V diag(max(1 - alpha / s, 0)) V^T``, several times cheaper than the
    singular value decomposition. Squaring halves the digits, hence the double precision.

    >>> shrink_singular_values(torch.diag(torch.tensor([3.0, -1.0])), 2.0).round(decimals=4).abs().tolist()
    [[1.0, 0.0], [0.0, 0.0]]
    """
    wide = matrix.double()
    squares, vectors = torch.linalg.eigh(wide.t() @ wide)
    values = squares.clamp(min=0).sqrt()
    prox_operators.nuclear_norm = values.sum().to(matrix.dtype)  # ProGNN reads it there
    kept = (1 - alpha / values.clamp(min=1e-30)).clamp(min=0)  # (N,)
    vectors = vectors.to(matrix.dtype)
    return (matrix @ (vectors * kept.to(matrix.dtype))) @ vectors.t()


class StructureLearner(DeepRobustProGNN):
    """DeepRobust's ProGNN, whose steps on structure and network are taken one epoch at a time.

    ``graph``, ``(N, N)``, is the learned adjacency of the best step on validation, not normalised.
    """

    def __init__(self, network: torch.nn.Module, arguments: SimpleNamespace, adjacency: Tensor) -> None:
        super().__init__(network, arguments, adjacency.device)
        self.adjacency, self.graph = adjacency, adjacency
        self.history: list[dict[str, float]] = []
        self.estimator = _Structure(adjacency, arguments.symmetric, adjacency.device).to(adjacency.device)
        learned, rate = list(self.estimator.parameters()), arguments.lr_adj
        self.optimizer = torch.optim.Adam(network.parameters(), lr=arguments.lr, weight_decay=arguments.weight_decay)
        self.optimizer_adj = torch.optim.SGD(learned, lr=rate, momentum=0.9)
        self.optimizer_l1 = PGD(learned, [prox_operators.prox_l1], [arguments.alpha], lr=rate)
        self.optimizer_nuclear = PGD(learned, [shrink_singular_values], [arguments.beta], lr=rate)

    def epoch(self, number: int, features: Tensor, labels: Tensor, split: Split) -> None:
        """Take the steps of one epoch on the structure, then those on the network."""
        steps = [self.train_adj] * self.args.outer_steps + [self.train_gcn] * self.args.inner_steps
        outputs: list[Tensor] = []

        def keep_output(network: torch.nn.Module, given: Any, out: Tensor) -> None:
            if network.training:
                outputs.append(out.detach())

        watch = self.model.register_forward_hook(keep_output)
        for step in steps:
            best = self.best_graph
            step(number, features, self.adjacency, labels, split.train, split.val)
            if self.best_graph is not best:  # this step reached the best validation so far
                self.graph = self.estimator.estimated_adj.detach().clone()
        watch.remove()
        self.history.append({"prediction": float(F.nll_loss(outputs[-1][split.train], labels[split.train]))})


class ProGNN(ReplacedModel):
    """Pro-GNN (Jin et al. 2020): learn a sparse, low-rank graph together with the GCN on it.

    ``min |S - A|_F + sparsity |S|_1 + low_rank |S|_* + classification * loss(GCN(S))``, alternating with the network's
    own steps. Options as in :class:`ProGNNOptions`.
    """

    summary = "Pro-GNN: a sparse, low-rank graph learned together with a GCN (DeepRobust)"
    paper = "https://arxiv.org/abs/2005.10203"
    tags = ("node", "replaces-model", "no-attention", "dense", "transductive")
    matrices = 25
    profiles = 2

    options_class = ProGNNOptions

    def build(self, data: Data, num_classes: int, seed: int) -> GCNModel:
        shared = {name: getattr(self.options, name) for name in ("symmetric", "hidden", "dropout")}
        return ProGNNModel(data.x.shape[1], num_classes, data.x.shape[0], seed=seed, **shared)

    def train(self, fit: Fit, progress: Progress | None) -> AttentionModel:
        """Train with DeepRobust's own losses on training and validation labels; keep the best step on validation."""
        student, data, split = self.student(fit), fit.data, fit.split
        assert isinstance(student, ProGNNModel)
        adjacency = dense_adjacency(data.edge_index, data.x.shape[0])
        labels = torch.zeros_like(data.y)  # DeepRobust must not see the labels of test nodes
        for index in (split.train, split.val):
            labels[index] = data.y[index]
        with quiet(), isolated_rng(fit.seed, "train"):
            learner = StructureLearner(student.network, self.options.arguments(fit.training), adjacency)
            for epoch in range(fit.training.epochs):
                learner.epoch(epoch, data.x.to_dense(), labels, split)
                if progress is not None:
                    progress(epoch + 1, fit.training.epochs)
        if learner.weights is not None:
            student.network.load_state_dict(learner.weights)
        student.correction.copy_(learner.graph - adjacency)
        return finished(student, learner.history)
