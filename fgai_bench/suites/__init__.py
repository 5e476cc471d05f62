"""Suites: declarative files that expand to trials. Nothing here imports torch."""

from typing import TYPE_CHECKING, Any

from fgai_bench.lazy import lazy_names
from fgai_bench.registry import Registry

if TYPE_CHECKING:
    from fgai_bench.suites.errors import SuiteError
    from fgai_bench.suites.load import load_suite
    from fgai_bench.suites.overrides import resolve
    from fgai_bench.suites.schema import Suite

SUITES: Registry[Any] = Registry("suite", "fgai_bench.suites")
for _name, _summary in (
    ("quick", "the default: embedded Cora, two models, four defenses, two seeds; minutes on a laptop"),
    ("node", "node classification: the paper's stability, F1 and F-slope tables"),
    ("link", "link prediction: the paper's table"),
    ("ablation", "FGAI with its terms switched off, and its other choices varied"),
    ("cost", "seconds and memory, each step alone on the machine"),
    ("definition", "the models that `fgai-bench audit` holds against Definition 1"),
    ("stress", "worst cases: a sweep over budgets, an ensemble, attacks on the explanation, other seeds"),
    ("scale", "time and memory over graph size, from a thousand to a million edges"),
    ("full", "everything above but quick: all tables of the paper and ours"),
    ("published-budgets", "the models of node under the unequal budgets of the released code; ranked nowhere"),
):
    SUITES.declare(_name, f"fgai_bench.suites.shipped:{_name}", summary=_summary)

__all__ = ["SUITES", "Suite", "SuiteError", "load_suite", "resolve"]
__getattr__ = lazy_names(
    __name__,
    {
        "Suite": "fgai_bench.suites.schema",
        "SuiteError": "fgai_bench.suites.errors",
        "load_suite": "fgai_bench.suites.load",
        "resolve": "fgai_bench.suites.overrides",
    },
)
