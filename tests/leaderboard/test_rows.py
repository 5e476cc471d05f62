"""Leaderboards: rows, ranks, the worst case, and what a file keeps of a row."""

from __future__ import annotations

import csv
import io
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fgai_bench.leaderboard.csv import FULL, for_people, rows, to_csv
from fgai_bench.leaderboard.merge import add
from fgai_bench.leaderboard.rows import BOARDS, entries, lowered, worst_cases
from fgai_bench.records.result import Result
from fgai_bench.report.tables.build import build
from fgai_bench.report.tables.specs import GRIDS
from fgai_bench.statistics.results import Results
from tests.report_fixtures import attack_result, fill

NODE = BOARDS[0]


def test_a_row_per_dataset_model_defense_and_attack(small: Path) -> None:
    found = {(row["defense"], row["attack"]): row for row in rows(NODE, entries(NODE, Results.read(small)))}
    assert len(found) == (4 + 1) * 2
    ln = found["ln", "injection"]
    assert ln["f1_mean"] == pytest.approx(0.9)
    assert ln["f1_std"] == pytest.approx(0.01)
    # Logits 2.091, 2.197, 2.314: 2.201 -+ 4.303 * 0.1115 / sqrt(3), as shares.
    assert (ln["f1_low"], ln["f1_high"]) == (pytest.approx(0.873, abs=1e-3), pytest.approx(0.922, abs=1e-3))
    assert (ln["n"], ln["rank"], ln["ledger_nodes"]) == (3, 1, 20.0)
    assert found["vanilla", "injection"]["rank"] == 4
    assert (
        found["fgai", "injection"]["rank_g_jsd"] == 2
    )  # nobody beats it, but three seeds do not tell it from its null


def test_the_null_has_a_row_and_every_row_its_distance_from_it(wide: Path) -> None:
    listed = rows(NODE, entries(NODE, Results.read(wide, suite="node")))
    found = {row["defense"]: row for row in listed if row["attack"] == "injection"}
    null = found["uniform-attention"]
    assert (null["status"], null["n"], null["g_jsd_mean"], null["rank_g_jsd"]) == ("null", 5, 0.0006, None)
    assert math.isnan(null["f1_mean"])
    assert found["vanilla"]["g_jsd_vs_uniform"] == pytest.approx(math.log(0.008 / 0.0006), abs=0.01)
    assert {name: row["beats_uniform"] for name, row in found.items()} == {
        "vanilla": "no", "ln": "no", "at": "no", "fgai": "yes", "uniform-attention": None,
    }  # fmt: skip
    assert found["fgai"]["rank_g_jsd"] == 1
    assert [row["defense"] for row in listed if row["attack"] == "injection"][-1] == "uniform-attention"


def test_gaps_and_unequal_budgets_have_rows_without_a_rank(broken: Path) -> None:
    found = {
        row["defense"]: row for row in rows(NODE, entries(NODE, Results.read(broken))) if row["dataset"] == "amazon-cs"
    }
    assert found["at"]["status"] == "oom"
    assert found["at"]["reason"] == "needs 214 GiB"
    assert {name for name, row in found.items() if row["rank"] is not None} == {"vanilla", "sound"}


def test_a_timed_training_has_its_cost_without_a_model_to_attack(bench: Any) -> None:
    made = bench()
    where = {"suite": "cost", "label": "pro-gnn"}
    cost = {"train_seconds": 110.0, "train_peak_mib": 5000.0, "epochs_timed": 34.0, "extrapolated": 1.0}
    made.add("train", Result(cost=cost, flags=("extrapolated from 34 of 200 epochs",)), **where)
    made.add("attack", Result("timeout", "its model is missing"), attack_label="injection", **where)
    other = {"suite": "cost", "label": "gnnguard"}
    made.add("train", Result("oom", "needs 1,602 GiB"), **other)
    made.add("attack", Result("oom", "its model is missing: needs 1,602 GiB"), attack_label="injection", **other)
    results = Results.read(made.close())
    board = next(board for board in BOARDS if board.alone)
    found = {row["defense"]: row for row in rows(board, entries(board, results))}
    slow = found["pro-gnn"]
    assert (slow["status"], slow["n"], slow["train_seconds_mean"], slow["train_peak_mib_mean"]) == ("ok", 1, 110, 5000)
    assert math.isnan(slow["attack_seconds_mean"])
    assert slow["flags"] == "extrapolated from 34 of 200 epochs"
    assert (found["gnnguard"]["status"], found["gnnguard"]["reason"]) == ("oom", "needs 1,602 GiB")
    table = build(next(spec for spec in GRIDS if spec.name == "cost"), results)
    assert table is not None
    assert [cell.text for cell in table.rows[0].cells] == ["110.0s*", "5000MiB"]
    assert "* extrapolated from 34 of 200 epochs (1 cell)" in table.notes


