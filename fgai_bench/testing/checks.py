"""Define a check: one property that an entry must have, the tags that select it, and the result of running it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, Protocol, TypeVar

from fgai_bench.registry import Entry

Status = Literal["passed", "failed", "skipped", "expected-failure"]


class Subject(Protocol):
    """The subject of a check: an entry, prepared for the checks of its kind."""

    @property
    def tags(self) -> frozenset[str]:
        """Return the capabilities that decide which checks apply."""

    @property
    def expected_failures(self) -> Mapping[str, str]:
        """Return the checks that this entry is not expected to pass, each with the written reason."""


S = TypeVar("S", bound=Subject)


@dataclass(frozen=True)
class EntrySubject:
    """A registered entry as a subject of the checks of its kind; its class may declare ``expected_failures``."""

    entry: Entry[Any]

    @property
    def tags(self) -> frozenset[str]:
        """Return the tags of the entry."""
        return self.entry.tags

    @property
    def expected_failures(self) -> Mapping[str, str]:
        """Return the checks that the entry is not expected to pass, each with the written reason."""
        return getattr(self.entry.load(), "expected_failures", {})


class CheckFailed(AssertionError):
    """Raised when the property does not hold; the message says what was observed."""


class CheckSkipped(Exception):
    """Raised when the property cannot be checked here; the message says why."""


@dataclass(frozen=True)
class CheckResult:
    """The result of one check.

    Attributes:
        name: name of the check.
        status: ``passed``, ``failed``, ``skipped``, or ``expected-failure``: it failed, and the entry says why.
        message: what was observed, or the reason; empty if passed.
        raised: it failed because the entry raised an error, and not because of what was observed.
    """

    name: str
    status: Status
    message: str = ""
    raised: bool = field(default=False, compare=False)


@dataclass(frozen=True)
class Check(Generic[S]):
    """A named property that an entry must have.

    Attributes:
        name: ``check_...``.
        look: raises :class:`CheckFailed` if the property does not hold; its docstring states the property.
        needs: tags that an entry must have for the check to apply.
        unless: tags that exempt an entry from the check.
    """

    name: str
    look: Callable[[S], None]
    needs: frozenset[str] = frozenset()
    unless: frozenset[str] = frozenset()

    @property
    def states(self) -> str:
        """Return the property in one sentence."""
        return (self.look.__doc__ or "").strip()

    def run(self, subject: S) -> CheckResult:
        """Run the check; an exception that the subject raises becomes a failed result and never reaches the caller."""
        try:
            reason = subject.expected_failures.get(self.name)
            result = self._run_unless_skipped(subject)
        except Exception as error:
            return _failed(self.name, error)
        if reason is None or result.status == "skipped":
            return result
        if result.status == "failed":
            return CheckResult(self.name, "expected-failure", reason)
        return CheckResult(self.name, "failed", f"expected to fail ({reason}), but it passes")

    def _run_unless_skipped(self, subject: S) -> CheckResult:
        missing, exempt = self.needs - subject.tags, self.unless & subject.tags
        if missing or exempt:
            rule = f"only with the tag {_listed(missing)}" if missing else f"not with the tag {_listed(exempt)}"
            return CheckResult(self.name, "skipped", rule)
        try:
            self.look(subject)
        except CheckSkipped as reason:
            return CheckResult(self.name, "skipped", str(reason))
        except Exception as error:
            return _failed(self.name, error)
        return CheckResult(self.name, "passed")


class CheckList(Generic[S]):
    """The checks of one kind, in the order of their definition.

    >>> checks = CheckList()
    >>> @checks.add(needs=("sweet",))
    ... def check_sugar(subject):
    ...     "There is sugar in it."
    ...     require(subject.sugar > 0, f"it has {subject.sugar} g of sugar")
    >>> [check.name for check in checks], checks["check_sugar"].states
    (['check_sugar'], 'There is sugar in it.')
    """

    def __init__(self, checks: Iterable[Check[S]] = ()) -> None:
        self._checks = {check.name: check for check in checks}

    def add(self, needs: Iterable[str] = (), unless: Iterable[str] = ()) -> Callable[[Any], Any]:
        """Return a decorator that adds a function ``check_...(subject)`` under its own name."""

        def added(look: Callable[[S], None]) -> Callable[[S], None]:
            check = Check(look.__name__, look, frozenset(needs), frozenset(unless))
            self._checks[check.name] = check
            return look

        return added

    def extend(self, checks: Iterable[Check[S]]) -> None:
        """Append checks that are defined elsewhere."""
        self._checks |= {check.name: check for check in checks}

    def __iter__(self) -> Iterator[Check[S]]:
        return iter(self._checks.values())

    def __getitem__(self, name: str) -> Check[S]:
        return self._checks[name]

    def __len__(self) -> int:
        return len(self._checks)


def require(condition: bool, seen: str) -> None:
    """Raise :class:`CheckFailed` with the message ``seen`` if the condition does not hold.

    >>> require(1 + 1 == 2, "arithmetic is broken")
    """
    if not condition:
        raise CheckFailed(seen)


def _failed(name: str, error: Exception) -> CheckResult:
    message, raised = " ".join(str(error).split()), not isinstance(error, CheckFailed)
    return CheckResult(name, "failed", f"{type(error).__name__}: {message}" if raised else message, raised)


def _listed(tags: Iterable[str]) -> str:
    return ", ".join(repr(tag) for tag in sorted(tags))
