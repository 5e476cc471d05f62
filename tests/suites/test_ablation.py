"""The ablation: seven rows in the paper's numbering, our own choices, and what is left when every term is off."""

from __future__ import annotations

from itertools import product
from typing import Any

from fgai_bench.defenses import Training
from fgai_bench.defenses.fgai import FGAI
from fgai_bench.defenses.vanilla import Vanilla
from fgai_bench.metrics import g_tvd, micro_f1
from fgai_bench.models import build_model
from fgai_bench.run.plan import plan
from fgai_bench.suites import resolve
from fgai_bench.tasks.node_classification import NodeProblem

TERMS = ("similarity", "prediction", "explanation")


def rows_of_gat() -> dict[str, dict[str, Any]]:
    """The configuration of each row of GAT, by label."""
    steps = plan(resolve("ablation", models=["gat"], seeds=1))
    return {m.label: steps.steps[m.step].config for m in steps.members if m.kind == "train"}


def test_every_non_empty_subset_of_the_three_regularisers_is_a_row() -> None:
    rows = rows_of_gat()
    for on in product((True, False), repeat=3):
        label = "+".join(term for term, active in zip(TERMS, on, strict=True) if active) or "none"
        weights = rows[label]["defense"]["options"]
        assert [weights.get(term, 1.0) > 0 for term in TERMS] == list(on), label


def test_rows_that_are_the_same_thing_are_trained_once() -> None:
    steps = plan(resolve("ablation", models=["gat"], seeds=1))
    by_label = {m.label: m.step for m in steps.members if m.kind == "train"}
    full = by_label["similarity+prediction+explanation"]
    assert by_label["inner-injection"] == by_label["scope-graph"] == full
    assert by_label["inner-none"] == by_label["similarity"] != full


def test_the_inner_maximisation_is_none_random_in_the_attention_or_by_injection() -> None:
    rows = rows_of_gat()
    assert rows["inner-random"]["inner"]["attack"] == "random-injection"
    assert rows["inner-injection"]["inner"]["attack"] == "injection"
    assert rows["inner-attention"]["defense"]["name"] == "fgai-attention"
    shares = [rows[f"k-{k}"]["defense"]["options"]["k"] for k in (10, 30, 50, 70, 90)]
    assert shares == [0.1, 0.3, 0.5, 0.7, 0.9]


def test_with_every_regulariser_off_the_teachers_predictions_stay() -> None:
    """What is left is the closeness to the teacher: at most weight decay can move a student that starts there.

    Without dropout, that is: a student whose outputs are noisy comes closest to the teacher by being less sure.
    """
    problem = NodeProblem.prepare("cora", seed=0)
    untrained = build_model("gat", problem.data.x.shape[1], problem.num_outputs)
    teacher = Vanilla().fit(untrained, problem.training_data, problem.split, training=Training(epochs=20))
    student = FGAI(similarity=0, prediction=0, explanation=0, dropout=False).fit(
        untrained, problem.training_data, problem.split, teacher=teacher, training=Training(epochs=15)
    )
    before, after = (problem.output(model, problem.data).logits for model in (teacher, student))
    assert 0 < g_tvd(before.softmax(1), after.softmax(1)) < 0.05
    assert micro_f1(before.argmax(1), after.argmax(1)) > 0.95
