"""Define the settings of the optimiser, readable without torch."""

from __future__ import annotations

from pydantic import Field

from fgai_bench.options import Options


class Training(Options):
    """Settings of the optimiser, the same for every defense of a trial.

    Attributes:
        epochs: passes over the training nodes.
        lr: learning rate of Adam.
        weight_decay: of Adam.
    """

    epochs: int = Field(200, ge=0, le=1_000_000)
    lr: float = Field(0.01, gt=0, le=1e6)
    weight_decay: float = Field(5e-4, ge=0, le=1e6)


class GCNOptions(Options):
    """The size of the graph convolutional network that a defense trains in place of the model."""

    hidden: int = Field(16, ge=1, le=65_536)
    dropout: float = Field(0.5, ge=0, lt=1)
