"""Known edges: the yardstick measures, graphs say what they promise, and wrong predictions are counted apart."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch_geometric.data import Data

from fgai_bench.data import DataError, Split, load_dataset
from fgai_bench.data.readers.known_truth import generate_motifs, generate_planted
from fgai_bench.explainers import EXPLAINERS, EdgeScores, edge_effects
from fgai_bench.metrics.faithfulness import truth_auroc
from fgai_bench.run.resume import Run, run
from fgai_bench.tasks.explanations import explain_offers, measured_effects, reached_or_all
from fgai_bench.tasks.known_truth import is_true, nodes_with_truth, truths
from fgai_bench.tasks.measurement import measured
from fgai_bench.tasks.node_classification import NodeProblem
from tests.tasks.white_box import white_box

WITH_TRUTH = ["ba-house", "ba-grid", "ba-tree", "infection", "csbm-planted", "csbm-planted-weak"]


def auroc_of(name: str, reverse: bool = False, only_into: bool = False) -> float:
    model, data = white_box()
    scores = EXPLAINERS[name]().sparse(model, data, data.truth_nodes)(data, data.truth_nodes)
    if only_into:
        scores = scores.only(data.edge_index[1, scores.edges] == scores.nodes[scores.owner])
    every = torch.ones(data.truth_nodes.numel(), dtype=torch.bool)
    return truth_auroc([(-s if reverse else s, t) for s, t in truths(data, data, scores, every)])


@pytest.mark.parametrize("name", ["gatt", "saliency", "attention-gradient", "integrated-gradients"])
def test_the_white_box_is_read_rightly(name: str) -> None:
    assert auroc_of(name) >= 0.99
    assert auroc_of(name, reverse=True) <= 0.05


def test_nulls_and_the_last_layer_know_nothing_of_the_white_box() -> None:
    assert auroc_of("random") == pytest.approx(0.5, abs=0.03)
    last, uniform = (auroc_of(name, only_into=True) for name in ("attention-last", "uniform"))
    assert last == pytest.approx(uniform, abs=1e-6)  # its last layer attends evenly


def test_the_true_edge_of_the_white_box_has_the_largest_effect() -> None:
    model, data = white_box(targets=60)
    nodes = data.truth_nodes[:20]
    effects = edge_effects(model, data, nodes)
    sizes = EdgeScores(nodes, effects.owner, effects.edges, effects.values.abs())
    assert truth_auroc(truths(data, data, sizes, torch.ones(20, dtype=torch.bool))) == 1.0


@pytest.mark.parametrize("name", WITH_TRUTH)
def test_true_edges_are_edges_within_reach_of_their_nodes(name: str) -> None:
    data = load_dataset(name)
    size = data.num_nodes
    keys = data.edge_index[0] * size + data.edge_index[1]
    assert torch.isin(data.truth_edges[0] * size + data.truth_edges[1], keys).all()
    nodes = nodes_with_truth(data, hops=2)[:20]
    assert nodes.numel() == 20
    field = EXPLAINERS["uniform"]().sparse(_blind(), data, nodes)(data, nodes)
    found = truths(data, data, field, torch.ones(nodes.numel(), dtype=torch.bool))
    assert all(bool(true.any()) and not bool(true.all()) for _, true in found)
    assert torch.equal(load_dataset(name).edge_index, data.edge_index)


def _blind():
    from fgai_bench.testing.fixture import tiny_model

    return tiny_model()


def test_an_infection_travels_along_the_true_edges() -> None:
    data = load_dataset("infection")
    into = data.y[data.truth_edges[1]]
    assert torch.equal(data.y[data.truth_edges[0]], into - 1)
    assert torch.equal(
        torch.bincount(data.truth_nodes)[torch.unique(data.truth_nodes)], data.y[data.truth_nodes.unique()]
    )


def test_carriers_hold_the_label_and_strength_says_how_loudly() -> None:
    quiet, loud = (generate_planted(nodes=60, carriers=16, strength=strength) for strength in (0.0, 5.0))
    assert torch.equal(quiet.truth_edges, loud.truth_edges)
    assert torch.equal(loud.y[loud.truth_edges[0]], loud.y[loud.truth_nodes])
    assert torch.equal(quiet.x[:60], loud.x[:60])
    assert float(loud.x[60:].abs().mean()) > 2 * float(quiet.x[60:].abs().mean())


def test_requests_that_make_no_sense_are_named() -> None:
    with pytest.raises(DataError, match="no motif 'castle'"):
        generate_motifs("castle")
    with pytest.raises(DataError, match="at least 2 carriers"):
        generate_planted(carriers=3)


def attacked_white_box() -> tuple[NodeProblem, torch.nn.Module, Data]:
    """The white box with half of its targets as test nodes, and one more carrier, of another class, for ten of them."""
    model, data = white_box(targets=40)
    data.train_index, data.val_index, data.test_index = torch.arange(20), torch.tensor([40]), torch.arange(20, 40)
    problem = NodeProblem(data, Split.of(data))
    wrong = torch.zeros(1, 5)
    wrong[0, 4] = 1
    new = torch.tensor([[data.num_nodes] * 10, list(range(20, 30))])
    x = torch.cat([data.x, wrong])
    return problem, model, Data(x=x, edge_index=torch.cat([data.edge_index, new, new.flip(0)], dim=1))


def test_nodes_that_are_wrong_or_changed_are_counted_apart() -> None:
    problem, model, attacked = attacked_white_box()
    problem.data.y[20] = (problem.data.y[20] + 1) % 4  # the model is not wrong; the label is
    effects = measured_effects(problem, model, attacked, seed=0)  # type: ignore[arg-type]
    found = measured(explain_offers(EXPLAINERS["gatt"](), problem, model, attacked, effects, 0)).metrics  # type: ignore[arg-type]
    assert found["explained_nodes"] == 20  # all test nodes
    assert found["explained_unchanged"] == 10  # those that the new node is joined to
    assert found["explained_wrong"] == 1
    assert found["truth_auroc_covered_clean"] >= 0.99
    assert found["truth_auroc_covered"] < found["truth_auroc_covered_clean"]  # the second flagged node takes attention


def test_edges_of_the_attacker_are_never_true() -> None:
    problem, model, attacked = attacked_white_box()
    nodes = problem.targets[reached_or_all(problem, model, attacked)[problem.targets]]  # type: ignore[arg-type]
    scores = EXPLAINERS["uniform"]().sparse(model, attacked, nodes)(attacked, nodes)  # type: ignore[arg-type]
    true = is_true(problem.data, attacked, scores)
    assert int(true.sum()) == nodes.numel()
    assert int(scores.edges[true].max()) < problem.data.edge_index.size(1)


def test_the_truth_suite_records_what_is_right(tmp_path: Path) -> None:
    run(
        {
            "name": "small-truth", "datasets": ["csbm-planted"], "models": ["gat"], "defenses": ["vanilla"], "seeds": 1,
            "attacks": ["injection"], "threat": {"nodes": 2, "edges_per_node": 2, "steps": 2},
            "training": {"epochs": 30}, "explainers": ["gatt", "random"], "explained_nodes": 12,
        },
        tmp_path / "run", executor="inline", device="cpu",
    )  # fmt: skip
    records = Run(tmp_path / "run").records().query("kind == 'explain'")
    table = records.pivot_table(index="explainer", columns="metric", values="value")
    assert table.loc["gatt", "truth_auroc_covered_clean"] > table.loc["random", "truth_auroc_covered_clean"]
    assert {"truth_auroc_into", "explained_wrong"} <= set(table.columns)
