"""Find and run the contract checks of a kind of entry (models, attacks, ...)."""

from typing import Any

from fgai_bench.registry import Entry, Registry, object_at, registry_path
from fgai_bench.testing.checks import Check, CheckResult, checks_in

CONTRACTS: Registry[Any] = Registry("kind with a contract")
for _kind in ("models", "datasets", "attacks", "defenses", "certificates", "explainers", "metrics", "suites"):
    CONTRACTS.declare(_kind, f"fgai_bench.testing.{_kind}:subject")


def run_checks(kind: str, name: str) -> list[CheckResult]:
    """Return the result of every check of ``kind`` on the registered entry ``name``."""
    CONTRACTS.entry(kind)
    subject = subject_of(kind, object_at(registry_path(kind)).entry(name))
    return [check.run(subject) for check in checks_of(kind)]


def checks_of(kind: str) -> list[Check]:
    return checks_in(CONTRACTS[kind])


def subject_of(kind: str, entry: Entry[Any]) -> Any:
    """Return the subject that all checks of ``kind`` share for an entry, so that it is trained or loaded once."""
    return CONTRACTS[kind](entry)
