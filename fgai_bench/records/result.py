"""The result of a step: measured facts, or a typed reason why there are none; and how a store keeps it."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import Any, Literal

from fgai_bench.records.canonical import encoded, plain

Kind = Literal["train", "clean", "attack", "certify", "measure", "effect", "explain", "agree", "audit", "validate"]
Status = Literal["ok", "oom", "timeout", "failed", "not-applicable"]
RETRIED: tuple[Status, ...] = ("oom", "timeout", "failed")
# Trust of a board in a step that was added to it: measured again, of a row that others of were, or only told.
AGAIN, SAMPLED, REPORTED = "measured again", "sampled", "reported"
COST = re.compile(r"\w+_(seconds|peak_mib)|epochs_timed|extrapolated")  # names of costs; no metric is called so
Curve = tuple[Sequence[float], Sequence[float]]
REASON, DETAIL, FLAGS = 2_000, 20_000, 100  # characters of a reason and of a traceback, number of flags
SLACK = 100  # characters over the limit that are not worth a cut; what was cut once is not cut again


@dataclass(frozen=True)
class RecordedStep:
    """A step as a store knows it.

    Attributes:
        hash: identity of the step, computed from ``config`` alone.
        config: everything that changes the result, as plain data.
        inputs: role to hash of the steps whose artifacts it needs: ``teacher``, ``model``, ``other``, ``attacked``,
            ``effects``.
        trial: hash of the training step whose model is trained or measured.
    """

    hash: str
    kind: Kind
    config: dict[str, Any] = field(compare=False)
    inputs: dict[str, str] = field(compare=False)
    trial: str


@dataclass(frozen=True)
class Result:
    """The outcome of one step: its values, or the status and the reason why there are none.

    Attributes:
        status: ``ok``, or the type of the cell that stands where a value would.
        reason, detail: one sentence and the traceback, when the status is not ``ok``.
        metrics: measured values; the same on every run of the same step on the same device.
        cost: seconds and memory; another on every run.
        not_applicable: metric to the reason why it has no value here.
        flags: reasons for distrust.
        facts: about the data: checksum, split hash, sizes.
        artifacts: role to content.
        started, seconds: since 1970, and wall time of the step.
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
    """Return a result that every store, terminal and page can hold: bounded words, no lone surrogates, plain numbers.

    >>> storable(Result("failed", "no file \\udcff")).reason
    'no file \\\\udcff'
    """
    flags = tuple(bounded(str(flag), REASON) for flag in result.flags[:FLAGS])
    more = len(result.flags) - FLAGS
    return replace(
        result,
        reason=bounded(result.reason, REASON),
        detail=bounded(result.detail, DETAIL),
        not_applicable={bounded(name, REASON): bounded(why, REASON) for name, why in result.not_applicable.items()},
        metrics={bounded(name, REASON): value for name, value in result.metrics.items()},
        curves={name: ([*map(float, x)], [*map(float, y)]) for name, (x, y) in result.curves.items()},
        flags=flags if more <= 0 else (*flags, f"{more} more flags were cut"),
    )


def bounded(text: str, limit: int) -> str:
    """Return the text with at most about ``limit`` characters: head and tail, and between them how many were cut.

    >>> bounded("a" * 100 + "b" * 100, 20)
    'aaaaaaaaaa [... 180 characters cut ...] bbbbbbbbbb'
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


def encoded_step(step: RecordedStep, result: Result, artifacts: Iterable[Mapping[str, Any]]) -> str:
    """Return everything that is recorded about a step as JSON; ``artifacts`` are its files: role, hash and size.

    What it measured and made are lists of rows, the tables of an export: ``metrics``, ``curves``, ``ledgers``,
    ``flags`` and ``artifacts``.
    """
    families = (("measure", result.metrics), ("cost", result.cost))
    metrics: list[dict[str, Any]] = [
        {"name": name, "family": family, "value": _finite_or_name(value), "reason": ""}
        for family, values in families
        for name, value in values.items()
    ]
    metrics += [
        {"name": name, "family": "measure", "value": None, "reason": reason}
        for name, reason in result.not_applicable.items()
    ]
    content = {
        **{key: getattr(step, key) for key in ("hash", "kind", "trial")},
        "config": plain(step.config),
        **{key: getattr(result, key) for key in ("status", "reason", "detail", "started", "seconds")},
        "facts": plain(result.facts),
        "environment": plain(result.environment),
        "metrics": sorted(metrics, key=lambda row: (row["name"], row["family"])),
        "curves": [{"name": name, "x": list(x), "y": list(y)} for name, (x, y) in sorted(result.curves.items())],
        "ledgers": [{"name": name, "value": _finite_or_name(value)} for name, value in sorted(result.ledger.items())],
        "flags": [{"position": position, "reason": reason} for position, reason in enumerate(result.flags)],
        "artifacts": sorted(artifacts, key=itemgetter("role")),
    }
    return encoded(content)


def _finite_or_name(value: float) -> float | str:
    """Return a number as records keep it: one that is not finite by its name, since a NaN is not equal to itself."""
    return value if math.isfinite(value) else str(value)


def result_of(step: Mapping[str, Any]) -> Result:
    """Return the result of a recorded step, without the content of its artifacts."""
    measured = [row for row in step["metrics"] if row["value"] is not None]
    metrics, cost = (
        {row["name"]: float(row["value"]) for row in measured if row["family"] == family}
        for family in ("measure", "cost")
    )
    return Result(
        step["status"],
        step["reason"],
        step["detail"],
        metrics=metrics,
        cost=cost,
        not_applicable={row["name"]: row["reason"] for row in step["metrics"] if row["value"] is None},
        curves={row["name"]: (row["x"], row["y"]) for row in step["curves"]},
        ledger={row["name"]: float(row["value"]) for row in step["ledgers"]},
        flags=tuple(row["reason"] for row in step["flags"]),
        facts=step["facts"],
        environment=step["environment"],
        started=step["started"],
        seconds=step["seconds"],
    )


def trust_of(labels: Iterable[str]) -> str:
    """Return the trust in a row from that in its steps, of which those that were not added have none.

    >>> trust_of(["", ""]), trust_of([AGAIN, SAMPLED]), trust_of([AGAIN, REPORTED])
    ('measured here', 'measured again', 'reported')
    """
    known = set(labels)
    return REPORTED if REPORTED in known else AGAIN if known - {""} else "measured here"
