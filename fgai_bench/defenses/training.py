"""Train a model: the optimisation loop that defenses share, and the supervision that a task gives."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.data import Data

from fgai_bench.data.dataset import score_of
from fgai_bench.data.splits import Split
from fgai_bench.fast.cuda_graphs import Replayed, own_stream
from fgai_bench.metrics.prediction import score_function
from fgai_bench.models.base import AttentionModel, Output, frozen_eval
from fgai_bench.options import Training as Training
from fgai_bench.seeds import isolated_rng

Progress = Callable[[int, int], None]
InnerAttack = Callable[[AttentionModel, Data, "int | None"], Any]


class Supervision(Protocol):
    """The outputs, loss and score that a task gives to a defense; test labels never enter."""

    def outputs(self, out: Output) -> Tensor:
        """Return ``(M, C)`` the logits whose stability matters; an attacked graph's output gives the same M rows."""

    def loss(self, out: Output) -> Tensor:
        """Return the training loss, on training labels."""

    def score(self, out: Output) -> Tensor:
        """Return ``()`` the validation score, higher is better; it stays on the device."""


class NodeSupervision:
    """Node classification: cross-entropy on the training nodes, the graph's score on the validation nodes."""

    def __init__(self, data: Data, split: Split) -> None:
        self.num_nodes = data.x.shape[0]
        self.train, self.val = split.train, split.val
        self.y_train, y_val = data.y[split.train], data.y[split.val]
        self.val_score = score_function(score_of(data) if split.val.numel() else "f1", y_val)

    def outputs(self, out: Output) -> Tensor:
        return out.logits[: self.num_nodes]

    def loss(self, out: Output) -> Tensor:
        return F.cross_entropy(out.logits.index_select(0, self.train), self.y_train)

    def score(self, out: Output) -> Tensor:
        return self.val_score(out.logits[self.val])


def optimise(
    model: AttentionModel,
    terms: Callable[[int], Mapping[str, Tensor]],
    training: Training,
    seed: int,
    score: Callable[[], Tensor | float] | None = None,
    progress: Progress | None = None,
    capturable: bool = False,
) -> AttentionModel:
    """Minimise the sum of ``terms(epoch)`` over the parameters of ``model``, in place, and return it.

    The value of each term is kept per epoch in ``model.history``. With ``score``, the parameters of the best epoch are
    restored at the end; without it, those of the last epoch stay. Dropout draws from a generator of its own, derived
    from ``seed``: the caller's random state is untouched.

    ``capturable`` says that ``terms`` and ``score`` read nothing back from the device and do the same work in every
    epoch: on CUDA an epoch is then captured and replayed (:mod:`fgai_bench.fast.cuda_graphs`), and ``terms`` is not
    called again.
    """
    device = next(model.parameters()).device
    cuda = device.type == "cuda"
    optimiser = torch.optim.Adam(
        model.parameters(), lr=training.lr, weight_decay=training.weight_decay, fused=cuda, capturable=cuda
    )
    names: list[str] = []
    history: list[Tensor] = []
    best = _Best(model, device)
    done = 0

    def epoch() -> Tensor:
        model.train()
        values = terms(done)
        names[:] = values
        losses = torch.stack(list(values.values()))
        optimiser.zero_grad(set_to_none=True)
        losses.sum().backward()
        optimiser.step()
        if score is not None:
            model.eval()
            with torch.no_grad():
                best.offer(score())
        return losses.detach()

    with isolated_rng(seed, "train"), own_stream(device):
        step = Replayed(epoch) if capturable and cuda else epoch
        for done in range(training.epochs):
            history.append(step().clone())
            if progress is not None:
                if cuda:
                    torch.cuda.current_stream(device).synchronize()
                progress(done + 1, training.epochs)
    if score is not None:
        best.restore()
    return finished(model, [dict(zip(names, row.tolist(), strict=True)) for row in history])


class _Best:
    """The parameters of the first epoch with the highest score, kept without reading scores back from the device."""

    def __init__(self, model: AttentionModel, device: torch.device) -> None:
        self.state = model.state_dict()
        self.best = {name: value.clone() for name, value in self.state.items()}
        self.score = torch.full((), -torch.inf, dtype=torch.float64, device=device)

    def offer(self, score: Tensor | float) -> None:
        reached = torch.as_tensor(score, dtype=torch.float64, device=self.score.device)
        higher = reached > self.score
        self.score.copy_(torch.where(higher, reached, self.score))
        for name, kept in self.best.items():
            kept.copy_(torch.where(higher, self.state[name], kept))

    def restore(self) -> None:
        """Restore the best parameters, unless every score was NaN because the training diverged."""
        if self.score.isfinite():
            for name, value in self.state.items():
                value.copy_(self.best[name])


def finished(model: AttentionModel, history: list[dict[str, float]]) -> AttentionModel:
    """Return the trained model in evaluation mode, without stale gradients, with losses per epoch in ``history``."""
    model.zero_grad(set_to_none=True)
    model.eval()
    model.history = history
    return model


def outputs_once(model: AttentionModel, data: Data) -> Output:
    """Return the output of a model in evaluation mode, without gradients; the model is left unchanged."""
    with frozen_eval(model), torch.no_grad():
        return model(data)


def num_classes(model: AttentionModel, data: Data) -> int:
    """Return the number of classes of the given model; labels are not read, since some belong to test nodes."""
    known = getattr(model, "config", {}).get("num_classes")
    return int(known or outputs_once(model, data).logits.shape[1])
