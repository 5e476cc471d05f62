"""Stores for the tests of reports: synthetic numbers, written through the store's own writer, known by heart.

The numbers are made up so that means, spreads and differences can be checked by hand. Nothing here was measured.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save

from fgai_bench.records.result import Result
from fgai_bench.records.store import Store
from fgai_bench.run.plan import Step

ENVIRONMENT = {"device": "fixture", "threads": 1, "package": "0.0", "commit": "abcdef0123456789", "dirty": False}
FACTS = {"nodes": 7650, "edges": 119081, "features": 745, "classes": 8, "train_nodes": 765, "val_nodes": 765}
FACTS["test_nodes"] = 6120
THREAT = {
    "scenario": "injection", "nodes": 20, "edges_per_node": 20, "feature_low": -1, "feature_high": 1, "step": 0.1,
    "steps": 10, "restarts": 1, "edges": 0, "epsilon": 0, "targets": "test",
}  # fmt: skip
LEDGER = {"nodes": 20.0, "edges": 400.0, "largest_feature": 1.0, "gradient_calls": 10.0}
TAGS = {"random-injection": ["control", "injection"], "explanation": ["attention", "gradient", "injection"]}
GRADIENT = ["gradient", "injection", "prediction"]
# Clean F1, attacked F1, g-JSD: LN is the best under attack, AT not to be told from it, FGAI the stablest.
BASE = {
    "vanilla": (0.92, 0.40, 0.008),
    "ln": (0.91, 0.90, 0.002),
    "at": (0.92, 0.89, 0.001),
    "fgai": (0.90, 0.85, 0.0005),
}
UNIFORM = 0.0006  # g-JSD of a uniform attention: five seeds tell FGAI's from it, three do not
WOBBLE = (-0.01, 0.0, 0.01, 0.005, -0.005)
RIGHT = {"attention-last": 0.30, "gatt": 0.50, "random": 0.0, "uniform": 0.40}
KEPT = {"vanilla": 0.6, "fgai": 0.9}
RATES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)


class Bench:
    """A store being filled."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.store = folder, Store(folder)
        self.members: list[dict[str, Any]] = []

    def add(self, kind: str, result: Result | None, *, seed: int = 0, threat: Mapping[str, Any] | None = None,
            **names: Any) -> None:  # fmt: skip
        """Place one step, and record it unless it is to be missing."""
        place = {
            "suite": "node", "task": "node", "dataset": "amazon-photo", "model": "gat", "label": "vanilla",
            "attack_label": "", "explainer": "", "flags": (),
        } | names  # fmt: skip
        place.setdefault("defense", place["label"])
        place.setdefault("attack", place["attack_label"])
        hash = _hash(kind, seed, sorted(place.items()))
        trial = _hash(seed, *(place[key] for key in ("suite", "task", "dataset", "model", "label")))
        self.members.append({**place, "kind": kind, "seed": seed, "step": hash})
        if result is not None:
            self.store.record(Step(hash, kind, _config(kind, place, threat), {}, trial), _settled(result, place))

    def close(self) -> Path:
        self.store.place(self.members)
        self.store.close()
        return self.folder


def _hash(*content: Any) -> str:
    return hashlib.sha256(repr(content).encode()).hexdigest()


def _config(kind: str, place: Mapping[str, Any], threat: Mapping[str, Any] | None) -> dict[str, Any]:
    config: dict[str, Any] = {"kind": kind, "crafted_on": None}
    if kind == "train":
        config |= {"training": {"epochs": 20 if place["dataset"] == "csbm-1e4" else 200}}
    if kind == "certify":
        config |= {"certificate": {"name": place["explainer"]}, "threat": {**THREAT, **(threat or {})}}
    if kind == "attack":
        name = place["attack"]
        config |= {
            "attack": {"name": name},
            "attack_tags": TAGS.get(name, GRADIENT),
            "threat": {**THREAT, **(threat or {})},
        }
    return config


def _settled(result: Result, place: Mapping[str, Any]) -> Result:
    facts = {**FACTS, "dataset": place["dataset"]}
    return replace(result, environment=ENVIRONMENT, started=1.0, seconds=1.0, facts={**facts, **result.facts})


