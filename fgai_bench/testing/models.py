"""Check models: shapes, attention, symmetries, gradients, storage, and no side effects."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import safetensors.torch
import torch
from torch import Tensor
from torch_geometric.data import Data

from fgai_bench.models import Attention, AttentionModel, Output, align
from fgai_bench.models.base import frozen_eval
from fgai_bench.registry import Entry
from fgai_bench.seeds import isolated_rng
from fgai_bench.testing.checks import CheckList, CheckSkipped, require
from fgai_bench.testing.fixture import CLASSES, FEATURES, tiny_graph
from fgai_bench.testing.traces import no_trace_on, no_trace_on_rng

TOLERANCE = 1e-4


@dataclass(frozen=True)
class ModelSubject:
    """A model to be checked: freshly built from a registry, or fitted by a defense.

    Attributes:
        build: returns the model with the initial weights of a seed.
        declared: tags of the entry.
        expected_failures: check to reason.
        fitted: the model whose outputs are checked; if None, the one built with seed 0.
    """

    build: Callable[[int], AttentionModel]
    declared: frozenset[str]
    expected_failures: Mapping[str, str] = field(default_factory=dict)
    fitted: AttentionModel | None = None

    @cached_property
    def model(self) -> AttentionModel:
        """Return the model in evaluation mode."""
        return (self.build(0) if self.fitted is None else self.fitted).eval()

    @cached_property
    def tags(self) -> frozenset[str]:
        """Return the declared tags, and further ones that the model's output shows."""
        return self.declared | ({"attention"} if self.output(tiny_graph()).attention is not None else set())

    def output(self, data: Data, **options: Any) -> Output:
        """Return the model's output without gradients."""
        with torch.no_grad():
            return self.model(data, **options)

    def attention(self, data: Data, **options: Any) -> Attention:
        """Return the attention of the model's output."""
        attention = self.output(data, **options).attention
        require(attention is not None, "the output has no attention")
        assert attention is not None
        return attention


def subject(entry: Entry[Any]) -> ModelSubject:
    """Return the registered model ``entry`` as a subject, built for the tiny graph."""

    def build(seed: int) -> AttentionModel:
        with isolated_rng(seed, "init"):
            return entry.load()(FEATURES, CLASSES, seed=seed)

    return ModelSubject(build, entry.tags, getattr(entry.load(), "expected_failures", {}))


CHECKS: CheckList[ModelSubject] = CheckList()


@CHECKS.add()
def check_logits(subject: ModelSubject) -> None:
    """Logits are finite and have one row per node and one column per class."""
    data = tiny_graph()
    logits = subject.output(data).logits
    require(logits.shape == (data.num_nodes, CLASSES), f"logits have the shape {tuple(logits.shape)}")
    require(bool(logits.isfinite().all()), "logits are not finite")


@CHECKS.add(unless=("fitted",))
def check_attention_is_declared(subject: ModelSubject) -> None:
    """The model has the tag ``attention`` if and only if its output has an attention."""
    has = subject.output(tiny_graph()).attention is not None
    require(has == ("attention" in subject.declared), f"the output has {'an' if has else 'no'} attention")


@CHECKS.add(needs=("attention",))
def check_attention_is_non_negative(subject: ModelSubject) -> None:
    """No attention weight is negative."""
    least = float(subject.attention(tiny_graph()).weight.min())
    require(least >= 0, f"the smallest weight is {least:.3g}")


@CHECKS.add(needs=("attention",))
def check_attention_sums_to_one(subject: ModelSubject) -> None:
    """The attention of every destination sums to one."""
    data = tiny_graph()
    attention = subject.attention(data)
    sums = torch.zeros(data.x.size(0)).index_add_(0, attention.edge_index[1], attention.weight)
    require(_close(sums, torch.ones_like(sums)), f"sums lie between {sums.min():.6g} and {sums.max():.6g}")


@CHECKS.add(needs=("attention",))
def check_attention_is_keyed_by_edge(subject: ModelSubject) -> None:
    """Every edge of the graph has a weight, in the graph's order; any further weights belong to added self-loops."""
    data = tiny_graph()
    attention = subject.attention(data)
    own = attention.edge_index[:, : data.edge_index.size(1)]
    require(torch.equal(own, data.edge_index), "the attention's first edges are not those of the graph")
    extra = attention.edge_index[:, data.edge_index.size(1) :]
    require(extra.size(1) == attention.added, f"{extra.size(1)} further edges, but added = {attention.added}")
    require(torch.equal(extra[0], extra[1]), "an added edge is not a self-loop")


