"""An inductive split is another trial than a transductive one, and stands apart wherever rows are shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fgai_bench.cli import main
from fgai_bench.leaderboard.rows import BOARDS, entries
from fgai_bench.report.answer import answers
from fgai_bench.run.plan import plan
from fgai_bench.run.resume import run
from fgai_bench.statistics.results import Results
from fgai_bench.suites import SuiteError, resolve
from fgai_bench.tuning.cells import cells_of


def test_both_splits_of_a_graph_stand_side_by_side(tiny: dict[str, Any], tmp_path: Path) -> None:
    small = {**tiny, "defenses": ["vanilla"], "attacks": ["injection"]}
    for name, split in (("tiny", "transductive"), ("tiny-inductive", "inductive")):
        done = run({**small, "name": name, "split": split}, tmp_path / "run", executor="inline", device="cpu")
    assert set(done.counts()) == {"ok"}
    results = Results.read(tmp_path / "run")
    rows = {entry.key.dataset: entry for entry in entries(BOARDS[0], results)}
    assert rows.keys() == {"csbm-1e3", "csbm-1e3 inductive"}
    f1 = [row.seeds[0]["f1_clean"] for row in rows.values()]
    assert f1[0] != f1[1]
    assert {answer.subject for answer in answers(results)} == {"csbm-1e3, GAT", "csbm-1e3 inductive, GAT"}


def test_the_split_is_part_of_every_hash_and_of_the_title(tiny: dict[str, Any]) -> None:
    usual, other = (plan(resolve(tiny, split=split)) for split in ("transductive", "inductive"))
    assert not usual.steps.keys() & other.steps.keys()
    assert {member.suite for member in usual.members} == {"tiny"}
    assert {member.suite for member in other.members} == {"tiny, changed: split=inductive"}
    assert plan(resolve(tiny)).steps.keys() == usual.steps.keys()


def test_the_inductive_suite_has_the_budget_of_node() -> None:
    node, inductive = (resolve(name)[0] for name in ("node", "inductive"))
    assert (node.threat, node.training, node.seeds) == (inductive.threat, inductive.training, inductive.seeds)
    assert inductive.split == "inductive"
    assert set(inductive.datasets) < set(node.datasets)


def test_links_have_no_inductive_split(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--suite", "quick", "--split", "inductive", "--dry-run", "--device", "cpu"]) == 0
    printed = capsys.readouterr().out
    assert "cora inductive" in printed
    assert "link" not in {line.split()[1] for line in printed.splitlines() if line.startswith(" quick ")}
    assert (
        "left out: gat/vanilla, gat/ln, gat/at, gat/fgai on cora, because the task link has no inductive split"
        in printed
    )
    with pytest.raises(SuiteError, match=r"^nothing to run: .* because the task link has no inductive split$"):
        plan(resolve("link", split="inductive"))
    assert main(["run", "--split", "sideways", "--dry-run"]) == 2


def test_settings_of_the_other_split_are_none_of_this_one(tiny: dict[str, Any]) -> None:
    """A search on the whole graph has seen the nodes that an inductive row is tested on."""
    cell = {"task": "node", "dataset": "csbm-1e3", "model": "gat", "defense": "vanilla"}
    chosen = {"when": cell, "trials": 4, "trial": 1, "training": {"lr": 0.003}}
    suite = {**tiny, "tuned": [chosen]}
    assert {member.label for member in plan(resolve(suite, settings="tuned")).members} == {"vanilla tuned"}
    with pytest.raises(SuiteError, match="for a defense of tiny under the inductive split; `fgai-bench tune`"):
        resolve(suite, settings="tuned", split="inductive")
    with pytest.raises(SuiteError, match="for a defense of node under the inductive split"):
        resolve("node", settings="tuned", split="inductive")  # nor do committed settings serve
    lines = [*tiny["defenses"], {"name": "vanilla", "label": "vanilla tuned", "tuned": True}]
    made = plan(resolve({**suite, "defenses": lines}, split="inductive"))
    assert "vanilla tuned" not in {member.label for member in made.members}
    assert made.left_out[0].startswith("left out: gat/vanilla tuned on csbm-1e3, because no settings have been chosen")
    searched = {**suite, "split": "inductive", "tuned": [{**chosen, "split": "inductive"}]}
    assert {member.label for member in plan(resolve(searched, settings="tuned")).members} == {"vanilla tuned"}


def test_a_search_says_which_split_it_was_made_under(tiny: dict[str, Any]) -> None:
    for split in ("transductive", "inductive"):
        (suite,) = resolve({**tiny, "split": split})
        cell = cells_of(suite, trials=2)[0]
        assert cell.setting(1, {"training.lr": 0.003}).split == split
