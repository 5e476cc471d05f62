"""Define ``fgai-bench evaluate``, which writes the card of a user's own network on a user's own graph."""

from __future__ import annotations

import inspect
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fgai_bench.cli.options import DeviceOption, folder_of, listed, whole
from fgai_bench.records.errors import RequestError

if TYPE_CHECKING:
    from torch import nn


def evaluate(
    function: Annotated[
        str,
        typer.Argument(
            metavar="MODULE:FUNCTION|FILE.py:FUNCTION",
            help="A function without arguments that returns (model, data): a trained network and a PyG graph.",
        ),
    ],
    attacks: Annotated[str, typer.Option(help="Names of attacks, as in injection,worst.")] = "injection,worst",
    threat: Annotated[
        str, typer.Option(help="auto (follows the graph), paper, or in-domain (like real nodes).")
    ] = "auto",
    weights: Annotated[
        Path | None, typer.Option(help="A .safetensors file with the network's parameters, loaded before.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="A folder for the card as a page, a table and a picture.", parser=folder_of)
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the first attack.", parser=whole)] = 0,
    split: Annotated[
        int, typer.Option(help="Which column of the masks, where they hold several splits.", parser=whole)
    ] = 0,
    device: DeviceOption = "auto",
) -> None:
    """Print how far the predictions and the attention of your own network can be trusted; nothing is trained."""
    from fgai_bench.run.preflight import resolved_device

    where = resolved_device(device)
    model, data = made(function)
    if weights is not None:
        from fgai_bench.zoo import load

        load(weights, model)
    from fgai_bench.api import evaluate as card_of

    names = listed(attacks) or ()
    card = card_of(model.to(where), data, names, threat, seed, split=split)  # type: ignore[arg-type]
    typer.echo(str(card))
    if out is not None:
        typer.echo(f"\nThe card is {card.to_html(out)}")


def made(path: str) -> tuple[nn.Module, Any]:
    """Call the function at ``MODULE:FUNCTION`` or ``FILE.py:FUNCTION`` and return its model and its graph."""
    from torch import nn

    from fgai_bench.plugins import imported

    source, _, name = path.rpartition(":")
    if not source or not name:
        raise RequestError(f"{path!r} names no function; write my_module:my_function or ./mine.py:my_function")
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    module = imported(source, "source")
    function = getattr(module, name, None)
    if not callable(function):
        raise RequestError(f"{source} has no function {name!r}")
    try:
        inspect.signature(function).bind()
    except TypeError as error:
        raise RequestError(f"{name} must be callable without arguments: {error}") from None
    result = function()
    if not isinstance(result, tuple | list) or len(result) != 2 or not isinstance(result[0], nn.Module):
        raise RequestError(f"{name} must return (model, data), a torch.nn.Module and a PyG graph, not {result!r:.60}")
    return result[0], result[1]
