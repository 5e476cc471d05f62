"""The strongest result over several losses of the injection attack inside the same threat model."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from fgai_bench.attacks.base import Attack, Victim
from fgai_bench.attacks.budget import ThreatModel
from fgai_bench.attacks.injection import InjectionAttack
from fgai_bench.attacks.objectives import Reference
from fgai_bench.attacks.random_control import RandomInjection
from fgai_bench.attacks.result import Candidate, Trace
from fgai_bench.models.base import Output

Judge = Callable[[Output], float]
LOSSES = ("nll", "nll-raw", "margin", "tvd", "attention-topk", "attention-jsd")


class Ensemble(Attack):
    """Runs the injection attack with every loss and keeps the result that hurts most.

    What hurts is judged on the attacked output: by default the share of target predictions that equal the labels of
    the graph (the clean predictions, where the targets are no labelled nodes).

    Args:
        losses: of the members; those on attention are left out for a model that has none.
        control: whether the random control is a member, too, so that the worst case is never weaker than it.
        judge: another measure of an attacked output, lower meaning stronger.
    """

    summary = "the worst case over losses and restarts of the injection attack"
    paper = "https://arxiv.org/abs/2003.01690"
    tags = ("injection", "gradient", "prediction")

    def __init__(self, losses: Sequence[str] = LOSSES, control: bool = True, judge: Judge | None = None) -> None:
        if not losses:
            raise ValueError("an ensemble needs at least one loss")
        if judge is not None and not callable(judge):
            raise ValueError(f"judge is a function of an output, not {judge!r}")
        self.losses, self.control, self.judge = tuple(losses), control, judge
        self._members = [InjectionAttack(loss) for loss in losses]

    def search(self, victim: Victim, threat: ThreatModel, seed: int | None) -> Candidate:
        clean = victim.output()
        judge = self.judge or default_judge(clean, victim)
        candidates = [member.search(victim, threat, seed) for member in self.members(clean)]
        with torch.no_grad():
            scores = [judge(victim.model(candidate.data)) for candidate in candidates]
        worst = candidates[scores.index(min(scores))]
        calls = sum(candidate.trace.gradient_calls for candidate in candidates)
        # A member that could not follow its gradient makes the worst case doubtful, whichever member won.
        flags = tuple(dict.fromkeys(flag for candidate in candidates for flag in candidate.trace.flags))
        return Candidate(worst.data, Trace(calls, worst.trace.curve, flags), worst.kept, worst.injected)

    def members(self, clean: Output) -> list[Attack]:
        """Return the attacks that apply to a model with this clean output."""
        fitting = [m for m in self._members if clean.attention is not None or not m.loss.startswith("attention")]
        return [*fitting, RandomInjection()] if self.control else list(fitting)


def default_judge(clean: Output, victim: Victim) -> Judge:
    """Return accuracy on the targets' labels; on the clean predictions where a readout says what is predicted."""
    labelled = victim.readout is None
    truth = victim.data.y[victim.targets] if labelled else Reference.of(clean, victim.read).prediction
    return lambda out: (victim.read(out).argmax(1) == truth).float().mean().item()
