"""The published numbers as they are read: all of them, with their signs and our names."""

from __future__ import annotations

import math
from collections import Counter

from fgai_bench.report.published import published

TABLES = {"table1": 120, "table2": 120, "f_slope": 192, "link": 48, "ablation": 21 * 4, "cost": 21 * 2}


def test_every_published_number_is_there() -> None:
    assert Counter(number.table for number in published() if not number.stand_in) == TABLES


def test_numbers_on_arxiv_stand_also_beside_its_topology() -> None:
    arxiv = [number for number in published() if number.dataset == "ogbn-arxiv"]
    stand_in = [number for number in published() if number.stand_in]
    assert len(arxiv) == len(stand_in) > 0
    assert {number.dataset for number in stand_in} == {"arxiv-topology"}
    assert all("surrogate features" in number.note for number in stand_in)


def test_signs_of_the_f_slopes_are_those_of_the_paper() -> None:
    slopes = {(n.model, n.label, n.dataset, n.metric): n.mean for n in published() if n.table == "f_slope"}
    assert slopes["gat", "vanilla", "amazon-photo", "f_slope_neg_attacked"] == 1.0594  # underlined
    assert slopes["gat", "vanilla", "amazon-photo", "f_slope_pos"] == -1.2821


def test_methods_and_terms_have_our_names() -> None:
    labels = {table: {number.label for number in published() if number.table == table} for table in TABLES}
    assert labels["cost"] == {"vanilla", "ln", "at", "fgai", "pro-gnn", "gnn-svd", "gnnguard"}
    assert {"similarity+prediction+explanation", "prediction+explanation", "similarity"} <= labels["ablation"]


def test_columns_that_hold_no_number_give_none() -> None:
    ablation = [number for number in published() if number.table == "ablation"]
    assert all(math.isnan(number.std) for number in ablation)
    oom = [number for number in published() if number.status == "oom"]
    assert oom
    assert all(math.isnan(number.mean) for number in oom)
