"""Find how far a change can spread in a network: the condition on which the certificate ``reach`` rests.

Models of this package declare it (``local``, ``injection_radius``). Of a wrapped PyG network the layers are looked at
and their calls are counted. Either way a trial injection has to confirm it.
"""

from typing import Any

import torch
from torch import nn
from torch_geometric import nn as pyg
from torch_geometric.data import Data

from fgai_bench.attacks import ATTACKS, ThreatModel
from fgai_bench.certificates.base import Question
from fgai_bench.data.extend import reached_nodes
from fgai_bench.metrics import NotApplicable
from fgai_bench.models.base import AttentionModel
from fgai_bench.models.pyg_wrapper import FromPyG

LOCAL_LAYERS = (pyg.GATConv, pyg.GATv2Conv, pyg.TransformerConv, pyg.SAGEConv, pyg.GINConv, pyg.GraphConv)
OVER_ALL_NODES = (pyg.GraphNorm, pyg.PairNorm, pyg.MeanSubtractionNorm, pyg.DiffGroupNorm, pyg.InstanceNorm)
LOCAL_SUMS = (pyg.MeanAggregation, pyg.SumAggregation, pyg.MaxAggregation, pyg.MinAggregation, pyg.SoftmaxAggregation)
TRIAL = ThreatModel(nodes=1, edges_per_node=2, feature_low=-10.0, feature_high=10.0)


def radius_of(model: AttentionModel, data: Data) -> int:
    """Return how many hops beyond the nodes that get a new edge the output can change; -1 if it cannot change at all.

    Raises :class:`NotApplicable` with the reason if there is no such number, or if it is not known.
    """
    for part in model.modules():
        statistics = isinstance(part, nn.modules.batchnorm._NormBase) and part.running_mean is None
        if statistics or isinstance(part, OVER_ALL_NODES):
            raise NotApplicable(f"its layer {type(part).__name__} computes statistics over all nodes")
    if isinstance(model, FromPyG):
        return _radius_of_wrapped(model, data)
    if model.injection_radius is None:
        raise NotApplicable(f"a change can spread to every node: {model.global_because}")
    return model.injection_radius


def _radius_of_wrapped(model: FromPyG, data: Data) -> int:
    """Count the calls of a wrapped network's layers, all of which must be known to be local or a GCN's."""
    calls: list[nn.Module] = []
    hooks = [
        part.register_forward_hook(lambda layer, *_: calls.append(layer))
        for part in model.modules()
        if isinstance(part, pyg.MessagePassing)
    ]
    try:
        model(data)
    finally:
        for hook in hooks:
            hook.remove()
    if not calls and not model.ignores_edges(data):
        raise NotApplicable("none of its layers is PyG's, so it is not known how far a change spreads")
    for layer in calls:
        _check_layer(layer)
    degrees_count = any(isinstance(layer, pyg.GCNConv) and layer.normalize for layer in calls)
    return len(calls) - 1 + degrees_count


def _check_layer(layer: Any) -> None:
    name = type(layer).__name__
    if type(layer) not in (*LOCAL_LAYERS, pyg.GCNConv):
        known = ", ".join(kind.__name__ for kind in (*LOCAL_LAYERS, pyg.GCNConv))
        raise NotApplicable(f"it is not known whether its layer {name} is local; known are {known}")
    if not isinstance(layer.aggr_module, LOCAL_SUMS):
        raise NotApplicable(f"it is not known whether the aggregation {layer.aggr_module} of its layer {name} is local")


def check_by_trial(question: Question, radius: int) -> None:
    """Inject a random node, and raise :class:`NotApplicable` if an output changes beyond the radius.

    A forward pass may mix nodes in ways that no layer shows. The trial finds what it finds; it is no part of the proof.
    """
    model, data, targets = question.model, question.data, question.targets
    threat = TRIAL.model_copy(update={"edges_per_node": min(TRIAL.edges_per_node, targets.numel())})
    attacked = ATTACKS["random-injection"]()(model, data, targets, threat=threat, seed=0)
    beyond = ~reached_nodes(data, attacked.data, radius + 1)
    before, after = question.output.logits[beyond], model(attacked.data).logits[: beyond.numel()][beyond]
    if not torch.allclose(before, after, rtol=1e-3, atol=1e-3 * float(before.abs().max()) if before.numel() else 0.0):
        raise NotApplicable(
            f"a trial injection changed outputs more than {radius} hops beyond the nodes it attached to"
        )
