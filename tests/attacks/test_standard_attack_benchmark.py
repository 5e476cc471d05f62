"""The benchmark of the standard attack: its tables by hand, and what a second run does with the files of a first."""

from __future__ import annotations

import json
import sys
from itertools import pairwise

from benchmarks import standard_attack
from benchmarks.standard_attack_tables import TABLES, read_rows

CURVE = json.dumps([[2400, 0.25], [2700, 0.22], [5000, 0.2], [5001, 0.2], [6000, 0.185]])
ROW = {
    **dict.fromkeys(standard_attack.COLUMNS, ""),
    "dataset": "csbm-1e3",
    "model": "gat",
    "label": "vanilla",
    "seed": "0",
    "clean": "0.5",
    "further": "1000",
    "gradients": "5000",
    "worst": "0.2",
    "continued": "0.185",
    "plain": "0.175",
    "floor": "0.1",
    "curve": CURVE,
    "injection": "0.197",
    "validation": "0.3",
    "processor_seconds": "27",
}


def run(monkeypatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["standard_attack", *arguments])
    return standard_attack.main()


def test_the_tables_by_hand():
    other = {**ROW, "seed": "1", "injection": "0.4", "continued": "0.2", "plain": "0.2"}
    made = {name: table([ROW, other]) for name, table in TABLES.items()}
    assert made["rivals"][1:] == [
        ["`injection`", "2", "0.099", "-0.0030", "1"],
        ["`validation`", "2", "0.100", "0.1000", "0"],
    ]
    assert [row[1:] for row in made["further_search"][1:]] == [
        ["1,000", "2", "1", "0", "0.0150"],
        ["1,000", "2", "1", "1", "0.0250"],
    ]
    assert made["floors"][1] == ["2", "0"]
    # The local search began at 2,400 gradients and ended at 5,000; the continuation took another 1,000.
    marks = ["0.250", "0.220", "0.220", "0.220", "**0.200**"]
    assert made["score_by_gradients"][1][1:] == ["2,600", *marks, "-", "-", "-"]
    assert made["costs"][1] == ["GAT", "2", "5,000", "27"]


def test_both_threats_stand_side_by_side_the_weakest_network_first():
    strong = {**ROW, "label": "mlp tuned", "worst": "0.4", "in-domain": "0.4"}
    rows = [strong, {**ROW, "in-domain": "0.3"}, {**ROW, "seed": "1", "in-domain": "0.35"}, ROW]
    assert TABLES["threats"](rows)[1:] == [["Vanilla", "0.200 / 0.325"], ["MLP tuned", "0.400 / 0.400"]]


def test_rows_with_a_curve_are_drawn_from_all_of_them():
    rows = [{**ROW, "seed": str(seed)} for seed in range(40)]
    shown = [int(row[0].rpartition(" ")[2]) for row in TABLES["score_by_gradients"](rows)[1:]]
    assert len(set(shown)) == 12
    assert shown == sorted(shown)
    assert {seed // 20 for seed in shown} == {0, 1}  # not the first ones
    assert len({later - earlier for earlier, later in pairwise(shown)}) > 1  # nor one label of a pattern


def test_a_row_below_its_floor_is_an_error(tmp_path, monkeypatch):
    for floor, code in (("0.1", 0), ("0.3", 1)):
        standard_attack.write(tmp_path / "row.csv", [{**ROW, "floor": floor}])
        assert run(monkeypatch, "--out", str(tmp_path), "--collect", str(tmp_path.parent / "all.csv")) == code
        assert read_rows(tmp_path.parent / "all.csv") == [{**ROW, "floor": floor}]


def test_a_row_that_was_timed_by_itself_is_still_one_row(tmp_path, monkeypatch):
    (tmp_path / "rows" / "timed").mkdir(parents=True)
    timed = {**ROW, "floor": "", "seconds": "4.5", "clean": "0.4"}
    for folder, row in (("rows", ROW), ("rows/timed", timed)):
        standard_attack.write(tmp_path / folder / "row.csv", [row])
    assert run(monkeypatch, "--out", str(tmp_path / "rows"), "--collect", str(tmp_path / "all.csv")) == 0
    assert read_rows(tmp_path / "all.csv") == [{**ROW, "seconds": "4.5"}]


def test_rows_with_a_file_are_kept_and_one_that_fails_does_not_stop_the_others(tmp_path, monkeypatch, capsys):
    kept = tmp_path / "csbm-1e3_gat_vanilla_0_paper.csv"
    standard_attack.write(kept, [ROW])
    rows = "nowhere,csbm-1e3/gat/vanilla/0"
    assert run(monkeypatch, rows, "nothing/gat/vanilla/0", "--out", str(tmp_path)) == 1
    assert capsys.readouterr().err.count("Traceback") == 2
    claims = [f"{name}_gat_vanilla_0_paper.claim" for name in ("nothing", "nowhere")]
    assert {path.name for path in tmp_path.iterdir()} == {kept.name, *claims}
    assert read_rows(kept) == [ROW]
    assert run(monkeypatch, rows, "--out", str(tmp_path)) == 0  # a claimed row is another process's
    assert run(monkeypatch, "csbm-1e3/gat/vanilla/1", "--within", "-1", "--out", str(tmp_path)) == 0  # none is begun


def test_seeds_come_first_in_an_order_that_is_always_the_same():
    names = standard_attack.expanded(["cora,csbm-1e3/gat,gt/vanilla,ln tuned/0,1"])
    assert [name[-1] for name in names] == ["0"] * 8 + ["1"] * 8
    assert len({name.split("/")[0] for name in names[:4]}) == 2
    assert names == standard_attack.expanded(["csbm-1e3,cora/gt,gat/ln tuned,vanilla/1,0"])
