"""The CPU kernels equal the plain core, whatever the number of threads."""

import sys
from contextlib import contextmanager

import pytest
import torch
import torch.nn.functional as F

from fgai_bench.models import gatv2, gt
from fgai_bench.models.features import feature_product
from fgai_bench.models.gat import GATLayer
from fgai_bench.models.gatv2 import GATv2Layer, dynamic_scores
from fgai_bench.models.gt import GTLayer, dot_scores
from fgai_bench.models.kernels import numba_product, numba_threads, segments
from fgai_bench.models.kernels.numba_attention import fused_attention
from fgai_bench.models.kernels.numba_scores import DotScores, DynamicScores
from fgai_bench.models.kernels.segments import segment_softmax, weighted_sum
from fgai_bench.models.options import AttentionOptions, GTOptions
from fgai_bench.models.sorted_edges import NodeMask, sorted_edges

NODES = 40
PRECISION = {torch.float32: 1e-5, torch.float64: 1e-10}
SEED = torch.tensor([7])


@contextmanager
def threads(count):
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@pytest.fixture
def draw():
    return torch.Generator().manual_seed(0)


@pytest.fixture
def edges(draw):
    pairs = torch.randint(0, NODES - 1, (2, 200), generator=draw)  # the last node has its own loop only
    return sorted_edges(torch.unique(pairs, dim=1), NODES)


@pytest.fixture(params=PRECISION, ids=str)
def dtype(request):
    return request.param


def plain_attention(values, first, second, edges, shift):
    scores = first if second is None else F.leaky_relu(first[edges.source] + second[edges.destination], 0.2)
    weights = segment_softmax(scores if shift is None else scores + shift.unsqueeze(1), edges)
    return weighted_sum(weights, values, edges), weights


def scores_of(first, second):
    return ("given" if second is None else "additive"), first, second


def assert_same(ours, theirs, inputs, draw, terms):
    """The same outputs, and the same gradients of a random combination of the first ``terms`` of them."""
    tolerance = PRECISION[inputs[0].dtype]
    combined = []
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, other, rtol=tolerance, atol=tolerance)
    directions = [torch.randn(x.shape, generator=draw, dtype=x.dtype) for x in theirs]
    for out in (ours, theirs):
        chosen = list(zip(out, directions, strict=True))[terms]
        total = sum((x * d).sum() for x, d in chosen)
        combined.append(torch.autograd.grad(total, inputs, retain_graph=True, materialize_grads=True))
    for mine, other in zip(*combined, strict=True):
        torch.testing.assert_close(mine, other, rtol=10 * tolerance, atol=10 * tolerance)


@pytest.mark.parametrize("terms", [slice(0, 1), slice(1, 2), slice(0, 2)], ids=["sums", "weights", "both"])
@pytest.mark.parametrize(
    ("heads", "channels", "additive", "shifted"),
    [(8, 8, True, False), (1, 5, True, True), (3, 10, False, True), (2, 8, False, False)],
)
def test_fused_attention_equals_the_plain_core(edges, draw, dtype, heads, channels, additive, shifted, terms):
    def normal(*shape):
        return torch.randn(*shape, generator=draw, dtype=dtype, requires_grad=True)

    count = edges.source.numel()
    values, first = normal(NODES, heads, channels), normal(NODES if additive else count, heads)
    second, shift = normal(NODES, heads) if additive else None, normal(count) if shifted else None
    inputs = [x for x in (values, first, second, shift) if x is not None]
    ours = fused_attention(values, edges, *scores_of(first, second), shift, 0.2)
    assert_same(ours, plain_attention(values, first, second, edges, shift), inputs, draw, terms)


