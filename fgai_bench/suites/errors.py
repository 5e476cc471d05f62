"""Turn errors in a suite into one sentence that names the wrong key and the possible values."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import BaseModel, ValidationError


class SuiteError(ValueError):
    """Raised when a suite, or an override of one, cannot be run; the message is one sentence for its author."""


def sentence(error: ValidationError, model: type[BaseModel]) -> str:
    """Return the first error of a validation as one sentence, with the number of further errors.

    >>> from fgai_bench.defenses import Training
    >>> try:
    ...     Training(epochs=-1)
    ... except ValidationError as error:
    ...     print(sentence(error, Training))
    epochs: input should be greater than or equal to 0, not -1
    """
    findings = error.errors()
    first = findings[0]
    key = dotted(first["loc"])
    if first["type"] == "extra_forbidden":
        message = f"unknown key {key!r}{suggestion(str(first['loc'][-1]), keys_at(model, first['loc'][:-1]))}"
    elif first["type"] == "missing":
        message = f"the key {key!r} is missing"
    elif first["type"] == "value_error":
        message = f"{key}: {first['ctx']['error']}" if key else str(first["ctx"]["error"])
    else:
        message = f"{key}: {first['msg'][:1].lower()}{first['msg'][1:]}, not {_short(first['input'])}"
    return message if len(findings) == 1 else f"{message} (and {len(findings) - 1} more)"


def dotted(location: Iterable[int | str]) -> str:
    """Return a place in a document in dotted form: ``("attacks", 0, "name")`` is ``attacks[0].name``."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location).lstrip(".")


def suggestion(word: str, possible: Iterable[str]) -> str:
    """Return the end of an error message: the name that was probably meant, and all possible names."""
    names = sorted(possible)
    near = difflib.get_close_matches(word, names, n=1)
    meant = f"; did you mean {near[0]!r}?" if near else ""
    return f"{meant} (possible: {', '.join(names)})" if names else meant


def keys_at(model: type[BaseModel], location: Iterable[int | str]) -> list[str]:
    """Return the keys that the schema allows at a place of a document; none if it does not say."""
    current: Any = model
    for part in location:
        if isinstance(part, str):
            field = getattr(current, "model_fields", {}).get(part)
            current = _model_inside(field.annotation) if field is not None else None
    return list(getattr(current, "model_fields", {}))


def finite(value: Any, key: str = "") -> None:
    """Raise if a number in a document is not finite, as it could be neither compared nor hashed."""
    if isinstance(value, float) and value - value != 0:
        raise SuiteError(f"{key}: a finite number is needed, not {value}")
    if isinstance(value, Mapping):
        for name, inner in value.items():
            finite(inner, f"{key}.{name}".lstrip("."))
    elif isinstance(value, list | tuple):
        for index, inner in enumerate(value):
            finite(inner, f"{key}[{index}]")


def _model_inside(annotation: Any) -> Any:
    if hasattr(annotation, "model_fields"):
        return annotation
    return next((inside for part in getattr(annotation, "__args__", ()) if (inside := _model_inside(part))), None)


def _short(value: Any) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else text[:57] + "..."
