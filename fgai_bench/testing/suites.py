"""Check suites: every name is registered, and the suite expands to steps that can be run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from fgai_bench.registry import Entry
from fgai_bench.run.plan import Plan, plan
from fgai_bench.run.preflight import check_options
from fgai_bench.suites import Suite, load_suite, resolve
from fgai_bench.testing.checks import CheckList, require


@dataclass(frozen=True)
class SuiteSubject:
    """A suite to be checked."""

    suite: Suite
    tags: frozenset[str] = frozenset()
    expected_failures: Mapping[str, str] = field(default_factory=dict)

    def plan(self) -> Plan:
        """Return the steps that the suite expands to."""
        return plan(resolve(self.suite))

    @cached_property
    def planned(self) -> Plan:
        """Return one such plan, shared by the checks that only read it."""
        return self.plan()


def subject(entry: Entry[Any]) -> SuiteSubject:
    """Return the registered suite ``entry``, a suite or its plain data, as a subject of the checks."""
    return SuiteSubject(load_suite(entry.load()), entry.tags)


CHECKS: CheckList[SuiteSubject] = CheckList()


@CHECKS.add()
def check_names_are_registered(subject: SuiteSubject) -> None:
    """Every dataset, model, defense, attack and metric that the suite names is registered."""
    resolve(subject.suite)


@CHECKS.add()
def check_expands_to_trials(subject: SuiteSubject) -> None:
    """The suite expands to at least one trial, and each step comes after those that it builds on."""
    plan = subject.planned
    require(any(step.kind == "train" for step in plan.steps.values()), "there is nothing to train")
    seen: set[str] = set()
    for step in plan.steps.values():
        require(seen.issuperset(step.inputs.values()), f"a step of the kind {step.kind} stands before what it needs")
        seen.add(step.hash)


@CHECKS.add()
def check_same_suite_same_plan(subject: SuiteSubject) -> None:
    """Planning twice gives the same steps: their hashes contain neither random numbers nor times."""
    require(list(subject.planned.steps) == list(subject.plan().steps), "two plans differ")


@CHECKS.add()
def check_budgets_are_equal(subject: SuiteSubject) -> None:
    """All defenses of a trial face the same threat models, unless the suite declares unequal budgets."""
    plan = subject.planned
    budgets: dict[tuple[str, ...], Any] = {}
    for member in plan.members:
        if plan.steps[member.step].kind == "attack" and not member.flags:
            where = (member.suite, member.task, member.dataset, member.attack_label)
            threat = plan.steps[member.step].config["threat"]
            require(budgets.setdefault(where, threat) == threat, f"{member.label} meets another budget on {where}")


@CHECKS.add()
def check_options_are_possible(subject: SuiteSubject) -> None:
    """Every model, defense and attack can be created with the options that the suite sets."""
    check_options(subject.planned.steps.values())
