"""Wrap your own PyG model, built from GATConv, GATv2Conv or TransformerConv, to run it through the whole suite."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.nn import GATConv, GATv2Conv, TransformerConv

from fgai_bench.models.attention import Attention, edge_keys
from fgai_bench.models.base import AttentionModel, Output
from fgai_bench.models.options import InputNorm
from fgai_bench.seeds import isolated_rng
from fgai_bench.sums.ordered import rows_at, sum_at

ATTENTION_CONVS = (GATConv, GATv2Conv, TransformerConv)


class FromPyG(AttentionModel):
    """A wrapper of ``module(x, edge_index) -> (N, C)``; the last attention layer that ran gives the attention.

    A shift of the scores is applied to the weights themselves, which is the same thing:
    ``softmax(s + d) = w e^d / sum(w e^d)`` with ``w = softmax(s)``.
    """

    def __init__(
        self,
        module: nn.Module,
        input_norm: InputNorm = "none",
        layer_norm: bool = False,
        in_channels: int = 0,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.config = {
            "module": module,
            "input_norm": input_norm,
            "layer_norm": layer_norm,
            "in_channels": in_channels,
            "seed": seed,
        }
        if layer_norm and not in_channels:
            raise ValueError("layer normalisation of a PyG model needs in_channels, the number of features per node")
        self.module = copy.deepcopy(module)
        self.norm = nn.LayerNorm(in_channels) if layer_norm else None
        self.row_norm = input_norm == "row"
        self._seen: list[tuple[Tensor, Tensor]] = []
        self._edge_index: Tensor | None = None
        self._shift: Tensor | None = None
        convs = [m for m in self.module.modules() if isinstance(m, ATTENTION_CONVS)]
        if not convs:
            raise ValueError("from_pyg needs a module that contains a GATConv, GATv2Conv or TransformerConv")
        for conv in convs:
            conv.register_forward_pre_hook(_ask_for_attention, with_kwargs=True)
            conv.register_forward_hook(self._keep_attention)
        if isinstance(convs[-1], TransformerConv):
            convs[-1].register_message_forward_hook(self._shift_messages)
        else:
            convs[-1].register_edge_update_forward_hook(self._shift_weights)

    def embed(self, x: Tensor) -> Tensor:
        x = x.to_dense() if x.layout == torch.sparse_csr else x
        if self.row_norm:
            x = x / x.abs().sum(1, keepdim=True).clamp(min=1e-12)
        return x if self.norm is None else self.norm(x)

    def propagate(
        self, h: Tensor, edge_index: Tensor, score_shift: Tensor | None = None, edge_weight: Tensor | None = None
    ) -> Output:
        if edge_weight is not None:
            raise ValueError("a wrapped PyG model has no edge weights; attack it by injection or by features")
        self._edge_index, self._shift = edge_index, score_shift
        try:
            logits = self.module(h, edge_index)
            used, weights = self._seen[-1]
        finally:
            self._seen.clear()
            self._edge_index = self._shift = None
        edges, added, place = _places(used, edge_index)
        return Output(logits, Attention(edges, weights.mean(1)[place], added))

    def rebuilt(self, seed: int = 0, **changes: Any) -> AttentionModel:
        fresh = FromPyG(**{**self.config, **changes, "seed": seed})
        with isolated_rng(seed, "init"):
            for part in fresh.module.modules():
                getattr(part, "reset_parameters", lambda: None)()
        return fresh.to(next(self.parameters()).device)

    def _keep_attention(self, conv: nn.Module, args: Any, output: Any) -> Tensor:
        out, (edge_index, weights) = output
        self._seen.append((edge_index, weights))
        return out

    def _shift_weights(self, conv: nn.Module, inputs: Any, weights: Tensor) -> Tensor | None:
        if self._shift is None:
            return None
        return weights * self._ratio(inputs[0], weights)

    def _shift_messages(self, conv: Any, inputs: Any, messages: Tensor) -> Tensor | None:
        if self._shift is None or self._edge_index is None:
            return None
        ratio = self._ratio(self._edge_index, conv._alpha)
        conv._alpha = conv._alpha * ratio
        return messages * ratio.unsqueeze(-1)

    def _ratio(self, used: Tensor, weights: Tensor) -> Tensor:
        """Return the shift's factor on each weight: ``e^d * sum(w) / sum(w e^d)`` per destination, ``(E, H)``."""
        assert self._shift is not None
        assert self._edge_index is not None
        _, _, place = _places(used, self._edge_index)
        factor = torch.empty_like(self._shift).index_copy(0, place, self._shift).exp().unsqueeze(-1)  # (E, 1)
        before, after = (sum_at(used[1], w, int(used.max()) + 1) for w in (weights, weights * factor))
        return factor * rows_at(used[1], before / after.clamp(min=1e-38))


def from_pyg(module: nn.Module, in_channels: int = 0) -> FromPyG:
    """Wrap a copy of ``module``, whose ``forward(x, edge_index)`` returns logits ``(N, C)``.

    The last GATConv, GATv2Conv or TransformerConv in it gives the attention, averaged over its heads. ``in_channels``
    is needed only by the defense ``ln``: what is inside a module cannot be normalised from outside, so its input is.
    """
    return FromPyG(module, in_channels=in_channels)


def _ask_for_attention(conv: nn.Module, args: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    return args, {**kwargs, "return_attention_weights": True}


def _places(used: Tensor, edge_index: Tensor) -> tuple[Tensor, int, Tensor]:
    """Return the graph's edges in their order, then the loops that the layer added; the number of these loops; and the
    position of each edge in ``used``: ``(2, E), int, (E,)``. Parallel edges are matched in their order."""
    size = int(used.max()) + 1
    loops = used[:, used[0] == used[1]]
    added = loops[:, ~torch.isin(loops[0], edge_index[0, edge_index[0] == edge_index[1]])]
    keyed = torch.cat([edge_index, added], dim=1)
    if keyed.shape != used.shape:
        raise ValueError("a wrapped PyG model must attend over the edges it is given, each self-loop at most once")
    place = torch.empty_like(keyed[0])
    place[edge_keys(keyed, size).argsort(stable=True)] = edge_keys(used, size).argsort(stable=True)
    return keyed, added.size(1), place
