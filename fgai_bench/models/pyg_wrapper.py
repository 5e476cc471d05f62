"""Wrap your own PyG network to attack, certify and explain it; come here for where its attention is read."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import GATConv, GATv2Conv, MessagePassing, TransformerConv

from fgai_bench.fast.ordered_sums import rows_at, sum_at
from fgai_bench.models.attention import edge_keys
from fgai_bench.models.base import AttentionModel, HeadWeights, ModelError, Output, frozen_eval, head_weights
from fgai_bench.models.options import InputNorm
from fgai_bench.models.pyg_inputs import ExtraInputs, Signature, call
from fgai_bench.models.pyg_layers import PlainForward, is_plain
from fgai_bench.models.sorted_edges import SortedEdges
from fgai_bench.seeds import isolated_rng

ATTENTION_CONVS = (GATConv, GATv2Conv, TransformerConv)
_RUNNING: list[FromPyG] = []  # the wrapped networks whose forward is running, innermost last


class OtherEdges(ModelError):
    """Raised when a layer runs over edges that are neither the graph's nor one self-loop at each node."""


def copied(module: nn.Module) -> Any:
    """Return a deep copy; an activation that a layer keeps, which PyTorch refuses to copy, is copied by its value."""
    return copy.deepcopy(module, _activations(module))


def _activations(module: nn.Module) -> dict[int, Any]:
    """Return copies of the tensors that a network keeps of a forward pass, by the identity of each."""
    copies: dict[int, Any] = {}

    def look_into(value: Any) -> None:
        if isinstance(value, Tensor) and not value.is_leaf:
            copies[id(value)] = value.detach().clone()
        elif isinstance(value, list | tuple):
            for part in value:
                look_into(part)
        elif isinstance(value, dict):
            look_into(list(value.values()))

    for part in module.modules():
        look_into({name: value for name, value in vars(part).items() if name not in ("_parameters", "_modules")})
    return copies


def mark_attention(edge_index: Tensor, weights: Tensor) -> Tensor:
    """Say that these weights are the attention of a layer of your own; call it in the layer and use what it returns.

    It returns the weights as they are, except while this package shifts them to explain or attack the network.

    Args:
        edge_index: ``(2, E)`` the edges of the graph, and self-loops that the layer added, each at most once.
        weights: ``(E,)`` or ``(E, heads)``, which sum to one over the edges into each node.

    >>> mark_attention(torch.tensor([[0, 1], [1, 1]]), torch.tensor([0.25, 0.75]))
    tensor([0.2500, 0.7500])
    """
    return _RUNNING[-1].marked(edge_index, weights) if _RUNNING else weights


