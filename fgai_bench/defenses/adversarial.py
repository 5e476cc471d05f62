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
    optimise,
    required,
)
from fgai_bench.models.base import AttentionModel
from fgai_bench.seeds import derive


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
        attack = required(inner, "at", "inner", "an attack on the model being trained")
        student = copy.deepcopy(model)
        task = supervision or NodeSupervision(data, split)

        def terms(epoch: int) -> dict[str, Tensor]:
            attacked = attack(student, data, derive(seed, f"inner-{epoch}"))
            return {
                "prediction": task.loss(student(data)),
                "adversarial": self.weight * task.loss(student(attacked.data)),
            }

        return optimise(
            student, terms, training or Training(), seed, score=lambda: task.score(student(data)), progress=progress
        )
