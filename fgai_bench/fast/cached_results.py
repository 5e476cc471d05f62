"""Cache what a function of a tensor returned, for as long as the tensor lives unchanged."""

from collections.abc import Callable
from functools import update_wrapper
from typing import Any, Generic, TypeVar

from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

T = TypeVar("T")


class OncePerTensor(Generic[T]):
    """Cache the result of ``build(tensor, *further)`` as long as that very tensor lives unchanged.

    The key is the tensor object with its version counter and the further arguments: a tensor changed in place is a new
    one, and a tensor that nobody holds any more costs no memory. A result is shared, so do not change it.

    >>> import torch
    >>> calls = []
    >>> total = OncePerTensor(lambda values: calls.append(values) or values.sum())
    >>> values = torch.ones(2)
    >>> int(total(values)), int(total(values)), len(calls)
    (2, 2, 1)
    """

    def __init__(self, build: Callable[..., T]) -> None:
        self._build, self._memory = build, WeakTensorKeyDictionary()
        update_wrapper(self, build)

    def __call__(self, tensor: Tensor, *further: Any) -> T:
        known = self._memory.get(tensor)
        if known is None or known[0] != (tensor._version, *further):
            return self.remember(tensor, *further, self._build(tensor, *further))
        return known[1]

    def remember(self, tensor: Tensor, *further_and_value: Any) -> T:
        """Store the last argument as the result for the arguments before it, and return it."""
        *further, value = further_and_value
        self._memory[tensor] = ((tensor._version, *further), value)
        return value
