"""Check explainers: one score per edge and node, 0 for edges that cannot matter, and no side effects."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch_geometric.utils import k_hop_subgraph

from fgai_bench.metrics import NotApplicable
from fgai_bench.testing.checks import EntrySubject, require, tagged
from fgai_bench.testing.fixture import tiny_graph, tiny_model, trained_model
from fgai_bench.testing.traces import disturbed, no_trace_on

NODES = (0, 7, 20)
LAYERS = 2
"""Of the model that is explained: an edge further away from a node cannot matter to it."""


@dataclass(frozen=True)
class ExplainerSubject(EntrySubject):
    """An explainer to be checked on three nodes of the tiny graph and a trained GAT."""

    def scores(self, seed: int = 0, **changes: Any) -> Tensor:
        arguments = {"model": trained_model(), "data": tiny_graph(), "nodes": torch.tensor(NODES), **changes}
        return self.entry.load()()(arguments["model"], arguments["data"], arguments["nodes"], seed=seed)

    @cached_property
    def known(self) -> Tensor:
        """Return the scores with seed 0, shared by the checks that only read them."""
        return self.scores()


subject = ExplainerSubject


def check_one_score_per_edge_and_node(subject: ExplainerSubject) -> None:
    """There is a finite score, 0 or more, for every edge of the graph and every explained node."""
    wanted = (len(NODES), tiny_graph().edge_index.size(1))
    require(isinstance(subject.known, Tensor), f"it returns {type(subject.known).__name__}")
    require(tuple(subject.known.shape) == wanted, f"scores have the shape {tuple(subject.known.shape)}, not {wanted}")
    require(bool(subject.known.isfinite().all()), "a score is not finite")
    least = float(subject.known.min()) if subject.known.numel() else 0.0
    require(least >= 0, f"a score is {least:.3g}: it says how much an edge matters and must not be negative")
    require(not subject.known.requires_grad, "the scores carry a gradient history")


def check_edges_out_of_sight_score_zero(subject: ExplainerSubject) -> None:
    """Edges outside of a node's receptive field have the score 0, with ``into-node`` all but those into it."""
    data = tiny_graph()
    for row, node in zip(subject.known, NODES, strict=True):
        seen = k_hop_subgraph(node, LAYERS, data.edge_index, num_nodes=data.num_nodes, flow="source_to_target")[3]
        if "into-node" in subject.tags:
            seen = data.edge_index[1] == node
        require(not bool(row[~seen].any()), f"an edge that node {node} cannot see has a score")
        require(bool(row[seen].any()), f"no edge that node {node} sees has a score")


def check_seed_decides_the_scores(subject: ExplainerSubject) -> None:
    """One seed gives one answer, also of a model in training mode; with the tag ``random``, another gives another."""
    require(torch.equal(subject.known, subject.scores()), "two answers with one seed differ")
    require(torch.equal(subject.known, subject.scores(model=trained_model().train())), "the mode changes the answer")
    if "random" in subject.tags:
        require(not torch.equal(subject.known, subject.scores(seed=1)), "two seeds give one answer")


def check_no_side_effects(subject: ExplainerSubject) -> None:
    """The model, its modes and gradients, the graph and the global random state stay as they were."""
    model, data = disturbed(trained_model()), tiny_graph()
    with no_trace_on(model, data):
        subject.scores(model=model, data=data)


@tagged(needs=("attention",))
def check_not_applicable_without_attention(subject: ExplainerSubject) -> None:
    """On a network without attention it raises ``NotApplicable``, which a run records as the reason."""
    try:
        subject.scores(model=tiny_model("mlp"))
    except NotApplicable:
        return
    except Exception as error:
        raised = type(error).__name__
    else:
        raised = "nothing"
    require(False, f"on a network without attention it raises {raised}, not NotApplicable, as last_attention does")