@pytest.fixture
def with_worst(bench: Any) -> Path:
    """The small store with the standard attack, and a stronger attack of somebody's own on one defense."""
    store = bench()
    fill(store)
    for seed in range(3):
        for label in ("vanilla", "ln", "at", "fgai"):
            where = {"label": label, "seed": seed}
            store.add("attack", attack_result(label, seed, harm=0.2), attack_label="worst", attack="worst", **where)
        if seed == 0:
            twice = attack_result("fgai", seed, harm=0.21)
            store.add("attack", twice, attack_label="worst-twice", attack="worst-twice", label="fgai", seed=seed)
        stronger = attack_result("ln", seed, harm=0.3 if seed == 1 else 0.1)
        store.add("attack", stronger, attack_label="sledge", attack="sledge", label="ln", seed=seed)
        weaker = attack_result("at", seed, harm=0.6)
        threat = {"nodes": 99}  # another budget: it lowers nothing
        store.add("attack", weaker, threat=threat, attack_label="larger", attack="larger", label="at", seed=seed)
    return store.close()


def test_the_worst_case_ranks_and_nothing_else(with_worst: Path) -> None:
    listed = rows(NODE, entries(NODE, Results.read(with_worst)))
    ranks = {(row["defense"], row["attack"]): row["rank"] for row in listed}
    assert all(ranks[defense, "worst"] is not None for defense in ("vanilla", "ln", "at", "fgai"))
    assert all(rank is None for (_, attack), rank in ranks.items() if attack != "worst")


def test_an_attack_that_leaves_less_lowers_the_worst_case_and_is_named(with_worst: Path) -> None:
    listed = {(row["defense"], row["attack"]): row for row in rows(NODE, entries(NODE, Results.read(with_worst)))}
    ln, at = listed["ln", "worst"], listed["at", "worst"]
    assert ln["found_by"] == "worst, sledge"
    assert math.isnan(ln["worst_slack"])
    assert listed["fgai", "worst"]["worst_slack"] == pytest.approx(0.01)
    assert listed["fgai", "worst"]["found_by"] == "worst"  # twice the search was run for one seed
    assert ln["f1_mean"] == pytest.approx(listed["ln", "injection"]["f1_mean"] - (0.2 + 0.3 + 0.2) / 3)
    assert at["found_by"] == "worst"
    assert at["f1_mean"] == pytest.approx(listed["at", "injection"]["f1_mean"] - 0.2)


def test_results_have_the_worst_cases_that_the_board_has(with_worst: Path) -> None:
    raw = Results.read(with_worst)
    board = {row.key: row for row in lowered(NODE, entries(NODE, raw)) if row.key[5] == "worst"}
    lowest = worst_cases(raw)
    places = list(lowest.select(kind="attack", attack="worst"))
    assert len(places) == len(board) == 4
    for place, seeds in places:
        row = board[(place.suite, *place[2:7])]
        assert {seed: step.values["f1"] for seed, step in seeds.items()} == {
            seed: values["f1"] for seed, values in row.seeds.items()
        }
    (ln,) = [place for place, _ in places if place.label == "ln"]
    assert raw.at(ln)[1].values["f1"] - lowest.at(ln)[1].values["f1"] == pytest.approx(0.1)
    assert lowest.at(ln._replace(attack="sledge")) == raw.at(ln._replace(attack="sledge"))  # every other is as it was


def test_a_worst_case_is_not_distrusted_for_the_attack_that_it_shows(with_worst: Path) -> None:
    flags = tuple(f"unreliable: {attack} does more harm than the standard attack" for attack in ("sledge", "hammer"))
    listed = [replace(row, flags=flags) for row in entries(NODE, Results.read(with_worst))]
    after = {row.key[4]: row.flags for row in lowered(NODE, listed) if row.key[5] == "worst"}
    assert after["ln"] == flags[1:]  # the sledge's values stand there
    assert after["at"] == flags
    (sledge,) = [row for row in listed if row.key[4:] == ("ln", "sledge")]
    lowest = {seed: {"f1": 0.0} for seed in sledge.seeds}
    both = [*listed, replace(sledge, key=sledge.key._replace(attack="hammer"), seeds=lowest)]
    (ln,) = [row for row in lowered(NODE, both) if row.key[4:] == ("ln", "worst")]
    assert (ln.found_by, ln.flags) == (("hammer",), ())  # nor for one that it goes below


