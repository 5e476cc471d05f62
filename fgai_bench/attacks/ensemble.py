"""The worst case: the strongest result over several attacks inside the same threat model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor
from torch_geometric.data import Data

from fgai_bench.attacks.injection import InjectionAttack
from fgai_bench.attacks.objectives import OBJECTIVES, Readout, Reference
from fgai_bench.attacks.random_control import RandomInjection
from fgai_bench.attacks.threat import Attacked, ThreatModel
from fgai_bench.models.base import AttentionModel, Output, undisturbed

Judge = Callable[[Output], float]


class Ensemble:
    """Runs the injection attack with every loss and keeps the result that hurts most.

    What hurts is judged on the attacked output: by default the share of target predictions that equal the labels of
    the graph (the clean predictions, where the targets are no labelled nodes). A task may hand in its own ``judge``,
    lower meaning stronger.

    Args:
        losses: of the members; those on attention are left out for a model that has none.
        control: whether the random control is a member, too, so that the worst case is never weaker than it.
    """

    def __init__(self, losses: Sequence[str] = tuple(OBJECTIVES), control: bool = True) -> None:
        self.losses, self.control = tuple(losses), control
        self._members = [InjectionAttack(loss) for loss in losses]

    def __call__(
        self,
        model: AttentionModel,
        data: Data,
        targets: Tensor,
        *,
        threat: ThreatModel | None = None,
        seed: int = 0,
        readout: Readout | None = None,
        judge: Judge | None = None,
    ) -> Attacked:
        threat = threat or ThreatModel()
        with undisturbed(model), torch.no_grad():
            clean = model(data)
        judge = judge or default_judge(clean, data, targets, readout)
        results = []
        for member in self.members(clean):
            attacked = member(model, data, targets, threat=threat, seed=seed, readout=readout)
            with undisturbed(model), torch.no_grad():
                results.append((judge(model(attacked.data)), attacked))
        worst = min(results, key=lambda result: result[0])[1]
        calls = sum(attacked.ledger.gradient_calls for _, attacked in results)
        # A member that could not follow its gradient makes the worst case doubtful, whichever member won.
        flags = tuple(dict.fromkeys(flag for _, attacked in results for flag in attacked.flags))
        return replace(worst, ledger=replace(worst.ledger, gradient_calls=calls), flags=flags)

    def members(self, clean: Output) -> list[Callable[..., Attacked]]:
        """The attacks that apply to a model with this clean output."""
        fit = [m for m in self._members if clean.attention is not None or not m.loss.startswith("attention")]
        return [*fit, RandomInjection()] if self.control else list(fit)


def default_judge(clean: Output, data: Data, targets: Tensor, readout: Readout | None) -> Judge:
    """Accuracy on the targets' labels; on the clean predictions where a readout says what is predicted."""
    read: Readout = readout or (lambda out: out.logits[targets])
    truth = Reference.of(clean, read).prediction if readout is not None else data.y[targets]
    return lambda out: (read(out).argmax(1) == truth).float().mean().item()
