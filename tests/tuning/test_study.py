"""A study: equal trials, the same choice however it is interrupted or spread, and nothing of the test part in it."""

from __future__ import annotations

import copy
import csv
import os
import random
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from fgai_bench.attacks import validation, worst
from fgai_bench.cli.tune import spreads
from fgai_bench.data import DATASETS, load_dataset
from fgai_bench.records.errors import RequestError, StoreError
from fgai_bench.records.store import StoreReader
from fgai_bench.run.plan import plan, validation_plan
from fgai_bench.suites import load_suite
from fgai_bench.tuning import SearchOutcome, tune, write
from fgai_bench.tuning.sampling import BATCH
from tests.card.networks import masked_graph

TRIALS = BATCH + 1
KILLS = 20


def search(
    suite: dict[str, Any], folder: Path, trials: int = TRIALS, final: str = "validation", **more: Any
) -> list[SearchOutcome]:
    """A study whose final is short, too: the standard attack takes fifteen times as long."""
    usual = {"trials": trials, "seeds": [1000], "finals": [1001], "executor": "inline", "device": "cpu"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys.modules["fgai_bench.tuning.study"], "FINAL_ATTACK", final)
        return tune(suite, folder, **usual | more)


@pytest.fixture(scope="module", autouse=True)
def two_finalists() -> Iterator[int]:
    """A trial takes seconds, most of them in its attack: a short one and two finalists show how a study goes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(validation, "STAGES", ((len(validation.MEMBERS), 3), (2, 10), (1, 20)))
        patch.setattr(worst.Worst, "effort", 0.02)
        for module in (sys.modules["fgai_bench.tuning.study"], write):
            patch.setattr(module, "FINALISTS", 2)
        yield 2


@pytest.fixture(scope="module")
def study(template, tmp_path_factory) -> tuple[Path, list[SearchOutcome]]:
    """The study that nothing disturbed; tests read it."""
    folder = tmp_path_factory.mktemp("study") / "run"
    return folder, search(copy.deepcopy(template), folder, final="worst")


def files(folder: Path) -> tuple[str, list[dict[str, str]]]:
    """What a study wrote, without the times."""
    with (folder / "trials.csv").open() as stream:
        rows = [{key: value for key, value in row.items() if key != "seconds"} for row in csv.DictReader(stream)]
    return (folder / "tuned.yaml").read_text(), rows


def test_every_defense_gets_the_same_trials_and_the_first_is_the_suites_own(study):
    folder, outcomes = study
    assert [len(outcome.tried) for outcome in outcomes] == [TRIALS, TRIALS]
    assert all(outcome.tried[0].values == {} for outcome in outcomes)
    assert all(tried.values for outcome in outcomes for tried in outcome.tried[1:])
    assert [row["chosen"] for row in files(folder)[1]].count("yes") == 2


def test_the_best_trials_are_trained_on_further_splits_before_one_is_chosen(study, two_finalists):
    folder, outcomes = study
    for outcome in outcomes:
        assert all(list(tried.by_seed) == [1000] for tried in outcome.tried)
        final = [tried.number for tried in outcome.finalists]
        best = [tried.number for tried in outcome.best(two_finalists)]
        assert final == sorted({0, *best})  # the suite's own settings always take part
        assert all(list(tried.by_seed) == [1001] for tried in outcome.finalists)
        assert outcome.choice.attacked == max(one.attacked for one in outcome.finalists if outcome.feasible(one))
    rows = files(folder)[1]
    finalists = [len(outcome.finalists) for outcome in outcomes]
    assert [row["final_attacked"] != "" for row in rows].count(True) == sum(finalists)
    assert "in a final on 1001 under the attack worst" in (folder / "tuned.yaml").read_text()


def test_the_suites_own_settings_are_in_the_final_however_bad_they_were_in_the_search(tiny, two_finalists, tmp_path):
    untrained = {**tiny, "defenses": ["brief"], "training": {"epochs": 1, "lr": 1e-7}}
    (outcome,) = search(untrained, tmp_path, trials=3)
    assert 0 not in [tried.number for tried in outcome.best(two_finalists)]
    assert [tried.number for tried in outcome.finalists] == [0, 1, 2]


def test_the_final_is_under_the_standard_attack_and_the_search_is_not(study):
    with StoreReader(study[0]) as store:
        attacks = {(step["config"]["seed"], step["config"]["validation"]["name"]) for step in store.steps()}
    assert attacks == {(1000, "validation"), (1001, "worst")}


def test_a_repeated_search_suggests_other_settings_and_leaves_the_first_as_it_is(study, tiny, tmp_path):
    first, second = search({**tiny, "defenses": ["brief"]}, tmp_path, repeat=2)
    assert (first.cell.repeat, second.cell.repeat) == (0, 1)
    assert (first.cell.words_for(1), second.cell.words_for(TRIALS)) == (
        f"trial 1 of {TRIALS}",
        f"trial 0 of {TRIALS}, search 2",
    )
    assert [tried.values for tried in first.tried] == [tried.values for tried in study[1][0].tried]
    assert not [tried.values for tried in second.tried[1:] if tried.values in [other.values for other in first.tried]]
    assert load_suite(tmp_path / "tuned.yaml").tuned == (first.chosen,)
    assert [row["repeat"] for row in files(tmp_path)[1]] == ["0"] * TRIALS + ["1"] * TRIALS
    low, high = sorted((first.choice.attacked, second.choice.attacked))
    said = f"node csbm-1e3 gat brief, 2 searches: attacked score of the choice {low:.4f} to {high:.4f}"
    assert spreads([first, second]) == [said]
    assert spreads([first]) == []


def test_the_choice_is_a_suite_that_trains_what_was_searched(study):
    """The chosen settings reach a training in the way in which they were tried: the same configuration."""
    folder, (outcome, other) = study
    suite = load_suite(folder / "tuned.yaml")
    assert [line.title for line in suite.defenses] == ["brief", "sly", "brief tuned", "sly tuned"]
    assert suite.tuned == (outcome.chosen, other.chosen)
    trained = [step.config for step in plan([suite]).steps.values() if step.kind == "train"]
    (tried,) = validation_plan(outcome.cell.trained(outcome.choice.number, outcome.choice.values)).steps.values()
    same = ("task", "dataset", "model", "defense", "training", "inner")
    assert {key: tried.config[key] for key in same} in [{key: config[key] for key in same} for config in trained]


def test_a_finished_study_runs_nothing_again(tiny, study, tmp_path, seen):
    folder = tmp_path / "run"
    shutil.copytree(study[0], folder)
    search(tiny, folder, final="worst")
    assert not seen
    assert files(folder) == files(study[0])


def test_what_is_suggested_depends_on_no_number_of_trials(study, tiny, tmp_path):
    shorter = search({**tiny, "defenses": ["brief"]}, tmp_path, trials=2)[0]
    assert [tried.values for tried in shorter.tried] == [tried.values for tried in study[1][0].tried[:2]]


@pytest.mark.slow
def test_twenty_kills_lose_no_trial_repeat_none_and_change_no_choice(tiny, study, tmp_path):
    undisturbed, killed, log = study[0], tmp_path / "killed", tmp_path / "log"
    log.touch()
    draw = random.Random(0)
    finished: set[str] = set()
    for _ in range(KILLS):
        child = forked(lambda: search(tiny, killed, final="worst", observer=Logging(log)))
        known, wanted = len(log.read_text()), draw.random() < 0.5
        while wanted and len(log.read_text()) == known and alive(child):  # half of them after one more trial
            time.sleep(0.002)
        time.sleep(draw.uniform(0.0, 0.2))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        before, finished = finished, recorded(killed)
        assert before <= finished
    assert os.waitpid(forked(lambda: search(tiny, killed, final="worst", observer=Logging(log))), 0)[1] == 0
    assert files(killed) == files(undisturbed)
    steps = log.read_text().split()
    assert len(steps) == len(set(steps))
    assert recorded(killed) == recorded(undisturbed)


def forked(work: Callable[[], object]) -> int:
    """Start work in a child process and return its number; the child ends with code 1 if it fails."""
    child = os.fork()
    if not child:
        code = 1
        try:
            work()
            code = 0
        except BaseException:
            traceback.print_exc()  # the last that is seen of it
        finally:
            os._exit(code)
    return child


def alive(child: int) -> bool:
    """Tell whether a child has not ended; one that has stays to be waited for."""
    return os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None


def recorded(folder: Path) -> set[str]:
    """The recorded steps; none where the first kill came before there was a table."""
    try:
        with StoreReader(folder) as store:
            return set(store.statuses())
    except StoreError:
        return set()


class Logging:
    """Writes down every step that was recorded, in a file that outlives the process."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def finished(self, step: Any, result: Any) -> None:
        with self.path.open("a") as stream:
            stream.write(f"{step.hash}\n")

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments: None


