"""Reports: tables, figures, leaderboards, comparisons, verdicts and a page, read from a store and from nothing else."""

from typing import TYPE_CHECKING

from fgai_bench.lazy import lazy_names

if TYPE_CHECKING:
    from fgai_bench.report.frames import Results
    from fgai_bench.report.write import write_report

__all__ = ["Results", "write_report"]
__getattr__ = lazy_names(__name__, {"Results": "fgai_bench.report.frames", "write_report": "fgai_bench.report.write"})
