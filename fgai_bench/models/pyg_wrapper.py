"""Wrap your own PyG model, built from GATConv, GATv2Conv or TransformerConv, to run it through the whole suite."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import GATConv, GATv2Conv, MessagePassing, TransformerConv

from fgai_bench.fast.ordered_sums import rows_at, sum_at
from fgai_bench.models.attention import edge_keys
from fgai_bench.models.base import AttentionModel, HeadWeights, ModelError, Output, head_weights
from fgai_bench.models.features import dense
from fgai_bench.models.options import InputNorm
from fgai_bench.models.pyg_inputs import ExtraInputs, Signature, call
from fgai_bench.models.pyg_layers import PlainForward, is_plain
from fgai_bench.models.sorted_edges import SortedEdges
from fgai_bench.seeds import isolated_rng

ATTENTION_CONVS = (GATConv, GATv2Conv, TransformerConv)


class FromPyG(AttentionModel):
    """A wrapper of ``module(x, edge_index, ...) -> (N, C)``; the last attention layer that ran gives the attention.

    A network without one has no attention: it can be attacked and certified, and has no explanation to measure.

    Further arguments of the module (``edge_attr``, ...) are taken from the graph that it is called with. Attacks change
    features and edges only: :meth:`on_graph` says from which graph everything else is completed.

    A shift of the scores is applied to the weights themselves, which is the same thing:
    ``softmax(s + d) = w e^d / sum(w e^d)`` with ``w = softmax(s)``. An edge of weight p has its attention weight
    multiplied by p in every attention layer, before they are made to sum to one again; layers that do not attend have
    no edge weights.

    Args:
        module: it is copied, and the copy computes in single precision.
        input_norm, layer_norm, in_channels: of the input, for the defenses ``row-norm`` and ``ln``.
        inputs: names of further arguments that are taken from the graph; None for those that the module's forward
            names and the graph carries.
        seed: of freshly initialised copies.
    """

    def __init__(
        self,
        module: nn.Module,
        input_norm: InputNorm = "none",
        layer_norm: bool = False,
        in_channels: int = 0,
        inputs: Sequence[str] | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.config = {
            "module": module,
            "input_norm": input_norm,
            "layer_norm": layer_norm,
            "in_channels": in_channels,
            "inputs": inputs,
            "seed": seed,
        }
        if layer_norm and not in_channels:
            raise ModelError("layer normalisation of a PyG model needs in_channels, the number of features per node")
        self.module = copy.deepcopy(module).float()
        self.signature = Signature.of(module)
        self._extra: ExtraInputs | None = None
        self.norm = nn.LayerNorm(in_channels) if layer_norm else None
        self.row_norm = input_norm == "row"
        self._seen: list[tuple[Tensor | SortedEdges, Tensor]] = []
        self._edge_index: Tensor | None = None
        self._shift: Tensor | None = None
        self._presence: Tensor | None = None
        convs = [m for m in self.module.modules() if isinstance(m, ATTENTION_CONVS)]
        self.edge_features = any(getattr(conv, "edge_dim", None) is not None for conv in convs)
        self.attends, self._last = bool(convs), len(convs) - 1
        for place, conv in enumerate(convs):
            if is_plain(conv):
                conv.forward = PlainForward(conv, place, self)
            conv.register_forward_pre_hook(_ask_for_attention, with_kwargs=True)
            conv.register_forward_hook(self._keep_attention)
            if isinstance(conv, TransformerConv):
                conv.register_message_forward_hook(partial(self._shift_messages, place))
            else:
                conv.register_edge_update_forward_hook(partial(self._shift_weights, place))

    @property
    def hops(self) -> int:
        return sum(isinstance(part, MessagePassing) for part in self.module.modules())

    def hops_behind(self, out: Output) -> int | None:
        return self.hops or None  # of layers that are written by hand nothing is known

    def on_graph(self, data: Data) -> FromPyG:
        """Take what the module needs beside features and edges from this graph, also on graphs that come from it."""
        self._extra = self._inputs_of(data)
        return self

    @property
    def input_names(self) -> tuple[str, ...]:
        """Return the names of the module's inputs, as far as a graph is known."""
        return ("x", "edge_index", *(self._extra.names if self._extra else ()))

    def embed(self, x: Tensor) -> Tensor:
        x = dense(x)
        if self.row_norm:
            x = x / x.abs().sum(1, keepdim=True).clamp(min=1e-12)
        return x if self.norm is None else self.norm(x)

    def forward(self, data: Data, score_shift: Tensor | None = None) -> Output:
        before, self._extra = self._extra, self._inputs_of(data)
        try:
            return super().forward(data, score_shift)
        finally:
            self._extra = before

    def propagate(
        self, h: Tensor, edge_index: Tensor, score_shift: Tensor | None = None, edge_weight: Tensor | None = None
    ) -> Output:
        return self._passed(h, edge_index, score_shift, edge_weight)[0]

    def with_layers(self, h: Tensor, edge_index: Tensor) -> tuple[Output, tuple[HeadWeights, ...]]:
        return self._passed(h, edge_index)

    def _passed(
        self, h: Tensor, edge_index: Tensor, score_shift: Tensor | None = None, edge_weight: Tensor | None = None
    ) -> tuple[Output, tuple[HeadWeights, ...]]:
        """Return the output and the attention of every attention layer that ran."""
        if not self.attends and (score_shift is not None or edge_weight is not None):
            raise ValueError("the network has no attention layer that is known, so its edges have no weights")
        self._edge_index, self._shift = edge_index, score_shift
        self._presence = None if edge_weight is None else edge_weight.clamp(min=1e-30).log()
        try:
            logits = self._called(h, edge_index)
            layers = tuple(_head_weights(*used, edge_index) for used in self._seen)
        finally:
            self._seen.clear()
            self._edge_index = self._shift = self._presence = None
        return Output(logits, layers[-1].averaged() if layers else None), layers

    @contextmanager
    def taken_for_local(self) -> Iterator[None]:
        """Take the module for one whose layers look at in-neighbours only; that it does so is for the caller to see."""
        self.local = True  # type: ignore[misc]
        try:
            yield
        finally:
            del self.local

    def _inputs_of(self, data: Data) -> ExtraInputs:
        named = self.config["inputs"]
        return ExtraInputs.of(data, self.signature.wanted(data, self.edge_features) if named is None else named)

    def _called(self, h: Tensor, edge_index: Tensor) -> Tensor:
        """Return the module's logits ``(N, C)``, or raise a sentence that says what it was called with."""
        if self._extra is None and self.signature.needed:
            raise ModelError(f"the network also needs {self.signature.needed[0]}: call model.on_graph(data) first")
        further = {} if self._extra is None else self._extra.on(edge_index, h.shape[0])
        try:
            logits = call(self.module, self.signature, h, edge_index, further)
        except (RuntimeError, TypeError, AttributeError, KeyError, AssertionError, IndexError) as error:
            if isinstance(error, torch.OutOfMemoryError):
                raise
            given = {"x": h, "edge_index": edge_index, **further}
            shapes = ", ".join(f"{name} {tuple(value.shape)}" for name, value in given.items())
            reason = " ".join(str(error).split()) or type(error).__name__
            raise ModelError(f"the network cannot be called with {shapes}: {reason}") from error
        if not isinstance(logits, Tensor) or logits.dim() != 2 or logits.shape[0] != h.shape[0]:
            shape = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
            raise ModelError(
                f"the network must return one row of logits per node, ({h.shape[0]}, classes), not {shape}"
            )
        if self.attends and not self._seen:
            raise ModelError("the network has attention layers, but none of them ran")
        return logits

    def rebuilt(self, seed: int = 0, **changes: Any) -> AttentionModel:
        fresh = FromPyG(**{**self.config, **changes, "seed": seed})
        with isolated_rng(seed, "init"):
            for part in fresh.module.modules():
                getattr(part, "reset_parameters", lambda: None)()
        fresh._extra = self._extra
        return fresh.to(next(self.parameters()).device)

    def _keep_attention(self, conv: nn.Module, args: Any, output: Any) -> Tensor:
        out, seen = output
        self._seen.append(seen)
        return out

    def _shift_weights(self, layer: int, conv: nn.Module, inputs: Any, weights: Tensor) -> Tensor | None:
        ratio = self._ratio(layer, inputs[0], weights)
        return None if ratio is None else weights * ratio

    def _shift_messages(self, layer: int, conv: Any, inputs: Any, messages: Tensor) -> Tensor | None:
        ratio = None if self._edge_index is None else self._ratio(layer, self._edge_index, conv._alpha)
        if ratio is None:
            return None
        conv._alpha = conv._alpha * ratio
        return messages * ratio.unsqueeze(-1)

    def edges_of_pass(self) -> Tensor | None:
        """Return the edges that the network was called with; None outside of a pass."""
        return self._edge_index

    def shift_of(self, layer: int, edges: int) -> Tensor | None:
        """Return the shift of a layer's scores, ``(edges,)``, added self-loops last; None for none."""
        shift = self._shift if layer == self._last else None
        if self._presence is None:
            return shift
        presence = nn.functional.pad(self._presence, (0, edges - self._presence.numel()))
        return presence if shift is None else presence + shift

    def _ratio(self, layer: int, used: Tensor, weights: Tensor) -> Tensor | None:
        """Return the shift's factor on each weight: ``e^d * sum(w) / sum(w e^d)`` per destination, ``(E, H)``."""
        if self._edge_index is None or (shift := self.shift_of(layer, used.size(1))) is None:
            return None
        _, _, place = _places(used, self._edge_index)
        factor = torch.empty_like(shift).index_copy(0, place, shift).exp().unsqueeze(-1)  # (E, 1)
        before, after = (sum_at(used[1], w, int(used.max()) + 1) for w in (weights, weights * factor))
        return factor * rows_at(used[1], before / after.clamp(min=1e-38))


