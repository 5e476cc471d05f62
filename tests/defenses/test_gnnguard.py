"""GNNGuard: coefficients worked out by hand, the dense and the edge-wise form, and Cora end to end."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import to_undirected

from fgai_bench.attacks import ATTACKS, ThreatModel
from fgai_bench.attacks.placement import attached_edges
from fgai_bench.data import Split, generate_csbm, load_dataset
from fgai_bench.defenses import DEFENSES, Training
from fgai_bench.defenses.gnnguard import EdgeWise, GNNGuardModel, Pairwise
from fgai_bench.metrics import micro_f1
from fgai_bench.models import build_model
from fgai_bench.models.sorted_edges import append_nodes


def graph() -> Data:
    drawn = generate_csbm(edges=300, degree=6, classes=3, features=12, signal=1.0)
    drawn.edge_index = to_undirected(drawn.edge_index)
    return drawn


def pair(seed: int = 0) -> tuple[GNNGuardModel, GNNGuardModel]:
    """The two forms with the same parameters, the memory away from its start."""
    edge_wise, dense = (GNNGuardModel(12, 3, dense=form, seed=seed).eval() for form in (False, True))
    for model in (edge_wise, dense):
        torch.nn.init.constant_(model.memory, 0.7)
    return edge_wise, dense


@pytest.mark.parametrize("kind", [EdgeWise, Pairwise])
def test_coefficients_of_a_star_by_hand(kind: type[EdgeWise] | type[Pairwise]) -> None:
    """Node 0 has neighbours at cosines 0.8, 0.6 and 0: the last is pruned, so n = 2 and the loop weighs 1/3."""
    unit = torch.tensor([[1.0, 0.0], [0.8, 0.6], [0.6, 0.8], [0.0, 1.0]])
    edge_index = torch.tensor([[1, 2, 3, 0], [0, 0, 0, 1]])
    neighbourhoods = kind.of(edge_index, 4, None)
    attention = neighbourhoods.attention(neighbourhoods.coefficients(unit, 0.1))
    expected = [0.8 / 1.4 * 2 / 3, 0.6 / 1.4 * 2 / 3, 0.0, 1 / 2, 1 / 3, 1 / 2, 1.0, 1.0]
    assert attention.added == 4
    assert attention.edge_index[:, 4:].tolist() == [[0, 1, 2, 3]] * 2
    assert attention.weight.tolist() == pytest.approx(expected)


def test_a_given_self_loop_has_the_weight_of_an_added_one() -> None:
    edge_wise, dense = pair()
    data = graph()
    looped = Data(x=data.x, edge_index=torch.cat([torch.tensor([[4], [4]]), data.edge_index], dim=1))
    for model in (edge_wise, dense):
        assert torch.allclose(model(looped).logits, model(data).logits, atol=1e-6)
        assert model(looped).attention.added == 99


def test_parallel_edges_share_the_coefficient_of_their_pair() -> None:
    """Node 0 has neighbours at cosines 0.8 (twice) and 0.6; for the dense form n = 2, and the edges share 0.8 / 1.4."""
    unit = torch.tensor([[1.0, 0.0], [0.8, 0.6], [0.6, 0.8]])
    neighbourhoods = Pairwise.of(torch.tensor([[1, 2, 1], [0, 0, 0]]), 3, None)
    attention = neighbourhoods.attention(neighbourhoods.coefficients(unit, 0.1))
    twice = 0.8 / 1.4 * 2 / 3 / 2
    assert attention.weight.tolist() == pytest.approx([twice, 0.6 / 1.4 * 2 / 3, twice, 1 / 3, 1.0, 1.0])


def outputs(model: GNNGuardModel, data: Data, shift: Tensor | None, weight: Tensor | None) -> tuple[Tensor, ...]:
    """Logits, attention and the gradient of a loss with respect to the features."""
    x = data.x.clone().requires_grad_()
    out = model.propagate(model.embed(x), data.edge_index, shift, weight)
    assert out.attention is not None
    (gradient,) = torch.autograd.grad(out.logits.square().sum() + out.attention.weight.square().sum(), x)
    return out.logits, out.attention.weight, gradient


@pytest.mark.parametrize("shifted", [False, True])
@pytest.mark.parametrize("weighed", [False, True])
def test_the_edge_wise_form_equals_the_dense_one(shifted: bool, weighed: bool) -> None:
    data, draw = graph(), torch.Generator().manual_seed(0)
    shift = torch.randn(data.num_edges + 100, generator=draw) if shifted else None
    weight = torch.rand(data.num_edges, generator=draw) if weighed else None
    edge_wise, dense = pair()
    for ours, theirs in zip(outputs(edge_wise, data, shift, weight), outputs(dense, data, shift, weight), strict=True):
        assert torch.allclose(ours, theirs, atol=1e-5, rtol=1e-4)


def test_both_forms_train_to_the_same_model() -> None:
    data = graph()
    index = torch.arange(100)
    split = Split(index[:30], index[30:50], index[50:])
    edge_wise, dense = (
        DEFENSES[name]().fit(build_model("gat", 12, 3), data, split, training=Training(epochs=10))
        for name in ("gnnguard-sparse", "gnnguard")
    )
    assert float(edge_wise.memory.detach()) != 0  # the memory is learned
    for key, value in edge_wise.state_dict().items():
        assert torch.allclose(value, dense.state_dict()[key], atol=1e-3), key


def test_attention_is_a_distribution_even_when_shifted() -> None:
    data, (model, _) = graph(), pair()
    for shift in (None, 3 * torch.randn(data.num_edges + 100, generator=torch.Generator().manual_seed(1))):
        attention = model(data, shift).attention
        assert bool((attention.weight >= 0).all())
        sums = torch.zeros(100).index_add(0, attention.edge_index[1], attention.weight)
        assert torch.allclose(sums, torch.ones(100), atol=1e-5)


def test_the_memory_weighs_the_layer_before() -> None:
    data, model = graph(), pair()[0]
    neighbourhoods, first = model.structure(model.profile(data.x), data.edge_index, None)
    torch.nn.init.constant_(model.memory, 50.0)  # beta = 1
    assert torch.allclose(model(data).attention.weight, neighbourhoods.attention(first).weight, atol=1e-6)
    torch.nn.init.constant_(model.memory, -50.0)  # beta = 0
    h = torch.relu(neighbourhoods.aggregated(first, model.project(data.x)) + model.network.gc1.bias)
    second = neighbourhoods.coefficients(torch.nn.functional.normalize(h), 0.1)
    assert torch.allclose(model(data).attention.weight, neighbourhoods.attention(second).weight, atol=1e-6)


def test_dissimilar_neighbours_are_cut_off() -> None:
    """A node whose features oppose everybody's changes nothing, wherever it is attached."""
    x = torch.rand(6, 4, generator=torch.Generator().manual_seed(0))
    edge_index = torch.tensor([[0, 1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 0]])
    model = GNNGuardModel(4, 2, seed=0).eval()
    attached = torch.cat([edge_index, torch.tensor([[6, 6], [0, 3]])], dim=1)
    first = EdgeWise.of(attached, 7, None)
    opposed = model.profile(torch.cat([x, -torch.ones(1, 4)]))
    weights = first.attention(first.coefficients(opposed, 0.1)).weight
    assert weights[6:8].tolist() == [0.0, 0.0]


