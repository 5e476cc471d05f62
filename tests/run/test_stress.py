"""What the stress suite adds: explainers under attack, and agreement between training seeds."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pytest

from fgai_bench.records.packing import pack_attacked, unpack_attacked
from fgai_bench.registry import RegistryError
from fgai_bench.run.plan import plan
from fgai_bench.run.resume import Run, run
from fgai_bench.suites import resolve

SUITE: dict[str, Any] = {
    "name": "stressed",
    "datasets": ["csbm-1e3"],
    "models": ["gat"],
    "defenses": ["vanilla"],
    "attacks": ["injection", {"name": "injection", "label": "less", "threat": {"nodes": 1}}],
    "seeds": 2,
    "training": {"epochs": 3},
    "threat": {"nodes": 2, "edges_per_node": 2, "steps": 2},
    "explainers": ["pg-explainer", "gatt", "random"],
    "explained_nodes": 6,
    "agreement": True,
}


def test_explanations_and_agreement_become_records(tmp_path: Path) -> None:
    run(SUITE, tmp_path / "run", executor="inline", device="cpu")
    records = Run(tmp_path / "run").records()
    left_out = records.query("status != 'ok'")["metric"].str.replace(r"_(covered|into|unchanged|clean)", "", regex=True)
    assert set(left_out) <= {"turned_auroc", "explainer_topk_overlap", "explainer_rank_correlation"}
    explained = records.query("kind == 'explain'")
    assert set(explained["explainer"]) == {"pg-explainer", "gatt", "random"}
    assert {"effect_spearman_into", "effect_spearman_covered_clean"} <= set(explained["metric"])
    effects = records.query("kind == 'effect'")
    assert set(effects["metric"]) >= {"effect_largest", "explained_nodes"}
    assert set(explained["attack_label"]) == {"injection"}
    assert {"explainer_topk_overlap", "explainer_topk_overlap_floor", "attention_topk_overlap"} <= set(
        explained["metric"]
    )
    agreed = records.query("kind == 'agree'").set_index("metric")["value"]
    assert 0 <= agreed["topk_overlap"] < 1
    assert agreed["node_jsd"] > 0


def test_attacks_with_the_suites_own_budget_and_those_that_are_named_are_explained() -> None:
    steps = plan(resolve("stress", seeds=1, datasets=["cora"], defenses=["vanilla"]))
    explained = {(m.attack_label, m.explainer) for m in steps.members if m.kind == "explain"}
    attacks = {"injection", "worst", "explanation", "explanation-edges"}
    assert explained == set(product(attacks, resolve("stress")[0].explainers))
    assert {m.attack_label for m in steps.members if m.kind == "effect"} == attacks


def test_explainers_can_be_limited_to_some_graphs_models_and_attacks() -> None:
    suite = {**SUITE, "models": ["gat", "gt"], "attacks": ["injection", "worst"], "explained_models": ["gat"]}
    asked = {(m.model, m.attack_label) for m in plan(resolve(suite)).members if m.kind in ("effect", "explain")}
    assert asked == {("gat", "injection"), ("gat", "worst")}
    limited = plan(resolve({**suite, "explained_attacks": ["worst"]}))
    assert {(m.model, m.attack_label) for m in limited.members if m.kind == "explain"} == {("gat", "worst")}
    assert {m.kind for m in limited.members if m.model == "gt"} == {"train", "clean", "attack", "agree"}
    graphs = resolve({**suite, "datasets": ["cora", "csbm-1e3"], "explained_datasets": ["csbm-1e3"]})
    assert {(m.dataset, m.model) for m in plan(graphs).members if m.kind == "explain"} == {("csbm-1e3", "gat")}
    for key, name in (("datasets", "coora"), ("models", "gaat"), ("attacks", "wurst")):
        with pytest.raises(RegistryError, match=f"unknown {key[:-1]} '{name}'"):
            resolve({**suite, f"explained_{key}": [name]})


def test_an_unknown_explainer_is_named() -> None:
    with pytest.raises(RegistryError, match="unknown explainer 'gnn-explain'"):
        resolve({**SUITE, "explainers": ["gnn-explain"]})


@pytest.mark.parametrize("name", ["injection", "random-edges", "feature-pgd"])
@pytest.mark.parametrize("sparse", [False, True])
def test_an_attacked_graph_comes_back_as_it_was(name: str, sparse: bool) -> None:
    from fgai_bench.attacks import ATTACKS, ThreatModel
    from fgai_bench.models.features import dense_rows
    from fgai_bench.testing.fixture import tiny_graph, trained_model

    data = tiny_graph(sparse=sparse)
    scenario = {"injection": "injection", "random-edges": "edges", "feature-pgd": "features"}[name]
    threat = ThreatModel(scenario=scenario, nodes=2, edges_per_node=2, steps=2, edges=5)  # type: ignore[arg-type]
    attacked = ATTACKS[name]()(trained_model(), data, data.test_index, threat=threat).data
    again = unpack_attacked(data, pack_attacked(data, attacked))
    assert again.edge_index.equal(attacked.edge_index)
    rows = again.edge_index.new_tensor(range(attacked.x.shape[0]))
    assert dense_rows(again.x, rows).equal(dense_rows(attacked.x, rows))
