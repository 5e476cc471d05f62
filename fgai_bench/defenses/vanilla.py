"""Train on the task's loss alone: the model as it is, or a network in its place."""

from collections.abc import Mapping
from typing import Any, ClassVar

from torch_geometric.data import Data

from fgai_bench.defenses.base import Defense, Fit, Objective
from fgai_bench.defenses.catalogue import DEFENSES
from fgai_bench.defenses.out_of_memory import dense_bytes, require_memory
from fgai_bench.defenses.training import num_classes
from fgai_bench.models.base import AttentionModel
from fgai_bench.options import Options, Space


class Vanilla(Defense):
    """Train the model as it is: ``min loss(y(G))``."""

    summary = "no defense: the task's loss, the best epoch on validation"
    paper = "https://arxiv.org/abs/1710.10903"
    tags: ClassVar[tuple[str, ...]] = ("node", "link")
    cost: ClassVar[dict[str, float]] = {"copies": 1.0}
    search_space: ClassVar[Space | None] = {}

    def objective(self, fit: Fit) -> Objective:
        output = fit.student.on(fit.data)
        capturable = fit.student.capturable(new_edges=False)
        return Objective(lambda epoch: {"prediction": fit.task.loss(output())}, capturable=capturable, output=output)


class ReplacedModel(Vanilla):
    """A defense that trains a network of its own; of the given model only the number of classes is used.

    Attributes:
        matrices: N x N arrays of single precision that are alive at the peak of training or attack.
        profiles: N x F arrays likewise.
        options_class, model_class, form: what the network is built from; ``form`` holds options that no user chooses.
    """

    search_space: ClassVar[Space | None] = None
    options_class: ClassVar[type[Options]]
    model_class: ClassVar[type[AttentionModel]]
    form: ClassVar[Mapping[str, Any]] = {}
    matrices: ClassVar[float] = 0
    profiles: ClassVar[float] = 0

    def __init__(self, **options: Any) -> None:
        self.options: Any = self.options_class(**options)

    def build(self, data: Data, num_classes: int, seed: int) -> AttentionModel:
        """Return the network to train, freshly initialised."""
        return self.model_class(data.x.shape[1], num_classes, seed=seed, **self.form, **self.options.model_dump())

    def student(self, fit: Fit) -> AttentionModel:
        """Return the network to train; raise :class:`OutOfMemory` before building anything that would not fit."""
        device, (num_nodes, num_features) = fit.data.edge_index.device, fit.data.x.shape
        needed = dense_bytes(num_nodes, self.matrices, num_features, self.profiles)
        require_memory(f"{DEFENSES.name_of(type(self))} on {num_nodes} nodes", needed, device)
        return self.build(fit.data, num_classes(fit.student, fit.data), fit.seed).to(device)
