"""Check models: shapes, attention, symmetries, gradients, storage, and no side effects."""

from collections.abc import Callable
from dataclasses import dataclass
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
from fgai_bench.testing.checks import CheckSkipped, require, tagged
from fgai_bench.testing.fixture import CLASSES, FEATURES, tiny_graph
from fgai_bench.testing.traces import no_trace_on

TOLERANCE = 1e-4


@dataclass(frozen=True)
class ModelSubject:
    """A model to be checked: freshly built from a registry, or ``fitted`` by a defense.

    ``build`` returns it with the initial weights of a seed; ``declared`` are the tags of the entry.
    """

    build: Callable[[int], AttentionModel]
    declared: frozenset[str]
    fitted: AttentionModel | None = None

    @cached_property
    def model(self) -> AttentionModel:
        return (self.build(0) if self.fitted is None else self.fitted).eval()

    @cached_property
    def tags(self) -> frozenset[str]:
        """Return the declared tags, and further ones that the model's output shows."""
        return self.declared | ({"attention"} if self.output(tiny_graph()).attention is not None else set())

    def output(self, data: Data, **options: Any) -> Output:
        with torch.no_grad():
            return self.model(data, **options)

    def attention(self, data: Data, **options: Any) -> Attention:
        attention = self.output(data, **options).attention
        require(attention is not None, "the output has no attention")
        assert attention is not None
        return attention


def subject(entry: Entry[Any]) -> ModelSubject:
    """Return the registered model ``entry`` as a subject, built for the tiny graph."""

    def build(seed: int) -> AttentionModel:
        with isolated_rng(seed, "init"):
            return entry.load()(FEATURES, CLASSES, seed=seed)

    return ModelSubject(build, entry.tags)


def check_logits(subject: ModelSubject) -> None:
    """Logits are finite, one row per node and one column per class; so are those of a graph with an isolated node."""
    for data in (tiny_graph(), tiny_graph(isolated=True)):
        out = subject.output(data)
        require(out.logits.shape == (data.num_nodes, CLASSES), f"logits have the shape {tuple(out.logits.shape)}")
        require(bool(out.logits.isfinite().all()), "logits are not finite")
        if out.attention is not None:
            require(bool(out.attention.weight.isfinite().all()), "attention is not finite")


@tagged(unless=("fitted",))
def check_attention_is_declared(subject: ModelSubject) -> None:
    """The model has the tag ``attention`` if and only if its output has an attention."""
    has = subject.output(tiny_graph()).attention is not None
    require(has == ("attention" in subject.declared), f"the output has {'an' if has else 'no'} attention")


@tagged(needs=("attention",))
def check_attention_is_a_distribution(subject: ModelSubject) -> None:
    """No weight is negative, and the attention of every destination sums to one."""
    data = tiny_graph()
    attention = subject.attention(data)
    least = float(attention.weight.min())
    require(least >= 0, f"the smallest weight is {least:.3g}")
    sums = torch.zeros(data.x.size(0)).index_add_(0, attention.edge_index[1], attention.weight)
    require(_close(sums, torch.ones_like(sums)), f"sums lie between {sums.min():.6g} and {sums.max():.6g}")


@tagged(needs=("attention",))
def check_attention_is_keyed_by_edge(subject: ModelSubject) -> None:
    """Every edge of the graph has a weight, in the graph's order; any further weights belong to added self-loops."""
    data = tiny_graph()
    attention = subject.attention(data)
    own, extra = attention.edge_index.tensor_split([data.edge_index.size(1)], dim=1)
    require(torch.equal(own, data.edge_index), "the attention's first edges are not those of the graph")
    require(extra.size(1) == attention.added, f"{extra.size(1)} further edges, but added = {attention.added}")
    require(torch.equal(extra[0], extra[1]), "an added edge is not a self-loop")


def check_order_does_not_matter(subject: ModelSubject) -> None:
    """Reordering the edges of a graph changes nothing; reordering its nodes reorders the output in the same way."""
    data, draw = tiny_graph(), torch.Generator().manual_seed(1)
    edges, same = (torch.randperm(data.edge_index.size(1), generator=draw), torch.arange(data.x.size(0)))
    _require_equivariant(subject, data, same, edges, "the order of the edges")
    if not {"transductive", "numbered"} & subject.tags:
        order = torch.randperm(data.x.size(0), generator=draw)
        _require_equivariant(subject, data, order, edges.sort().values, "how nodes are numbered")