def test_a_part_of_the_graph_has_the_sums_and_gradients_of_the_whole(edges, draw):
    def normal(*shape):
        return torch.randn(*shape, generator=draw, dtype=torch.float64, requires_grad=True)

    sources = torch.arange(NODES) < 3
    reached = torch.zeros(NODES, dtype=torch.bool)
    reached[edges.destination[sources[edges.source]]] = True
    everywhere = torch.ones(NODES, dtype=torch.bool)
    given = normal(NODES, 2, 3), normal(NODES, 2), normal(NODES, 2)
    whole = fused_attention(given[0], edges, *scores_of(*given[1:]), factor=0.2)
    for destinations in (reached, everywhere):
        some = fused_attention(
            given[0], edges, *scores_of(*given[1:]), factor=0.2, mask=NodeMask(destinations, sources)
        )
        torch.testing.assert_close(some[0][destinations], whole[0][destinations])
        assert not some[0][~destinations].any()
        inside = destinations[edges.destination]
        torch.testing.assert_close(some[1][inside], whole[1][inside])
        totals = [x[0][destinations].square().sum() + x[1][inside].pow(3).sum() for x in (some, whole)]
        gradients = [torch.autograd.grad(total, given, retain_graph=True) for total in totals]
        for mine, other in zip(*gradients, strict=True):
            torch.testing.assert_close(mine[sources], other[sources])


@pytest.mark.parametrize(("compiled", "plain"), [(DotScores, dot_scores), (DynamicScores, dynamic_scores)])
@pytest.mark.parametrize(("heads", "channels"), [(8, 8), (1, 5), (3, 18)])
def test_scores_equal_the_plain_ones(edges, draw, dtype, compiled, plain, heads, channels, monkeypatch):
    monkeypatch.setattr(sys.modules[plain.__module__], "runs_compiled", lambda values: False)
    shapes = [(NODES, heads, channels)] * 2 + [(heads, channels)] * (compiled is DynamicScores)
    inputs = [torch.randn(shape, generator=draw, dtype=dtype, requires_grad=True) for shape in shapes]
    rest = (edges, 0.2) if compiled is DynamicScores else (edges,)
    assert_same([compiled.apply(*inputs, *rest)], [plain(*inputs, *rest)], inputs, draw, slice(0, 1))


def test_dropout_of_the_weights_is_unbiased_and_the_same_in_both_passes():
    ring = torch.arange(4000)
    edges = sorted_edges(torch.stack([ring, ring.roll(1)]), 4000)  # two edges into each node, each of weight 1/2
    values = torch.ones(4000, 2, 4, dtype=torch.float64, requires_grad=True)
    scores = torch.zeros(8000, 2, dtype=torch.float64)
    out, weights = fused_attention(values, edges, "given", scores, dropout=0.6, seed=SEED)
    assert torch.all(weights == 0.5)
    kept = out[..., 0] * 0.4 / 0.5  # how many of a node's two edges were kept
    assert set(kept.detach().round(decimals=9).unique().tolist()) == {0, 1, 2}
    assert abs(kept.mean().item() / 2 - 0.4) < 0.02
    # An edge's weight reaches its source's gradient exactly where it reached its destination's sum.
    direction = torch.arange(4000, dtype=torch.float64).view(-1, 1, 1)
    (gradient,) = torch.autograd.grad((out * direction).sum(), values)
    assert gradient.sum().item() == pytest.approx((out * direction).sum().item())


