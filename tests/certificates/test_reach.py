"""The certificate reach: by hand, against brute force, and where it does not apply."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
import torch
from scipy import sparse
from scipy.optimize import linprog
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import GATConv, GCNConv, PNAConv

import fgai_bench as fb
from fgai_bench.attacks import ThreatModel
from fgai_bench.attacks.injection import with_injected
from fgai_bench.certificates.coverage import largest_cover
from fgai_bench.metrics import NotApplicable
from tests.certificates.small_graphs import CLASSES, FEATURES, network, right_on_most, small_graph


def star(leaves: int) -> Data:
    """Return a star whose centre is node 0; every node is tested."""
    out = torch.arange(1, leaves + 1)
    centre = torch.zeros_like(out)
    edge_index = torch.stack([torch.cat([centre, out]), torch.cat([out, centre])])
    nodes = leaves + 1
    return Data(
        x=torch.randn(nodes, FEATURES, generator=torch.Generator().manual_seed(0)),
        edge_index=edge_index,
        y=torch.arange(nodes) % CLASSES,
        test_mask=torch.ones(nodes, dtype=torch.bool),
    )


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("mlp", 6),  # no edge matters
        ("gat-one-hop", 5),  # one edge, one node
        ("gat", 0),  # one edge to the centre reaches all leaves
    ],
)
def test_one_edge_on_a_star(name: str, kept: int) -> None:
    model = network(name, star(5), 0)
    data = star(5)
    with torch.no_grad():
        data.y = model(data).logits.argmax(1)
    floor = fb.certify(model, data, ThreatModel(nodes=1, edges_per_node=1), certificate="reach")
    assert floor.clean == 1
    assert floor.score * 6 == pytest.approx(kept)
    assert floor.explanation * 6 == pytest.approx(kept)


def changed_correct(model: nn.Module, data: Data, attached: tuple[int, ...], feature: float) -> int:
    """Count the correct test nodes whose output changes when one injected node is attached to some nodes."""
    nodes = data.num_nodes
    ends = torch.tensor(attached)
    new = torch.full_like(ends, nodes)
    edges = torch.cat([torch.stack([new, ends]), torch.stack([ends, new])], dim=1)
    attacked = with_injected(data, torch.full((1, FEATURES), feature), edges)
    with torch.no_grad():
        before, after = model(data).logits, model(attacked).logits[:nodes]
    moved = (before - after).abs().amax(1) > 1e-6
    return int((moved & (before.argmax(1) == data.y))[data.test_mask].sum())


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(
    ("name", "exact"), [("gat-one-hop", True), ("gatv2-one-hop", True), ("gat", False), ("gcn", False)]
)
def test_brute_force_over_all_placements(name: str, exact: bool, seed: int) -> None:
    """All placements of one or two edges on ten nodes: the bound is exact for one hop, and never too small for two."""
    model = network(name, small_graph(seed), seed)
    data = right_on_most(model, small_graph(seed))
    tested = data.test_mask.nonzero().view(-1).tolist()
    right = round(fb.certify(model, data, ThreatModel(nodes=0)).score * len(tested))
    for edges in (1, 2):
        floor = fb.certify(model, data, ThreatModel(nodes=1, edges_per_node=edges), certificate="reach")
        bound = right - round(floor.score * len(tested))
        worst = max(
            changed_correct(model, data, chosen, feature)
            for chosen in combinations(tested, edges)
            for feature in (-3.0, 2.0)
        )
        assert worst == bound if exact else worst <= bound


@pytest.mark.parametrize("seed", range(20))
def test_the_bound_of_a_cover_lies_between_the_best_cover_and_the_largest_rows(seed: int) -> None:
    generator = np.random.default_rng(seed)
    cover = sparse.csr_matrix((generator.random((9, 14)) < 0.25).astype(float))
    for most in (1, 2, 3):
        rows = cover.toarray()
        best = max(int((rows[list(chosen)].sum(0) > 0).sum()) for chosen in combinations(range(9), most))
        largest = int(np.sort(rows.sum(1))[-most:].sum())
        bound = largest_cover(cover, most)
        assert best <= bound <= min(largest, 14)
        assert bound <= _relaxed(rows, most) + 1  # close to the linear relaxation, which is what prices can reach


def _relaxed(rows: np.ndarray, most: int) -> float:
    """Return the value of the linear relaxation: max sum y, y_v <= sum_a B_av x_a, sum x <= most."""
    starts, wanted = rows.shape
    covered = np.hstack([-rows.T, np.eye(wanted)])
    budget = np.hstack([np.ones(starts), np.zeros(wanted)])
    limits = np.concatenate([np.zeros(wanted), [most]])
    values = np.concatenate([np.zeros(starts), -np.ones(wanted)])
    return -linprog(values, np.vstack([covered, budget]), limits, bounds=(0, 1)).fun


class Wrapped(nn.Module):
    """A user's network: layers of a list, then perhaps the mean of all nodes."""

    def __init__(self, *layers: nn.Module, mixed: bool = False) -> None:
        super().__init__()
        self.layers, self.mixed = nn.ModuleList(layers), mixed

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x) if isinstance(layer, nn.BatchNorm1d) else layer(x, edge_index)
        return x - x.mean(0) if self.mixed else x


def test_wrapped_networks_are_read_layer_by_layer() -> None:
    data = star(5)
    one, two = GATConv(FEATURES, CLASSES), GATConv(CLASSES, CLASSES)
    lost = {
        "one layer": Wrapped(one),
        "two layers": Wrapped(one, two),
        "the same layer twice": Wrapped(one, two, two),
    }
    explained = {
        name: fb.certify(module.eval(), data, ThreatModel(nodes=1, edges_per_node=1), targets=torch.tensor([1, 2, 3]))
        for name, module in lost.items()
    }
    assert explained["one layer"].explanation == pytest.approx(2 / 3)
    assert explained["two layers"].explanation == pytest.approx(2 / 3)  # a leaf reaches the centre, which is no target
    assert explained["the same layer twice"].explanation == 0  # and from the centre all other leaves


def test_degrees_of_a_gcn_cost_one_hop() -> None:
    threat, leaves = ThreatModel(nodes=1, edges_per_node=1), torch.tensor([1, 2, 3])
    attending, by_degree = GATConv(FEATURES, CLASSES), GCNConv(CLASSES, CLASSES)
    two_hops = fb.certify(Wrapped(attending, by_degree).eval(), star(5), threat, targets=leaves)
    assert two_hops.explanation == 0


@pytest.mark.parametrize(
    ("module", "reason"),
    [
        (
            Wrapped(GATConv(FEATURES, CLASSES), nn.BatchNorm1d(CLASSES, track_running_stats=False)),
            "statistics over all",
        ),
        (Wrapped(GATConv(FEATURES, CLASSES), mixed=True), "a trial injection changed outputs more than 0 hops beyond"),
        (
            Wrapped(
                GATConv(FEATURES, CLASSES), PNAConv(CLASSES, CLASSES, ["mean"], ["identity"], torch.ones(6).long())
            ),
            "not known whether its layer PNAConv is local",
        ),
    ],
)
def test_where_locality_ends_the_reason_is_given(module: nn.Module, reason: str) -> None:
    with pytest.raises(NotApplicable, match=reason):
        fb.certify(module.eval(), star(5))
