r"""Bound a coverage problem from above: how many nodes can E chosen nodes cover at most?

With the 0/1 matrix B of who covers whom, the problem is :math:`\max \sum_v y_v` with
:math:`y_v \le \sum_a B_{av} x_a`, :math:`\sum_a x_a \le E` and x, y in {0, 1}.
For any prices :math:`0 \le \lambda_v \le 1`

.. math::
    \sum_v y_v \le \sum_v (1 - \lambda_v) + \sum_v \lambda_v \sum_a B_{av} x_a
    \le \sum_v (1 - \lambda_v) + \text{the } E \text{ largest } (B \lambda)_a ,

because :math:`y_v = (1 - \lambda_v) y_v + \lambda_v y_v`, with :math:`y_v \le 1` in the first part and
:math:`y_v \le \sum_a B_{av} x_a` in the second. So **any** prices prove a bound. All prices 1 give the sum of the E
largest neighbourhoods; the best prices give the value of the linear relaxation. Prices are multiples of 2^-16, so that
their sums are exact in double precision, and the bound is rounded down: the covered number is whole.
"""

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

STEPS = 150  # subgradient steps for the prices; twice as many tighten the bound by about one node in 500
GRID = 2.0**16


def covered_by(edge_index: Tensor, num_nodes: int, starts: Tensor, wanted: Tensor, hops: int) -> sparse.csr_matrix:
    """Return which of the ``wanted`` nodes lie at most ``hops`` hops downstream of each start: ``(S, W)``, 0 or 1.

    >>> import torch
    >>> path = torch.tensor([[0, 1, 2], [1, 2, 3]])
    >>> covered_by(path, 4, torch.tensor([0, 2]), torch.arange(4), hops=1).toarray().astype(int).tolist()
    [[1, 1, 0, 0], [0, 0, 1, 1]]
    """
    ones = np.ones(edge_index.shape[1])
    step = sparse.csr_matrix((ones, edge_index.numpy()), (num_nodes, num_nodes)) + sparse.eye(num_nodes, format="csr")
    reached = sparse.eye(num_nodes, format="csr")[starts.numpy()]
    for _ in range(hops):
        reached = reached @ step
        reached.data[:] = 1
    reached = sparse.csr_matrix(reached)[:, wanted.numpy()]
    reached.data[:] = 1
    return sparse.csr_matrix(reached)


def largest_cover(cover: sparse.csr_matrix, most: int) -> int:
    """Return an upper bound of how many columns ``most`` rows of a 0/1 matrix can cover together.

    >>> largest_cover(sparse.csr_matrix([[1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 0, 1]]), 2)
    3
    """
    sizes = np.asarray(cover.sum(1)).ravel()
    coverable = int((np.asarray(cover.sum(0)).ravel() > 0).sum())
    best = min(coverable, int(np.sort(sizes)[::-1][:most].sum()))
    below = _greedy_cover(cover, most)
    if below >= best or sizes.max(initial=0) <= 1:
        return best
    columns = sparse.csr_matrix(cover.T)
    prices = np.full(cover.shape[1], 0.5)
    for step in range(STEPS):
        bound, gradient = _priced(cover, columns, prices, most)
        best = min(best, int(np.floor(bound)))
        size = np.linalg.norm(gradient)
        if below >= best or not size:
            break
        length = 0.2 * np.sqrt(prices.size / (step + 1)) / size
        prices = np.round(np.clip(prices - length * gradient, 0, 1) * GRID) / GRID
    return best


def _priced(
    cover: sparse.csr_matrix, columns: sparse.csr_matrix, prices: NDArray[np.float64], most: int
) -> tuple[float, NDArray[np.float64]]:
    """Return the bound of some prices and its subgradient."""
    value = cover @ prices  # (S,)
    chosen = np.argpartition(-value, most - 1)[:most] if most < value.size else np.arange(value.size)
    picked = np.zeros(value.size)
    picked[chosen] = 1
    return float((1 - prices).sum() + value[chosen].sum()), columns @ picked - 1


def _greedy_cover(cover: sparse.csr_matrix, most: int) -> int:
    """Return what the greedy choice covers: a lower bound, which says when the search for prices may stop."""
    uncovered = np.ones(cover.shape[1])
    gains = np.asarray(cover.sum(1)).ravel()
    for _ in range(min(most, cover.shape[0])):
        while True:  # gains only fall, so an old gain that is confirmed to lead is the largest
            row = int(gains.argmax())
            inside = cover.indices[cover.indptr[row] : cover.indptr[row + 1]]
            gain = uncovered[inside].sum()
            if gain >= gains[row]:
                break
            gains[row] = gain
        if not gain:
            break
        uncovered[inside] = 0
        gains[row] = 0
    return int((uncovered == 0).sum())