def _require_equivariant(subject: ModelSubject, data: Data, nodes: Tensor, edges: Tensor, what: str) -> None:
    """Raise if the output changes otherwise than its graph when nodes ``(N,)`` and edges ``(E,)`` are reordered."""
    place = nodes.argsort()
    out = subject.output(data)
    other = subject.output(Data(x=data.x[nodes], edge_index=place[data.edge_index[:, edges]]))
    require(_close(other.logits, out.logits[nodes]), f"logits depend on {what}")
    if out.attention is not None and other.attention is not None:
        renamed = Attention(place[out.attention.edge_index], out.attention.weight, out.attention.added)
        require(_close(*align(renamed, other.attention)), f"attention depends on {what}")


@tagged(needs=("differentiable",))
def check_gradients(subject: ModelSubject) -> None:
    """Logits and attention have finite gradients over the features, attention also over parameters; none is zero."""
    data = tiny_graph()
    data.x.requires_grad_(True)
    with frozen_eval(subject.model):
        out = subject.model(data)
        _require_gradient(out.logits.square().sum(), data.x, "features to the logits")
        if out.attention is None:
            return
        _require_gradient(out.attention.weight.square().sum(), data.x, "features to the attention")
    parameters = [parameter for parameter in subject.model.parameters() if parameter.requires_grad]
    total = subject.model(data).attention.weight.square().sum()
    gradients = torch.autograd.grad(total, parameters, allow_unused=True)
    reached = [gradient for gradient in gradients if gradient is not None]
    require(any(bool(gradient.any()) for gradient in reached), "no gradient of the attention reaches a parameter")
    require(all(bool(gradient.isfinite().all()) for gradient in reached), "a parameter's gradient is not finite")


def check_forward_is_embed_and_propagate(subject: ModelSubject) -> None:
    """``model(data)`` is ``propagate(embed(x), edge_index)``, and a row of ``embed(x)`` depends on its own row only."""
    data, rows = tiny_graph(), torch.tensor([7, 3, 20])
    with torch.no_grad():
        whole, part = subject.model.embed(data.x), subject.model.embed(data.x[rows])
        logits = subject.model.propagate(whole, data.edge_index).logits
    require(_close(part, whole[rows]), "the embedding of a row changes with the rows beside it")
    require(_close(logits, subject.output(data).logits), "logits differ")


def check_state_dict_round_trip(subject: ModelSubject) -> None:
    """A model that is rebuilt from its configuration and its stored tensors gives the same output."""
    state = {name: value.contiguous() for name, value in subject.model.state_dict().items()}
    again = subject.model.rebuilt(seed=1)
    again.load_state_dict(safetensors.torch.load(safetensors.torch.save(state)))
    with torch.no_grad():
        output = again.eval()(tiny_graph())
    require(_same_output(output, subject.output(tiny_graph())), "the output is another one")


def check_seed_decides_the_weights(subject: ModelSubject) -> None:
    """Two models built with one seed have the same weights, and with different seeds different ones."""
    first, again, other = (_weights(subject.build(seed)) for seed in (3, 3, 4))
    require(torch.equal(first, again), "weights of one seed differ")
    require(not torch.equal(first, other), "weights of two seeds are the same")


def check_no_side_effects(subject: ModelSubject) -> None:
    """Building and evaluating changes neither graph nor model nor global random state; a second output is the same."""
    data = tiny_graph()
    with no_trace_on(data, subject.model):
        subject.build(0)
        first, second = subject.output(data), subject.output(data)
    require(_same_output(first, second), "a second evaluation gives another output")


def check_sparse_features(subject: ModelSubject) -> None:
    """Sparse and dense features give the same output."""
    dense, sparse = subject.output(tiny_graph()), subject.output(tiny_graph(sparse=True))
    require(_close(sparse.logits, dense.logits), "logits differ")
    if dense.attention is not None and sparse.attention is not None:
        require(_close(sparse.attention.weight, dense.attention.weight), "attention differs")


@tagged(needs=("attention",))
def check_score_shift(subject: ModelSubject) -> None:
    """A shift of zero changes nothing; a raised score raises its weight, lowers its neighbours', and moves logits."""
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
    everywhere = torch.randn(shift.shape, generator=torch.Generator().manual_seed(1))
    logits = subject.output(data, score_shift=everywhere).logits
    require(not _close(logits, subject.output(data).logits), "logits do not depend on the attention")


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
