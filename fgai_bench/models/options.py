"""Declare the options of models, readable without torch, so that a wrong one is found before anything is trained."""

from typing import Annotated, Literal

from pydantic import Field

from fgai_bench.options import Options

InputNorm = Literal["none", "row"]
Heads = Annotated[int, Field(ge=1, le=1024)]


class AttentionOptions(Options):
    """Options of GAT and GATv2.

    Attributes:
        hidden: channels per head of the hidden layers.
        heads: heads of each hidden layer.
        dropout: on the input of every layer, while training.
        attention_dropout: on the attention weights, while training.
        input_norm: ``none``, or ``row`` for feature rows that sum to one in magnitude.
        layer_norm: layer normalisation of the input of every layer after the first.
        self_loops: whether a node with neighbours also sees itself; one without neighbours always does.
        output_activation: ``none``, or ``elu`` of the logits.
        score_clip: c, for scores ``c tanh(s / c)`` that lie between -c and c; None leaves them as they are.
    """

    hidden: int = Field(8, ge=1, le=65_536)
    heads: tuple[Heads, ...] = (8,)
    dropout: float = Field(0.6, ge=0, lt=1)
    attention_dropout: float = Field(0.6, ge=0, lt=1)
    input_norm: InputNorm = "none"
    layer_norm: bool = False
    self_loops: bool = True
    output_activation: Literal["none", "elu"] = "none"
    score_clip: float | None = Field(None, gt=0, le=100)

    def layers(self, outputs: int) -> list[tuple[int, int]]:
        """Return width and heads of every layer, for forecasts."""
        return [*((self.hidden * heads, heads) for heads in self.heads), (outputs, 1)]


class OneHopOptions(AttentionOptions):
    """Options of the networks with one attention layer.

    Attributes:
        hidden: width of the embedded features.
        heads: of the one layer; their outputs are averaged.
        skip: add a linear function of the node's own embedding.
        layer_norm: layer normalisation of the embedded features before the attention.
    """

    hidden: int = Field(64, ge=1, le=65_536)
    heads: tuple[Heads, ...] = Field((8,), min_length=1, max_length=1)
    dropout: float = Field(0.5, ge=0, lt=1)
    attention_dropout: float = Field(0.5, ge=0, lt=1)
    skip: bool = True

    def layers(self, outputs: int) -> list[tuple[int, int]]:
        """Return width and heads of the one layer, for forecasts."""
        return [(self.hidden + outputs * self.heads[0], self.heads[0])]


class MLPOptions(Options):
    """Options of the perceptron.

    Attributes:
        hidden: width of the hidden layer.
        dropout: on the input of both layers, while training.
        input_norm, layer_norm: as in :class:`AttentionOptions`.
    """

    hidden: int = Field(64, ge=1, le=65_536)
    dropout: float = Field(0.5, ge=0, lt=1)
    input_norm: InputNorm = "none"
    layer_norm: bool = False

    def layers(self, outputs: int) -> list[tuple[int, int]]:
        """Return width and heads of every layer, for forecasts; no layer has attention."""
        return [(self.hidden, 0), (outputs, 0)]


class GTOptions(AttentionOptions):
    """Options of the graph transformer: ``hidden`` is the width of its blocks, whose read-out quarters it.

    ``layer_norm`` means layer instead of batch normalisation in the blocks.
    """

    hidden: int = Field(128, ge=4, le=65_536)
    heads: tuple[Heads, ...] = Field((8, 1), min_length=1)

    def layers(self, outputs: int) -> list[tuple[int, int]]:
        """Return width and heads of every layer, for forecasts; the read-out is small beside them."""
        return [(self.hidden, heads) for heads in self.heads]
