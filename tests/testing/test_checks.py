"""How a check is chosen, what becomes of it, and what the package imports."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass

import pytest

from fgai_bench.testing.checks import Check, CheckFailed, CheckResult, CheckSkipped, require


@dataclass
class Thing:
    sugar: float = 0.0
    tags: frozenset = frozenset({"sweet"})


def look(thing):
    """There is sugar in it."""
    if thing.sugar < 0:
        raise CheckSkipped("it cannot be weighed")
    require(thing.sugar > 0, f"it has {thing.sugar:g} g of sugar")


CHECK = Check("check_sugar", look, needs=frozenset({"sweet"}), unless=frozenset({"diet"}))


@pytest.mark.parametrize(
    ("thing", "status", "message"),
    [
        (Thing(1.0), "passed", ""),
        (Thing(0.0), "failed", "it has 0 g of sugar"),
        (Thing(-1.0), "skipped", "it cannot be weighed"),
        (Thing(1.0, tags=frozenset()), "skipped", "only with the tag 'sweet'"),
        (Thing(1.0, tags=frozenset({"sweet", "diet"})), "skipped", "not with the tag 'diet'"),
        (object(), "failed", "AttributeError: 'object' object has no attribute 'tags'"),
    ],
)
def test_status_and_message(thing, status, message):
    assert CHECK.run(thing) == CheckResult("check_sugar", status, message)


def test_an_error_is_told_with_its_file_and_line():
    result = CHECK.run(Thing("much"))
    line = look.__code__.co_firstlineno + 2
    assert result.status == "failed"
    assert (
        result.message == f"TypeError: '<' not supported between instances of 'str' and 'int' ({__file__}, line {line})"
    )


def test_require():
    require(True, "fine")
    with pytest.raises(CheckFailed, match=r"^not fine$"):
        require(False, "not fine")


def test_the_package_is_imported_without_torch():
    script = "import sys, fgai_bench.testing, fgai_bench.testing.contracts; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script]).returncode == 0
