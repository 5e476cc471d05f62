"""What an attack returns, and the count of what it really spent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch_geometric.data import Data

from fgai_bench.attacks.budget import BudgetExceeded, Ledger, ThreatModel
from fgai_bench.attacks.pgd import Search
from fgai_bench.fast.cuda_graphs import recording
from fgai_bench.fast.ordered_sums import sum_at
from fgai_bench.models.attention import edge_keys
from fgai_bench.models.features import dense_rows


@dataclass(frozen=True)
class Attacked:
    """The result of an attack.

    Attributes:
        data: the attacked graph; original nodes come first and original edges are kept, in their order.
        ledger: what was spent.
        curve: the objective at the start and after each step of the best restart.
        flags: reasons why the result is ``unreliable`` (a zero or non-finite gradient, ...); empty if none.
        kept: share of the target predictions that stayed what they were, where the attack cares.
        injected: ``(nodes, F)`` features of the injected nodes, where the attack changed no others; else None.
    """

    data: Data
    ledger: Ledger
    curve: tuple[float, ...] = ()
    flags: tuple[str, ...] = ()
    kept: float | None = None
    injected: Tensor | None = None


class Trace(NamedTuple):
    """What a search says of itself: gradients taken, the objective per step, reasons for distrust."""

    gradient_calls: int = 0
    curve: tuple[float, ...] = ()
    flags: tuple[str, ...] = ()


NO_SEARCH = Trace()


@dataclass(frozen=True)
class Candidate:
    """What a search came up with, before it is counted.

    Attributes:
        data: the attacked graph; original nodes and edges first, in their order.
        trace: what the search says of itself.
        kept: share of the target predictions that stayed what they were, where the attack cares.
        injected: ``(nodes, F)`` features of the injected nodes, where the attack changed no others; else None.
    """

    data: Data
    trace: Trace | Search = NO_SEARCH
    kept: float | None = None
    injected: Tensor | None = None


def finish_attack(
    clean: Data,
    found: Data | Candidate,
    threat: ThreatModel,
    trace: Trace | Search = NO_SEARCH,
    kept: float | None = None,
    injected: Tensor | None = None,
) -> Attacked:
    """Count what was spent on the attacked graph itself, hold it against the budget, and return the result.

    ``found`` is a candidate, or a graph with what a candidate says beside it. While a training is being recorded there
    are no values to count: the epochs before the recording had theirs counted.
    """
    candidate = found if isinstance(found, Candidate) else Candidate(found, trace, kept, injected)
    if recording():
        return Attacked(candidate.data, Ledger(), injected=candidate.injected)
    ledger = count_ledger(clean, candidate.data, candidate.trace.gradient_calls)
    threat.check(ledger)
    return Attacked(
        candidate.data, ledger, candidate.trace.curve, candidate.trace.flags, candidate.kept, candidate.injected
    )


def count_ledger(clean: Data, attacked: Data, gradient_calls: int = 0) -> Ledger:
    """Count what ``attacked`` spent against ``clean``; raise if original edges or nodes are not preserved."""
    nodes, edges = clean.x.shape[0], clean.edge_index.size(1)
    if attacked.x.shape[0] < nodes or not torch.equal(attacked.edge_index[:, :edges], clean.edge_index):
        raise BudgetExceeded("an attack must keep the original nodes and edges first, in their order")
    new = attacked.edge_index[:, edges:]
    size = attacked.x.shape[0]
    known = (new < nodes).all(0)  # an edge of a new node is new, and most new edges are: the others are looked up
    if known.any():
        known[known.clone()] = torch.isin(edge_keys(new[:, known], size), edge_keys(clean.edge_index, size))
    undirected = torch.unique(edge_keys(new[:, ~known].sort(0).values, size)).numel()
    before, after = clean.x, attacked.x
    change, changed = _feature_change(before, after)
    injected = dense_rows(after, torch.arange(nodes, size, device=after.device))
    largest = float(injected.abs().max()) if injected.numel() else 0.0
    return Ledger(size - nodes, undirected, largest, changed, change, gradient_calls)


def _feature_change(before: Tensor, after: Tensor) -> tuple[float, int]:
    """Largest change of an entry of the original rows, and how many rows changed."""
    difference = row_differences(before, after)
    return (float(difference.max()), int((difference > 0).sum())) if difference.numel() else (0.0, 0)


def row_differences(before: Tensor, after: Tensor) -> Tensor:
    """Return the largest absolute change of an entry in each original row, dense or CSR: ``(N, F), (M, F) -> (N,)``."""
    rows = before.shape[0]
    if before.layout != torch.sparse_csr:
        return before.new_zeros(rows) if before is after else (after[:rows] - before).abs().amax(1)
    nnz = before.values().numel()
    same = torch.equal(after.crow_indices()[: rows + 1], before.crow_indices())
    if same and torch.equal(after.values()[:nnz], before.values()) and _same_columns(before, after, nnz):
        return before.values().new_zeros(rows)
    return _sparse_row_difference(before, after)


def _same_columns(before: Tensor, after: Tensor, nnz: int) -> bool:
    return torch.equal(after.col_indices()[:nnz], before.col_indices())


def _sparse_row_difference(before: Tensor, after: Tensor) -> Tensor:
    """Largest absolute difference per original row of two CSR matrices: ``(N,)``."""
    coo = [m.to_sparse_coo().coalesce() for m in (before, after)]
    rows, columns = before.shape[0], before.shape[1]
    keys, values = [], []
    for sign, m in zip((-1, 1), coo, strict=True):
        (row, column), value = m.indices(), m.values()
        inside = row < rows
        keys.append(row[inside] * columns + column[inside])
        values.append(sign * value[inside])
    unique, inverse = torch.unique(torch.cat(keys), return_inverse=True)
    totals = sum_at(inverse, torch.cat(values), unique.numel()).abs()
    return totals.new_zeros(rows).scatter_reduce_(0, unique // columns, totals, "amax")
