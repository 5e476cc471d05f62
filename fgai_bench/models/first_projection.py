"""Project the rows of a graph once: an attack that adds nodes leaves all other rows of the product as they were."""

from __future__ import annotations

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


class FirstProjections:
    """Let the linear layers of a module that see the node features themselves compute only rows that are new.

    ``linear(cat([known, new])) = cat([linear(known), linear(new)])``, and ``linear(known)`` is remembered while the
    layer's parameters do not change. A layer that is given anything else than the very features that :meth:`appended`
    made computes as always.
    """

    def __init__(self, module: nn.Module) -> None:
        self._known: Shared | None = None
        self._appended: tuple[Tensor, Tensor] | None = None  # the features, and those of their rows that are new
        self._pass: tuple[Tensor, Tensor] | None = None
        self._products: dict[int, tuple[tuple[int, ...], Tensor]] = {}
        for number, layer in enumerate(module.modules()):
            if isinstance(layer, Linear | nn.Linear):
                layer.forward = _Projected(self, number, layer)  # type: ignore[method-assign]

    def remember(self, x: Tensor) -> None:
        """Take these rows for the known ones."""
        self._known = Shared(x)
        self._products.clear()

    @property
    def known(self) -> Tensor | None:
        """Return the rows that are known, dense."""
        return None if self._known is None else self._known.tensor

    def appended(self, rows: Tensor, new: Tensor) -> Tensor:
        """Return rows with new ones after them, and note whether the first of them are the known ones."""
        longer = torch.cat([rows, new])
        self._appended = (longer, new) if rows is self.known else None
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
