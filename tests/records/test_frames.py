"""Records: one tidy row per fact, with everything needed to judge it."""

from __future__ import annotations

from pathlib import Path

import fgai_bench
from fgai_bench.records.frames import RECORDS
from fgai_bench.run.resume import Run


def test_records_have_one_row_per_step_and_metric(reference: Path) -> None:
    records = Run(reference).records()
    assert tuple(records.columns) == RECORDS
    assert not records.duplicated(["suite", "step", "metric", "family"]).any()
    assert set(records["kind"]) == {"train", "clean", "attack"}
    assert set(records["status"]) == {"ok"}
    f1 = records.query("metric == 'f1'")
    assert len(f1) == 2 * 3 * 3
    assert f1["value"].between(0, 1).all()


def test_every_attack_carries_what_it_spent_and_nothing_else_does(reference: Path) -> None:
    records = Run(reference).records()
    attacked = records.query("kind == 'attack'")
    assert set(attacked["ledger_nodes"]) == {5.0}
    assert set(attacked.query("attack == 'injection'")["ledger_gradient_calls"]) == {3.0}
    assert set(attacked.query("attack == 'random-injection'")["ledger_gradient_calls"]) == {0.0}
    assert records.query("kind != 'attack'")["ledger_nodes"].isna().all()


def test_curves_are_points(reference: Path) -> None:
    curves = Run(reference).curves()
    objective = curves.query("curve == 'objective' and attack == 'injection' and label == 'at' and seed == 0")
    assert objective["x"].tolist() == [0.0, 1.0, 2.0, 3.0]  # the start and three steps


def test_provenance_says_what_ran_where_on_which_data(reference: Path) -> None:
    found = Run(reference).provenance()
    assert set(found["package"]) == {fgai_bench.__version__}
    assert found["data_checksum"].nunique() == 1
    assert found["data_split_hash"].nunique() == 2  # one per seed
    for column in ("commit", "dirty", "versions", "device", "threads", "host", "config", "started", "seconds"):
        assert column in found
    assert {"torch", "torch-geometric", "numpy"} <= set(found["versions"].iloc[0])
