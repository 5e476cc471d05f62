"""An attack written without ours: one edge for each target that takes least to turn, others for those that resist.

``python -m benchmarks.easiest_targets [RECORDS [DEFENSE...]] > FILE.csv`` holds it against the recorded worst case of
every row of ``node`` whose model and attacked graph travel with the records.
"""

from __future__ import annotations

import csv
import sys

import torch
from torch import Tensor
from torch_geometric.data import Data

from fgai_bench.records.artifacts import MissingArtifact
from fgai_bench.records.store import StoreReader
from fgai_bench.records.verify import RecordedRow

ROUNDS, STEPS, STEP, TEMPERATURE = 4, 150, 0.3, 0.3


def margins(logits: Tensor, truth: Tensor) -> tuple[Tensor, Tensor]:
    """By how much each row is right, ``(T,)``, and the class that it would fall to."""
    right = logits.gather(1, truth.unsqueeze(1)).squeeze(1)
    best = logits.scatter(1, truth.unsqueeze(1), -torch.inf).max(1)
    return right - best.values, best.indices


def climbed(model, embedded: Tensor, edges: Tensor, targets: Tensor, truth: Tensor, start: Tensor) -> tuple:
    """The share of targets that is left after steps of the features, and the margins there."""
    x, least, left = start, 2.0, truth.new_zeros(len(truth), dtype=torch.float)
    for taken in range(STEPS):
        x = x.detach().requires_grad_()
        logits = model.propagate(torch.cat([embedded, model.embed(x)]), edges).logits[targets]
        margin, _ = margins(logits, truth)
        score = float((margin > 0).float().mean())
        if score < least:
            least, left = score, margin.detach()
        (gradient,) = torch.autograd.grad(-torch.tanh(margin / TEMPERATURE).mean(), x)
        size = gradient.square().mean(1, keepdim=True).sqrt().clamp(min=1e-30)
        x = (x + STEP * (1.02 - taken / STEPS) * gradient / size).clamp(-1, 1)
    return least, left


def easiest_attack(model, data: Data, targets: Tensor, nodes: int = 20, each: int = 20) -> float:
    """The smallest share of right predictions of ``targets`` over rounds that each give up what resisted before."""
    size, truth = data.x.shape[0], data.y[targets]
    with torch.no_grad():
        embedded = model.embed(data.x)
        margin, falls_to = margins(model.propagate(embedded, data.edge_index).logits[targets], truth)
    degree = torch.bincount(data.edge_index[1], minlength=size)[targets] + 1.0
    cost = torch.where(margin > 0, margin * degree, torch.inf)
    least = 1.0
    for number in range(ROUNDS):
        chosen = cost.argsort()[: nodes * each]
        chosen = chosen[falls_to[chosen].argsort(stable=True)]  # one node turns its targets to one class
        new = size + torch.arange(nodes * each) // each
        ends = targets[chosen]
        edges = torch.cat([data.edge_index, torch.stack([new, ends]), torch.stack([ends, new])], dim=1)
        drawn = torch.rand(nodes, data.x.shape[1], generator=torch.Generator().manual_seed(number))
        score, left = climbed(model, embedded, edges, targets, truth, 0.1 * (drawn - 0.5))
        least = min(least, score)
        cost[chosen[left[chosen] > 0]] = torch.inf
    return least


def main(records: str = "results/records", *defenses: str) -> None:
    """Print a line for every row that can be attacked here."""
    lines = csv.writer(sys.stdout)
    lines.writerow(["dataset", "model", "defense", "seed", "worst", "easiest"])
    with StoreReader(records) as store:
        for member in store.members():
            if (member["suite"], member["kind"], member["attack_label"]) != ("node", "attack", "worst"):
                continue
            if defenses and member["label"] not in defenses:
                continue
            row = RecordedRow(store, store.step(member["step"]))
            try:
                model, worst = row.model.eval(), row.measured.metrics["f1"]
            except MissingArtifact:
                continue
            found = easiest_attack(model, row.problem.data, row.problem.targets)
            names = (member[key] for key in ("dataset", "model", "label", "seed"))
            lines.writerow([*names, f"{worst:.4f}", f"{found:.4f}"])
            sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
