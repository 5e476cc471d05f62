"""Define the base of everything with typed options (suites, budgets, models, defenses, audits), without torch."""

from __future__ import annotations

from typing import Any, get_args

from pydantic import BaseModel, ConfigDict, model_validator


class Options(BaseModel):
    """Values that cannot be changed; an unknown key is an error, as are NaN, infinity, and true or false for a number.

    >>> class Step(Options):
    ...     size: float = 0.1
    >>> Step(size=True)
    Traceback (most recent call last):
    ...
    pydantic_core._pydantic_core.ValidationError: 1 validation error for Step
      Value error, size: a number is needed, not True ...
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _truth_is_no_number(cls, content: Any) -> Any:
        """Refuse true and false where a number is due: Python would count them as 1 and 0."""
        for key, value in content.items() if isinstance(content, dict) else ():
            field = cls.model_fields.get(key)
            inner = value if isinstance(value, list | tuple) else (value,)
            if field is not None and any(isinstance(item, bool) for item in inner):
                kinds = _kinds(field.annotation)
                if kinds & {int, float} and bool not in kinds:
                    raise ValueError(f"{key}: a number is needed, not {next(i for i in inner if isinstance(i, bool))}")
        return content


def _kinds(annotation: Any) -> set[Any]:
    """Return the plain types that an annotation is made of: ``tuple[int, ...] | None`` is made of int and None."""
    parts = get_args(annotation)
    return set().union(*map(_kinds, parts)) if parts else {annotation}
