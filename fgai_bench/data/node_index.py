"""Read sets of nodes: boolean masks, one of several masks, or vectors of node numbers."""

from typing import Any

import torch
from torch import Tensor

from fgai_bench.data.errors import DataError


def node_index(value: Any, num_nodes: int, what: str, column: int = 0) -> Tensor:
    """Return nodes as sorted indices: of a boolean mask ``(N,)``, one column of masks ``(N, S)``, or an index vector.

    >>> node_index(torch.tensor([True, False, True]), 3, "test_mask").tolist()
    [0, 2]
    >>> node_index(torch.tensor([2, 0]), 3, "test_index").tolist()
    [0, 2]
    >>> node_index(torch.tensor([7]), 3, "test_index")
    Traceback (most recent call last):
    ...
    fgai_bench.data.errors.DataError: test_index names the node 7, but the graph has 3 nodes
    """
    value = torch.as_tensor(value)
    mask = value.dtype == torch.bool or _looks_like_a_mask(value, num_nodes)
    if mask:
        if value.shape[0] != num_nodes or value.dim() > 2:
            raise DataError(f"{what} is a mask of the shape {tuple(value.shape)}, but the graph has {num_nodes} nodes")
        if value.dim() == 2:
            if not 0 <= column < value.shape[1]:
                raise DataError(f"{what} holds {value.shape[1]} splits, counted from 0; there is no split {column}")
            value = value[:, column]
        return value.bool().nonzero().view(-1)
    if value.dim() != 1 or value.is_floating_point():
        kind = f"{str(value.dtype).removeprefix('torch.')} of the shape {tuple(value.shape)}"
        raise DataError(f"{what} must be a boolean mask or a vector of node numbers, not {kind}")
    outside = value[(value < 0) | (value >= num_nodes)]
    if outside.numel():
        raise DataError(f"{what} names the node {int(outside[0])}, but the graph has {num_nodes} nodes")
    index = value.long().unique()
    if index.numel() != value.numel():
        raise DataError(f"{what} names a node twice")
    return index


def _looks_like_a_mask(value: Tensor, num_nodes: int) -> bool:
    """Tell whether numbers are a mask written with 0 and 1: one per node, and no index vector has two equal entries."""
    full = value.dim() in (1, 2) and value.shape[0] == num_nodes and num_nodes > 2
    return full and bool(((value == 0) | (value == 1)).all())
