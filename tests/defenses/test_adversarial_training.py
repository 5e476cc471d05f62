"""AT: vanilla training plus a weighed loss on a copy that is attacked afresh each epoch."""

from __future__ import annotations

import pytest
import torch

import fgai_bench as fb
from fgai_bench.data.readers.csbm import generate_csbm
from fgai_bench.defenses import DEFENSES, NodeSupervision, Training
from fgai_bench.seeds import derive
from fgai_bench.testing.fixture import tiny_model, tiny_problem

PROBLEM = tiny_problem()
THREE = Training(epochs=3)
INNER = PROBLEM.inner({"nodes": 2, "edges_per_node": 4, "steps": 1, **DEFENSES["at"]().inner_options})


def fit(name, model=None, **arguments):
    options = arguments.pop("options", {})
    given = model or tiny_model().rebuilt(0, dropout=0.0, attention_dropout=0.0)
    return DEFENSES[name](**options).fit(given, PROBLEM.training_data, PROBLEM.split, training=THREE, **arguments)


def test_with_weight_zero_it_is_vanilla():
    """Without dropout, whose draws the second forward pass would shift."""
    one, two = fit("vanilla"), fit("at", options={"weight": 0.0}, inner=INNER)
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), two.parameters(), strict=True))
    assert [row["adversarial"] for row in two.history] == [0.0] * 3
    assert [row["prediction"] for row in two.history] == [row["prediction"] for row in one.history]


def test_the_copy_is_attacked_afresh_each_epoch_and_its_loss_is_weighed():
    attacked, seeds = [], []

    def inner(model, data, seed):
        seeds.append(seed)
        attacked.append(INNER(model, data, seed))
        return attacked[-1]

    fitted = fit("at", inner=inner, seed=5)
    assert seeds == [derive(5, f"inner-{epoch}") for epoch in range(3)]
    assert len({tuple(found.data.x[-1].tolist()) for found in attacked}) == 3
    start = tiny_model().rebuilt(0, dropout=0.0, attention_dropout=0.0)
    task = NodeSupervision(PROBLEM.training_data, PROBLEM.split)
    expected = 0.1 * task.loss(start(attacked[0].data)).item()
    assert fitted.history[0]["adversarial"] == pytest.approx(expected, rel=1e-4)


def test_it_needs_an_inner_attack_and_a_weight_that_makes_sense():
    with pytest.raises(
        ValueError, match=r"^AdversarialTraining needs inner=\.\.\., an attack on the model being trained$"
    ):
        fit("at")
    for weight, reason in ((-1, "greater than or equal to 0"), (True, "a number is needed"), ("x", "a valid number")):
        with pytest.raises(ValueError, match=reason):
            DEFENSES["at"](weight=weight)


@pytest.mark.gpu
def test_it_trains_a_graph_transformer_where_communities_part_the_spectrum():
    """Known steps, all that a recorded epoch takes, do not lead to the encodings of a graph that grew there."""
    data = generate_csbm(edges=60_000, degree=60, classes=2, homophily=0.97)
    data.train_index, data.val_index, data.test_index = torch.arange(2_000).split([200, 200, 1_600])
    data = data.cuda()
    fitted = fb.fit("at", fb.build_model("gt", data, seed=0).cuda(), data, epochs=3)
    losses = [row["prediction"] + row["adversarial"] for row in fitted.history]
    assert losses[2] < losses[1] < losses[0]