def test_numbers_have_seven_digits(bench: Any) -> None:
    made = bench()
    for seed in range(3):
        result = attack_result("ln", seed)
        exact = {**result.metrics, "f1": 2 / 3 - seed / 7e4}
        made.add(
            "attack", replace(result, metrics=exact), label="ln", defense="ln", attack_label="injection", seed=seed
        )
    listed = entries(NODE, Results.read(made.close()))
    text = to_csv(NODE, listed)[FULL]
    (row,) = (row for row in csv.DictReader(io.StringIO(text)) if row["defense"] == "ln")
    assert row["seeds"] == "0 1 2"
    assert row["f1_values"] == "0.6666667 0.6666524 0.6666381"
    assert row["f1_mean"] == "0.6666524"


def tuned_run(bench: Any, trials: dict[str, int]) -> Path:
    """Three seeds of four defenses with a suite's own settings, and of some with settings that trials chose."""
    made = bench()
    for label in ("vanilla", "ln", "at", "fgai"):
        for seed in range(3):
            attack = {"seed": seed, "attack_label": "worst", "attack": "worst", "defense": label}
            made.add("attack", attack_result(label, seed), label=label, **attack)
            if label in trials:
                chosen = {"label": f"{label} tuned", "trials": trials[label], **attack}
                made.add("attack", attack_result(label, seed, harm=-0.01), **chosen)
    return made.close()


def ranks(folder: Path) -> dict[str, Any]:
    return {row["defense"]: row["rank"] for row in rows(NODE, entries(NODE, Results.read(folder)))}


def test_tuned_rows_rank_and_those_with_the_suites_own_settings_stand_beside_them(bench: Any) -> None:
    folder = tuned_run(bench, {"vanilla": 32, "ln": 32, "fgai": 32})
    found = ranks(folder)
    assert [found[name] for name in ("vanilla", "ln", "at", "fgai")] == [None] * 4
    assert (found["ln tuned"], found["vanilla tuned"]) == (1, 3)
    text = to_csv(NODE, entries(NODE, Results.read(folder)))[FULL]
    by_name = {row["defense"]: row for row in csv.DictReader(io.StringIO(text))}
    assert (by_name["ln tuned"]["settings"], by_name["ln tuned"]["trials"]) == ("tuned", "32")
    assert by_name["ln"]["settings"] == "published"


def test_rows_of_unequal_search_are_not_ranked(bench: Any) -> None:
    folder = tuned_run(bench, {"vanilla": 32, "ln": 32, "fgai": 64})
    found = ranks(folder)
    assert (found["ln tuned"], found["vanilla tuned"], found["fgai tuned"]) == (1, 2, None)
    assert not any(ranks(tuned_run(bench, {"ln": 32, "fgai": 64})).get(f"{n} tuned") for n in ("ln", "fgai"))


def test_one_tuned_row_alone_takes_no_rank_from_the_others(bench: Any) -> None:
    found = ranks(tuned_run(bench, {"fgai": 32}))
    assert found["fgai tuned"] is None
    assert found["ln"] == 1


def test_the_in_domain_worst_case_stands_beside_the_one_that_ranks(bench: Any, small: Path) -> None:
    store = bench()
    fill(store)
    for seed in range(3):
        for label in ("vanilla", "ln"):
            where = {"attack": "worst", "label": label, "seed": seed}
            store.add("attack", attack_result(label, seed, harm=0.2), attack_label="worst", **where)
            milder, threat = attack_result(label, seed, harm=0.3), {"features": "in-domain"}
            store.add("attack", milder, threat=threat, attack_label="worst in-domain", **where)
    results = Results.read(store.close())
    listed = {(row["defense"], row["attack"]): row for row in rows(NODE, entries(NODE, results))}
    assert listed["ln", "worst in-domain"]["rank"] is None
    assert listed["ln", "worst"]["found_by"] == "worst"
    assert listed["ln", "worst"]["f1_mean"] == pytest.approx(listed["ln", "worst in-domain"]["f1_mean"] + 0.1)
    spec = next(spec for spec in GRIDS if spec.name == "worst_case")
    with_it, without = build(spec, results), build(spec, Results.read(small))
    assert with_it is not None
    assert without is not None
    assert "worst in-domain↑" in str(with_it)
    assert "in-domain" not in str(without)


def numbers(text: str) -> list[float]:
    return [float(number) for number in re.findall(r"-?\d+\.?\d*(?:E-?\d+)?", text)]