@CHECKS.add(unless=("transductive",))
def check_relabelled_nodes(subject: ModelSubject) -> None:
    """Reordering the nodes of a graph reorders the output in the same way."""
    data = tiny_graph()
    order = torch.randperm(data.x.size(0), generator=torch.Generator().manual_seed(1))
    place = order.argsort()
    out, other = subject.output(data), subject.output(Data(x=data.x[order], edge_index=place[data.edge_index]))
    require(_close(other.logits, out.logits[order]), "logits depend on how nodes are numbered")
    if out.attention is not None and other.attention is not None:
        renamed = Attention(place[out.attention.edge_index], out.attention.weight, out.attention.added)
        require(_close(*align(renamed, other.attention)), "attention depends on how nodes are numbered")


@CHECKS.add()
def check_shuffled_edges(subject: ModelSubject) -> None:
    """Reordering the edges of a graph does not change the output."""
    data = tiny_graph()
    order = torch.randperm(data.edge_index.size(1), generator=torch.Generator().manual_seed(1))
    out, other = subject.output(data), subject.output(Data(x=data.x, edge_index=data.edge_index[:, order]))
    require(_close(other.logits, out.logits), "logits depend on the order of the edges")
    if out.attention is not None and other.attention is not None:
        require(_close(*align(out.attention, other.attention)), "attention depends on the order of the edges")


@CHECKS.add()
def check_isolated_nodes_are_finite(subject: ModelSubject) -> None:
    """A node without edges has finite logits and attention, and so have all others."""
    out = subject.output(tiny_graph(isolated=True))
    require(bool(out.logits.isfinite().all()), "logits are not finite")
    if out.attention is not None:
        require(bool(out.attention.weight.isfinite().all()), "attention is not finite")


@CHECKS.add(needs=("differentiable",))
def check_gradients_reach_features(subject: ModelSubject) -> None:
    """Logits have a finite gradient with respect to the features, and it is not zero."""
    data = tiny_graph()
    data.x.requires_grad_(True)
    with frozen_eval(subject.model):
        _require_gradient(subject.model(data).logits.square().sum(), data.x, "features to the logits")


@CHECKS.add(needs=("attention", "differentiable"))
def check_gradients_reach_attention(subject: ModelSubject) -> None:
    """Attention has finite gradients with respect to the features and the parameters, and they are not zero."""
    data = tiny_graph()
    data.x.requires_grad_(True)
    attention = subject.model(data).attention
    require(attention is not None, "the output has no attention")
    total = attention.weight.square().sum()
    _require_gradient(total, data.x, "features to the attention")
    parameters = [parameter for parameter in subject.model.parameters() if parameter.requires_grad]
    gradients = torch.autograd.grad(total, parameters, allow_unused=True)
    reached = [gradient for gradient in gradients if gradient is not None]
    require(any(bool(gradient.any()) for gradient in reached), "no gradient of the attention reaches a parameter")
    require(all(bool(gradient.isfinite().all()) for gradient in reached), "a parameter's gradient is not finite")


@CHECKS.add()
def check_embed_is_row_wise(subject: ModelSubject) -> None:
    """A row of ``embed(x)`` depends on the same row of x only."""
    x = tiny_graph().x
    rows = torch.tensor([7, 3, 20])
    with torch.no_grad():
        whole, part = subject.model.embed(x), subject.model.embed(x[rows])
    require(_close(part, whole[rows]), "the embedding of a row changes with the rows beside it")


@CHECKS.add()
def check_forward_is_embed_and_propagate(subject: ModelSubject) -> None:
    """``model(data)`` is ``propagate(embed(x), edge_index)``."""
    data = tiny_graph()
    with torch.no_grad():
        parts = subject.model.propagate(subject.model.embed(data.x), data.edge_index)
    require(_close(parts.logits, subject.output(data).logits), "logits differ")


@CHECKS.add()
def check_state_dict_round_trip(subject: ModelSubject) -> None:
    """A model that is rebuilt from its configuration and its stored tensors gives the same output."""
    state = {name: value.contiguous() for name, value in subject.model.state_dict().items()}
    again = subject.model.rebuilt(seed=1)
    again.load_state_dict(safetensors.torch.load(safetensors.torch.save(state)))
    with torch.no_grad():
        output = again.eval()(tiny_graph())
    require(_same_output(output, subject.output(tiny_graph())), "the output is another one")


