"""The answer: who stands, who cannot be told apart, and what is said where nothing can be ranked."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from fgai_bench.leaderboard.csv import rows
from fgai_bench.leaderboard.rows import BOARDS, entries
from fgai_bench.report.answer import answers, as_markdown, headline, notes
from fgai_bench.statistics.results import Results
from tests.report_fixtures import attack_result, clean_result


def said(folder: Path) -> dict[str, str]:
    return {answer.subject: answer.verdict for answer in answers(Results.read(folder))}


def test_ties_share_the_first_rank(small: Path) -> None:
    (verdict,) = said(small).values()
    assert verdict == (
        "LN (.900 [.87, .92]), AT (.890 [.75, .96]) and FGAI (.850 [.82, .87]) share the first rank by F1 "
        "under the published attack (3 seeds)."
    )
    (note,) = notes(answers(Results.read(small)))
    assert note == "No worst case is recorded for Amazon-Photo, GAT: a stronger attack may change the order."


def test_three_sentences_come_first(small: Path, odd: Path) -> None:
    assert headline(answers(Results.read(small))) == [
        "The attacker knows the model and may inject 20 nodes with 20 edges each.",
        "Of 1 graph, several share the first rank on 1.",
        "In 0 of 4 rows the attention changes less than a uniform one, which explains nothing.",
    ]
    links = [answer for answer in answers(Results.read(odd)) if answer.task == "link"]
    assert headline(links)[1] == "Of 1 graph, LN ranks first on 1."
    assert headline(links)[2] == "Whether the attention changes less than a uniform one was not measured."


def test_graphs_without_a_worst_case_are_named(bench: Any) -> None:
    made = bench()
    for dataset in ("cora", "amazon-photo"):
        for label, seed in ((label, seed) for label in ("ln", "at") for seed in range(3)):
            where = {"label": label, "seed": seed, "dataset": dataset}
            made.add("clean", clean_result(label, seed), **where)
            for attack in ("injection", "worst") if dataset == "cora" else ("injection",):
                made.add("attack", attack_result(label, seed), attack_label=attack, **where)
    (sentence,) = notes(answers(Results.read(made.close())))
    assert sentence.startswith("No worst case is recorded for Amazon-Photo, GAT: ")


@pytest.fixture(scope="module")
def odd(bench: Any) -> Path:
    """One seed on one graph, nothing but gaps on another, a search on links, and an ablation that does not speak."""
    from fgai_bench.records.result import Result

    made = bench()
    for label in ("ln", "at"):
        where = {"label": label, "attack_label": "injection"}
        made.add("clean", clean_result(label, 1), label=label)
        made.add("attack", attack_result(label, 1), **where)
        made.add("attack", Result("oom", "needs 214 GiB"), dataset="amazon-cs", **where)
        made.add("attack", attack_result(label, 1), dataset="cora", suite="ablation", **where)
        for seed in range(2):
            score = {"roc_auc": 0.9 if label == "ln" else 0.6}
            made.add("attack", Result(metrics=score), task="link", suite="link", dataset="cora", seed=seed, **where)
    return made.close()


def test_what_cannot_be_ranked_is_not(odd: Path) -> None:
    one_seed, none, links = said(odd).values()
    assert one_seed == none
    assert none.startswith("nothing is ranked by F1 under the published attack: ")
    assert links == "LN (.900 [.900, .900]) ranks first by ROC-AUC under the published attack (2 seeds)."
    assert list(said(odd)) == ["Amazon-Photo, GAT", "Amazon-CS, GAT", "Cora links, GAT"]


def test_seeds_in_two_groups_are_marked_and_printed_as_their_median(bench: Any) -> None:
    """The mean is .746; five seeds have their lowest and highest for an interval."""
    made = bench()
    scores = {"ln": (0.53, 0.57, 0.80, 0.90, 0.93), "at": (0.50, 0.51, 0.52, 0.91, 0.93)}
    for label, values in scores.items():
        for seed, score in enumerate(values):
            result = attack_result("ln", seed)
            scored = replace(result, metrics={**result.metrics, "f1": score, "macro_f1": score - 0.1})
            made.add("attack", scored, label=label, defense=label, attack_label="injection", seed=seed)
    results = Results.read(made.close())
    (answer,) = answers(results)
    assert [stand.score for stand in answer.stands] == [".800 [.53, .93]", ".520 [.50, .93]§"]
    assert any(note.startswith("§: the seeds fall into two groups") for note in notes([answer]))
    found = {row["defense"]: row for row in rows(BOARDS[0], entries(BOARDS[0], results))}
    assert {name: found[name]["two_groups"] for name in scores} == {"ln": None, "at": "yes"}
    at = found["at"]
    assert (at["f1_median"], at["f1_low"], at["f1_high"], at["macro_f1_median"]) == (0.52, 0.5, 0.93, 0.42)


def test_a_network_in_the_place_of_the_model_is_called_so(bench: Any) -> None:
    made = bench()
    left = {"gcn": 0.9, "gnn-svd-sparse": 0.85, "at": 0.7, "ln": 0.5}
    for (label, score), seed in product(left.items(), range(3)):
        result = attack_result("ln", seed)
        scored = replace(result, metrics={**result.metrics, "f1": score + seed / 1000})
        made.add("attack", scored, label=label, defense=label, attack_label="injection", seed=seed)
    (answer,) = answers(Results.read(made.close()))
    assert answer.verdict.startswith("GCN in its place (.901 [")
    names = [stand.name for stand in answer.stands]
    assert names == ["LN", "AT", "GCN in its place", "GNN-SVD (sparse) in its place"]


def test_every_answer_has_a_row_in_the_matrix(broken: Path) -> None:
    found = answers(Results.read(broken))
    (table,) = [part for part in as_markdown(found) if part.startswith("|")]
    assert "| GAT, Vanilla | .919 → .405 [.34, .47] |" in table
    assert "| GAT, Pro-GNN in its place | -- | n/a |" in table
    assert "| GAT, sound | -- | **-- → .695 [" in table
    assert table.splitlines()[4].startswith("| GAT, AT | ")
    assert table.splitlines()[4].endswith(" | OOM |")
    for answer in found:
        assert all(f"GAT, {stand.name}" in table for stand in answer.stands)


def test_a_row_that_lacks_seeds_says_how_many_it_has(broken: Path) -> None:
    (answer,) = [answer for answer in answers(Results.read(broken)) if answer.dataset == "amazon-cs"]
    stands = {stand.defense: stand for stand in answer.stands}
    assert stands["ln"].score.endswith("(1 of 2 seeds)")
    assert "seeds" not in stands["vanilla"].score + stands["at"].score  # both are there; none is