def test_neither_test_labels_nor_test_nodes_reach_a_defense(tiny, tmp_path, seen):
    search({**tiny, "defenses": ["sly"]}, tmp_path, trials=2)
    assert [given["seed"] for given in seen] == [1000, 1000, 1001, 1001]  # both trials in the search and in the final
    for given in seen:
        whole = load_dataset("csbm-1e3", seed=given["seed"])
        assert (given["y"][whole.test_index] == -1).all()
        assert (given["y"][whole.val_index] == whole.y[whole.val_index]).all()
        assert given["split"].test.numel() == 0
        assert given["keys"] == {"x", "edge_index", "y", "score"}
        assert not any("test" in name for name in vars(given["task"]))


@pytest.mark.parametrize(
    ("seeds", "finals"),
    [([0, 1000], [1001]), ([9], [1001]), ([1000, 1000], [1001]), ([], [1001]), ([1000], [1001, 3]), ([1000], [1000])],
)
def test_seeds_of_an_evaluation_are_refused(tiny, tmp_path, seeds, finals):
    with pytest.raises(RequestError, match="seed"):
        search(tiny, tmp_path / "run", seeds=seeds, finals=finals)
    assert not (tmp_path / "run").exists()


def test_a_search_without_a_final_is_refused(tiny, tmp_path):
    with pytest.raises(RequestError, match="--finals needs seeds"):
        search(tiny, tmp_path / "run", finals=[])


