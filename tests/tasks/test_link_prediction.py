"""Link prediction: no message over held-out links, no learning from test links, an attack that hurts."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from fgai_bench.attacks import ATTACKS, ThreatModel
from fgai_bench.data import load_dataset
from fgai_bench.data.link_splits import LinkSplit, random_link_split
from fgai_bench.defenses import DEFENSES, Training
from fgai_bench.models import AttentionModel, build_model
from fgai_bench.tasks import TASKS
from fgai_bench.tasks.link_prediction import LinkProblem, as_two_classes, link_scores
from fgai_bench.testing.fixture import FEATURES, NODES, tiny_graph

THREAT = ThreatModel(nodes=3, edges_per_node=4, steps=3)
INNER = {"nodes": 3, "edges_per_node": 4, "steps": 2}


def problem(**changes: torch.Tensor) -> LinkProblem:
    data = tiny_graph()
    split = random_link_split(data.edge_index, NODES, seed=0, val=0.1, test=0.2)
    return LinkProblem(data, replace(split, **changes))


def model(name: str = "gat") -> AttentionModel:
    return build_model(name, FEATURES, 64, seed=0)


def fit(defense: str, on: LinkProblem, teacher: AttentionModel | None = None, epochs: int = 30) -> AttentionModel:
    made = DEFENSES[defense](**({"similarity": 10, "explanation": 10} if defense == "fgai" else {}))
    return made.fit(
        model(),
        on.training_data,
        on.split,
        supervision=on.supervision,
        teacher=teacher,
        inner=on.inner(INNER),
        training=Training(epochs=epochs),
    )


def test_scores_and_probabilities_by_hand() -> None:
    z = torch.tensor([[1.0, 2.0], [3.0, -1.0]])
    scores = link_scores(z, torch.tensor([[0, 0], [1, 0]]))
    assert scores.tolist() == [1.0, 5.0]  # 1*3 - 2*1, 1 + 4
    assert torch.allclose(as_two_classes(scores).softmax(1)[:, 1], scores.sigmoid())


def test_held_out_links_carry_no_message() -> None:
    """0 - 1 is trained on, 1 - 2 is tested on: the embedding of 1 must not depend on the features of 2."""
    one = torch.tensor([[0], [1]])
    split = LinkSplit(one, one, one + 1, one + 2, one + 1, one + 2)
    data = tiny_graph()
    x = data.x[:4].clone().requires_grad_(True)
    made = LinkProblem(tiny_graph().__class__(x=x), split)
    out = model().eval()(made.data)
    (sensitivity,) = torch.autograd.grad(out.logits[:2].sum(), x)
    assert sensitivity[2:].abs().max() == 0
    assert sensitivity[:2].abs().min() > 0
    assert out.attention is not None
    assert out.attention.of_graph().edge_index.tolist() == [[0, 1], [1, 0]]


@pytest.mark.parametrize("part", ["val", "test"])
def test_outputs_are_the_same_whatever_is_held_out(part: str) -> None:
    before = problem()
    swapped = {f"{part}_pos": getattr(before.split, f"{part}_neg"), f"{part}_neg": getattr(before.split, f"{part}_pos")}
    after = problem(**swapped)
    net = model().eval()
    assert torch.equal(net(before.data).logits, net(after.data).logits)


@pytest.mark.parametrize("defense", ["vanilla", "at", "fgai"])
def test_training_does_not_see_test_links(defense: str) -> None:
    first = problem()
    second = problem(test_pos=first.split.test_neg, test_neg=first.split.test_pos)
    teacher = fit("vanilla", first, epochs=3)
    weights = [fit(defense, on, teacher, epochs=3).state_dict() for on in (first, second)]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])


def test_a_validation_link_with_the_other_label_changes_the_score() -> None:
    first = problem()
    second = problem(val_pos=first.split.val_neg, val_neg=first.split.val_pos)
    out = model().eval()(first.data)
    assert first.supervision.score(out) == pytest.approx(1 - second.supervision.score(out))


def test_the_inner_attack_aims_at_training_links() -> None:
    on = problem()
    attached, readout = on.training_targets("train")
    assert set(attached.tolist()) == set(on.split.train_pos.flatten().tolist())
    assert readout is not None
    assert readout(model().eval()(on.data)).shape == (2 * on.split.train_pos.size(1), 2)
    with pytest.raises(ValueError, match="'train' links, not at 'test'"):
        on.inner({"targets": "test"})


def test_from_training_to_the_attacked_record() -> None:
    on = problem()
    vanilla = fit("vanilla", on)
    defended = fit("fgai", on, vanilla)
    attack = ATTACKS["injection"]()
    for trained in (vanilla, defended):
        clean = on.clean(trained)
        found = attack(trained, on.data, on.targets, threat=THREAT, readout=on.readout)
        attacked = on.attacked(trained, found)
        assert found.curve[-1] > found.curve[0]
        assert found.ledger.nodes == 3
        assert clean.metrics["g_tvd_floor"] == clean.metrics["g_jsd_floor"] == 0
        assert 0 <= attacked.metrics["roc_auc"] <= 1
        assert attacked.metrics["g_tvd"] > 0
        assert attacked.metrics["g_jsd"] > 0
    assert vanilla.history[-1]["prediction"] < vanilla.history[0]["prediction"]


def test_prepared_from_a_dataset_with_its_statistics() -> None:
    on = TASKS["link"].prepare("cora", seed=1)
    assert on.provenance["nodes"] == 2708
    assert on.provenance["features"] == 1433
    assert [on.provenance[key] for key in ("edges", "train_links", "val_links", "test_links")] == [
        9502,
        4488,
        526,
        1054,
    ]
    assert on.provenance["checksum"] == load_dataset("cora").checksum
    assert on.provenance["split_hash"] == on.split.hash
    assert on.data.edge_index.size(1) == 2 * 4488
