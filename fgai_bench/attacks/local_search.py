"""Local search over edges and features together: change a part of an attack, climb a little, keep what leaves less."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fgai_bench.attacks.objectives import margins
from fgai_bench.attacks.search import PortfolioMember, PortfolioSearch

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
SIDE_BY_SIDE = 4
SHARES = (0.01, 0.02, 0.05, 0.1, 0.2)
STEPS = (0.01, 0.025, 0.05, 0.1, 0.25)
LOSSES = ("margin", "scaled-margin", "soft-error", "masked-nll", "nll-raw", "logit-ratio")
DROPS = ("random", "least")
ADDS = ("border", "pointed", "hub", "none", "regroup", "kick", "stay")
GRADIENTS = 25


@dataclass
class View:
    margin: Floats
    value: Floats | None
    pointed: Floats | None


@dataclass
class LocalSearch:
    search: PortfolioSearch
    best: PortfolioMember
    draw: np.random.Generator
    log: list = field(default_factory=list)
    view: View | None = None

    def __post_init__(self):
        s = self.search
        self.classes = s.truth.cpu().numpy()
        size = s.embedded.size(0)
        targets = s.victim.targets.cpu().numpy()
        self.targets = targets
        self.place = np.full(size, -1); self.place[targets] = np.arange(targets.size)
        src, dst = s.victim.data.edge_index.cpu().numpy()
        self.src, self.dst = self.place[src], self.place[dst]
        ok = (self.src >= 0) & (self.dst >= 0)
        self.src, self.dst = self.src[ok], self.dst[ok]

    def look(self) -> View:
        s = self.search
        with torch.no_grad():
            logits = s.victim.read(s.scene(self.best.attached).output(self.best.features))
        margin = margins(logits, s.truth).double().cpu().numpy()
        g = s.edge_gradient(self.best)
        value = pointed = None
        if g is not None and bool(g.isfinite().all()):
            pointed = g.double().cpu().numpy()
        return View(margin, value, pointed)

    def propose(self):
        v, d = self.view, self.draw
        add = d.choice(ADDS, p=(.3, .25, .2, .05, .1, .05, .05))
        drop = d.choice(DROPS)
        share = d.choice(SHARES); step = d.choice(STEPS); loss = d.choice(LOSSES)
        attached = self.best.attached.cpu().numpy().copy()
        features = self.best.features
        if add == "pointed" and v.pointed is None: add = "border"
        if add == "kick":
            node = int(d.integers(attached.shape[0])); other = int(d.integers(attached.shape[0]))
            features = features.clone(); features[node] = features[other]
        elif add == "regroup":
            self.regroup(attached, share)
        elif add != "stay":
            self.moved(attached, str(drop), str(add), float(share))
        return (str(add), str(drop), float(share), float(step), str(loss)), replace(
            self.best, attached=torch.from_numpy(attached).to(self.best.attached.device), features=features, step=float(step), loss=str(loss), direction="row")

    def regroup(self, attached, share):
        n, k = attached.shape
        for _ in range(max(1, int(share * n * k / 2))):
            a, b = self.draw.choice(n, 2, replace=False); i, j = self.draw.integers(k, size=2)
            x, y = attached[a, i], attached[b, j]
            if x >= 0 and y >= 0 and x not in attached[b] and y not in attached[a]:
                attached[a, i], attached[b, j] = y, x

    def moved(self, attached, drop, add, share):
        v, d = self.view, self.draw
        n, k = attached.shape
        flat = attached.reshape(-1)
        there = np.flatnonzero(flat >= 0)
        m = max(1, round(share * flat.size))
        if drop == "least" and v.pointed is not None:
            value = v.pointed[there // k, self.place[flat[there]]]
            value = value / (np.abs(value).mean() + 1e-30) + d.gumbel(size=there.size) * 0.3
            slots = there[np.argsort(value, kind="stable")[:m]]
        else:
            slots = d.choice(there, min(m, there.size), replace=False)
        old = self.classes[self.place[flat[slots]]]
        flat[slots] = -1
        if add == "none":
            return
        slots = np.concatenate([slots, np.flatnonzero(flat < 0)[~np.isin(np.flatnonzero(flat < 0), slots)]])
        free = np.ones(self.targets.size, bool); free[self.place[flat[flat >= 0]]] = False
        if add == "pointed":
            noise = d.gumbel(size=v.pointed.shape) * 0.1 * np.abs(v.pointed).mean()
            score = v.pointed + noise
            score[:, ~free] = -np.inf
            for slot in slots:
                pick = int(score[slot // k].argmax())
                flat[slot] = self.targets[pick]; score[:, pick] = -np.inf
            return
        standing = v.margin > 0
        if add == "border":
            key = np.where(standing & free, v.margin, np.inf)
        else:
            gain = standing + np.bincount(self.src, weights=standing[self.dst] / np.sqrt(1 + np.bincount(self.dst, minlength=self.targets.size))[self.dst], minlength=self.targets.size)
            key = np.where(free, -gain, np.inf)
        order = np.argsort(key, kind="stable")[: 4 * slots.size]
        order = order[np.isfinite(key[order])]
        fresh = d.choice(order, min(slots.size, order.size), replace=False)
        fresh = fresh[np.argsort(self.classes[fresh], kind="stable")]
        own = self.classes_of(attached, slots // k)
        slots = slots[np.argsort(own, kind="stable")][: fresh.size]
        flat[slots] = self.targets[fresh]

    def classes_of(self, attached, nodes):
        """The most frequent class among the targets of each node."""
        common = np.array([np.bincount(self.classes[self.place[row[row >= 0]]], minlength=1).argmax() if (row >= 0).any() else 0 for row in attached])
        return common[nodes]

    def go_on(self, gradients: int):
        spent = 0
        while spent < gradients:
            if self.view is None:
                self.view = self.look(); spent += 1
            made = [self.propose() for _ in range(SIDE_BY_SIDE)]
            climbed = self.search.climb_all([m for _, m in made], GRADIENTS)
            spent += SIDE_BY_SIDE * GRADIENTS
            before = self.best.score
            for (kind, _), c in zip(made, climbed):
                self.log.append((spent, *kind, before, c.score))
            top = min(climbed, key=lambda m: m.score)
            if top.score <= self.best.score:
                self.best = top; self.view = None
        return self.best
