"""Define the settings of the optimiser, readable without torch."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class Training(BaseModel):
    """Settings of the optimiser, the same for every defense of a trial."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    epochs: int = Field(200, ge=0)
    lr: float = Field(0.01, gt=0)
    weight_decay: float = Field(5e-4, ge=0)