class FromPyG(AttentionModel):
    """A wrapper of ``module(x, edge_index, ...) -> (N, C)``; the last attention layer that ran gives the attention.

    A layer of one's own says its attention by :func:`mark_attention`. A network without any can be attacked and
    certified, and explained by gradients.

    Further arguments of the module (``edge_attr``, ...) are taken from the graph that it is called with. Attacks change
    features and edges only: :meth:`on_graph` says from which graph everything else is completed.

    A shift of the scores is applied to the weights themselves, which is the same thing:
    ``softmax(s + d) = w e^d / sum(w e^d)`` with ``w = softmax(s)``. An edge of weight p has its attention weight
    multiplied by p in every attention layer, before they are made to sum to one again. Other layers are given p as
    their ``edge_weight``, or have their messages multiplied by it if they take none.

    Args:
        module: it is copied, and the copy computes in single precision.
        input_norm, layer_norm, in_channels: of the input, for the defenses ``row-norm`` and ``ln``.
        inputs: names of further arguments that are taken from the graph; None for those that the module's forward
            names and the graph carries.

    ``notes`` says what is not as in the module.
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
        module = copied(_eager(module))  # a user may go on training theirs
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
        self.module = copied(module).float()
        self.signature = Signature.of(module)
        self._extra: ExtraInputs | None = None
        self.norm = nn.LayerNorm(in_channels) if layer_norm else None
        self.row_norm = input_norm == "row"
        self._seen: list[tuple[Tensor | SortedEdges, Tensor]] = []
        self._ran: int | None = None  # attention layers of a pass
        self.edges_of_pass: Tensor | None = None
        self._shift: Tensor | None = None
        self._presence: Tensor | None = None
        self._used: Any = None  # the edges that the running layer was given
        self.kernels = True  # whether plain attention layers run through the kernels of this package
        self.notes: list[str] = []
        self._forget_cached_edges()
        passing = [part for part in self.module.modules() if isinstance(part, MessagePassing)]
        convs = [conv for conv in passing if isinstance(conv, ATTENTION_CONVS)]
        self._edge_attr: bool | None = None  # whether an optional edge_attr is passed; None until a graph carries one
        self.readable = True  # whether the attention of its layers is read
        self._hooks = [hook for conv in convs for hook in self._listened(conv)]
        for layer in passing:
            if layer not in convs:
                self._weigh(layer)

    def _forget_cached_edges(self) -> None:
        """Let layers compute their normalised edges afresh on every graph."""
        for part in self.module.modules():
            if getattr(part, "cached", False) is True:
                vars(part).update({name: None for name in vars(part) if name.startswith("_cached")}, cached=False)
                self.notes = ["layers with cached=True do not cache here, since attacks change edges"]

    def _listened(self, conv: Any) -> list[Any]:
        """Read and shift the attention of one of PyG's layers; return the hooks that do so."""
        if is_plain(conv):
            conv.forward = PlainForward(conv, self)
        hooks = [
            conv.register_forward_pre_hook(_ask_for_attention, with_kwargs=True),
            conv.register_forward_hook(self._keep_attention),
        ]
        if isinstance(conv, TransformerConv):
            return [*hooks, conv.register_message_forward_hook(self._shift_messages)]
        return [*hooks, conv.register_edge_update_forward_hook(self._shift_weights)]

    def _weigh(self, layer: Any) -> None:
        """Let a layer that does not attend see the weight of each edge."""
        if "edge_weight" in inspect.signature(layer.forward).parameters:
            layer.register_forward_pre_hook(self._give_weights, with_kwargs=True)
            return
        layer.register_propagate_forward_pre_hook(self._keep_edges)
        layer.register_message_forward_hook(self._weigh_messages)

    def __deepcopy__(self, memo: dict[int, Any]) -> FromPyG:
        memo.update(_activations(self))
        copy_of_it = type(self).__new__(type(self))
        memo[id(self)] = copy_of_it
        copy_of_it.__dict__.update(copy.deepcopy(self.__dict__, memo))
        return copy_of_it

    @property
    def hops(self) -> int:
        return max(sum(isinstance(part, MessagePassing) for part in self.module.modules()), self._ran or 0)

    def hops_behind(self, out: Output) -> int | None:
        return self.hops or None  # of layers that are written by hand nothing is known

    def on_graph(self, data: Data) -> FromPyG:
        """Take what the module needs beside features and edges from this graph, also on graphs that come from it."""
        self._edge_attr = None
        self._extra = self._inputs_of(data)
        return self

    @property
    def input_names(self) -> tuple[str, ...]:
        """Return the names of the module's inputs, as far as a graph is known."""
        return ("x", "edge_index", *(self._extra.names if self._extra else ()))

    def embed(self, x: Tensor) -> Tensor:
        x = x.to_dense()
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
        if self._ran is None and not (score_shift is None and edge_weight is None):
            self._passed(h, edge_index)  # to see which layers attend
        if (score_shift is not None and not self._ran) or (edge_weight is not None and not self.hops):
            raise ValueError("no layer of the network is PyG's or calls mark_attention, so its edges have no weights")
        self.edges_of_pass, self._shift = edge_index, score_shift
        self._presence = None if edge_weight is None else edge_weight.clamp(min=1e-30).log()
        try:
            _RUNNING.append(self)
            logits = self._called(h, edge_index)
            self._ran = len(self._seen)
            layers = tuple(_head_weights(*used, edge_index) for used in self._seen)
        finally:
            _RUNNING.remove(self)
            self._seen.clear()
            self.edges_of_pass = self._shift = self._presence = None
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
        if named is None and "edge_attr" in self.signature.optional and "edge_attr" in data and self._edge_attr is None:
            self._edge_attr = self._uses_edge_attr(data)
            note = "its optional edge_attr is given, since its outputs are others without"
            self.notes = [other for other in self.notes if other != note] + [note] * self._edge_attr
        wanted = self.signature.wanted(data, bool(self._edge_attr)) if named is None else named
        return ExtraInputs.of(data, wanted)

    def _uses_edge_attr(self, data: Data) -> bool:
        """Tell whether the module gives other logits with the graph's edge_attr than without, or fails without it."""
        original = copied(self.config["module"]).float().to(data.x.device).eval()

        def logits(edge_attr: bool) -> Any:
            further = ExtraInputs.of(data, self.signature.wanted(data, edge_attr)).on(data.edge_index, data.x.shape[0])
            try:
                with torch.no_grad():
                    return call(original, self.signature, data.x.to_dense(), data.edge_index, further)
            except Exception:  # whatever a user's module raises says that it is not called so
                return None

        given, without = logits(True), logits(False)
        if not isinstance(given, Tensor) or not isinstance(without, Tensor):
            return isinstance(given, Tensor)
        return not torch.equal(given, without)

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
        return logits

    def rebuilt(self, seed: int = 0, **changes: Any) -> AttentionModel:
        fresh = FromPyG(**{**self.config, **changes, "seed": seed})
        with isolated_rng(seed, "init"):
            for part in fresh.module.modules():
                getattr(part, "reset_parameters", lambda: None)()
        fresh._extra = self._extra
        return fresh.to(next(self.parameters()).device)

    def held_against(self, data: Data) -> FromPyG:
        """Hold the logits against the module's; leave out the kernels, then the attention, where they differ."""
        original = copied(self.config["module"]).float().to(data.x.device).eval()
        if self.norm is not None or self.row_norm:
            return self
        with frozen_eval(self), torch.no_grad():
            x, further = data.x.to_dense(), self._inputs_of(data).on(data.edge_index, data.x.shape[0])
            try:
                logits, again = (call(original, self.signature, x, data.edge_index, further) for _ in range(2))
            except Exception:  # whatever a user's module raises, a pass of the wrapper says it in one sentence
                return self
            if not isinstance(logits, Tensor):
                return self
            steady = torch.equal(logits, again)  # a network with a random part cannot be compared
            for give_up in (self._without_kernels, self._without_attention):
                try:
                    own = self(data).logits
                    if not steady or torch.allclose(own, logits, rtol=1e-3, atol=1e-4 * float(logits.abs().max())):
                        return self
                except OtherEdges as error:
                    self._without_attention(str(error))
                    return self
                except ValueError as error:
                    if isinstance(error, ModelError) and error.__cause__ is None:
                        raise  # a sentence for the user, not a layer that the hooks do not fit
                give_up()
        return self

    def ignores_edges(self, data: Data) -> bool:
        """Tell whether the module gives the same logits when something is in the edges' place that nobody can use."""
        x, further = self.embed(data.x), self._inputs_of(data)
        nowhere: Any = object()
        try:
            logits = call(self.module, self.signature, x, nowhere, {**further.constant, **further.per_node})
        except Exception:  # whatever a module raises that looks at its edges
            return False
        return torch.equal(logits, self._called(x, data.edge_index))

    def _without_kernels(self) -> None:
        self.kernels = False
        self.notes += ["this package's kernels compute something else than the network; its own layers are used"]

    def _without_attention(self, reason: str = "the attention of its layers cannot be read") -> None:
        self.kernels = self.readable = False  # a kernel returns an attention, and no hook would take it off
        for hook in self._hooks:
            hook.remove()
        for layer in self.module.modules():
            if isinstance(layer, ATTENTION_CONVS):
                self._weigh(layer)
        self.notes += [f"{reason}; mark_attention can say it over the graph's edges"]

    def _keep_attention(self, conv: nn.Module, args: Any, output: Any) -> Tensor:
        out, seen = output
        self._seen.append(seen)
        return out

    def marked(self, used: Tensor, weights: Tensor) -> Tensor:
        """Keep the attention of a layer that marks it, and return it shifted."""
        if not self.readable:
            return weights
        heads = weights.view(weights.shape[0], -1)  # (E, H)
        ratio = self._ratio(used, heads)
        heads = heads if ratio is None else heads * ratio
        self._seen.append((used, heads))
        return heads.view_as(weights)

    def _shift_weights(self, conv: nn.Module, inputs: Any, weights: Tensor) -> Tensor | None:
        ratio = self._ratio(inputs[0], weights)
        return None if ratio is None else weights * ratio

    def _shift_messages(self, conv: Any, inputs: Any, messages: Tensor) -> Tensor | None:
        ratio = None if self.edges_of_pass is None else self._ratio(self.edges_of_pass, conv._alpha)
        if ratio is None:
            return None
        conv._alpha = conv._alpha * ratio
        return messages * ratio.unsqueeze(-1)

    def _give_weights(self, layer: nn.Module, args: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]] | None:
        bound = inspect.signature(layer.forward).bind(*args, **kwargs)
        if self._presence is None or bound.arguments.get("edge_index") is not self.edges_of_pass:
            return None
        own, weight = bound.arguments.get("edge_weight"), self._presence.exp()
        bound.arguments["edge_weight"] = weight if own is None else own * weight
        return bound.args, bound.kwargs

    def _keep_edges(self, layer: nn.Module, inputs: Any) -> None:
        self._used = inputs[0]

    def _weigh_messages(self, layer: nn.Module, inputs: Any, messages: Tensor) -> Tensor | None:
        if self._presence is None or self.edges_of_pass is None:
            return None
        edges, _, place = _places(self._used, self.edges_of_pass)
        weight = nn.functional.pad(self._presence.exp(), (0, edges.shape[1] - self._presence.numel()), value=1.0)
        return messages * torch.empty_like(weight).index_copy(0, place, weight).view(-1, *[1] * (messages.dim() - 1))

    def shift_of(self, edges: int) -> Tensor | None:
        """Return the shift of the scores of the layer that runs, ``(edges,)``, added self-loops last; None for none."""
        shift = self._shift if self._ran == len(self._seen) + 1 else None  # of the last layer
        if self._presence is None:
            return shift
        presence = nn.functional.pad(self._presence, (0, edges - self._presence.numel()))
        return presence if shift is None else presence + shift

    def _ratio(self, used: Tensor, weights: Tensor) -> Tensor | None:
        """Return the shift's factor on each weight: ``e^d * sum(w) / sum(w e^d)`` per destination, ``(E, H)``."""
        if self.edges_of_pass is None or (shift := self.shift_of(used.size(1))) is None:
            return None
        _, _, place = _places(used, self.edges_of_pass)
        factor = torch.empty_like(shift).index_copy(0, place, shift).exp().unsqueeze(-1)  # (E, 1)
        before, after = (sum_at(used[1], w, int(used.max()) + 1) for w in (weights, weights * factor))
        return factor * rows_at(used[1], before / after.clamp(min=1e-38))


