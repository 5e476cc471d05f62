"""Remember what a function of a tensor returned, for as long as the tensor lives unchanged."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps

from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from fgai_bench.fast.cuda_graphs import recording


def remembered(function: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """Compute a function that depends on its tensor alone once for that very tensor; one changed in place is a new one.

    Recorded work may not wait for the device; it finds the result of the round before the recording. Results of a
    recording are not remembered, since their memory belongs to it, nor are results with a gradient, which would keep
    their tensor alive. A result is shared, so do not change it.

    >>> import torch
    >>> calls = []
    >>> total = remembered(lambda values: calls.append(values) or values.sum())
    >>> values = torch.ones(2)
    >>> int(total(values)), int(total(values)), len(calls)
    (2, 2, 1)
    """
    known = WeakTensorKeyDictionary()

    @wraps(function)
    def once(values: Tensor) -> Tensor:
        version, result = known.get(values, (None, None))
        if version == values._version:
            return result
        result = function(values)
        if not recording() and not result.requires_grad:
            known[values] = values._version, result
        return result

    return once
