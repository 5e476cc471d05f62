"""Contract checks: what every registered entry, ours or a user's, must satisfy; ``fgai-bench check`` runs them."""

from typing import TYPE_CHECKING

from fgai_bench.lazy import lazy_names

if TYPE_CHECKING:
    from fgai_bench.testing.checks import Check, CheckFailed, CheckResult, CheckSkipped
    from fgai_bench.testing.contracts import check_entry, checks_of, run_checks, subject_of

__all__ = [
    "Check",
    "CheckFailed",
    "CheckResult",
    "CheckSkipped",
    "check_entry",
    "checks_of",
    "run_checks",
    "subject_of",
]
__getattr__ = lazy_names(
    __name__,
    {
        **dict.fromkeys(("Check", "CheckFailed", "CheckResult", "CheckSkipped"), "fgai_bench.testing.checks"),
        **dict.fromkeys(("check_entry", "checks_of", "run_checks", "subject_of"), "fgai_bench.testing.contracts"),
    },
)
