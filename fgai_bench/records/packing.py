"""Pack models, attacked graphs, audits and histories into the bytes of safetensors files and back, without pickle."""

import importlib
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors import torch as tensors
from safetensors.numpy import save
from torch_geometric.data import Data

from fgai_bench.data.checksum import graph_sha256
from fgai_bench.data.extend import row_differences
from fgai_bench.explainers import EdgeScores
from fgai_bench.models import AttentionModel, build_model
from fgai_bench.models.features import append_rows, dense_rows, replace_rows
from fgai_bench.records.canonical import canonical
from fgai_bench.records.errors import RequestError
from fgai_bench.tasks.definition1 import Audit
from fgai_bench.tasks.explanations import Effects

# One entry only: the order of several is not fixed, and equal content must have equal bytes.
META = "fgai_bench"
PARTS = ("edges", "features", "changed", "changed_features")  # of an attacked graph


def pack_model(model: AttentionModel) -> bytes:
    """Pack the parameters and buffers of a model, with its class and the arguments it was made with."""
    known = {key: value for key, value in model.config.items() if is_plain(value)}
    about = canonical({"class": _path_of(type(model)), "config": known})
    return _saved(model.state_dict(), about)


def unpack_model(content: bytes, config: Mapping[str, Any], in_channels: int, num_outputs: int) -> AttentionModel:
    """Return the model of a trial's configuration with the packed parameters, on the CPU, in evaluation mode.

    A defense may have changed the model's arguments, or put another class in its place; both are in the file.
    """
    return rebuilt_model(content, build_model(config["name"], in_channels, num_outputs, **config["options"]))


def rebuilt_model(content: bytes, built: AttentionModel | None = None) -> AttentionModel:
    """Return the model of a file, made as ``built`` is if it is of that class, else from what the file says alone."""
    about = _metadata(content)
    if built is not None and about["class"] == _path_of(type(built)):
        model = built.rebuilt(**about["config"])
    else:
        model = _class_at(about["class"])(**about["config"])
    model.load_state_dict(tensors.load(content))
    return model.eval()


def graph_digest(clean: Data) -> str:
    """Return the SHA-256 of a graph that attacks start from: its features and edges, in their order."""
    return graph_sha256(Data(x=clean.x, edge_index=clean.edge_index, y=torch.zeros(0)))


def pack_attacked(clean: Data, attacked: Data) -> bytes:
    """Pack the changes of an attack, as a safetensors file whose metadata name the clean graph by its digest.

    ====================  ================================================================================
    ``edges``             ``(2, E)`` new edges, in both directions; injected nodes are numbered after the others
    ``features``          ``(n, F)`` features of the injected nodes
    ``changed``           ``(m,)`` existing nodes whose features change; ``changed_features`` ``(m, F)``: theirs
    ====================  ================================================================================
    """
    nodes, edges = clean.x.shape[0], clean.edge_index.size(1)
    new = torch.arange(nodes, attacked.x.shape[0], device=attacked.edge_index.device)
    parts = {"edges": attacked.edge_index[:, edges:], "features": dense_rows(attacked.x, new)}
    rows = row_differences(clean.x, attacked.x).nonzero().squeeze(1)
    if rows.numel():
        parts |= {"changed": rows, "changed_features": dense_rows(attacked.x, rows)}
    return _saved(parts, canonical({"clean": graph_digest(clean)}))


def pack_audit(audit: Audit) -> bytes:
    """Pack the findings of an audit at every node."""
    parts = {field.name: getattr(audit, field.name) for field in fields(audit) if field.name != "radii"}
    parts["radii"] = torch.tensor(audit.radii, dtype=torch.float64)
    return _saved(parts)


def pack_effects(effects: Effects) -> bytes:
    """Pack the true effects of edges before and after an attack."""
    parts = {
        f"{side}.{field.name}": getattr(getattr(effects, side), field.name)
        for side in ("clean", "attacked")
        for field in fields(EdgeScores)
    }
    parts["steady"] = effects.steady
    return _saved({name: part.clone() for name, part in parts.items()})  # both share their nodes


def unpack_effects(content: bytes, device: torch.device) -> Effects:
    """Return the effects that :func:`pack_effects` packed, on a device."""
    parts = {name: part.to(device) for name, part in tensors.load(content).items()}
    clean, attacked = (
        EdgeScores(**{field.name: parts[f"{side}.{field.name}"] for field in fields(EdgeScores)})
        for side in ("clean", "attacked")
    )
    return Effects(clean, attacked, parts["steady"])


def unpack_attacked(clean: Data, content: bytes) -> Data:
    """Return the attacked graph, on the device of the clean one; its labels are not part of the file."""
    return changed_graph(clean, tensors.load(content))


