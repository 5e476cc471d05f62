"""Node classification: hidden test labels, what a zero budget measures, models without attention, curves."""

from __future__ import annotations

import pytest
import torch
from torch_geometric.data import Data

import fgai_bench as fb
from fgai_bench.attacks import ATTACKS, ThreatModel
from fgai_bench.data import Split
from fgai_bench.defenses import DEFENSES, Training
from fgai_bench.metrics import f_slope, g_jsd, g_tvd, macro_f1, micro_f1, roc_auc
from fgai_bench.metrics.f_slope import RATES
from fgai_bench.models import align
from fgai_bench.tasks.node_classification import NodeProblem, without_test_labels
from fgai_bench.testing.fixture import NODES, tiny_graph, tiny_model, trained_model
from fgai_bench.testing.traces import disturbed, no_trace_on

DATA, MODEL = tiny_graph(), trained_model()
PROBLEM = NodeProblem(DATA, Split.of(DATA))
ATTENTION = {"g_jsd", "g_jsd_published", "g_jsd_unchanged", "node_jsd", "topk_overlap", "node_topk_overlap"}
SLOPES = {"f_slope_pos", "f_slope_neg"}


def attacked(**changes):
    threat = ThreatModel(**{"nodes": 4, "edges_per_node": 8, "steps": 3, "step": 0.5, "feature_high": 3.0, **changes})
    return ATTACKS["injection"]()(MODEL, DATA, PROBLEM.targets, threat=threat)


@pytest.fixture(scope="module")
def gcn():
    """A model without attention."""
    return DEFENSES["gnn-svd-sparse"]().fit(
        tiny_model(), PROBLEM.training_data, PROBLEM.split, training=Training(epochs=10)
    )


def test_defenses_see_no_test_label_and_everything_else():
    test = DATA.test_index
    hidden = PROBLEM.training_data
    assert hidden.y[test].tolist() == [-1] * 12
    others = torch.cat([DATA.train_index, DATA.val_index])
    assert torch.equal(hidden.y[others], DATA.y[others])
    assert hidden.x is DATA.x
    assert int(DATA.y.min()) == 0
    assert int(without_test_labels(DATA, Split.of(DATA))[0].y.min()) == -1


@pytest.mark.parametrize(
    ("model", "defense"),
    [*(("gat", name) for name in ("vanilla", "at", "fgai", "gcn", "votes")), ("gt", "vanilla")],
)
def test_no_test_node_influences_an_inductive_training(model, defense):
    split = Split.of(DATA)
    changed = Data(x=DATA.x.clone(), edge_index=DATA.edge_index, y=DATA.y.clone())
    changed.x[split.test] += 5
    changed.y[split.test] = 0
    between = torch.isin(DATA.edge_index, split.test).any(0)
    changed.edge_index = DATA.edge_index[:, ~between]
    for inductive in (True, False):
        problems = [NodeProblem(graph, split, inductive=inductive) for graph in (DATA, changed)]
        weights = [trained_on(problem, defense, model).state_dict() for problem in problems]
        same = all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])
        assert same == inductive


def trained_on(problem, defense, model="gat"):
    tags, training = DEFENSES.entry(defense).tags, Training(epochs=4)
    further = {"supervision": problem.supervision, "training": training}
    if "needs-inner" in tags:
        further["inner"] = problem.inner({"nodes": 2, "edges_per_node": 2, "steps": 2, "targets": "all"})
    if "needs-teacher" in tags:
        further["teacher"] = trained_on(problem, "vanilla", model)
    return DEFENSES[defense]().fit(tiny_model(model), problem.training_data, problem.training_split, **further)


