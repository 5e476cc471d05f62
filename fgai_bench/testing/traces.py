"""Detect side effects: changes to given models and graphs, and to the global random state."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from fgai_bench.testing.checks import require

M = TypeVar("M", bound=nn.Module)


@contextmanager
def no_trace_on(*things: nn.Module | Data) -> Iterator[None]:
    """Raise if a graph, a model or the global random state is not the same after the block as before.

    Compares of a graph its attributes and their values, of a model its parameters, buffers, gradients,
    ``requires_grad``, and the mode of each of its parts; and the random states of torch, NumPy and Python.
    """
    before = [_state(thing) for thing in (None, *things)]
    yield
    for thing, state in zip((None, *things), before, strict=True):
        after = _state(thing)
        for aspect in state.keys() | after.keys():
            require(aspect in after, f"{aspect} is gone")
            require(aspect in state, f"{aspect} is new")
            require(same(state[aspect], after[aspect]), f"{aspect} is not what it was")


def same(a: Any, b: Any) -> bool:
    """Tell whether two values are equal, to the last bit if they are tensors of either layout."""
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        if a.layout != b.layout or a.shape != b.shape or a.dtype != b.dtype:
            return False
        if a.layout == torch.sparse_csr:
            return all(torch.equal(f(a), f(b)) for f in (Tensor.crow_indices, Tensor.col_indices, Tensor.values))
        return torch.equal(a, b)
    return type(a) is type(b) and bool(a == b)


def disturbed(model: M) -> M:
    """Put the model into a state that side effects would destroy: mixed modes, a frozen parameter, gradients."""
    model.train()
    parts = list(model.modules())
    parts[-1].training = False
    parameters = list(model.parameters())
    for parameter in parameters:
        parameter.grad = torch.ones_like(parameter)
    parameters[0].requires_grad_(False)
    return model


def _state(thing: nn.Module | Data | None) -> dict[str, Any]:
    """Return all that could change of a thing, by name; of nothing, the global random states."""
    if thing is None:
        name, keys, *place = np.random.get_state()
        numpy_state = (name, np.asarray(keys).tobytes(), *place)
        states = {"torch": torch.get_rng_state(), "NumPy": numpy_state, "Python": random.getstate()}
        return {f"the global random state of {library}": state for library, state in states.items()}
    if isinstance(thing, Data):
        return {f"data.{key}": _kept(value) for key, value in thing.to_dict().items()}
    state: dict[str, Any] = {
        f"the mode of {name or 'the model'}": part.training for name, part in thing.named_modules()
    }
    state |= {f"the value of {name}": value.detach().clone() for name, value in thing.state_dict().items()}
    for name, parameter in thing.named_parameters():
        state[f"requires_grad of {name}"] = parameter.requires_grad
        state[f"the gradient of {name}"] = _kept(parameter.grad)
    return state


def _kept(value: Any) -> Any:
    return value.detach().clone() if isinstance(value, Tensor) else value