def test_seeds_that_the_suite_evaluates_are_refused_too(tiny, tmp_path):
    with pytest.raises(RequestError, match="1000 belongs to the evaluation"):
        search({**tiny, "seeds": [1000]}, tmp_path)


def test_links_are_searched_by_roc_auc_on_validation_links(tiny, tmp_path):
    suite = {**tiny, "tasks": ["link"], "datasets": ["cora"], "defenses": ["vanilla"]}
    outcome = search(suite, tmp_path, trials=1, seeds=[1000])[0]
    assert 0 <= outcome.tried[0].attacked <= outcome.tried[0].clean <= 1
    assert yaml.safe_load((tmp_path / "tuned.yaml").read_text())["tuned"][0]["when"]["task"] == "link"


@pytest.mark.slow
def test_a_graph_in_memory_is_searched_and_a_changed_one_anew(tiny, tmp_path, monkeypatch):
    tiny |= {"datasets": ["mine"], "defenses": ["vanilla"], "threat": {"nodes": 1, "edges_per_node": 2, "steps": 1}}
    graph = masked_graph()
    other = graph.clone()
    other.x = graph.x.flip(0)
    known, recorded = dict(DATASETS._entries), []
    for data in (graph, graph, other):
        monkeypatch.setattr(DATASETS, "_entries", dict(known))
        DATASETS.add("mine", data)
        (outcome,) = search(tiny, tmp_path / "run", trials=1, executor="local", jobs=1)
        assert outcome.tried[0].reason == ""
        with StoreReader(tmp_path / "run") as store:
            recorded.append(len(store.statuses()))
    assert recorded == [1, 1, 2]
