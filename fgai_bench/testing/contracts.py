"""Find and run the contract checks of a kind of entry (models, attacks, ...)."""

from __future__ import annotations

import importlib
from dataclasses import replace
from typing import Any

from fgai_bench.registry import Entry, Registry, object_at, registry_path
from fgai_bench.testing.checks import Check, CheckResult

CONTRACTS: Registry[Any] = Registry("kind with a contract")
for _kind in ("models", "datasets", "attacks", "defenses", "certificates", "explainers", "metrics", "suites"):
    CONTRACTS.declare(_kind, f"fgai_bench.testing.{_kind}:CHECKS")


def run_checks(kind: str, name: str) -> list[CheckResult]:
    """Return the result of every check of ``kind`` on the registered entry ``name``.

    >>> sorted({result.status for result in run_checks("metrics", "g_jsd")})
    ['passed', 'skipped']
    """
    CONTRACTS.entry(kind)
    return check_entry(kind, object_at(registry_path(kind)).entry(name))


def check_entry(kind: str, entry: Entry[Any]) -> list[CheckResult]:
    """Return the result of every check of ``kind`` on an entry that need not be registered.

    A common cause is told once: after the second check in which the entry raises the same error, no other is run.
    """
    subject = subject_of(kind, entry)
    results: list[CheckResult] = []
    first: dict[str, str] = {}  # the check that met an error first, by the error
    cause = None
    for check in checks_of(kind):
        if cause is not None:
            results.append(CheckResult(check.name, "skipped", f"not run: {cause} comes first"))
            continue
        result = check.run(subject)
        if result.raised and result.message in first:
            cause = first[result.message]
            result = replace(result, message=f"the same error as in {cause}; nothing else is run")
        elif result.raised:
            first[result.message] = check.name
        results.append(result)
    return results


def checks_of(kind: str) -> list[Check[Any]]:
    """Return the checks of ``kind``, one of ``CONTRACTS``."""
    return list(CONTRACTS[kind])


def subject_of(kind: str, entry: Entry[Any]) -> Any:
    """Return the subject that all checks of ``kind`` share for an entry, so that it is trained or loaded once."""
    CONTRACTS.entry(kind)
    return importlib.import_module(f"fgai_bench.testing.{kind}").subject(entry)
