"""The runner: plans a suite, carries it out, records every result; nothing that was recorded is lost or done twice."""

from typing import TYPE_CHECKING

from fgai_bench.lazy import lazy_names

if TYPE_CHECKING:
    from fgai_bench.runner.plan import Plan
    from fgai_bench.runner.runs import Run, run
    from fgai_bench.runner.store import StoreReader

__all__ = ["Plan", "Run", "StoreReader", "run"]
__getattr__ = lazy_names(
    __name__,
    {
        "Plan": "fgai_bench.runner.plan",
        "Run": "fgai_bench.runner.runs",
        "run": "fgai_bench.runner.runs",
        "StoreReader": "fgai_bench.runner.store",
    },
)