def test_the_file_for_people_is_short_sorted_and_follows_from_the_full_one(with_worst: Path) -> None:
    texts = to_csv(NODE, entries(NODE, Results.read(with_worst)))
    people, full = (list(csv.DictReader(io.StringIO(texts[ending]))) for ending in ("", FULL))
    assert list(people[0]) == [
        *("rank", "suite", "graph", "model", "defense", "clean f1", "worst [low, high]", "floor"),
        *("g-JSD (uniform)", "explanation correctness", "seeds, settings, flags", "row"),
    ]
    assert [row["rank"] for row in people] == sorted(row["rank"] for row in people)
    assert {row["defense"] for row in people} == {"vanilla", "ln", "at", "fgai"}  # no null, and one row for each
    by_id = {row["row"]: row for row in full}
    assert len(by_id) == len(full)
    for row in people:
        source = by_id[row["row"]]
        assert (row["rank"], row["graph"], row["defense"]) == (source["rank"], source["dataset"], source["defense"])
        printed = [float(source[f"f1_{end}"]) for end in ("median", "low", "high")]
        assert numbers(row["worst [low, high]"]) == pytest.approx(printed, abs=5e-4)
        stable = [float(source[name]) for name in ("g_jsd_median", "g_jsd_uniform")]
        assert numbers(row["g-JSD (uniform)"]) == pytest.approx(stable, rel=5e-3)
        assert (row["floor"], row["explanation correctness"]) == ("not measured", "not measured")
        assert (row["suite"], row["seeds, settings, flags"]) == ("node", "3 seeds; published")


def test_people_see_gaps_with_their_reason_and_no_ranked_row_twice(bench: Any) -> None:
    made = bench()
    worst = {"attack_label": "worst", "attack": "worst"}
    for seed in range(2):
        for label in ("vanilla", "ln"):
            made.add("attack", attack_result(label, seed), label=label, defense=label, seed=seed, **worst)
        made.add("attack", Result("oom", "needs 214 GiB"), label="at", defense="at", seed=seed, **worst)
    header, *listed = for_people(NODE, rows(NODE, entries(NODE, Results.read(made.close()))))
    shown = {row[header.index("defense")]: dict(zip(header, row, strict=True)) for row in listed}
    assert [shown[name]["rank"] is None for name in ("ln", "vanilla", "at")] == [False, False, True]
    assert "oom: needs 214 GiB" in shown["at"]["seeds, settings, flags"]
    header, *tuned = for_people(
        NODE, rows(NODE, entries(NODE, Results.read(tuned_run(bench, {"vanilla": 32, "ln": 32}))))
    )
    column = header.index("seeds, settings, flags")
    assert [row[column] for row in tuned] == ["3 seeds; tuned with 32 trials"] * 2


def test_the_file_for_people_has_no_rows_of_other_attacks(small: Path) -> None:
    full = rows(NODE, entries(NODE, Results.read(small)))
    assert any(row["rank"] is not None for row in full)
    assert for_people(NODE, full)[1:] == []


def test_a_run_of_one_seed_has_rows_without_a_rank(bench: Any) -> None:
    made = bench()
    where = {"label": "ln", "defense": "ln", "attack_label": "worst", "attack": "worst"}
    made.add("attack", attack_result("ln", 0), seed=0, **where)
    header, row = for_people(NODE, rows(NODE, entries(NODE, Results.read(made.close()))))
    assert row[header.index("rank")] is None
    assert row[header.index("seeds, settings, flags")] == "1 seed; published"


def test_the_correctness_of_the_last_attention_stands_in_both_files(bench: Any, tmp_path: Path) -> None:
    made = bench()
    for seed in range(2):
        where = {"label": "ln", "defense": "ln", "attack_label": "worst", "attack": "worst", "seed": seed}
        made.add("attack", attack_result("ln", seed), **where)
        right = Result(metrics={"effect_spearman_covered_clean": 0.1 + 0.2 * seed, "truth_auroc_covered_clean": 0.7})
        made.add("explain", right, explainer="attention-last", **where)
    run = made.close()
    full = rows(NODE, entries(NODE, Results.read(run)))
    assert full[0]["truth_auroc_covered_clean_median"] == pytest.approx(0.7)  # the better measure counts
    header, row = for_people(NODE, full)
    assert row[header.index("explanation correctness")] == "0.700 AUROC"
    add(run, tmp_path / "board", trust="none")  # of an added row it is what somebody said
    full = rows(NODE, entries(NODE, Results.read(tmp_path / "board" / "records")))
    assert full[-1]["flags"].endswith("reported: truth_auroc_covered_clean")
    header, row = for_people(NODE, full)
    assert row[header.index("explanation correctness")] == "0.700 AUROC (reported)"
