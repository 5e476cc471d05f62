"""Define what every defense is: a class whose ``fit`` returns a trained copy of a model.

To write a defense, subclass :class:`Defense` and return from :meth:`Defense.objective` what is minimised. The base
class copies the model, requires teacher and inner attack, seeds, runs the training loop and chooses the epoch.
"""

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor
from torch_geometric.data import Data

from fgai_bench.data.laplacian.extended_graph import UnconvergedError
from fgai_bench.data.splits import Split
from fgai_bench.defenses.training import InnerAttack, NodeSupervision, Progress, Supervision, Training, optimise
from fgai_bench.fast.cuda_graphs import own_stream
from fgai_bench.models.base import AttentionModel, Output, checked_model
from fgai_bench.options import Space
from fgai_bench.seeds import derive

Terms = Callable[[int], Mapping[str, Tensor]]


class FitError(ValueError):
    """Raised when a defense cannot be trained as asked; the message is one sentence."""


@dataclass(frozen=True)
class Objective:
    """The objective that a training minimises.

    Attributes:
        terms: epoch to the weighted terms of the loss by name; their sum is minimised.
        keep: the parameters of the ``best`` epoch on validation, or those of the ``last`` one.
        capturable: whether the terms read nothing back from the device and do the same work in every epoch.
        output: the student's output for the validation score; ``student(data)`` if not given.
    """

    terms: Terms
    keep: Literal["best", "last"] = "best"
    capturable: bool = False
    output: Callable[[], Output] | None = None


@dataclass(frozen=True)
class Fit:
    """One training, as an objective sees it.

    Attributes:
        student: the model that is trained.
        data: the graph; labels of test nodes are hidden.
        split: training, validation and test parts.
        task: the task's loss, validation score and outputs; use it instead of labels, and links work too.
        training: epochs, learning rate, weight decay.
        seed: seed of everything that this training draws.
        teacher: the trained vanilla model, for a defense with the tag ``needs-teacher``.
        inner: an attack ``inner(model, data, seed)``, for a defense with the tag ``needs-inner``.
        defense: the name of the defense's class, for messages.
        capturable: whether CUDA may capture an epoch.
    """

    student: AttentionModel
    data: Data
    split: Split
    task: Supervision
    training: Training
    seed: int
    teacher: AttentionModel | None = None
    inner: InnerAttack | None = None
    defense: str = "this defense"
    capturable: bool = True

    def required(self, name: Literal["teacher", "inner"]) -> Any:
        """Return the teacher or the inner attack; raise if it was not given, with what the defense needs."""
        given = getattr(self, name)
        if given is None:
            meaning = "the trained vanilla model" if name == "teacher" else "an attack on the model being trained"
            raise ValueError(f"{self.defense} needs {name}=..., {meaning}")
        return given

    def attack(self, objective: Callable[..., Tensor] | None = None) -> tuple[Callable[[int], Any], bool]:
        """Return the inner attack on the student as a function of the epoch, and whether an epoch can capture it.

        Each epoch has a seed of its own; in a capture, which is made once, the attack draws from the training's
        stream of random numbers. An ``objective``, as in :mod:`fgai_bench.attacks.objectives`, makes it a second
        attack of the same budget, with draws of its own, that maximises this objective.
        """
        inner, stream = self.required("inner"), "inner"
        if objective is not None:
            inner, stream = inner.maximising(objective), "inner-explanation"
        capturable = self.student.capturable(new_edges=True) and getattr(inner, "capturable", False)
        captured = self.capturable and capturable and next(self.student.parameters()).is_cuda
        return lambda epoch: inner(
            self.student, self.data, None if captured else derive(self.seed, f"{stream}-{epoch}")
        ), captured