def test_new_nodes_are_seen_alike_with_and_without_what_is_known_of_the_graph() -> None:
    """The output and the gradient of the new rows; they are near enough to old ones that some edges stay."""
    data, draw = graph(), torch.Generator().manual_seed(0)
    model = GNNGuardModel(12, 3).eval()
    new = (data.x[:4] + 0.3 * torch.randn(4, 12, generator=draw)).requires_grad_()
    edges = attached_edges(100, torch.randperm(100, generator=draw)[:20].view(4, 5))
    longer = append_nodes(data.edge_index, 100, edges, 4)
    with torch.no_grad():
        embedded = model.embed(data.x)
        known = model.surroundings(embedded, model(data), longer, 4)
    assert known is not None
    seen = []
    for affected in ({}, {"affected": known}):
        out = model.propagate(torch.cat([embedded, model.embed(new)]), longer, **affected)
        loss = out.logits.square().sum() + out.attention.weight.square().sum()
        seen.append((out.logits, out.attention.weight, *torch.autograd.grad(loss, new)))
    kept = known.similarities(model.profile(new)).detach()[known.place] >= 0.1
    assert kept.numel() == 40
    assert 0 < int(kept.sum()) < 40  # some are pruned, some are not
    for whole, part in zip(*seen, strict=True):
        assert torch.allclose(whole, part, atol=1e-6)
    between_new = append_nodes(data.edge_index, 100, torch.tensor([[100], [101]]), 4)
    assert model.surroundings(embedded, model(data), between_new, 4) is None


def test_the_threshold_must_prune_something_and_not_everything() -> None:
    for threshold in (0.0, 1.5):
        with pytest.raises(ValueError, match="threshold\n  Input should be"):
            DEFENSES["gnnguard"](threshold=threshold)


def test_cora_end_to_end() -> None:
    data = load_dataset("cora")
    split = Split.of(data)
    model = DEFENSES["gnnguard-sparse"]().fit(
        build_model("gat", data.x.shape[1], 7), data, split, training=Training(epochs=40)
    )
    attacked = ATTACKS["injection"]()(model, data, split.test, threat=ThreatModel(steps=5))
    with torch.no_grad():
        clean, after = (
            micro_f1(model(g).logits[split.test].argmax(1), data.y[split.test]) for g in (data, attacked.data)
        )
    assert attacked.flags == ()
    assert attacked.curve[-1] > attacked.curve[0]
    assert clean > 0.75
    assert clean > after > 0.5