def checked_attacked(clean: Data, content: bytes) -> Data:
    """Return the attacked graph of a file that somebody hands over; raise if it is no file of this graph's changes."""
    try:
        parts = tensors.load(content)
    except (SafetensorError, ValueError) as error:
        raise RequestError(f"the file is no safetensors file: {' '.join(str(error).split())}") from None
    if parts.pop("removed", torch.empty(0)).numel():
        raise RequestError("the graph removes edges; in every threat model the original edges stay")
    if unknown := sorted(parts.keys() - {*PARTS}):
        raise RequestError(f"the file has a tensor {unknown[0]!r}; possible are {', '.join(PARTS)}")
    if clean_of(content) != graph_digest(clean):
        raise RequestError("the file is a difference from another clean graph than the row's, or names none")
    (nodes, width), whole = clean.x.shape, torch.empty(2, 0, dtype=torch.long)
    empty = (whole, torch.empty(0, width), whole[0], torch.empty(0, width))
    for name, absent in zip(PARTS, empty, strict=True):
        part = parts.setdefault(name, absent)
        if part.is_floating_point() != absent.is_floating_point() or part.dim() != absent.dim():
            kind = "floating-point" if absent.is_floating_point() else "whole"
            raise RequestError(f"{name} must have {kind} numbers along {absent.dim()} axes")
        if not bool(torch.isfinite(part).all()):
            raise RequestError(f"{name} has a value that is NaN or infinite")
        parts[name] = part.to(absent.dtype)
    wide = parts["features"].shape[1] == width == parts["changed_features"].shape[1]
    if parts["edges"].shape[0] != 2 or not wide or len(parts["changed"]) != len(parts["changed_features"]):
        raise RequestError(f"edges must have two rows, features {width} columns, each changed node a row of features")
    for name, limit in (("edges", nodes + len(parts["features"])), ("changed", nodes)):
        if parts[name].numel() and not 0 <= int(parts[name].min()) <= int(parts[name].max()) < limit:
            raise RequestError(f"{name} names a node that is not there; nodes are numbered from 0 to {limit - 1}")
    return changed_graph(clean, parts)


def changed_graph(clean: Data, difference: Mapping[str, torch.Tensor]) -> Data:
    """Return a graph with the changes that :func:`pack_attacked` lists, on the device of the clean one."""
    parts = {name: part.to(clean.edge_index.device) for name, part in difference.items()}
    x = clean.x
    if "changed" in parts and parts["changed"].numel():
        x = replace_rows(x, parts["changed"], parts["changed_features"])
    if parts["features"].numel():
        x = append_rows(x, parts["features"])
    return Data(x=x, edge_index=torch.cat([clean.edge_index, parts["edges"]], dim=1))


def pack_history(history: Sequence[Mapping[str, float]]) -> bytes:
    """Pack the value of every term of the loss per epoch: one array of float64 for each term."""
    names = sorted({name for row in history for name in row})
    return save({name: np.array([row.get(name, np.nan) for row in history], np.float64) for name in names})


def clean_of(content: bytes) -> str:
    """Return the digest of the clean graph that a packed attacked graph names; empty if it names none."""
    try:
        return str(_metadata(content)["clean"])
    except (KeyError, ValueError, TypeError):
        return ""


def _saved(parts: Mapping[str, torch.Tensor], about: str = "") -> bytes:
    """Return tensors, and what they say of themselves, as the bytes of a safetensors file."""
    state = {name: part.detach().cpu().contiguous() for name, part in parts.items()}
    return tensors.save(state, {META: about} if about else None)


def _metadata(content: bytes) -> dict[str, Any]:
    """Return what a packed model or graph says of itself."""
    size = int.from_bytes(content[:8], "little")
    about: dict[str, Any] = json.loads(json.loads(content[8 : 8 + size])["__metadata__"][META])
    return about


def _path_of(kind: type) -> str:
    return f"{kind.__module__}:{kind.__qualname__}"


def _class_at(path: str) -> type[AttentionModel]:
    """Return the class that a file names, or raise a ``TypeError`` if it is not a model.

    A file makes the program import nothing but its own models: a plugin's module is here if the plugin was named.
    """
    module, _, name = path.partition(":")
    if module.startswith(("fgai_bench.models.", "fgai_bench.defenses.")):
        importlib.import_module(module)
    if module not in sys.modules:
        raise TypeError(f"the model is a {path} of a plugin; name it with --plugin")
    kind = getattr(sys.modules[module], name, None)
    if not (isinstance(kind, type) and issubclass(kind, AttentionModel)):
        raise TypeError(f"{path} is not a model")
    return kind


def is_plain(value: Any) -> bool:
    """Tell whether the value is a string, a number, a boolean, None, or a list or tuple of such values."""
    return isinstance(value, str | int | float | bool | None) or (
        isinstance(value, list | tuple) and all(is_plain(inner) for inner in value)
    )