def train_result(label: str, seed: int, seconds: float = 10.0, mib: float = 1000.0) -> Result:
    return Result(
        metrics={"validation_score": 0.9},
        cost={"train_seconds": seconds + seed, "train_peak_mib": mib},
    )


def clean_result(label: str, seed: int) -> Result:
    f1 = BASE[label][0] + WOBBLE[seed] / 10
    curve = tuple(1.0 - 0.4 * rate for rate in RATES)
    return Result(
        metrics={
            "f1": f1, "f_slope_pos": -0.4, "f_slope_neg": -0.1, "f_slope_pos_random": -0.2, "f_slope_neg_random": -0.15,
            "f_slope_pos_degree": -0.3 + WOBBLE[seed], "g_jsd_floor": 0.0,
            "attention_entropy_normalised": 0.8,
        },
        cost={"evaluate_seconds": 0.5},
        curves={"f_acc_pos": (RATES, curve), "f_acc_neg": (RATES, tuple(1 - 0.1 * rate for rate in RATES))},
    )  # fmt: skip


def attack_result(label: str, seed: int, harm: float = 0.0, ledger: Mapping[str, float] = LEDGER) -> Result:
    _, f1, jsd = BASE[label]
    wobble = WOBBLE[seed] * (1 if label in ("ln", "at") else -1)
    vanilla = label == "vanilla"
    return Result(
        metrics={
            "f1": f1 - harm + (4 * wobble if label == "at" else wobble), "g_jsd": jsd * (1 + 10 * WOBBLE[seed]),
            "g_tvd": 0.5 if vanilla else 0.1, "g_tvd_raw": 7.0 if vanilla else 0.7, "g_jsd_published": jsd * 1e-4,
            "topk_overlap": 0.6 if vanilla else 0.9, "prediction_kept": 0.5 if vanilla else 0.95,
            "f_slope_pos": 0.3 if vanilla else -0.35, "f_slope_neg": 0.2 if vanilla else -0.05,
            "g_jsd_uniform": UNIFORM,
        },
        not_applicable={"g_tvd_unchanged": "every prediction changed"} if vanilla else {},
        cost={"attack_seconds": 2.0, "evaluate_seconds": 0.5},
        ledger=ledger,
        curves={"f_acc_pos": (RATES, tuple(0.5 + 0.3 * rate for rate in RATES)), "f_acc_neg": (RATES, (0.5,) * 6)},
        artifacts={"attention": save(neighbourhood(label))},
    )  # fmt: skip


def neighbourhood(label: str) -> dict[str, np.ndarray]:
    """A centre 0 with neighbours 1, 2, 3, one further node 4, and the injected node 10 of a graph of ten."""
    edges = np.array([[1, 2, 3, 10, 4], [0, 0, 0, 0, 1]])
    clean = np.array([0.5, 0.3, 0.2, 0.0, 1.0])
    after = np.array([0.1, 0.1, 0.1, 0.7, 1.0]) if label == "vanilla" else np.array([0.48, 0.3, 0.2, 0.02, 1.0])
    return {
        "edge_index": edges, "clean": clean.astype(np.float32), "attacked": after.astype(np.float32),
        "centre": np.array([0]), "nodes": np.array([10]),
    }  # fmt: skip


def fill(bench: Bench, seeds: Iterable[int] = range(3), labels: Iterable[str] = tuple(BASE), **names: Any) -> None:
    """Train, measure and attack every defense of one (suite, dataset, model)."""
    for seed in seeds:
        for label in labels:
            where = {**names, "label": label, "seed": seed}
            bench.add("train", train_result(label, seed), **where)
            bench.add("clean", clean_result(label, seed), **where)
            bench.add("attack", attack_result(label, seed), attack_label="injection", **where)
            control = attack_result(label, seed, harm=-0.05)
            bench.add("attack", control, attack_label="random-injection", **where)


@pytest.fixture(scope="session")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Bench]:
    """Makes an empty store to fill."""
    return lambda: Bench(tmp_path_factory.mktemp("bench") / "run")