def test_dropout_has_the_gradients_of_the_weights_it_kept(edges, draw):
    values = torch.randn(NODES, 2, 3, generator=draw, dtype=torch.float64, requires_grad=True)
    scores = torch.randn(edges.source.numel(), 2, generator=draw, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(
        lambda v, s: fused_attention(v, edges, "given", s, dropout=0.5, seed=SEED), (values, scores)
    )


def test_the_seed_decides_what_is_dropped(edges, draw):
    values = torch.randn(NODES, 2, 3, generator=draw)
    scores = torch.randn(edges.source.numel(), 2, generator=draw)

    def sums(seed):
        return fused_attention(values, edges, "given", scores, dropout=0.5, seed=torch.tensor([seed]))[0]

    assert torch.equal(sums(1), sums(1))
    assert not torch.equal(sums(1), sums(2))


def test_neither_edges_nor_heads_nor_seeds_drop_together():
    ring = torch.arange(20_000)
    edges = sorted_edges(torch.stack([ring, ring]), 20_000)
    values, scores = torch.ones(20_000, 4, 1), torch.zeros(20_000, 4)
    masks = [fused_attention(values, edges, "given", scores, dropout=0.5, seed=torch.tensor([s]))[0] for s in range(3)]
    columns = torch.cat([*masks, masks[0].roll(1, 0)], 1).squeeze(-1)  # (nodes, 4 heads of each of 3 seeds, neighbours)
    correlation = torch.corrcoef(columns.t()) - torch.eye(columns.shape[1])
    assert correlation.abs().max() < 0.03


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@pytest.mark.parametrize("place", ["values", "source half", "destination half", "shift"])
def test_what_is_no_number_shows_in_the_sums(edges, draw, place, bad):
    def normal(*shape):
        return torch.randn(*shape, generator=draw)

    given = [normal(NODES, 2, 3), normal(NODES, 2), normal(NODES, 2), normal(edges.source.numel())]
    given[["values", "source half", "destination half", "shift"].index(place)][3] = bad
    ours, _ = fused_attention(given[0], edges, *scores_of(given[1], given[2]), given[3], 0.2)
    theirs, _ = plain_attention(given[0], given[1], given[2], edges, given[3])
    assert not ours.isfinite().all()
    assert torch.equal(ours.isfinite(), theirs.isfinite())


def test_softmax_survives_large_scores(edges):
    scores = torch.linspace(-1e4, 1e4, edges.source.numel()).unsqueeze(1)
    _, weights = fused_attention(torch.ones(NODES, 1, 1), edges, "given", scores)
    torch.testing.assert_close(weights, segment_softmax(scores, edges))


KERNELS = {
    "additive": lambda v, edges: fused_attention(v, edges, "additive", v[..., 0], v[..., 1], None, 0.2, 0.5, SEED),
    "given": lambda v, edges: fused_attention(v, edges, "given", DotScores.apply(v, v, edges)),
    "dynamic": lambda v, edges: [DynamicScores.apply(v, v, v[0], edges, 0.2)],
    "dropout": lambda v, edges: [numba_product.dropout(v.flatten(1), 0.5, 7)],
    "product": lambda v, edges: [numba_product.dropped_product(v.detach().flatten(1).t(), v.flatten(1), 0.5, 7)],
}


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_results_do_not_depend_on_the_number_of_threads(edges, draw, monkeypatch, kernel):
    monkeypatch.setattr(numba_threads, "WORTH_A_THREAD", 1)
    values = torch.randn(NODES, 4, 8, generator=draw, requires_grad=True)

    def results(count):
        with threads(count):
            outputs = kernel(values, edges)
            return [*outputs, *torch.autograd.grad(sum(x.square().sum() for x in outputs), values)]

    alone = results(1)
    for count in (2, 3, 50):
        assert all(torch.equal(mine, other) for mine, other in zip(results(count), alone, strict=True))


LAYERS = {
    "gat": lambda: GATLayer(16, 4, 4, AttentionOptions(dropout=0.5, attention_dropout=0.5)),
    "gatv2": lambda: GATv2Layer(16, 4, 4, AttentionOptions(dropout=0.5, attention_dropout=0.5)),
    "gt": lambda: GTLayer(16, 4, GTOptions(dropout=0.5, attention_dropout=0.5, layer_norm=True)),
}


def passes(layer, x, edges):
    """Everything that a pass computes: outputs and gradients."""
    with torch.random.fork_rng(devices=[]):
        out, weights = layer(layer.project(x) if hasattr(layer, "project") else x, edges)
    gradients = torch.autograd.grad(out.square().sum() + weights.square().sum(), [*layer.parameters()])
    return [out, weights, *gradients]


@pytest.mark.parametrize("name", LAYERS)
def test_the_plain_core_gives_the_same(edges, draw, monkeypatch, name):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)  # the layer's parameters: a difference of rounding depends on them
        layer, x = LAYERS[name]().eval(), torch.randn(NODES, 16, generator=draw)
    compiled = passes(layer, x, edges)
    for module in (segments, gatv2, gt):
        monkeypatch.setattr(module, "runs_compiled", lambda values: False)
    assert segments.fused_kernel(x.view(NODES, 4, 4), "given", segments.AttentionCall(edges)) is None
    plain = passes(layer, x, edges)
    for mine, other in zip(compiled, plain, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-5, atol=1e-5)


