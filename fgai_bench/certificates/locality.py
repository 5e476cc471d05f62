"""Find how far a change can spread in a network: the condition on which the certificate ``reach`` rests.

Models of this package declare it (``local``, ``injection_radius``). In a wrapped PyG network every module has to be
known, and the calls of its message-passing layers are counted. Either way trial injections have to confirm it.
"""

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric import nn as pyg
from torch_geometric.data import Data
from torch_geometric.utils._trim_to_layer import TrimToLayer

from fgai_bench.attacks.injection import with_injected
from fgai_bench.certificates.base import ROUNDING, Question
from fgai_bench.data.extend import reached_nodes
from fgai_bench.metrics import NotApplicable
from fgai_bench.models.attention import Attention, align, edge_keys
from fgai_bench.models.base import AttentionModel, Output
from fgai_bench.models.pyg_wrapper import FromPyG
from fgai_bench.seeds import generator

LOCAL_LAYERS = (pyg.GATConv, pyg.GATv2Conv, pyg.TransformerConv, pyg.SAGEConv, pyg.GINConv, pyg.GraphConv, pyg.GCNConv)
LOCAL_SUMS = (pyg.MeanAggregation, pyg.SumAggregation, pyg.MaxAggregation, pyg.MinAggregation, pyg.SoftmaxAggregation)
OVER_ALL_NODES = (pyg.GraphNorm, pyg.PairNorm, pyg.MeanSubtractionNorm, pyg.DiffGroupNorm, pyg.InstanceNorm)
ROW_BY_ROW = (
    *(nn.Linear, nn.Identity, nn.Dropout, nn.AlphaDropout, nn.LayerNorm, nn.RMSNorm, nn.BatchNorm1d),
    *(nn.ReLU, nn.LeakyReLU, nn.PReLU, nn.RReLU, nn.ReLU6, nn.ELU, nn.CELU, nn.SELU, nn.GELU, nn.SiLU, nn.Mish),
    *(nn.Tanh, nn.Sigmoid, nn.LogSigmoid, nn.Softplus, nn.Softsign, nn.Hardtanh, nn.Hardsigmoid, nn.Hardswish),
    *(pyg.Linear, pyg.LayerNorm, pyg.BatchNorm, pyg.JumpingKnowledge),
)
CONTAINERS = (nn.Sequential, nn.ModuleList, nn.ModuleDict, pyg.Sequential, pyg.MLP, TrimToLayer)
NETWORKS = (pyg.GCN, pyg.GraphSAGE, pyg.GIN, pyg.GAT)
LIBRARIES = ("torch", "torch_geometric")
TRIED_TARGETS = 8  # of which a trial attaches to the one that can show most
TRIAL_SHARE = 0.1  # of the nodes: so many are injected, which moves any statistic over all nodes
TRIAL_FEATURE = 10.0


def radius_of(model: AttentionModel, data: Data) -> int:
    """Return how many hops beyond the nodes that get a new edge the output can change; -1 if it cannot change at all.

    Raises :class:`NotApplicable` with the reason if there is no such number, or if it is not known.
    """
    for part in model.modules():
        statistics = isinstance(part, nn.modules.batchnorm._NormBase) and part.running_mean is None
        over_graph = isinstance(part, pyg.LayerNorm) and part.mode == "graph"
        if statistics or over_graph or isinstance(part, OVER_ALL_NODES):
            raise NotApplicable(f"its layer {type(part).__name__} computes statistics over all nodes")
    if isinstance(model, FromPyG):
        return _radius_of_wrapped(model, data)
    if model.injection_radius is None:
        raise NotApplicable(f"a change can spread to every node: {model.global_because}")
    return model.injection_radius


def _radius_of_wrapped(model: FromPyG, data: Data) -> int:
    """Count how often the layers of a wrapped network propagate; all its modules must be known."""
    _check_modules(model.config["module"])
    calls: list[tuple[Any, Any]] = []  # layers, and the edges that they ran over
    passing = [part for part in model.modules() if isinstance(part, pyg.MessagePassing)]
    hooks = [
        layer.register_propagate_forward_pre_hook(lambda layer, inputs: calls.append((layer, inputs[0])))
        for layer in passing
    ]
    before, model.kernels = model.kernels, False  # the module's own layers tell what they propagate
    try:
        model(data)
    finally:
        model.kernels = before
        for hook in hooks:
            hook.remove()
    training = next((part for part in model.modules() if part.training), None)
    if training is not None:
        raise NotApplicable(f"its module {type(training).__name__} stays in training mode at evaluation")
    if not calls and not model.ignores_edges(data):
        raise NotApplicable("none of its layers is PyG's, so it is not known how far a change spreads")
    for layer, edges in calls:
        _check_edges(layer, edges, data)
    degrees_count = any(isinstance(layer, pyg.GCNConv) and layer.normalize for layer, _ in calls)
    return len(calls) - 1 + degrees_count


def _check_modules(network: nn.Module) -> None:
    """Raise :class:`NotApplicable` unless every module of a network is known to be local or to work row by row.

    The network itself may have a class and a forward of its own, which nobody can look into; see ``docs/floors.md``.
    """
    written = type(network).__module__.split(".")[0] not in LIBRARIES
    sums = {id(part.aggr_module) for part in network.modules() if isinstance(part, pyg.MessagePassing)}
    for part in network.modules():
        name = type(part).__name__
        if part is network and written:
            continue
        if id(part) in sums:
            if type(part) not in LOCAL_SUMS:
                raise NotApplicable(f"it is not known whether its aggregation {name} is local")
        elif isinstance(part, pyg.MessagePassing):
            _check_layer(part)
        elif type(part) not in (*ROW_BY_ROW, *CONTAINERS, *NETWORKS):
            raise NotApplicable(f"it is not known whether its module {name} mixes nodes")
        if changed := _changed_in(part):
            raise NotApplicable(f"its module {name} has {changed} of its own, which may mix nodes")


