"""The base class of attacks: its call searches inside one threat model and returns an attacked graph.

An attack of your own subclasses :class:`Attack` and writes :meth:`Attack.search`. Freezing the model, choosing the
threat model's scenario, and checking the attacked graph against the budget are done by the base class.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor
from torch_geometric.data import Data

from fgai_bench.attacks.ascent import BestAscent
from fgai_bench.attacks.budget import Ledger, ThreatModel, check_budget, scenario_among
from fgai_bench.attacks.objectives import Readout, Reference
from fgai_bench.data.node_index import node_index
from fgai_bench.fast.cuda_graphs import capturing
from fgai_bench.models.base import AttentionModel, Output, checked_model, frozen_eval


@dataclass(frozen=True)
class Victim:
    """The model and graph under attack.

    Attributes:
        model: in evaluation mode, its parameters without gradients.
        data: the clean graph.
        targets: ``(T,)`` nodes that may be attached to, or changed.
        readout: what of an output the attack tries to change; None for the targets' own logits.
        surrogate: another model of the same task, whose weaknesses may transfer; None where there is none.
    """

    model: AttentionModel
    data: Data
    targets: Tensor
    readout: Readout | None = None
    surrogate: AttentionModel | None = None

    def truth(self, clean: Output) -> Tensor:
        """Return what predictions should be, ``(M,)``: the labels of what is read, else the clean predictions."""
        if self.readout is None and self.data.y is not None:
            return self.data.y[self.targets]
        labels = getattr(self.readout, "labels", None)
        return self.read(clean).argmax(1) if labels is None else labels.long()

    def read(self, out: Output) -> Tensor:
        """Return the logits that the attack tries to change: ``(M, C)``."""
        return out.logits.index_select(0, self.targets) if self.readout is None else self.readout(out)

    def evaluated(self) -> tuple[Tensor, Output]:
        """Return the embedded nodes of the clean graph ``(N, ...)`` and the output there, without gradients."""
        with torch.no_grad():
            embedded = self.model.embed(self.data.x)
            return embedded, self.model.propagate(embedded, self.data.edge_index)


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
    """The attacked graph that a search found, before it is checked; fields as in :class:`Attacked`."""

    data: Data
    trace: Trace | BestAscent = NO_SEARCH
    kept: float | None = None
    injected: Tensor | None = None


class Attack:
    """A search inside one threat model.

    Attributes:
        summary, paper, version: what ``fgai-bench ls`` shows; ``version`` changes when results change.
        tags: one of ``injection``, ``edges`` and ``features``, what it changes; ``gradient`` or ``control``;
            ``prediction`` or ``attention``, what it is aimed at; ``edge-weight``, it needs edge weights;
            ``convergent``, different seeds may end at the same result; ``fixed-search``, the threat model's steps do
            not change how long it searches; ``uses-surrogate``, it is handed the vanilla model.
        capturable: the search reads nothing back from the device, so that a training can capture it; it then also
            works without a seed, drawing from torch's own generator.
    """

    summary: ClassVar[str] = ""
    paper: ClassVar[str] = ""
    version: ClassVar[str] = "1"
    tags: ClassVar[tuple[str, ...]] = ()
    entry_methods: ClassVar[tuple[str, ...]] = ("search", "__call__")  # of which an entry implements one
    capturable: ClassVar[bool] = False

    def __call__(
        self,
        model: AttentionModel,
        data: Data,
        targets: Tensor,
        *,
        threat: ThreatModel | None = None,
        seed: int | None = 0,
        readout: Readout | None = None,
        surrogate: AttentionModel | None = None,
    ) -> Attacked:
        """Search, and check the attacked graph against the budget (:func:`fgai_bench.attacks.check_budget`).

        Arguments as in :class:`Victim`; model and graph are left exactly as they were.

        Args:
            targets: ``(T,)`` nodes, or a mask of them, ``(N,)`` boolean.
            threat: the budget; the paper's, if none is given.
            seed: of every draw; None draws from torch's own generator.
        """
        if "control" not in self.tags:  # a control looks at no model
            checked_model(model)
        threat = (threat or ThreatModel(scenario=scenario_among(self.tags))).resolved(data)
        if targets.dtype == torch.bool:
            targets = node_index(targets, data.x.shape[0], "targets")
        other = frozen_eval(surrogate) if surrogate is not None else nullcontext()
        with frozen_eval(model), other, torch.enable_grad():
            candidate = self.search(Victim(model, data, targets, readout, surrogate), threat, seed)
            if capturing():  # there are no values to check; the epochs before the capture were checked
                return Attacked(candidate.data, Ledger(), injected=candidate.injected)
            flags = candidate.trace.flags
            if flags and threat.scenario != "features" and model.ignores_edges(data):
                flags = ()  # where no edge matters, a gradient of zero is no sign of a weak search
        trace = candidate.trace
        ledger = check_budget(data, candidate.data, threat, targets, trace.gradient_calls)
        return Attacked(candidate.data, ledger, trace.curve, flags, candidate.kept, candidate.injected)

    def maximising(self, objective: Callable[[Tensor, Output, Reference], Tensor]) -> Attack:
        """Return the same search for another objective; a control, which maximises nothing, stays as it is."""
        if "control" in self.tags:
            return self
        raise TypeError(f"{type(self).__name__} cannot maximise another objective than its own")

    def search(self, victim: Victim, threat: ThreatModel, seed: int | None) -> Candidate:
        """Return the strongest attacked graph that was found; ``threat`` is resolved on the victim's graph."""
        raise TypeError(f"{type(self).__name__} must implement search(victim, threat, seed)")
