"""No defense: the task's loss, the best epoch on validation."""

from __future__ import annotations

import copy

from torch_geometric.data import Data

from fgai_bench.data.splits import Split
from fgai_bench.defenses.training import InnerAttack, NodeSupervision, Progress, Supervision, Training, optimise
from fgai_bench.models.base import AttentionModel


class Vanilla:
    """Train the model as it is: ``min loss(y(G))``."""

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
        """Return a trained copy of ``model``; ``model`` itself is unchanged, and test labels are never read."""
        student = self.prepared(model, seed)
        task = supervision or NodeSupervision(data, split)
        return optimise(
            student,
            lambda epoch: {"prediction": task.loss(student(data))},
            training or Training(),
            seed,
            score=lambda: task.score(student(data)),
            progress=progress,
            recordable=student.recordable(new_edges=False),
        )

    def prepared(self, model: AttentionModel, seed: int) -> AttentionModel:
        """The model that is trained: here, a copy of the one that was handed in."""
        return copy.deepcopy(model)