def from_pyg(module: nn.Module, in_channels: int = 0, inputs: Sequence[str] | None = None) -> FromPyG:
    """Wrap a copy of ``module``, whose ``forward(x, edge_index, ...)`` or ``forward(data)`` returns logits ``(N, C)``.

    The last GATConv, GATv2Conv or TransformerConv in it gives the attention, averaged over its heads.

    ``in_channels`` is needed only by the defense ``ln``; ``inputs`` are as in :class:`FromPyG`.
    """
    return FromPyG(module, in_channels=in_channels, inputs=inputs)


def _ask_for_attention(conv: nn.Module, args: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    return args, {**kwargs, "return_attention_weights": True}


def _head_weights(used: Tensor | SortedEdges, weights: Tensor, edge_index: Tensor) -> HeadWeights:
    if isinstance(used, SortedEdges):
        return head_weights(used, weights)
    edges, added, place = _places(used, edge_index)
    return HeadWeights(edges, weights, place, added)


def _places(used: Tensor, edge_index: Tensor) -> tuple[Tensor, int, Tensor]:
    """Return the graph's edges in their order, then the loops that the layer added; the number of these loops; and the
    position of each edge in ``used``: ``(2, E), int, (E,)``. Parallel edges are matched in their order."""
    size = int(used.max()) + 1
    loops = used[:, used[0] == used[1]]
    added = loops[:, ~torch.isin(loops[0], edge_index[0, edge_index[0] == edge_index[1]])]
    keyed = torch.cat([edge_index, added], dim=1)
    if keyed.shape != used.shape:
        raise ModelError("a wrapped PyG model must attend over the edges it is given, each self-loop at most once")
    place = torch.empty_like(keyed[0])
    place[edge_keys(keyed, size).argsort(stable=True)] = edge_keys(used, size).argsort(stable=True)
    return keyed, added.size(1), place
