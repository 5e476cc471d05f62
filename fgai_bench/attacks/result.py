"""What an attack returns: the attacked graph, what it spent, and how the search went."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor
from torch_geometric.data import Data

from fgai_bench.attacks.ascent import BestAscent
from fgai_bench.attacks.budget import Ledger


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
    """The report of a search: gradients taken, the objective per step, reasons for distrust."""

    gradient_calls: int = 0
    curve: tuple[float, ...] = ()
    flags: tuple[str, ...] = ()


NO_SEARCH = Trace()


@dataclass(frozen=True)
class Candidate:
    """The attacked graph that a search found, before it is checked.

    Attributes:
        data: the attacked graph; original nodes and edges first, in their order.
        trace: the report of the search.
        kept: share of the target predictions that stayed what they were, where the attack cares.
        injected: ``(nodes, F)`` features of the injected nodes, where the attack changed no others; else None.
    """

    data: Data
    trace: Trace | BestAscent = NO_SEARCH
    kept: float | None = None
    injected: Tensor | None = None