@pytest.fixture(scope="session")
def small(bench: Callable[[], Bench]) -> Path:
    """One dataset, one model, four defenses, three seeds: the store of the golden files."""
    made = bench()
    fill(made)
    return made.close()


@pytest.fixture(scope="session")
def broken(bench: Callable[[], Bench]) -> Path:
    """Amazon-Photo is whole; on Amazon-CS every kind of gap and an unequal budget stand beside two sound rows."""
    made = bench()
    fill(made, seeds=range(2))
    rest = {"dataset": "amazon-cs", "attack_label": "injection"}
    gaps = {
        "ln": (attack_result("ln", 0), Result("failed", "ValueError: it broke", "Traceback")),
        "at": (Result("oom", "needs 214 GiB"), Result("oom", "needs 214 GiB")),
        "fgai": (Result("timeout", "took longer than 60 s"), None),
        "pro-gnn": (Result("not-applicable", "the model has no attention"),) * 2,
    }
    for label, found in gaps.items():
        for seed, result in enumerate(found):
            made.add("attack", result, label=label, seed=seed, **rest)
    for seed in range(2):
        made.add("attack", attack_result("vanilla", seed), seed=seed, **rest)
        made.add("attack", attack_result("ln", seed, harm=0.2), seed=seed, label="sound", defense="ln", **rest)
        rich = {**LEDGER, "nodes": 40.0, "edges": 800.0}
        made.add("attack", attack_result("ln", seed, ledger=rich), seed=seed, label="rich", defense="ln",
                 threat={"nodes": 40}, **rest)  # fmt: skip
    return made.close()


@pytest.fixture(scope="session")
def wide(bench: Callable[[], Bench]) -> Path:
    """Something for every table and figure: all suites, five seeds where claims are decided."""
    made = bench()
    fill(made, seeds=range(5))
    fill(made, seeds=range(5), suite="published-budgets", labels=("vanilla", "fgai"), flags=("unequal budgets",))
    fill(made, seeds=range(2), suite="stress", labels=("vanilla", "fgai"))
    for seed in range(2):
        for label in ("vanilla", "fgai"):
            where = {"suite": "stress", "seed": seed, "label": label}
            made.add("attack", attack_result(label, seed, 0.1), attack_label="budget-40", attack="injection",
                     threat={"nodes": 40}, **where)  # fmt: skip
            made.add(
                "attack", attack_result(label, seed, 0.2), attack_label="ensemble", threat={"restarts": 2}, **where
            )
            made.add("attack", attack_result(label, seed, 0.3), attack_label="worst", **where)
            made.add("attack", attack_result(label, seed), attack_label="explanation", **where)
            made.add("agree", Result(metrics={"topk_overlap": 0.7}), **where)
            explained = {"explainer_topk_overlap": 0.4, "explainer_topk_overlap_floor": 0.9,
                         "attention_topk_overlap": 0.8, "effect_spearman_clean": 0.3,
                         "explainer_topk_overlap_unchanged": 0.5}  # fmt: skip
            made.add("explain", Result(metrics=explained), attack_label="injection", explainer="gnn-explainer", **where)
            audited = {
                "beta_2_mean": ((0.1, 0.5, 2.0), (0.9, 0.8, 0.5)), "alpha_2_mean": ((0.1, 0.5, 2.0), (0.0, 0.1, 0.3)),
                "holds_alpha0.1_beta0.75": ((0.1, 0.5, 2.0), (0.9, 0.6, 0.1)),
            }  # fmt: skip
            metrics = {"beta_1_mean": 0.9, "alpha_1_mean": 0.05}
            made.add("audit", Result(metrics=metrics, curves=audited), **{**where, "suite": "definition"})
    for label in BASE:
        link = {"suite": "link", "task": "link", "dataset": "cora", "label": label}
        made.add("clean", Result(metrics={"roc_auc": 0.9}, facts={"train_links": 4488}), **link)
        made.add(
            "attack",
            Result(metrics={"roc_auc": 0.8, "g_jsd": 1e-5, "g_jsd_uniform": 2e-5}, ledger=LEDGER),
            attack_label="injection",
            **link,
        )
        full = "similarity+prediction+explanation"
        made.add("train", train_result(label, 0, mib=1400.0 if label == "fgai" else 1000.0), suite="cost", label=label)
        made.add("train", train_result(label, 0, seconds=100.0), suite="cost", label=label, dataset="coauthor-physics")
        made.add("clean", clean_result("fgai", 0), suite="ablation", label=full if label == "fgai" else "prediction",
                 defense="fgai", model={"ln": "gatv2", "at": "gt"}.get(label, "gat"))  # fmt: skip
    for seed, (label, right) in product(range(2), (("planted-lie", 0.3), ("planted-truth", 0.8))):
        for explainer, less in (("attention-last", 0.0), ("gatt", 0.1), ("random", 0.3)):
            value = right - less + seed / 100
            scoped = {f"{name}_{scope}_clean": value for name in ("effect_spearman", "effect_precision")
                      for scope in ("covered", "into")}  # fmt: skip
            made.add("explain", Result(metrics=scoped), suite="planted-lie", seed=seed, label=label,
                     dataset="csbm-planted-strong", explainer=explainer, attack_label="injection")  # fmt: skip
    made.add("train", Result("oom", "needs 214 GiB"), suite="cost", label="pro-gnn", dataset="arxiv-topology")
    for edges in (1000, 10000):
        facts = {"edges": edges}
        for label in ("vanilla", "fgai"):
            result = replace(train_result(label, 0, seconds=edges / 1000), facts=facts)
            made.add("train", result, suite="scale", label=label, dataset=f"csbm-1e{len(str(edges)) - 1}")
    return made.close()