@CHECKS.add()
def check_same_seed_same_weights(subject: ModelSubject) -> None:
    """Two models built with one seed have the same weights."""
    first, second = (_weights(subject.build(3)) for _ in range(2))
    require(torch.equal(first, second), "weights differ")


@CHECKS.add()
def check_other_seed_other_weights(subject: ModelSubject) -> None:
    """Two models built with different seeds have different weights."""
    first, second = (_weights(subject.build(seed)) for seed in (3, 4))
    require(not torch.equal(first, second), "weights are the same")


@CHECKS.add()
def check_global_rng_untouched(subject: ModelSubject) -> None:
    """Building and evaluating a model leaves the global random state unchanged."""
    with no_trace_on_rng():
        subject.build(0)
        subject.output(tiny_graph())


@CHECKS.add()
def check_sparse_features(subject: ModelSubject) -> None:
    """Sparse and dense features give the same output."""
    dense, sparse = subject.output(tiny_graph()), subject.output(tiny_graph(sparse=True))
    require(_close(sparse.logits, dense.logits), "logits differ")
    if dense.attention is not None and sparse.attention is not None:
        require(_close(sparse.attention.weight, dense.attention.weight), "attention differs")


@CHECKS.add()
def check_forward_changes_nothing(subject: ModelSubject) -> None:
    """Evaluating a model changes neither the graph nor the model, and gives the same output again."""
    data = tiny_graph()
    with no_trace_on(data, subject.model):
        first, second = subject.output(data), subject.output(data)
    require(_same_output(first, second), "a second evaluation gives another output")


@CHECKS.add(needs=("attention",))
def check_score_shift(subject: ModelSubject) -> None:
    """A shift of the scores by zero changes nothing; raising a score raises its weight and lowers its neighbours'."""
    data = tiny_graph()
    attention = subject.attention(data)
    shift = torch.zeros_like(attention.weight)
    unmoved = subject.attention(data, score_shift=shift)
    require(_close(unmoved.weight, attention.weight), "a shift of zero moves the attention")
    edge = int((attention.weight * (1 - attention.weight)).argmax())
    shift[edge] = 1.0
    moved = subject.attention(data, score_shift=shift).weight
    require(float(moved[edge] - attention.weight[edge]) > TOLERANCE, "a raised score does not raise its weight")
    beside = attention.edge_index[1] == attention.edge_index[1, edge]
    beside[edge] = False
    require(bool((moved[beside] <= attention.weight[beside]).all()), "a raised score does not lower its neighbours")


@CHECKS.add(needs=("attention",))
def check_score_shift_moves_logits(subject: ModelSubject) -> None:
    """A shift of the scores changes the logits, since the model aggregates with its attention."""
    data = tiny_graph()
    attention = subject.attention(data)
    shift = torch.randn(attention.weight.shape, generator=torch.Generator().manual_seed(1))
    moved = subject.output(data, score_shift=shift).logits
    require(not _close(moved, subject.output(data).logits), "logits do not depend on the attention")


@CHECKS.add()
def check_edge_weight(subject: ModelSubject) -> None:
    """Edge weights of one change nothing; a model without edge weights raises a ``ValueError``."""
    data = tiny_graph()
    ones = torch.ones(data.edge_index.size(1))
    try:
        with torch.no_grad():
            weighed = subject.model.propagate(subject.model.embed(data.x), data.edge_index, edge_weight=ones)
    except ValueError as reason:
        raise CheckSkipped(str(reason)) from None
    require(_close(weighed.logits, subject.output(data).logits), "weights of one change the logits")


def _close(a: Tensor, b: Tensor) -> bool:
    return a.shape == b.shape and torch.allclose(a, b, rtol=TOLERANCE, atol=TOLERANCE)


def _same_output(a: Output, b: Output) -> bool:
    weights = [torch.empty(0) if out.attention is None else out.attention.weight for out in (a, b)]
    return torch.equal(a.logits, b.logits) and torch.equal(*weights)


def _weights(model: AttentionModel) -> Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


def _require_gradient(value: Tensor, leaf: Tensor, path: str) -> None:
    require(value.requires_grad, f"no gradient flows from the {path}")
    (gradient,) = torch.autograd.grad(value, leaf, retain_graph=True, allow_unused=True)
    require(gradient is not None and bool(gradient.any()), f"no gradient flows from the {path}")
    require(bool(gradient.isfinite().all()), f"the gradient from the {path} is not finite")
