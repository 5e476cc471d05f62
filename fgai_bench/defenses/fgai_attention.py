"""Define FGAI by Algorithm 1, which perturbs the attention itself."""

from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor
from torch_geometric.data import Data

from fgai_bench.defenses.base import Defense, Fit, Objective
from fgai_bench.defenses.fgai import FGAI_SPACE, Faithfulness, FGAIOptions
from fgai_bench.models.base import AttentionModel, Output, frozen_eval
from fgai_bench.options import LogRange, Space


class FGAIAttentionOptions(FGAIOptions):
    """FGAI's options and those of Algorithm 1's inner loops.

    Attributes:
        radius: largest change R of a score (of an attention weight, in the literal form).
        steps: ascent steps P and Q of the two inner maximisations.
        literal: perturb the attention weights after the softmax in the fourth term, ``L_k2(w~, w~ + rho)``, as the
            algorithm is printed. Its gradient with respect to the model is zero, since ``w~`` cancels.
    """

    radius: float = Field(1.0, gt=0)
    steps: int = Field(10, ge=1)
    literal: bool = False


class FGAIAttention(Defense):
    """Algorithm 1 in score space: ``w~' = softmax(scores + rho)``, so the attention stays a distribution and the
    fourth term trains. Inner maximisation: sign ascent in the box ``|rho_e| <= R`` from a random start; ``delta``
    maximises the change of output, ``rho`` the top-k surrogate.
    """

    summary = "FGAI by Algorithm 1: inner maximisation over the attention scores"
    paper = "https://arxiv.org/abs/2410.06950"
    tags = ("node", "link", "needs-teacher")
    cost: ClassVar[dict[str, float]] = {"copies": 1.75, "attacked_edges": 1.0}
    starts_from = "teacher"
    search_space: ClassVar[Space | None] = {**FGAI_SPACE, "defense.radius": LogRange(0.1, 3.0)}

    def __init__(self, **options: object) -> None:
        self.options = FGAIAttentionOptions(**options)

    def objective(self, fit: Fit) -> Objective:
        student, data, faithful = fit.student, fit.data, Faithfulness(self.options, fit)

        def terms(epoch: int) -> dict[str, Tensor]:
            student.train(self.options.dropout)
            h = student.embed(data.x)
            out = student.propagate(h, data.edge_index)
            own = faithful.seen(out)
            losses = faithful.towards_teacher(own)
            for name, shift in self.worst_shifts(student, data, faithful).items():
                perturbed = faithful.seen(self.perturbing(student, h, data, out, name)(shift))
                losses[name] = faithful.perturbed_terms[name](own, perturbed)
            return losses

        capturable = student.capturable(new_edges=False) and faithful.capturable
        return Objective(terms, keep="last", capturable=capturable)

    def worst_shifts(self, student: AttentionModel, data: Data, faithful: Faithfulness) -> dict[str, Tensor]:
        """Return the shift in the box that maximises each term, ``(E + added,)``, from a random start; by name."""
        radius, steps = self.options.radius, self.options.steps
        shifts = {}
        with frozen_eval(student):
            h = student.embed(data.x)
            out = student.propagate(h, data.edge_index)
            assert out.attention is not None
            own = faithful.seen(out)
            for name, term in faithful.perturbed_terms.items():
                perturbed = self.perturbing(student, h, data, out, name)
                shift = radius * (2 * torch.rand_like(out.attention.weight) - 1)
                for _ in range(steps):
                    shift.requires_grad_(True)
                    (gradient,) = torch.autograd.grad(term(own, faithful.seen(perturbed(shift))), shift)
                    shift = (shift.detach() + 2 * radius / steps * gradient.sign()).clamp(-radius, radius)
                shifts[name] = shift
        return shifts

    def perturbing(
        self, student: AttentionModel, h: Tensor, data: Data, out: Output, name: str
    ) -> Callable[[Tensor], Output]:
        """Return the output as a function of a shift: of the scores or, in the literal fourth term, of the weights."""
        if self.options.literal and name == "explanation":
            attention = out.attention
            assert attention is not None
            return lambda shift: Output(out.logits, replace(attention, weight=attention.weight + shift))
        return student.shifting(out, h, data.edge_index)