@pytest.fixture(scope="session")
def asked(bench: Callable[[], Bench]) -> Path:
    """Two defenses, four explainers, three seeds, under two attacks; a second graph knows its true edges."""
    made = bench()
    for seed in range(3):
        for label, kept in KEPT.items():
            for name, right in RIGHT.items():
                noise = 0.01 * seed * (1 if name == "gatt" else -1)
                values = {"effect_spearman_clean": right + noise, "effect_spearman": right / 2 + noise}
                values["explainer_topk_overlap_unchanged"] = kept
                where = {"suite": "stress", "label": label, "seed": seed, "explainer": name}
                made.add("explain", Result(metrics=values), attack_label="injection", **where)
                made.add("explain", Result(metrics=values), attack_label="worst", **where)
                known = Result(metrics={**values, "truth_auroc_clean": 0.5 + right, "truth_auroc": 0.5})
                made.add("explain", known, attack_label="injection", dataset="infection", **{**where, "suite": "truth"})
    return made.close()


DOCUMENT = r"""\documentclass{article}
\usepackage{amssymb,booktabs,caption,graphicx,multirow}
\begin{document}
%s
\end{document}
"""


def compiled(folder: Path) -> subprocess.CompletedProcess[str]:
    """Compile a document that includes every table of a report."""
    names = sorted(path.stem for path in (folder / "tables").glob("*.tex"))
    (folder / "all.tex").write_text(DOCUMENT % "\n".join(f"\\input{{tables/{name}.tex}}" for name in names))
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "all.tex"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, errors="replace")


FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--disable-dev-shm-usage"),
)


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A real Chromium without a window, which keeps what pages say on their console."""
    from selenium import webdriver
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service

    binary, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if binary is None or driver is None:
        pytest.skip("chromium or its driver is not installed")
    options = Options()
    options.binary_location = binary
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}", "--window-size=1200,1000"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    started = webdriver.Chrome(options=options, service=Service(driver))
    yield started
    started.quit()


def load(browser: Any, uri: str) -> None:
    """Load a page and wait until it is whole: a browser may answer before."""
    from selenium.webdriver.support.wait import WebDriverWait

    browser.get("about:blank")
    browser.get(uri)
    WebDriverWait(browser, 60).until(lambda at: at.execute_script("return document.readyState === 'complete'"))