def test_an_inductive_model_is_tested_on_the_whole_graph():
    problem = NodeProblem(DATA, Split.of(DATA), inductive=True)
    assert problem.training_data.x.shape[0] == NODES - 12
    assert torch.equal(problem.training_data.y[problem.training_split.val], DATA.y[DATA.val_index])
    assert problem.training_split.test.numel() == 0
    assert problem.data is DATA
    assert torch.equal(problem.targets, DATA.test_index)
    assert problem.inner({}).targets.tolist() == list(range(NODES - 12))
    held = problem.without_test()
    assert held.data.x.shape[0] == NODES - 12
    assert torch.equal(held.targets, problem.training_split.val)


def test_targets_and_outputs():
    assert torch.equal(PROBLEM.targets, DATA.test_index)
    assert PROBLEM.num_outputs == 3
    assert PROBLEM.readout is None


def test_a_zero_budget_changes_nothing():
    found = PROBLEM.attacked(MODEL, attacked(nodes=0)).metrics
    clean = PROBLEM.clean(MODEL).metrics
    assert found["f1"] == clean["f1"]
    assert {found[name] for name in ("g_jsd", "g_tvd", "g_tvd_raw", "node_jsd", "g_jsd_unchanged")} == {0.0}
    assert {found[name] for name in ("topk_overlap", "node_topk_overlap", "prediction_kept")} == {1.0}
    assert found["f_slope_pos"] == clean["f_slope_pos"]


def test_values_are_the_metrics_of_the_two_outputs():
    attack = attacked()
    found = PROBLEM.attacked(MODEL, attack).metrics
    with torch.no_grad():
        clean, moved = MODEL(DATA), MODEL(attack.data)
    test = DATA.test_index
    assert found["f1"] == micro_f1(moved.logits[test].argmax(1), DATA.y[test])
    assert found["macro_f1"] == macro_f1(moved.logits[test].argmax(1), DATA.y[test])
    assert "roc_auc" not in found  # of three classes
    assert found["g_tvd"] == g_tvd(clean.logits.softmax(1), moved.logits[:NODES].softmax(1))
    assert found["g_jsd"] == g_jsd(*align(clean.attention, moved.attention, common=True))
    kept = (clean.logits.argmax(1) == moved.logits[:NODES].argmax(1)).float().mean().item()
    assert found["prediction_kept"] == pytest.approx(kept)
    assert found["g_jsd"] > 0


def test_two_classes_have_a_roc_auc_too():
    two = DATA.clone()
    two.y = (DATA.y == 1).long()
    problem = NodeProblem(two, Split.of(DATA))
    model = fb.build_model("gat", two, seed=0)
    test = DATA.test_index
    with torch.no_grad():
        share = model.eval()(two).logits[test].softmax(1)[:, 1]  # of class 1, which orders nodes as its lead does
    assert problem.clean(model).metrics["roc_auc"] == roc_auc(share, two.y[test])
    assert "roc_auc" in problem.attacked(model, attacked()).metrics
    two.y[test] = 1
    assert NodeProblem(two, Split.of(DATA)).clean(model).not_applicable["roc_auc"].startswith("the test nodes have one")


def test_the_noise_floor_of_a_deterministic_model_is_zero():
    clean = PROBLEM.clean(MODEL).metrics
    assert (clean["g_jsd_floor"], clean["g_tvd_floor"]) == (0.0, 0.0)
    assert 0 < clean["attention_entropy_normalised"] <= 1


def test_curves_start_at_one_on_the_clean_graph_and_give_the_slopes():
    found = PROBLEM.clean(MODEL)
    for sign in ("pos", "neg"):
        rates, shares = found.curves[f"f_acc_{sign}"]
        assert rates == RATES
        assert shares[0] == 1.0
        assert all(0 <= share <= 1 for share in shares)
        assert found.metrics[f"f_slope_{sign}"] == f_slope(rates, shares)


def test_under_attack_the_nodes_that_count_are_those_right_on_the_clean_graph():
    attack = attacked()
    with torch.no_grad():
        clean, moved = (MODEL(graph).logits[DATA.test_index].argmax(1) for graph in (DATA, attack.data))
    right = clean == DATA.y[DATA.test_index]
    still = (right & (moved == DATA.y[DATA.test_index])).sum() / right.sum()
    assert PROBLEM.attacked(MODEL, attack).curves["f_acc_pos"][1][0] == pytest.approx(still.item())