class Defense:
    """The base class of defenses, which train or replace a model so that it withstands attacks.

    Subclasses implement :meth:`objective`; one that trains in a way of its own overrides :meth:`train`.

    Attributes:
        summary, paper, version: what ``fgai-bench ls`` shows; ``version`` changes when results change.
        cost: for forecasts of memory: ``copies`` of what an epoch keeps, further ``arrays_per_node``, and copies of the
            edges for an inner attack (``attacked_edges``).
        tags: ``node`` and ``link``, the tasks it is for (both if neither is named); ``needs-teacher`` and
            ``needs-inner``, the inputs it requires; ``replaces-model``, ``dense``, ``transductive``; ``numbered``, the
            output depends on how nodes are numbered; ``no-attention``,
            what it trains has none, so that attacks on the attention are left out.
        inner_options: the loss and the targets of its inner attack, unless the suite sets others; an instance may
            have other ones than its class, by its options.
        starts_from: whether the student starts as a copy of the given ``model`` or of the ``teacher``.
        search_space: what a study may vary beside the optimiser and, where the student starts from the model, the
            model's own space; None, for a defense that declares nothing, leaves the optimiser's settings alone.
    """

    summary: ClassVar[str] = ""
    paper: ClassVar[str] = ""
    version: ClassVar[str] = "1"
    tags: ClassVar[tuple[str, ...]] = ()
    entry_methods: ClassVar[tuple[str, ...]] = ("objective", "train", "fit")  # of which an entry implements one
    cost: ClassVar[Mapping[str, float]] = {}
    inner_options: Mapping[str, Any] = {}
    starts_from: ClassVar[Literal["model", "teacher"]] = "model"
    search_space: ClassVar[Space | None] = None

    def fit(
        self,
        model: AttentionModel,
        data: Data,
        split: Split | None = None,
        seed: int = 0,
        *,
        supervision: Supervision | None = None,
        teacher: AttentionModel | None = None,
        inner: InnerAttack | None = None,
        training: Training | None = None,
        progress: Progress | None = None,
    ) -> AttentionModel:
        """Return ``model``, trained; the arguments stay unchanged, and test labels are never read.

        Arguments as in :class:`Fit`. Without ``split`` it is the one that the graph carries; without ``supervision``
        the task is node classification. ``progress`` is called with ``(epoch, epochs)`` after every epoch.
        """
        checked_model(model)
        split = Split.of(data) if split is None else split
        task = supervision or NodeSupervision(data, split)
        fit = Fit(model, data, split, task, training or Training(), seed, teacher, inner, type(self).__name__)
        return self.train(fit, progress)

    def train(self, fit: Fit, progress: Progress | None) -> AttentionModel:
        """Minimise the objective over the parameters of the student; ``fit.student`` is still the given model.

        What a captured epoch could not solve, it cannot solve anew: then all epochs are done again without a capture.
        """
        try:
            return self._minimised(fit, progress)
        except UnconvergedError:
            return self._minimised(replace(fit, capturable=False), progress)

    def _minimised(self, fit: Fit, progress: Progress | None) -> AttentionModel:
        fit = replace(fit, student=self.student(fit))
        with own_stream(next(fit.student.parameters()).device):  # that of the epochs: each needs work space of its own
            objective = self.objective(fit)
        made = objective if isinstance(objective, Objective) else Objective(objective)
        output = made.output or (lambda: fit.student(fit.data))
        return optimise(
            fit.student,
            made.terms,
            fit.training,
            fit.seed,
            score=(lambda: fit.task.score(output())) if (fit.training.keep or made.keep) == "best" else None,
            progress=progress,
            capturable=made.capturable and fit.capturable,
        )

    def student(self, fit: Fit) -> AttentionModel:
        """Return the model to train, made from the given one or from the teacher."""
        start = fit.required("teacher") if self.starts_from == "teacher" else fit.student
        return self.prepared(start, fit.seed)

    def prepared(self, model: AttentionModel, seed: int) -> AttentionModel:
        """Return the model to train: by default a copy of the given one."""
        return copy.deepcopy(model)

    def objective(self, fit: Fit) -> Objective | Terms:
        """Return the objective to minimise; the terms alone mean the best epoch on validation and no capture."""
        raise TypeError(f"{type(self).__name__} must implement objective(fit), or fit itself")


def perturbed_output(student: AttentionModel, h: Tensor, attacked: Any) -> Output:
    """Return the output on an attacked graph.

    Nodes whose features did not change keep their embedding ``h``, dropout included, so that the output differs from
    the clean one by the attack and not by the noise.
    """
    if attacked.injected is None:
        return student(attacked.data)
    return student.propagate(torch.cat([h, student.embed(attacked.injected)]), attacked.data.edge_index)
