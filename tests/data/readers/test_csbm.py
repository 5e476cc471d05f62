from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fgai_bench.data import DATASETS, DataError, generate_csbm, load_dataset, undirected_edge_count
from fgai_bench.data.readers import csbm


def within(data: object) -> float:
    source, target = data.edge_index  # type: ignore[attr-defined]
    return (data.y[source] == data.y[target]).float().mean().item()  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ["csbm", "csbm-1e3", "csbm-1e4", "csbm-1e5"])
def test_named_sizes_have_exactly_the_declared_edges(name: str) -> None:
    data, declared = load_dataset(name), DATASETS[name].statistics
    assert undirected_edge_count(data.edge_index) == declared.edges == data.num_edges // 2
    assert tuple(data.x.shape) == (declared.nodes, declared.features)
    assert data.num_classes == declared.classes
    assert data.y.bincount().tolist() == [declared.nodes // 5] * 5


@settings(max_examples=25, deadline=None)
@given(
    edges=st.integers(150, 600),
    degree=st.sampled_from([2, 3.5, 6]),
    classes=st.integers(2, 4),
    homophily=st.sampled_from([0.2, 0.5, 0.9]),
)
def test_edges_are_distinct_and_as_homophilous_as_asked(
    edges: int, degree: float, classes: int, homophily: float
) -> None:
    data = generate_csbm(edges=edges, degree=degree, classes=classes, homophily=homophily, features=2)
    assert undirected_edge_count(data.edge_index) == data.num_edges == edges
    assert within(data) == pytest.approx(round(edges * homophily) / edges)
    assert data.num_nodes == round(2 * edges / degree)


def test_options_reach_the_generator_through_the_loader() -> None:
    data = load_dataset("csbm", edges=500, classes=2, homophily=0.25)
    assert (data.num_edges, data.num_classes, within(data)) == (1_000, 2, 0.25)


def test_the_graph_is_fixed_by_its_own_seed_and_not_by_the_trials() -> None:
    assert load_dataset("csbm", seed=0).checksum == load_dataset("csbm", seed=1).checksum
    assert load_dataset("csbm", graph_seed=1).checksum != load_dataset("csbm").checksum


def test_nodes_have_about_the_same_degree_in_every_class() -> None:
    data = load_dataset("csbm-1e4")
    degree = data.edge_index[0].bincount(minlength=data.num_nodes).float()
    means = torch.stack([degree[data.y == label].mean() for label in range(5)])
    assert (means - 10).abs().max() < 1


def test_features_tell_classes_apart_but_not_alone() -> None:
    data = load_dataset("csbm-1e4")
    means = torch.stack([data.x[data.y == label].mean(0) for label in range(5)])
    accuracy = (torch.cdist(data.x, means).argmin(1) == data.y).float().mean()
    assert 0.4 < accuracy < 0.9


@pytest.mark.parametrize(
    "options",
    [
        {"edges": 0},
        {"classes": 0},
        {"features": 0},
        {"homophily": 1.5},
        {"edges": 10, "degree": 10},
        {"graph_seed": -1},
    ],
    ids=str,
)
def test_impossible_requests_say_what_is_possible(options: dict[str, float]) -> None:
    with pytest.raises(DataError, match=r"^csbm needs positive edges, classes and features, a homophily in"):
        load_dataset("csbm", **options)


def test_more_edges_than_pairs() -> None:
    with pytest.raises(DataError, match=r"^csbm with 20 nodes cannot draw 80 edges within classes, at most 15$"):
        generate_csbm(edges=100, degree=10)


def test_the_largest_size_is_that_of_products() -> None:
    declared, small = DATASETS["csbm-products"], {"edges": 120_000}
    assert (declared.statistics.nodes, 2 * declared.statistics.edges) == (2_400_000, 120_000_000)
    graph = load_dataset("csbm-products", **small)
    assert (graph.num_nodes, graph.num_edges, graph.x.shape[1]) == (4_800, 240_000, 100)
    assert int(graph.y.max()) == 46


@pytest.mark.parametrize("edges", [1_000, 100_000])
def test_rounds_of_drawing_do_not_grow_with_the_edges(edges: int, monkeypatch: pytest.MonkeyPatch) -> None:
    draws: list[int] = []
    drawn = csbm._pairs
    monkeypatch.setattr(csbm, "_pairs", lambda *args: draws.append(1) or drawn(*args))  # type: ignore[func-returns-value]
    generate_csbm(edges=edges)
    assert len(draws) <= 4
