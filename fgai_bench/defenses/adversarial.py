"""AT: adversarial training on an injection-attacked copy of the graph."""

from __future__ import annotations

import copy
from typing import Any, ClassVar

from torch import Tensor
from torch_geometric.data import Data

from fgai_bench.data.splits import Split
from fgai_bench.defenses.training import (
    InnerAttack,
    NodeSupervision,
    Progress,
    Supervision,
    Training,
    attack_of,
    optimise,
    perturbed_output,
    required,
)
from fgai_bench.models.base import AttentionModel


class AdversarialTraining:
    """``min loss(y(G)) + weight * loss(y(attacked G))``, attacked afresh each epoch.

    Args:
        weight: of the loss on the attacked copy.
    """

    inner_options: ClassVar[dict[str, Any]] = {"loss": "nll", "targets": "train"}

    def __init__(self, weight: float = 0.1) -> None:
        if weight < 0:
            raise ValueError(f"the weight of the adversarial loss must not be negative, got {weight}")
        self.weight = weight

    def fit(
        self,
        model: AttentionModel,
        data: Data,
        split: Split,
        seed: int = 0,
        *,
        supervision: Supervision | None = None,
        teacher: AttentionModel | None = None,
        inner: InnerAttack | None = None,
        training: Training | None = None,
        progress: Progress | None = None,
    ) -> AttentionModel:
        """Return a trained copy of ``model``; ``inner(model, data, seed)`` is the attack of each epoch."""
        student = copy.deepcopy(model)
        attack, recordable = attack_of(
            required(inner, "at", "inner", "an attack on the model being trained"), student, seed
        )
        task = supervision or NodeSupervision(data, split)

        def terms(epoch: int) -> dict[str, Tensor]:
            attacked = attack(data, epoch)
            h = student.embed(data.x)
            return {
                "prediction": task.loss(student.propagate(h, data.edge_index)),
                "adversarial": self.weight * task.loss(perturbed_output(student, h, attacked)),
            }

        return optimise(
            student,
            terms,
            training or Training(),
            seed,
            score=lambda: task.score(student(data)),
            progress=progress,
            recordable=recordable,
        )
