"""Every registry is walked, and every entry passes every check that its tags select."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path

import pytest

import fgai_bench
from fgai_bench.testing import checks_of, run_checks, subject_of
from fgai_bench.testing.contracts import CONTRACTS

SHARED = Path(__file__).parents[3] / "shared" / "data"
WALK = [
    (kind, name, check)
    for kind in CONTRACTS
    for name in getattr(fgai_bench, kind.upper())
    for check in checks_of(kind)
    if "huge" not in getattr(fgai_bench, kind.upper()).entry(name).tags  # made in a minute and 13 GiB
]


def case(kind, name, check):
    """A walked triple; the largest size of a generator is slow, and so are long searches beside the standard one.

    The suite ``full`` consists of others, each of which is walked by itself.
    """
    tags = getattr(fgai_bench, kind.upper()).entry(name).tags
    long = "fixed-search" in tags and "standard" not in tags
    slow = long or {"generated", "large"}.issubset(tags) or (kind, name) == ("suites", "full")
    return pytest.param(kind, name, check, id=f"{kind}-{name}-{check.name}", marks=[pytest.mark.slow] if slow else [])


@pytest.fixture(autouse=True)
def real_datasets(monkeypatch):
    """The folder of the real datasets, where there is one; else their checks are skipped with what is missing."""
    if "FGAI_BENCH_DATA" not in os.environ and SHARED.is_dir():
        monkeypatch.setenv("FGAI_BENCH_DATA", str(SHARED))


@lru_cache(maxsize=1)
def subject(kind, name):
    """Shared by the checks of one entry, which follow each other: it is loaded or trained once."""
    return subject_of(kind, getattr(fgai_bench, kind.upper()).entry(name))


@pytest.mark.parametrize(("kind", "name", "check"), [case(*walked) for walked in WALK])
def test_entry_passes_check(kind, name, check):
    found = check.run(subject(kind, name))
    if kind == "datasets" and found.status == "skipped":
        pytest.skip(found.message)
    assert found.status in ("passed", "skipped"), found.message


def test_every_registry_has_a_contract():
    registries = {name.lower() for name in fgai_bench.__all__ if name.isupper()}
    assert set(CONTRACTS) == registries


def test_run_checks_gives_one_result_per_check_in_order():
    found = run_checks("metrics", "topk_overlap")
    assert [result.name for result in found] == [check.name for check in checks_of("metrics")]
    assert {result.name: result.status for result in found}["check_value_of_equal_arguments"] == "passed"


def test_unknown_kinds_and_names_are_sentences():
    with pytest.raises(ValueError, match="unknown kind with a contract 'modells'; the nearest names are: models"):
        run_checks("modells", "gat")
    with pytest.raises(ValueError, match="unknown model 'gta'"):
        run_checks("models", "gta")
