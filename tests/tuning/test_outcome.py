"""What is chosen: the highest attacked score of the final among those that keep the clean one."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from fgai_bench.options import Choice, LogRange, Range
from fgai_bench.suites import load_suite
from fgai_bench.tuning import SearchCell, SearchOutcome, Tried
from fgai_bench.tuning.sampling import suggest

CELL = SearchCell(load_suite("quick"), "node", "cora", "gat", load_suite("quick").defenses[0], trials=4)
SPACE = {"training.lr": LogRange(0.001, 0.1), "model.dropout": Range(0.0, 0.8), "training.epochs": Choice(1, 2)}


def tried(number: int, clean: float, attacked: float, reason: str = "") -> Tried:
    scores = {"validation_clean": clean, "validation_attacked": attacked}
    return Tried(number, {}, {1000: scores, 1001: scores}, reason)


def outcome(*trials: Tried, reference: float = 0.90) -> SearchOutcome:
    return SearchOutcome(CELL, trials, {1000: reference, 1001: reference})


def test_the_choice_keeps_the_clean_score():
    """0.885 is more than 0.01 below the vanilla model's 0.90, 0.89 is not."""
    found = outcome(tried(0, 0.90, 0.40), tried(1, 0.885, 0.80), tried(2, 0.8901, 0.60))
    assert found.choice.number == 2
    assert [found.feasible(one) for one in found.tried] == [True, False, True]
    assert found.value(found.tried[1]) == pytest.approx(0.885 - 0.89)


def test_where_none_keeps_it_the_smallest_loss_is_chosen_and_said():
    found = outcome(tried(0, 0.70, 0.60), tried(1, 0.80, 0.10))
    assert found.choice.number == 1
    assert found.chosen.feasible is False


def test_of_equals_the_first_is_chosen_and_failures_never():
    assert outcome(tried(0, 0.9, 0.5), tried(1, 0.9, 0.5)).choice.number == 0
    assert outcome(tried(0, 0.9, 0.5, reason="oom: no memory"), tried(1, 0.9, 0.1)).choice.number == 1
    assert outcome(tried(0, 0.9, math.nan)).choice is None


def test_the_choice_is_made_among_the_trials_that_were_confirmed_on_further_splits():
    """Trial 1 was the best of the search; in the final trial 2 is better, and keeps the clean score of its splits."""
    lucky, steady, left_out = tried(1, 0.90, 0.70), tried(2, 0.90, 0.65), tried(3, 0.90, 0.64)
    more = [{"validation_clean": 0.85, "validation_attacked": score} for score in (0.2, 0.4)]
    confirmed = [
        replace(one, final=dict.fromkeys((1002, 1003, 1004), scores))
        for one, scores in zip((lucky, steady), more, strict=True)
    ]
    found = SearchOutcome(CELL, [tried(0, 0.90, 0.99, reason="failed: no"), *confirmed, left_out], {
        **dict.fromkeys((1000, 1001), 0.90), **dict.fromkeys((1002, 1003, 1004), 0.85)
    })  # fmt: skip
    assert (found.choice.number, found.choice.attacked) == (2, pytest.approx(0.4))
    assert [one.number for one in found.finalists] == [1, 2]
    assert found.reference(found.choice) == pytest.approx(0.85)
    assert found.feasible(found.choice)
    assert found.best(1)[0].number == 1  # of the search


def test_evidence_changes_with_a_score():
    assert outcome(tried(0, 0.9, 0.5)).evidence != outcome(tried(0, 0.9, 0.6)).evidence


def test_a_suggestion_is_a_function_of_earlier_trials_and_the_seed():
    history = [({}, 0.5)] + [(suggest(SPACE, [], 3, number), 0.1 * number) for number in range(1, 12)]
    first = suggest(SPACE, history, 3, 12)
    assert first == suggest(SPACE, history, 3, 12)
    assert all(first[name] in dimension for name, dimension in SPACE.items())
    assert len({str(suggest(SPACE, history, 3, number)) for number in range(12, 16)}) == 4
    assert suggest(SPACE, [*history[:-1], (history[-1][0], None)], 3, 12) != first
    assert suggest(SPACE, history, 3, 0) == {}
