"""Declare the options of models, readable without torch, so that a wrong one is found before anything is trained."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from fgai_bench.options import Options

InputNorm = Literal["none", "row"]
Heads = Annotated[int, Field(ge=1, le=1024)]


class AttentionOptions(Options):
    """Options of GAT and GATv2; :class:`fgai_bench.models.base.StackedAttention` says what they mean."""

    hidden: int = Field(8, ge=1, le=65_536)
    heads: tuple[Heads, ...] = (8,)
    dropout: float = Field(0.6, ge=0, lt=1)
    attention_dropout: float = Field(0.6, ge=0, lt=1)
    input_norm: InputNorm = "none"
    layer_norm: bool = False


class GTOptions(AttentionOptions):
    """Options of the graph transformer, whose read-out quarters its width."""

    hidden: int = Field(128, ge=4, le=65_536)
    heads: tuple[Heads, ...] = Field((8, 1), min_length=1)
