"""Prediction metrics against hand-made cases and scikit-learn."""

from __future__ import annotations

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from sklearn.metrics import f1_score, roc_auc_score

from fgai_bench.metrics import NotApplicable, macro_f1, micro_f1, roc_auc, unchanged
from fgai_bench.metrics.prediction import area_under_curve


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=30))
def test_f1_agrees_with_scikit_learn(pairs: list[tuple[int, int]]) -> None:
    predicted, y = (torch.tensor(side) for side in zip(*pairs, strict=True))
    assert micro_f1(predicted, y) == pytest.approx(f1_score(y, predicted, average="micro"), abs=1e-12)
    assert macro_f1(predicted, y) == pytest.approx(f1_score(y, predicted, average="macro"), abs=1e-12)


def test_macro_f1_counts_a_small_class_as_much_as_a_large_one() -> None:
    """Nine of class 0 are right, the only one of class 1 is not: F1 is 18/19 and 0, and 9/10 of all are right."""
    predicted, y = torch.zeros(10), torch.tensor([0.0] * 9 + [1.0])
    assert macro_f1(predicted, y) == pytest.approx((18 / 19 + 0) / 2, abs=1e-12)
    assert micro_f1(predicted, y) == 0.9


def test_micro_f1_of_nothing_is_not_applicable() -> None:
    with pytest.raises(NotApplicable):
        micro_f1(torch.tensor([]), torch.tensor([]))


def test_micro_f1_refuses_logits() -> None:
    with pytest.raises(ValueError, match="one predicted class per node"):
        micro_f1(torch.rand(3, 2), torch.rand(3, 2))


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=2, max_size=40))
def test_roc_auc_is_the_share_of_pairs_in_order(pairs: list[tuple[int, bool]]) -> None:
    positives = [score for score, label in pairs if label]
    negatives = [score for score, label in pairs if not label]
    assume(positives and negatives)
    in_order = sum((p > n) + (p == n) / 2 for p in positives for n in negatives)
    scores, labels = (torch.tensor(side) for side in zip(*pairs, strict=True))
    expected = in_order / (len(positives) * len(negatives))
    assert roc_auc(scores.float(), labels) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("levels", [2, 10, 10**6])
def test_area_under_curve_on_the_device_agrees_with_scikit_learn(levels: int) -> None:
    random = torch.Generator().manual_seed(levels)
    scores = torch.randint(levels, (500,), generator=random) / levels  # few levels: most pairs are ties
    labels = torch.rand(500, generator=random) < 0.3
    expected = roc_auc_score(labels, scores)
    assert area_under_curve(scores[labels], scores[~labels]).item() == pytest.approx(expected, abs=1e-12)


@pytest.mark.gpu
def test_scores_on_a_gpu_have_the_values_of_the_cpu() -> None:
    scores, labels = torch.tensor([0.9, 0.5, 0.5, 0.1]), torch.tensor([1, 1, 0, 0])
    assert roc_auc(scores.cuda(), labels.cuda()) == roc_auc(scores, labels)
    assert micro_f1(labels.cuda(), labels.flip(0).cuda()) == micro_f1(labels, labels.flip(0))


@pytest.mark.parametrize(
    ("scores", "labels", "sentence"),
    [
        ([0.1, 0.2], [1, 1], "one class only"),
        ([0.1, 0.2], [0, 0], "one class only"),
        ([0.1, 0.2], [0, 2], "0 or 1"),
        ([0.1, float("nan")], [0, 1], "finite"),
        ([0.1], [0, 1], "same shape"),
    ],
)
def test_roc_auc_says_what_is_wrong(scores: list[float], labels: list[int], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        roc_auc(torch.tensor(scores), torch.tensor(labels))


def test_unchanged_compares_the_predicted_classes() -> None:
    y, y_tilde = torch.tensor([[2.0, 1.0], [0.0, 3.0]]), torch.tensor([[9.0, 8.0], [1.0, 0.0]])
    assert unchanged(y, y_tilde).tolist() == [True, False]
    assert unchanged(y.argmax(1), y_tilde.argmax(1)).tolist() == [True, False]


def test_unchanged_needs_the_same_nodes() -> None:
    with pytest.raises(ValueError, match="same shape before and after"):
        unchanged(torch.ones(3, 2), torch.ones(4, 2))