@pytest.fixture(params=["dense", "csr"])
def features(request, draw, dtype):
    dense = torch.rand(300, 50, generator=draw, dtype=dtype)
    dense[dense < 0.6] = 0
    dense[4] = 0  # a node without features
    return dense, dense if request.param == "dense" else dense.to_sparse_csr()


def test_dropped_product_drops_a_share_and_scales_the_rest(features):
    dense, x = features
    dropped = numba_product.dropped_product(x, torch.eye(50, dtype=dense.dtype), 0.6, 7)  # (N, F): what was multiplied
    kept = dropped != 0
    torch.testing.assert_close(dropped[kept], dense[kept] / 0.4)
    assert kept.sum().item() / (dense != 0).sum().item() == pytest.approx(0.4, abs=0.03)
    assert dropped.sum().item() == pytest.approx(dense.sum().item(), rel=0.05)
    assert not torch.equal(dropped, numba_product.dropped_product(x, torch.eye(50, dtype=dense.dtype), 0.6, 8))


def test_dropped_product_and_its_gradient_are_those_of_the_kept_entries(features, draw):
    dense, x = features
    dropped = numba_product.dropped_product(x, torch.eye(50, dtype=dense.dtype), 0.6, 7)
    weight = torch.randn(50, 6, generator=draw, dtype=dense.dtype, requires_grad=True)
    direction = torch.randn(300, 6, generator=draw, dtype=dense.dtype)
    ours, theirs = numba_product.dropped_product(x, weight, 0.6, 7), dropped @ weight
    torch.testing.assert_close(ours, theirs)
    (mine,) = torch.autograd.grad((ours * direction).sum(), weight)
    (other,) = torch.autograd.grad((theirs * direction).sum(), weight)
    torch.testing.assert_close(mine, other)


def test_features_that_are_no_numbers_are_not_dropped(features):
    dense, _ = features
    dense[2, 3], dense[7, 1] = float("nan"), float("inf")
    out = numba_product.dropped_product(dense, torch.ones(50, 2, dtype=dense.dtype), 0.99, 0)
    assert (~out.isfinite()).any(1).nonzero().view(-1).tolist() == [2, 7]


@pytest.mark.parametrize("share", [0.3, 1.0])
def test_dropout_of_hidden_features_has_its_own_mask_as_gradient(draw, share):
    x = torch.rand(200, 30, generator=draw, requires_grad=True)
    out = numba_product.dropout(x, share, 7)
    (gradient,) = torch.autograd.grad(out.sum(), x)
    torch.testing.assert_close(out, x * gradient)
    assert (gradient != 0).float().mean().item() == pytest.approx(1 - share, abs=0.03)
    assert gradient.mean().item() == pytest.approx(1 if share < 1 else 0, abs=0.05)


@pytest.mark.parametrize("layout", [torch.strided, torch.sparse_csr])
def test_the_global_seed_decides_the_dropout_of_features(draw, layout):
    x = torch.rand(30, 20, generator=draw)
    x = x.to_sparse_csr() if layout == torch.sparse_csr else x

    def product(seed):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return feature_product(x, torch.eye(20), 0.5, True)

    assert torch.equal(product(0), product(0))
    assert not torch.equal(product(0), product(1))