def _changed_in(part: nn.Module) -> str:
    """Return the name of a function that was put into a module after it was made, a hook for example; "" for none."""
    generated = ("forward",) if type(part) is pyg.Sequential else ()
    functions = [name for name, value in vars(part).items() if callable(value) and name not in generated]
    hooks = [name.strip("_") for name, value in vars(part).items() if "forward" in name and "_hooks" in name and value]
    return next(iter([*functions, *hooks]), "")


def _check_layer(layer: Any) -> None:
    name = type(layer).__name__
    if type(layer) not in LOCAL_LAYERS:
        known = ", ".join(kind.__name__ for kind in LOCAL_LAYERS)
        raise NotApplicable(f"it is not known whether its layer {name} is local; known are {known}")
    if layer.flow != "source_to_target":
        raise NotApplicable(f"its layer {name} passes messages against the direction of edges")


def _check_edges(layer: Any, used: Any, data: Data) -> None:
    """Raise :class:`NotApplicable` if a layer runs over edges that are neither the graph's nor self-loops."""
    known = isinstance(used, Tensor) and used.layout == torch.strided
    if known:
        between = used[:, used[0] != used[1]]
        nodes = data.x.shape[0]
        known = bool(torch.isin(edge_keys(between, nodes), edge_keys(data.edge_index, nodes)).all())
    if not known:
        raise NotApplicable(f"its layer {type(layer).__name__} runs over other edges than the graph's")


def check_by_trial(question: Question, radius: int) -> None:
    """Inject nodes, and raise :class:`NotApplicable` if an output or an attention changes beyond the radius.

    A forward pass may mix nodes in ways that no module shows. A trial finds what it finds; it is no part of the proof.
    Many nodes with large features move what is computed from all nodes. All attach to one target, so that its degree
    changes many times over: what depends on degrees shows by its size alone. Features that are not a number show the
    weakest influence of other features. A model of this package is spared them: its radius is declared, and a product
    with a dense adjacency matrix carries NaN along weights of 0.
    """
    model, data = question.model, question.data
    target, beyond = _telling_target(question, radius)
    nodes, many = data.x.shape[0], math.ceil(TRIAL_SHARE * data.x.shape[0])
    new = torch.arange(nodes, nodes + many, device=data.edge_index.device)
    ends = torch.stack([new, torch.full_like(new, target)])
    ends = torch.cat([ends, ends.flip(0)], dim=1)
    features = TRIAL_FEATURE * torch.randn(many, data.x.shape[1], generator=generator(0, "trial")).abs()
    features[1::3] *= -1  # both signs, but no mean of 0
    unproven = isinstance(model, FromPyG)
    for values in (features, torch.full_like(features, torch.nan))[: 1 + unproven]:
        attacked = with_injected(data, values.to(data.x), ends)
        try:
            after = model(attacked)
        except ValueError as error:
            raise NotApplicable(f"a trial injection fails: {error}") from error
        for name, pair in _both(question.output, after, beyond).items():
            if _differ(*pair):
                raise NotApplicable(
                    f"a trial injection changed {name} more than {radius} hops beyond the nodes it attached to"
                )


def _both(clean: Output, attacked: Output, nodes: Tensor) -> dict[str, tuple[Tensor, Tensor]]:
    """Return the outputs of some of the clean nodes, and the attention into these, without and with an injection."""
    both = {"outputs": (clean.logits[nodes], attacked.logits[: nodes.numel()][nodes])}
    if clean.attention is not None and attacked.attention is not None:
        of_graph = clean.attention.of_graph()
        into = nodes[of_graph.edge_index[1]]
        wanted = Attention(of_graph.edge_index[:, into], of_graph.weight[into])
        both["attention"] = align(wanted, attacked.attention)
    return both


def _differ(before: Tensor, after: Tensor) -> bool:
    """Tell whether more than rounding has changed; relative to a typical row, lest a large one hides the others."""
    size = before.abs().flatten(1).amax(1) if before.dim() > 1 else before.abs()
    typical = float(size.median()) if size.numel() else 0.0
    return not torch.allclose(before, after, rtol=ROUNDING, atol=ROUNDING * typical)


def _telling_target(question: Question, radius: int) -> tuple[int, Tensor]:
    """Return the target with the most nodes one hop beyond the radius, and which nodes lie beyond the radius of it."""
    data, targets = question.data, question.targets
    some = targets[torch.randperm(targets.numel(), generator=generator(0, "trial"))[:TRIED_TARGETS].to(targets.device)]
    told = []
    for target in some.tolist():
        new = torch.tensor([[target], [target]], device=data.edge_index.device)
        with_edge = Data(x=data.x, edge_index=torch.cat([data.edge_index, new], dim=1))
        within, further = (reached_nodes(data, with_edge, radius + more) for more in (1, 2))
        told.append((int((further & ~within).sum()), int((~within).sum()), target, ~within))
    _, _, target, beyond = max(told, key=lambda entry: entry[:2])
    return target, beyond
