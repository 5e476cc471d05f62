"""Nulls of recorded attacks: made without a model, equal to what the attack itself would have measured."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from fgai_bench.cli import main
from fgai_bench.metrics import METRICS
from fgai_bench.records.errors import RequestError
from fgai_bench.records.store import Store, StoreReader
from fgai_bench.run.nulls import add_nulls, edges_in_common
from fgai_bench.run.plan import Step

NULLS = METRICS.names("null")
PLACE = ["label", "attack_label", "seed", "metric"]


@pytest.fixture
def first_edition(reference: Path, tmp_path: Path) -> Path:
    """The tiny run as it was recorded before attacks measured their null."""
    store = Store(tmp_path / "first")
    with StoreReader(reference) as made:
        for step in made.steps():
            result = made.result(step["hash"])
            metrics = {name: value for name, value in result.metrics.items() if name not in NULLS}
            roles = [row["role"] for row in step["artifacts"]]
            artifacts = {role: made.artifact(step["hash"], role) for role in roles}
            known = Step(step["hash"], step["kind"], step["config"], {}, step["trial"])
            store.record(known, replace(result, metrics=metrics, artifacts=artifacts))
        store.place(made.members())
    store.close()
    return tmp_path / "first"


def test_nulls_are_those_that_the_attacks_measured(first_edition: Path, reference: Path, tmp_path: Path) -> None:
    manifest, computed = add_nulls(first_edition, tmp_path / "records")
    assert len(computed) == 2 * len(NULLS)  # seeds; three defenses and two attacks share their edges
    with StoreReader(reference) as made, StoreReader(tmp_path / "records") as added:
        wanted, found = (
            store.records().query("metric in @NULLS").set_index(PLACE)["value"].sort_index() for store in (made, added)
        )
        assert found.to_dict() == pytest.approx(wanted.to_dict())
        assert len(found) == 2 * 3 * 2 * len(NULLS)
        steps = [step for step in added.steps() if step["kind"] == "measure"]
    assert manifest["steps"] == 24 + len(computed)
    for step in steps:
        facts = step["facts"]
        assert facts["injected_edges_the_same"] == facts["injected_edges_recorded"] > 0
        assert step["config"].keys().isdisjoint({"model", "defense", "trained"})  # no model was needed
        assert step["environment"]


def test_records_with_their_nulls_are_left_alone(reference: Path, tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="no injection attack whose edges can be reproduced and lack a null"):
        add_nulls(reference, tmp_path / "records")
    assert not (tmp_path / "records").exists()


def test_other_edges_than_the_recorded_ones_are_noticed(first_edition: Path) -> None:
    with StoreReader(first_edition) as store:
        sample = next(content for (_, role), content in store.reported().items() if role == "attention")
    nothing = torch.empty(2, 0, dtype=torch.long)
    shared, recorded = edges_in_common([sample], nothing, nodes=100)
    assert (shared, recorded > 0) == (0, True)


def test_the_command_prints_every_null(first_edition: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["records", "nulls", str(first_edition), "--out", str(tmp_path / "records")]) == 0
    printed = capsys.readouterr().out
    assert all(name in printed for name in NULLS)
    assert "6 nulls computed" in printed
