"""Options and search spaces: typed settings of suites, budgets, models and defenses, and the values a search may try.

A search space is declared on the class of a model or defense. It maps the name of a setting, ``"section.option"``, to
the values that may be tried. The sections are those of a suite's settings: ``training`` (the optimiser), ``model``,
``defense`` (the class's own options) and ``inner`` (the budget of its inner attack: a choice of the training, never the
threat model of the evaluation). What is wrong with given options becomes one sentence (:func:`sentence`). Nothing here
imports torch.
"""

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator


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
        """Refuse true, false and ``0-3`` where a number is due: they would be read as 1, 0 and -3."""
        for key, value in content.items() if isinstance(content, dict) else ():
            field = cls.model_fields.get(key)
            inner = value if isinstance(value, list | tuple) else (value,)
            odd = [i for i in inner if isinstance(i, bool) or (isinstance(i, str) and re.fullmatch(r"0+-\d+", i))]
            if field is not None and odd:
                kinds = _kinds(field.annotation)
                if kinds & {int, float} and type(odd[0]) not in kinds:
                    raise ValueError(f"{key}: a number is needed, not {odd[0]}")
        return content


def _kinds(annotation: Any) -> set[Any]:
    """Return the plain types that an annotation is made of: ``tuple[int, ...] | None`` is made of int and None."""
    parts = get_args(annotation)
    return set().union(*map(_kinds, parts)) if parts else {annotation}


SECTIONS = ("training", "model", "defense", "inner")


class Training(Options):
    """Settings of the optimiser, the same for every defense of a trial.

    Attributes:
        epochs: passes over the training nodes.
        lr: learning rate of Adam.
        weight_decay: of Adam.
        keep: the parameters of the ``best`` epoch on validation or of the ``last``; the defense's own choice if None.
    """

    epochs: int = Field(200, ge=0, le=1_000_000)
    lr: float = Field(0.01, gt=0, le=1e6)
    weight_decay: float = Field(5e-4, ge=0, le=1e6)
    keep: Literal["best", "last"] | None = None


class SpaceError(ValueError):
    """Raised when a declared search space makes no sense; the message names the setting."""


@dataclass(frozen=True, init=False)
class Choice:
    """One of some values: ``Choice(200, 400)``."""

    values: tuple[Any, ...]

    def __init__(self, *values: Any) -> None:
        object.__setattr__(self, "values", values)

    def __str__(self) -> str:
        return "one of " + ", ".join(str(value) for value in self.values)

    def __contains__(self, value: object) -> bool:
        return value in self.values


@dataclass(frozen=True)
class Range:
    """A number between two bounds, all equally likely: ``Range(0.0, 0.8)``; whole numbers if both bounds are."""

    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.low:g} to {self.high:g}"

    def __contains__(self, value: object) -> bool:
        return isinstance(value, int | float) and not isinstance(value, bool) and self.low <= value <= self.high


@dataclass(frozen=True)
class LogRange(Range):
    """A number between two positive bounds, all orders of magnitude equally likely: ``LogRange(1e-3, 1e-1)``."""

    def __str__(self) -> str:
        return f"{self.low:g} to {self.high:g}, by order of magnitude"


Dimension = Choice | Range
Space = Mapping[str, Dimension]

OPTIMISER: Space = {
    "training.lr": LogRange(1e-3, 3e-2),
    "training.weight_decay": LogRange(1e-5, 1e-2),
    "training.epochs": Choice(100, 200, 400),
}
"""The settings that every training has."""
OWN_NETWORK: Space = {"defense.hidden": Choice(16, 64), "defense.dropout": Range(0.0, 0.8)}
"""Those of the network that a defense trains in place of the model."""


def joined(*spaces: Space) -> dict[str, Dimension]:
    """Return one space of several, in which later ones win; raise if a name has no section or no values.

    >>> joined({"training.epochs": Choice(200)}, {"training.epochs": Choice(400)})
    {'training.epochs': Choice(values=(400,))}
    """
    space = {name: dimension for part in spaces for name, dimension in part.items()}
    for name, dimension in space.items():
        section, _, option = name.partition(".")
        if section not in SECTIONS or not option:
            raise SpaceError(f"{name!r} is no setting; write SECTION.OPTION with one of {', '.join(SECTIONS)}")
        if not isinstance(dimension, Choice | Range):
            raise SpaceError(f"{name}: {dimension!r} is neither a Choice nor a Range nor a LogRange")
    return space


def by_section(values: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return chosen values as the sections of a setting.

    >>> by_section({"training.lr": 0.01, "inner.nodes": 40})
    {'training': {'lr': 0.01}, 'inner': {'nodes': 40}}
    """
    sections: dict[str, dict[str, Any]] = {}
    for name, value in values.items():
        section, _, option = name.partition(".")
        sections.setdefault(section, {})[option] = value
    return sections


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
        text = " ".join(repr(first["input"]).split())
        short = text if len(text) <= 60 else text[:57] + "..."
        message = f"{key}: {first['msg'][:1].lower()}{first['msg'][1:]}, not {short}"
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