def test_sanity_rankings_get_the_same_curves():
    found = PROBLEM.clean(MODEL, sanity=True)
    for label in ("_random", "_uniform", "_degree", "_untrained"):
        assert {f"f_slope_pos{label}", f"f_slope_neg{label}"} <= found.metrics.keys()
        assert found.curves[f"f_acc_pos{label}"][1][0] == 1.0
    assert "f_slope_pos_random" not in PROBLEM.clean(MODEL).metrics


def test_without_attention_its_metrics_do_not_apply_and_say_why(gcn):
    found, clean = PROBLEM.attacked(gcn, attacked()), PROBLEM.clean(gcn, sanity=True)
    entropies = {"attention_entropy", "attention_entropy_normalised"}
    reached = {"g_jsd_reached", "topk_overlap_reached"}
    assert set(found.not_applicable) == ATTENTION | SLOPES | entropies | reached
    assert set(found.not_applicable.values()) == {"the model has no attention"}
    assert not set(found.metrics) & (ATTENTION | SLOPES)
    assert {"f1", "g_tvd", "prediction_kept"} <= set(found.metrics)
    assert {"attention_entropy", "g_jsd_floor", "f_slope_pos"} <= set(clean.not_applicable)
    assert "f_slope_pos_degree" in clean.metrics


def test_where_every_prediction_changed_the_unchanged_have_no_value():
    """A model that says class 0 on the clean graph and class 1 on a larger one."""

    class Fickle(type(MODEL)):
        def propagate(self, h, *args, **kwargs):
            out = super().propagate(h, *args, **kwargs)
            out.logits.zero_()[:, int(len(h) > NODES)] = 1.0
            return out

    model = Fickle(**MODEL.config)
    found = PROBLEM.attacked(model, attacked())
    assert found.metrics["prediction_kept"] == 0.0
    assert found.not_applicable["g_tvd_unchanged"] == "every prediction changed"
    assert "g_jsd_unchanged" in found.not_applicable


def test_measuring_leaves_no_trace():
    model, attack = disturbed(trained_model()), attacked()
    with no_trace_on(model, DATA, attack.data):
        PROBLEM.clean(model, sanity=True)
        PROBLEM.attacked(model, attack)


@pytest.mark.parametrize(("which", "nodes"), [("train", DATA.train_index), ("all", torch.arange(NODES))])
def test_an_inner_attack_aims_where_it_is_told(which, nodes):
    inner = PROBLEM.inner({"nodes": 2, "edges_per_node": 36, "steps": 1, "targets": which, "loss": "nll"})
    found = inner(MODEL, PROBLEM.training_data, 0)
    attached = found.data.edge_index[1, found.data.edge_index[0] >= NODES].unique()
    assert torch.equal(attached, nodes)
    assert found.ledger.nodes == 2


def test_an_inner_attack_is_a_training_setting_of_its_own():
    with pytest.raises(ValueError, match="aims at 'all' nodes or the 'train' nodes, not at 'test'"):
        PROBLEM.inner({"targets": "test"})
    random = PROBLEM.inner({"attack": "random-injection", "nodes": 2, "edges_per_node": 3})
    assert random(MODEL, DATA, 0).ledger.gradient_calls == 0


def test_preparing_a_dataset_records_where_it_comes_from():
    problem = NodeProblem.prepare("cora", seed=1)
    assert {"dataset": "cora", "nodes": 2708, "edges": 5278, "features": 1433, "classes": 7}.items() <= (
        problem.provenance.items()
    )
    assert problem.provenance["split_hash"] == problem.split.hash
    assert problem.split.hash != NodeProblem.prepare("cora", seed=2).split.hash
