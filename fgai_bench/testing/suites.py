"""Check suites: every name is registered, and the suite expands to steps that can be run."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from fgai_bench.registry import Entry
from fgai_bench.run.plan import Plan, plan
from fgai_bench.run.preflight import check_options
from fgai_bench.suites import Suite, load_suite, resolve
from fgai_bench.testing.checks import require


@dataclass(frozen=True)
class SuiteSubject:
    """A suite to be checked."""

    suite: Suite
    tags: frozenset[str] = frozenset()

    @cached_property
    def plan(self) -> Plan:
        return plan(resolve(self.suite))


def subject(entry: Entry[Any]) -> SuiteSubject:
    """Return the registered suite ``entry``, a suite or its plain data, as a subject of the checks."""
    return SuiteSubject(load_suite(entry.load()), entry.tags)


def check_expands_to_trials(subject: SuiteSubject) -> None:
    """Every name is registered, and there is at least one trial."""
    require(any(step.kind == "train" for step in subject.plan.steps.values()), "there is nothing to train")


def check_options_are_possible(subject: SuiteSubject) -> None:
    """Every model, defense and attack can be created with the options that the suite sets."""
    check_options(subject.plan.steps.values())
