"""Make a wrapped PyG network fast under attack: compute its attention layers by the kernels of this package.

``GATConv``, ``GATv2Conv`` and ``TransformerConv`` have the formulas of the layers here; their gathers and scatters of
``(E, heads, channels)`` are what a search of two thousand gradients spends its time on.
"""

from typing import Any

import torch
from torch import Tensor
from torch_geometric.nn import GATConv, GATv2Conv, TransformerConv

from fgai_bench.fast.cached_results import OncePerTensor
from fgai_bench.models.gatv2 import attend_dynamically
from fgai_bench.models.gt import dot_product_attention
from fgai_bench.models.kernels.segments import AttentionCall, attend_additively
from fgai_bench.models.sorted_edges import SortedEdges, edges_without_loops, sorted_edges

HOOKED_STEPS = ("_propagate", "_message", "_aggregate", "_edge_update")  # where a hook may change what a layer computes


def is_plain(layer: Any) -> bool:
    """Tell whether a layer is one of PyG's as it is: no subclass, no edge features, no hook inside, the usual sums."""
    hooks = [value for name, value in vars(layer).items() if name.startswith(HOOKED_STEPS) and name.endswith("_hooks")]
    return (
        type(layer) in (GATConv, GATv2Conv, TransformerConv)
        and isinstance(layer.in_channels, int)
        and layer.edge_dim is None
        and (layer.flow, layer.decomposed_layers) == ("source_to_target", 1)
        and layer.aggr in ("add", "sum")
        and not any(hooks)
    )


class PlainForward:
    """The forward of a plain layer: by kernels where it is called on the whole graph and does not train.

    ``network`` is the wrapper: it knows the edges of the current pass and the shift of a layer's scores.

    It then returns ``(out, (edges, weights))`` with the sorted edges, and weights in their order; otherwise what the
    layer itself returns.
    """

    def __init__(self, layer: Any, network: Any) -> None:
        self.layer, self.network = layer, network

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not self._is_usual(*args, **kwargs):
            return type(self.layer).forward(self.layer, *args, **kwargs)
        named = dict(zip(("x", "edge_index"), args, strict=False)) | kwargs
        x, edge_index = named["x"], named["edge_index"]
        sort = _with_loops if getattr(self.layer, "add_self_loops", False) else _as_given
        edges = sort(edge_index, x.shape[0])
        if edges is None:
            return type(self.layer).forward(self.layer, *args, **kwargs)
        out, weights = _attended(self.layer, x, edges, self.network.shift_of(edges.source.numel()))
        return out, (edges, weights)

    def _is_usual(
        self, x: Any, edge_index: Any, *further: Any, return_attention_weights: bool = True, **named: Any
    ) -> bool:
        """Tell whether the layer is evaluated on features and on the graph's own edges, and is given nothing else."""
        whole_graph = isinstance(x, Tensor) and x.dim() == 2 and edge_index is self.network.edges_of_pass
        evaluated = not self.layer.training and not self.layer.explain
        alone = all(value is None for value in (*further, *named.values()))
        return self.network.kernels and whole_graph and evaluated and alone


@OncePerTensor
def _with_loops(edge_index: Tensor, num_nodes: int) -> SortedEdges | None:
    """Return the edges with one self-loop at every node; None where a node has several, which PyG takes for one."""
    loops = edge_index[0, edge_index[0] == edge_index[1]]
    return sorted_edges(edge_index, num_nodes) if loops.unique().numel() == loops.numel() else None


@OncePerTensor
def _as_given(edge_index: Tensor, num_nodes: int) -> SortedEdges | None:
    """Return the edges without any added self-loop; None where a node has no in-edge, and so nothing to attend to."""
    edges = edges_without_loops(edge_index, num_nodes)
    return edges if bool((edges.pointer.diff() > 0).all()) else None


def _attended(layer: Any, x: Tensor, edges: SortedEdges, shift: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return what PyG's layer computes when it is evaluated: ``(N, F) -> (N, D), (E, H)``."""

    def by(linear: Any, *shape: int) -> Tensor:
        product: Tensor = linear(x)
        return product.view(-1, *shape)

    heads, call = (layer.heads, layer.out_channels), AttentionCall(edges, shift)
    if isinstance(layer, GATConv):
        att = (layer.att_src[0], layer.att_dst[0])
        out, weights = attend_additively(by(layer.lin, *heads), *att, call, slope=layer.negative_slope)
    elif isinstance(layer, GATv2Conv):
        left = by(layer.lin_l, *heads)
        sides = torch.stack([left, left if layer.share_weights else by(layer.lin_r, *heads)], 1)
        out, weights = attend_dynamically(sides, layer.att[0], call, slope=layer.negative_slope)
    else:
        parts = [by(linear, *heads) for linear in (layer.lin_query, layer.lin_key, layer.lin_value)]
        out, weights = dot_product_attention(torch.stack(parts, 1), call)
    out = out.flatten(1) if layer.concat else out.mean(1)
    width = out.shape[1]
    if isinstance(layer, TransformerConv):
        return (_with_skip(layer, by(layer.lin_skip, width), out) if layer.root_weight else out), weights
    if layer.res is not None:
        out = out + by(layer.res, width)
    return (out if layer.bias is None else out + layer.bias), weights


def _with_skip(layer: Any, own: Tensor, out: Tensor) -> Tensor:
    if layer.lin_beta is None:
        return out + own
    share = layer.lin_beta(torch.cat([out, own, out - own], dim=-1)).sigmoid()
    return share * own + (1 - share) * out
