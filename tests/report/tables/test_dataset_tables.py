"""Tables that are lists: the datasets, and the reasons for distrust."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fgai_bench.report.tables.dataset_tables import dataset_table, flag_table
from fgai_bench.statistics.results import Results
from tests.report_fixtures import attack_result


def test_the_statistics_of_a_dataset_are_those_that_were_recorded(small: Path) -> None:
    table = dataset_table(Results.read(small), "node")
    assert table is not None
    assert table.columns == (("Amazon-Photo",),)
    assert {row.heads[0]: row.cells[0].text for row in table.rows} == {
        "#Nodes": "7,650", "#Edges": "119,081", "#Node Features": "745", "#Classes": "8",
        "#Training Nodes": "765", "#Validation Nodes": "765", "#Test Nodes": "6,120",
    }  # fmt: skip


def test_links_are_counted_as_recorded(wide: Path) -> None:
    links = dataset_table(Results.read(wide), "link")
    assert links is not None
    shown = {row.heads[0]: row.cells[0] for row in links.rows}
    assert shown["#Training Links"].text == "4,488"
    assert (shown["#Test Links"].text, shown["#Test Links"].status) == ("--", "absent")


def test_reasons_for_distrust_are_listed_with_their_seeds(bench: Any) -> None:
    made = bench()
    for seed in range(3):
        flags = ("unreliable: zero gradient",) if seed != 1 else ()
        made.add("attack", attack_result("ln", seed), label="ln", attack_label="injection", seed=seed, flags=flags)
    table = flag_table(Results.read(made.close()))
    assert table is not None
    (row,) = table.rows
    assert row.heads == ("node", "Amazon-Photo", "GAT", "LN", "injection")
    assert [cell.text for cell in row.cells] == ["unreliable: zero gradient", "0, 2"]


def test_a_random_control_that_is_stronger_is_a_reason(bench: Any) -> None:
    made = bench()
    made.add("attack", attack_result("ln", 0), label="ln", attack_label="injection")
    made.add("attack", attack_result("ln", 0, harm=0.5), label="ln", attack_label="random-injection")
    table = flag_table(Results.read(made.close()))
    assert table is not None
    assert "random control is stronger" in table.rows[0].cells[0].text


def test_no_reasons_no_table(small: Path) -> None:
    assert flag_table(Results.read(small)) is None
