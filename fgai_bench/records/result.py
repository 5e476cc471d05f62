"""The result of a step: measured facts, or a typed reason why there are none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

Status = Literal["ok", "oom", "timeout", "failed", "not-applicable"]
RETRIED: tuple[Status, ...] = ("oom", "timeout", "failed")
Curve = tuple[Sequence[float], Sequence[float]]
REASON, DETAIL, FLAGS = 2_000, 20_000, 100  # characters of a reason and of a traceback, number of flags
SLACK = 100  # characters over the limit that are not worth a cut; what was cut once is not cut again


@dataclass(frozen=True)
class Result:
    """The outcome of one step: its values, or the status and the reason why there are none.

    Attributes:
        status: ``ok``, or the type of the cell that stands where a value would.
        reason: one sentence, when the status is not ``ok``.
        detail: the traceback of a failure.
        metrics: measured values; the same on every run of the same step on the same device.
        cost: seconds and memory; another on every run.
        not_applicable: metric to the reason why it has no value here.
        curves: name to x and y.
        ledger: what an attack spent.
        flags: reasons for distrust.
        facts: about the data: checksum, split hash, sizes.
        artifacts: role to content.
        environment: where it ran.
        started: seconds since 1970.
        seconds: wall time of the step.
    """

    status: Status = "ok"
    reason: str = ""
    detail: str = ""
    metrics: Mapping[str, float] = field(default_factory=dict)
    cost: Mapping[str, float] = field(default_factory=dict)
    not_applicable: Mapping[str, str] = field(default_factory=dict)
    curves: Mapping[str, Curve] = field(default_factory=dict)
    ledger: Mapping[str, float] = field(default_factory=dict)
    flags: tuple[str, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    artifacts: Mapping[str, bytes] = field(default_factory=dict)
    environment: Mapping[str, Any] = field(default_factory=dict)
    started: float = 0.0
    seconds: float = 0.0


def storable(result: Result) -> Result:
    """Return a result whose words every store, terminal and page can hold: of bounded length, without lone surrogates.

    >>> storable(Result("failed", "no file \\udcff")).reason
    'no file \\\\udcff'
    """
    flags = tuple(bounded(flag, REASON) for flag in result.flags[:FLAGS])
    more = len(result.flags) - FLAGS
    return replace(
        result,
        reason=bounded(result.reason, REASON),
        detail=bounded(result.detail, DETAIL),
        not_applicable={bounded(name, REASON): bounded(why, REASON) for name, why in result.not_applicable.items()},
        metrics={bounded(name, REASON): value for name, value in result.metrics.items()},
        flags=flags if more <= 0 else (*flags, f"{more} more flags were cut"),
    )


def bounded(text: str, limit: int) -> str:
    """Return the text with at most about ``limit`` characters: head and tail, and between them how many were cut.

    >>> bounded("a" * 100 + "b" * 100, 20)
    'aaaaaaaaaa [... 180 characters cut ...] bbbbbbbbbb'
    >>> bounded("short", 20)
    'short'
    """
    text = text.encode("utf-8", "backslashreplace").decode()
    if len(text) <= limit + SLACK:
        return text
    half = limit // 2
    return f"{text[:half]} [... {len(text) - 2 * half} characters cut ...] {text[len(text) - half :]}"


def blocked(role: str, cause: Result) -> Result:
    """Return the result of a step that builds on one without an artifact: the status and the reason of that one.

    >>> blocked("model", Result("oom", "needs 214 GiB")).reason
    'its model is missing: needs 214 GiB'
    """
    status: Status
    if cause.status != "ok":
        status, reason = cause.status, cause.reason
    elif cause.flags:  # a training that was stopped once its cost was known
        status, reason = "timeout", cause.flags[0]
    else:
        status, reason = "failed", "the step that should have made it gave none"
    return Result(status, f"its {role} is missing: {reason}", environment=cause.environment)
