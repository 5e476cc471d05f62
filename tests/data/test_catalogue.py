from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from fgai_bench.data import DATASETS, DataError, Dataset, Statistics, load_dataset

TABLE = {
    "amazon-photo": Statistics(7_650, 119_081, 745, 8),
    "amazon-cs": Statistics(13_752, 245_861, 767, 10),
    "coauthor-cs": Statistics(18_333, 81_894, 6_805, 15),
    "coauthor-physics": Statistics(34_493, 247_962, 8_415, 5),
    "ogbn-arxiv": Statistics(169_343, 1_157_799, 128, 40),
    "arxiv-topology": Statistics(169_343, 1_157_799, 128, 40),
    "cora": Statistics(2_708, 5_278, 1_433, 7),
    "citeseer": Statistics(3_327, 4_552, 3_703, 6),
    "pubmed": Statistics(19_717, 44_324, 500, 3),
    "tolokers": Statistics(11_758, 519_000, 10, 2),
    "minesweeper": Statistics(10_000, 39_402, 7, 2),
    "actor": Statistics(7_600, 26_659, 932, 5),
    "squirrel-filtered": Statistics(2_223, 46_998, 2_089, 5),
    "chameleon-filtered": Statistics(890, 8_854, 2_325, 5),
}


def test_the_table_is_declared() -> None:
    assert {name: DATASETS[name].statistics for name in TABLE} == TABLE


def test_every_entry_knows_its_own_name_and_says_what_it_is() -> None:
    for name in DATASETS:
        entry = DATASETS.entry(name)
        assert DATASETS[name].name == name
        assert entry.summary
        assert entry.paper.startswith("https://")
        assert "node" in entry.tags


def test_names_and_statistics_need_no_torch() -> None:
    code = "import sys; from fgai_bench.data import DATASETS; [DATASETS[name].statistics for name in DATASETS];"
    subprocess.run([sys.executable, "-c", code + "sys.exit('torch' in sys.modules)"], check=True)


WITHOUT_CHECKSUM = {"roman-empire", "amazon-ratings", "questions"}  # no copy was at hand; they are optional


def test_every_file_has_a_checksum_or_comes_from_an_archive_that_has_one() -> None:
    for name in set(DATASETS) - WITHOUT_CHECKSUM:
        dataset = DATASETS[name]
        by_archive = dataset.archive is not None and len(dataset.archive.sha256) == 64
        assert by_archive or all(len(file.sha256) == 64 for file in dataset.files), name


def test_every_file_that_is_not_ours_can_be_had_over_https() -> None:
    for name in DATASETS:
        dataset = DATASETS[name]
        files = () if dataset.embedded else (dataset.archive,) if dataset.archive else dataset.files
        for file in files:
            assert file.url.startswith("https://"), name


def test_the_score_belongs_to_the_declaration() -> None:
    ranked_by = {name: DATASETS[name].score for name in DATASETS}
    assert {name for name, score in ranked_by.items() if score != "f1"} == {"tolokers", "minesweeper", "questions"}
    with pytest.raises(TypeError, match=r"^its score is 'accuracy'; possible are f1, roc_auc$"):
        Dataset("mine", None, "module:function", score="accuracy")


def test_link_datasets_are_tagged() -> None:
    assert DATASETS.names("link") == ["cora", "citeseer", "pubmed"]


def test_unknown_options_are_refused_with_the_possible_ones() -> None:
    with pytest.raises(DataError, match=r"^cora has no option edges; its options are: none$"):
        load_dataset("cora", edges=3)
    with pytest.raises(DataError, match=r"^csbm has no option size; its options are: edges, degree, .*graph_seed$"):
        load_dataset("csbm", size=3)


def test_a_file_lies_under_the_root_unless_it_is_embedded() -> None:
    photo, cora = DATASETS["amazon-photo"], DATASETS["cora"]
    assert photo.path(photo.files[0], Path("/r")) == Path("/r/Photo/raw/amazon_electronics_photo.npz")
    assert isinstance(cora, Dataset)
    assert cora.path(cora.files[0], Path("/r")).is_file()
