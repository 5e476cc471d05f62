"""The validation attack: no test part, a budget that reaches as much, never above the clean score."""

from __future__ import annotations

import pytest
import torch

from fgai_bench.attacks import ThreatModel, validation
from fgai_bench.data import load_dataset
from fgai_bench.tasks import TASKS
from fgai_bench.tasks.validation import scaled, share_of_budget, targets_per_edge, validate
from fgai_bench.testing.fixture import tiny_problem, trained_model


def test_a_problem_without_a_test_part_attacks_validation_nodes():
    whole = tiny_problem()
    held = whole.without_test()
    assert torch.equal(held.targets, whole.split.val)
    assert held.split.test.numel() == 0
    assert (held.data.y[whole.split.test] == -1).all()
    assert (held.training_data.y[whole.split.val] == whole.data.y[whole.split.val]).all()
    assert held.num_outputs == whole.num_outputs


def test_links_without_a_test_part_have_no_test_links():
    whole = TASKS["link"].prepare("cora", 1000)
    held = whole.without_test()
    assert held.split.test_pos.numel() == held.split.test_neg.numel() == 0
    assert torch.equal(held.readout.pairs, whole.split.pairs("val")[0])
    assert torch.equal(held.targets, torch.unique(held.readout.pairs))


def test_the_budget_reaches_the_same_share_of_the_targets():
    """Edges times what each reaches, per target, are the same for validation and test nodes."""
    whole = TASKS["node"].prepare("cora", 1000)
    held = whole.without_test()
    share = share_of_budget(whole, held)
    reach = [targets_per_edge(p.data, p.targets) / p.targets.numel() for p in (held, whole)]
    assert share * reach[0] == pytest.approx(reach[1])
    assert 270 / 2168 < share < 1  # more than by the numbers alone: few neighbours of a validation node are one
    assert len(load_dataset("cora").val_index) == 270
    assert scaled(ThreatModel(nodes=0), share).nodes == 0


def test_an_attack_lowers_the_score_and_repeats(monkeypatch):
    monkeypatch.setattr(validation, "STAGES", ((6, 3), (1, 20)))
    held, model = tiny_problem().without_test(), trained_model()
    threat = ThreatModel(nodes=3, edges_per_node=4)
    (clean, attacked, found), again = (validate(held, model, threat, seed=1000) for _ in range(2))
    assert attacked <= clean
    assert again[:2] == (clean, attacked)
    assert found.ledger.nodes == 3
    clean, untouched, _ = validate(held, model, ThreatModel(nodes=0), seed=1000)
    assert untouched == clean