def _eager(module: nn.Module) -> nn.Module:
    """Return the network without ``torch.compile``, whose graphs no hook can enter; refuse a scripted one."""
    module = getattr(module, "_orig_mod", module)
    if any(isinstance(part, torch.jit.ScriptModule) for part in module.modules()):
        raise ModelError("a scripted network cannot be looked into; give it as it was before torch.jit")
    if any(hasattr(part, "_orig_mod") for part in module.modules()):
        module = copied(module)
        for part in list(module.modules()):
            for name, child in part.named_children():
                setattr(part, name, getattr(child, "_orig_mod", child))
    return module


def from_pyg(module: nn.Module, in_channels: int = 0, inputs: Sequence[str] | None = None) -> FromPyG:
    """Wrap a copy of ``module``, whose ``forward(x, edge_index, ...)`` or ``forward(data)`` returns logits ``(N, C)``.

    The arguments are as in :class:`FromPyG`; ``in_channels`` is needed only by the defense ``ln``.
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
    size = 1 + int(used.max()) if used.numel() else 1
    loops = used[:, used[0] == used[1]]
    added = loops[:, ~torch.isin(loops[0], edge_index[0, edge_index[0] == edge_index[1]])]
    keyed = torch.cat([edge_index, added], dim=1)
    if keyed.shape != used.shape:
        loops = edge_index[0, edge_index[0] == edge_index[1]]
        if loops.unique().numel() < loops.numel():
            node = int(loops.mode().values)
            raise ModelError(
                f"the graph has several self-loops at node {node}; data.coalesce() leaves one of each edge"
            )
        raise OtherEdges(
            "a layer does not run over exactly the graph's edges, so these have no attention or weight in it"
        )
    place = torch.empty_like(keyed[0])
    place[edge_keys(keyed, size).argsort(stable=True)] = edge_keys(used, size).argsort(stable=True)
    return keyed, added.size(1), place
