"""Define a check: one property that an entry must have, the tags that select it, and the result of running it."""

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from traceback import walk_tb
from typing import Any, Literal

from fgai_bench.registry import Entry

LIBRARIES = {"fgai_bench", "torch", "torch_geometric", "numpy", "pydantic", *sys.stdlib_module_names}
Status = Literal["passed", "failed", "skipped"]


@dataclass(frozen=True)
class EntrySubject:
    """A registered entry as the subject of the checks of its kind; its tags decide which of them apply."""

    entry: Entry[Any]

    @property
    def tags(self) -> frozenset[str]:
        return self.entry.tags


class CheckFailed(AssertionError):
    """Raised when the property does not hold; the message says what was observed."""


class CheckSkipped(Exception):
    """Raised when the property cannot be checked here; the message says why."""


@dataclass(frozen=True)
class CheckResult:
    """The result of one check: its name, its status, and what was observed or why it was skipped."""

    name: str
    status: Status
    message: str = ""


@dataclass(frozen=True)
class Check:
    """A property that an entry must have: of those with the tags ``needs``, and of none with a tag of ``unless``.

    ``look`` raises :class:`CheckFailed` if the property does not hold; its docstring states the property.
    """

    name: str
    look: Callable[[Any], None]
    needs: frozenset[str] = frozenset()
    unless: frozenset[str] = frozenset()

    def run(self, subject: Any) -> CheckResult:
        """Run the check; an exception that the subject raises becomes a failed result and never reaches the caller."""
        try:
            missing, exempt = self.needs - subject.tags, self.unless & subject.tags
            if missing or exempt:
                rule = f"only with the tag {_listed(missing)}" if missing else f"not with the tag {_listed(exempt)}"
                return CheckResult(self.name, "skipped", rule)
            self.look(subject)
        except CheckSkipped as reason:
            return CheckResult(self.name, "skipped", str(reason))
        except CheckFailed as observed:
            return CheckResult(self.name, "failed", str(observed))
        except Exception as error:
            sentence = f"{type(error).__name__}: {' '.join(str(error).split())}"
            return CheckResult(self.name, "failed", f"{sentence}{_place(error)}")
        return CheckResult(self.name, "passed")


def tagged(needs: Iterable[str] = (), unless: Iterable[str] = ()) -> Callable[[Any], Any]:
    """Return a decorator that limits a check to entries with the tags ``needs`` and none of ``unless``."""

    def limited(look: Any) -> Any:
        look.needs, look.unless = frozenset(needs), frozenset(unless)
        return look

    return limited


def checks_in(subject: Any) -> list[Check]:
    """Return the functions ``check_...`` of the module that defines a subject, in order, and its ``FURTHER_CHECKS``."""
    names = vars(sys.modules[subject.__module__])
    own = [look for name, look in names.items() if name.startswith("check_") and look.__module__ == subject.__module__]
    none: frozenset[str] = frozenset()
    checks = [Check(look.__name__, look, getattr(look, "needs", none), getattr(look, "unless", none)) for look in own]
    return [*checks, *names.get("FURTHER_CHECKS", ())]


def require(condition: bool, seen: str) -> None:
    """Raise :class:`CheckFailed` with the message ``seen`` if the condition does not hold."""
    if not condition:
        raise CheckFailed(seen)


def _place(error: Exception) -> str:
    """Return the file and line of the last code in the traceback that is no library's: where a plugin went wrong."""
    frames = [(frame.f_globals.get("__name__", ""), frame, line) for frame, line in walk_tb(error.__traceback__)]
    own = [(frame, line) for name, frame, line in frames if name.partition(".")[0] not in LIBRARIES]
    return f" ({own[-1][0].f_code.co_filename}, line {own[-1][1]})" if own else ""


def _listed(tags: Iterable[str]) -> str:
    return ", ".join(repr(tag) for tag in sorted(tags))
