"""Project the rows of a graph once: an attack that adds nodes leaves all other rows of the product as they were."""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.nn.dense.linear import Linear


class Shared:
    """A tensor that copies of its owner share, as they share the graph that it belongs to."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor

    def __deepcopy__(self, memory: Any) -> Shared:
        return self


class _NewRows(torch.autograd.Function):
    """Write new rows at the end of features, of which they are the only part that has a gradient."""

    @staticmethod
    def forward(ctx: Any, features: Tensor, new: Tensor) -> Tensor:
        ctx.mark_dirty(features)
        ctx.first = features.shape[0] - new.shape[0]
        features[ctx.first :] = new
        return features

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor]:
        return None, grad[ctx.first :]


class RoomForRows:
    """Features with room for new rows at their end, so that a search need not copy all others at every step.

    What was returned last must be forgotten before the room is used again; otherwise rows are joined as always. A room
    that somebody else wrote into, as a module that works in place, is given up. A copy of the owner has its own.
    """

    def __init__(self) -> None:
        self._room: Tensor | None = None
        self._version = 0
        self._last: weakref.ref[Tensor] | None = None

    def __deepcopy__(self, memory: Any) -> RoomForRows:
        return RoomForRows()

    def joined(self, rows: Tensor, new: Tensor) -> Tensor:
        """Return ``cat([rows, new])``; ``rows`` are the same in every call."""
        if self._last is not None and self._last() is not None:
            return torch.cat([rows, new])
        room, size = self._room, rows.shape[0] + new.shape[0]
        if room is None or room.shape[0] != size or room._version != self._version:
            room = self._room = torch.cat([rows, new.detach()])
        longer: Tensor = _NewRows.apply(room.detach(), new)
        self._version, self._last = room._version, weakref.ref(longer)
        return longer


class FirstProjections:
    """Let the linear layers of a module that see the node features themselves compute only rows that are new.

    ``linear(cat([known, new])) = cat([linear(known), linear(new)])``, and ``linear(known)`` is remembered while the
    layer's parameters do not change. A layer that is given anything else than the very features that :meth:`appended`
    made computes as always.
    """

    def __init__(self, module: nn.Module) -> None:
        self._known: Shared | None = None
        self._room = RoomForRows()
        self._appended: tuple[Tensor, Tensor] | None = None  # the features, and those of their rows that are new
        self._pass: tuple[Tensor, Tensor] | None = None
        self._products: dict[int, tuple[tuple[int, ...], Tensor]] = {}
        for number, layer in enumerate(module.modules()):
            if isinstance(layer, Linear | nn.Linear):
                layer.forward = _Projected(self, number, layer)  # type: ignore[method-assign]

    def remember(self, x: Tensor) -> None:
        """Take these rows for the known ones."""
        self._known, self._room = Shared(x), RoomForRows()
        self._products.clear()

    @property
    def known(self) -> Tensor | None:
        """Return the rows that are known, dense."""
        return None if self._known is None else self._known.tensor

    def appended(self, rows: Tensor, new: Tensor, constant: bool) -> Tensor:
        """Return rows with new ones after them, and note whether the first of them are the known ones.

        ``constant``: the module's parameters need no gradient, so that nothing has to keep the features of a pass.
        """
        if rows is not self.known:
            self._appended = None
            return torch.cat([rows, new])
        longer = self._room.joined(rows, new) if constant else torch.cat([rows, new])
        self._appended = (longer, new)
        return longer

    def begin(self, h: Tensor, constant: bool) -> None:
        """Prepare a pass through the module on features ``h``; ``constant``: its parameters need no gradient."""
        given = constant and self._appended is not None and h is self._appended[0]
        self._pass = self._appended if given else None

    def end(self) -> None:
        """Forget the features of the pass that is over."""
        self._pass = self._appended = None

    def sees(self, x: Tensor) -> bool:
        """Tell whether these are the features of this pass, of which the first rows are known."""
        return self._pass is not None and x is self._pass[0]

    def product(self, number: int, layer: Any, x: Tensor) -> Tensor | None:
        """Return the layer's product with the features of this pass; None for anything else."""
        if self._pass is None or x is not self._pass[0] or self.known is None:
            return None
        state = tuple(version for parameter in layer.parameters() for version in (id(parameter), parameter._version))
        remembered = self._products.get(number)
        if remembered is None or remembered[0] != state:
            with torch.no_grad():
                remembered = self._products[number] = (state, type(layer).forward(layer, self.known))
        return torch.cat([remembered[1], type(layer).forward(layer, self._pass[1])])


class _Projected:
    """The forward of one layer, by way of what is remembered where that is possible."""

    def __init__(self, projections: FirstProjections, number: int, layer: nn.Module) -> None:
        self.projections, self.number, self.layer = projections, number, layer

    def __call__(self, *args: Any, **kwargs: Any) -> Tensor:
        product = self.projections.product(self.number, self.layer, args[0]) if args else None
        if product is not None:
            return product
        result: Tensor = type(self.layer).forward(self.layer, *args, **kwargs)
        return result
