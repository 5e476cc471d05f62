from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from fgai_bench.data import DATASETS, verify_dataset, verify_datasets


def test_every_dataset_of_the_data_root_is_as_declared(data_root: Path) -> None:
    found = {verification.name: verification for verification in verify_datasets(data_root)}
    not_ok = {name: verification.status for name, verification in found.items() if verification.status != "ok"}
    assert set(not_ok) <= {"ogbn-arxiv", "roman-empire", "amazon-ratings", "questions"}
    assert all(verification.counts == DATASETS[name].statistics for name, verification in found.items())
    assert not any(verification.failed for verification in found.values())


def test_without_files_only_the_embedded_and_the_generated_are_ok(tmp_path: Path) -> None:
    found = verify_datasets(tmp_path)
    assert [verification.name for verification in found if verification.status == "ok"] == [
        *("cora", "csbm", "ba-house", "ba-grid", "ba-tree", "infection"),
        *("csbm-planted-strong", "csbm-planted", "csbm-planted-weak"),
    ]
    assert {verification.status for verification in found} == {"ok", "missing"}
    assert all(str(tmp_path) in verification.message for verification in found if verification.status == "missing")
    assert any(verification.failed for verification in found)


def test_a_changed_file_is_wrong_and_says_so(data_root: Path, tmp_path: Path) -> None:
    target = tmp_path / "Photo/raw/amazon_electronics_photo.npz"
    target.parent.mkdir(parents=True)
    shutil.copyfile(data_root / "Computers/raw/amazon_electronics_computers.npz", target)
    found = verify_dataset("amazon-photo", tmp_path)
    assert (found.status, found.optional) == ("wrong", False)
    assert found.message.startswith(f"amazon-photo: {target} has checksum ")
    assert found.failed


def test_other_counts_than_declared_are_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DATASETS, "_entries", dict(DATASETS._entries))
    monkeypatch.setitem(DATASETS._entries, "cora", _declared_larger())
    found = verify_dataset("cora")
    assert found.status == "wrong"
    assert "is declared with Statistics(nodes=2709" in found.message


def test_a_missing_optional_dataset_names_its_stand_in(tmp_path: Path) -> None:
    found = verify_dataset("ogbn-arxiv", tmp_path)
    assert found.optional
    assert found.message.endswith("or use arxiv-topology")
    assert not found.failed


def _declared_larger() -> object:
    import dataclasses

    entry, cora = DATASETS.entry("cora"), DATASETS["cora"]
    statistics = dataclasses.replace(cora.statistics, nodes=2_709)
    return dataclasses.replace(entry, target=dataclasses.replace(cora, statistics=statistics))
