"""Define the defense AT: adversarial training on an injection-attacked copy of the graph."""

from typing import Any, ClassVar, Literal

from pydantic import Field
from torch import Tensor

from fgai_bench.defenses.base import Defense, Fit, Objective, perturbed_output
from fgai_bench.options import Choice, LogRange, Options, Space


class AdversarialOptions(Options):
    """Options of AT.

    Attributes:
        weight: weight of the loss on the attacked copy.
        aim: the nodes that the inner attack attaches to and breaks: the ``train`` nodes or ``all``.
    """

    weight: float = Field(default=0.1, ge=0)
    aim: Literal["all", "train"] = "train"


class AdversarialTraining(Defense):
    """Minimise ``loss(y(G)) + weight * loss(y(attacked G))``, attacked afresh each epoch.

    Options as in :class:`AdversarialOptions`.
    """

    summary = "adversarial training: a tenth of the loss on a freshly attacked copy"
    paper = "https://arxiv.org/abs/1706.06083"
    tags = ("node", "link", "needs-inner")
    cost: ClassVar[dict[str, float]] = {"copies": 2.0, "attacked_edges": 1.0}
    search_space: ClassVar[Space | None] = {
        "defense.weight": LogRange(0.05, 2.0),
        "inner.nodes": Choice(20, 40),
        "inner.edges_per_node": Choice(20, 40),
        "inner.step": Choice(0.05, 0.1, 0.2),
        "inner.steps": Choice(3, 10),
    }

    def __init__(self, **options: Any) -> None:
        chosen = AdversarialOptions(**options)
        self.weight = chosen.weight
        self.inner_options = {"loss": "nll", "targets": chosen.aim}

    def objective(self, fit: Fit) -> Objective:
        attack, capturable = fit.attack()

        def terms(epoch: int) -> dict[str, Tensor]:
            attacked = attack(epoch)
            h = fit.student.embed(fit.data.x)
            return {
                "prediction": fit.task.loss(fit.student.propagate(h, fit.data.edge_index)),
                "adversarial": self.weight * fit.task.loss(perturbed_output(fit.student, h, attacked)),
            }

        return Objective(terms, capturable=capturable)
