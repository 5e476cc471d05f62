"""The card as JSON: what ``card.to_json()`` writes, as models whose JSON Schema is ``CardFile.model_json_schema()``."""

import math
from dataclasses import asdict
from typing import Any, Literal

from pydantic import BaseModel

from fgai_bench.card.judgement import Judgement


class CardNumber(BaseModel):
    """One number of a card, as :class:`.CardRow`; null stands for what is not a number."""

    part: Literal["prediction", "explanation"]
    quantity: str
    attack: str
    value: float | None
    low: float | None
    high: float | None
    null: float | None
    seeds: int
    nodes: int


class CardFile(BaseModel):
    """A card. ``format`` changes when a field changes its meaning or goes."""

    format: Literal[1] = 1
    title: str
    facts: dict[str, int]
    threat: dict[str, Any]
    score: str
    prediction: str
    explanation: str
    floor: float | None  # proven; null where nothing could be
    numbers: list[CardNumber]
    alarms: list[str]
    notes: list[str]
    seconds: dict[str, float]


def as_file(card: Judgement) -> CardFile:
    """Return a card as it is written."""
    floor, own = card.measured.floor, ("title", "facts", "prediction", "explanation", "alarms")
    numbers = [
        {key: None if isinstance(v, float) and not math.isfinite(v) else v for key, v in asdict(row).items()}
        for row in card.rows
    ]
    content = {name: getattr(card, name) for name in own} | {"notes": card.all_notes, "numbers": numbers}
    content |= {"score": card.measured.score, "seconds": card.measured.seconds}
    content |= {"threat": card.chosen.threat.model_dump(mode="json")}
    return CardFile.model_validate({**content, "floor": None if isinstance(floor, str) else floor.score})
