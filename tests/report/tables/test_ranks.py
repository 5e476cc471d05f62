"""What moves a rank: one thing at a time, among the same methods."""

from __future__ import annotations

from itertools import product
from typing import Any

from fgai_bench.report.tables.ranks import rank_table
from fgai_bench.statistics.results import Results
from tests.report_fixtures import attack_result

HARM = {"vanilla": 0.3, "ln": 0.6, "at": 0.0, "fgai": 0.1}  # of the worst case, beyond the published attack


def filled(bench: Any, tuned: bool, missing: bool = False, unsearched: str = "") -> Any:
    """Five seeds of four defenses under both attacks; LN falls below FGAI under the worst one, and its search helps.

    A GCN in the place of the model loses nothing: it is no rival of those that train the model.
    """
    made = bench()
    graphs = ("amazon-photo", unsearched) if unsearched else ("amazon-photo",)
    for graph, (label, harm) in product(graphs, HARM.items()):
        for seed in range(5):
            where = {"seed": seed, "label": label, "defense": label, "dataset": graph}
            attack = attack_result
            made.add("attack", attack(label, seed), attack_label="injection", **where)
            worst = None if missing and (label, seed) == ("at", 4) else attack(label, seed, harm=harm)
            made.add("attack", worst, attack_label="worst", **where)
            if tuned and graph != unsearched:
                chosen = {**where, "label": f"{label} tuned", "trials": 32}
                found = attack(label, seed, harm=0.0 if label == "ln" else harm)
                made.add("attack", found, attack_label="worst", **chosen)
    for attack, seed in product(("injection", "worst"), range(5)):
        where = {"seed": seed, "label": "gcn", "defense": "gcn", "dataset": "amazon-photo"}
        made.add("attack", attack_result("ln", seed), attack_label=attack, **where)
    return Results.read(made.close())


def texts(results: Any) -> dict[str, list[str]]:
    table = rank_table(results)
    assert table is not None
    return {row.heads[2]: [cell.text for cell in row.cells] for row in table.rows}


def test_every_stage_changes_one_thing(bench: Any) -> None:
    """LN and AT share the first place; LN falls under the worst case, and a search gives it all back."""
    shown = texts(filled(bench, tuned=True))
    assert list(shown) == ["Vanilla", "LN", "AT", "FGAI"]
    ranks = {name: [cells[i] for i in (1, 3, 5)] for name, cells in shown.items()}
    assert ranks == {"Vanilla": ["4", "4", "4"], "LN": ["1", "3", "1"], "AT": ["1", "1", "1"], "FGAI": ["2", "2", "3"]}


def test_a_graph_without_searched_settings_has_no_last_stage(bench: Any) -> None:
    table = rank_table(filled(bench, tuned=True, unsearched="coauthor-cs"))
    assert table is not None
    assert len(table.rows) == 2 * len(HARM)
    last = {row.heads[0]: [cell.text for cell in row.cells[4:]] for row in table.rows if row.heads[2] == "LN"}
    assert last["Coauthor-CS"] == ["--", "--"]
    assert last["Amazon-Photo"][1] == "1"


def test_a_row_that_lacks_a_seed_has_no_rank(bench: Any) -> None:
    cells = texts(filled(bench, tuned=False, missing=True))["AT"]
    assert cells[2].endswith("(not run 1/5)")
    assert cells[3:] == ["--", "--", "--"]


def test_a_run_without_the_worst_case_has_no_such_table(bench: Any) -> None:
    made = bench()
    made.add("attack", attack_result("ln", 0), label="ln", attack_label="injection")
    assert rank_table(Results.read(made.close())) is None
