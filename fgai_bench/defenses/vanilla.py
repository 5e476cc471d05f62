"""Train without a defense: the task's loss, the best epoch on validation."""

from typing import ClassVar

from fgai_bench.defenses.base import Defense, Fit, Objective
from fgai_bench.options import Space


class Vanilla(Defense):
    """Train the model as it is: ``min loss(y(G))``."""

    summary = "no defense: the task's loss, the best epoch on validation"
    paper = "https://arxiv.org/abs/1710.10903"
    tags: ClassVar[tuple[str, ...]] = ("node", "link")
    cost: ClassVar[dict[str, float]] = {"copies": 1.0}
    search_space: ClassVar[Space | None] = {}

    def objective(self, fit: Fit) -> Objective:
        return Objective(
            lambda epoch: {"prediction": fit.task.loss(fit.student(fit.data))},
            recordable=fit.student.recordable(new_edges=False),
        )
