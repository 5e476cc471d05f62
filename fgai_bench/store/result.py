"""The result of a step: measured facts, or a typed reason why there are none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Status = Literal["ok", "oom", "timeout", "failed", "not-applicable"]
RETRIED: tuple[Status, ...] = ("oom", "timeout", "failed")
Curve = tuple[Sequence[float], Sequence[float]]


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
