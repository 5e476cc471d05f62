"""Each check rejects a deliberate violator, and accepts an honest entry with the same tags."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
import torch

import fgai_bench as fb
from fgai_bench.data import MissingDataError, Split, Statistics, random_split
from fgai_bench.metrics import g_tvd_raw
from fgai_bench.models.gat import GAT
from fgai_bench.registry import Entry
from fgai_bench.suites import load_suite
from fgai_bench.testing import checks_of, subject_of
from fgai_bench.testing.datasets import DatasetSubject
from fgai_bench.testing.fixture import tiny_graph
from fgai_bench.testing.suites import SuiteSubject
from tests.testing import (
    violating_attacks,
    violating_certificates,
    violating_defenses,
    violating_explainers,
    violating_models,
)

MODEL_TAGS = ("attention", "differentiable")
_count = itertools.count(2)


def entry(target, tags=(), **metadata) -> Entry:
    return Entry("violator", target, tags=frozenset(tags), **metadata)


def graph(seed: int = 0):
    """The tiny graph with the split of a seed."""
    data, split = tiny_graph(), random_split(36, seed)
    data.train_index, data.val_index, data.test_index = split.train, split.val, split.test
    return data


def dataset(load=graph, **changes):
    declared = Statistics(36, 70, 8, 3)
    return replace(DatasetSubject(load, declared, tags=frozenset({"random-split"})), **changes)


def drawing_graph(seed: int):
    torch.rand(1)
    return graph(seed)


DATASETS = [
    ("check_statistics", dataset(declared=Statistics(36, 69, 8, 3))),
    ("check_seed_decides_the_split", dataset(lambda seed: graph(next(_count)))),
    ("check_seed_decides_the_split", dataset(drawing_graph)),
    ("check_seed_decides_the_split", dataset(lambda seed: graph(0))),
]
METRICS = [
    ("check_value_is_in_range", g_tvd_raw, (), (0.0, 0.5)),
    ("check_value_is_in_range", lambda a, b: float(a.zero_().sum()), (), None),
    ("check_value_of_equal_arguments", lambda a, b: 1.0 + g_tvd_raw(a, b), ("distance",), None),
    ("check_value_of_equal_arguments", g_tvd_raw, ("similarity",), None),
    ("check_symmetry", lambda a, b: float(a.sum() - b.sum()), ("symmetric",), None),
    ("check_nan_raises", lambda a, b: float((a - b).sum()), (), None),
]
QUICK = {"name": "tiny", "datasets": ["cora"], "models": ["gat"], "defenses": ["vanilla", "ln"], "seeds": 1}


SUITES = {
    "check_expands_to_trials": SuiteSubject(load_suite({**QUICK, "tasks": ["link"], "datasets": ["csbm"]})),
    "check_options_are_possible": SuiteSubject(load_suite({**QUICK, "model": {"hiden": 3}})),
}


def cases():
    """Kind, check, a subject that violates it, and one that does not."""
    honest = subject_of("models", entry(violating_models.Honest, MODEL_TAGS))
    for name, model in violating_models.VIOLATORS:
        yield "models", name, subject_of("models", entry(model, MODEL_TAGS)), honest
    yield "models", "check_attention_is_declared", subject_of("models", entry(GAT)), honest
    for name, attack, tags in violating_attacks.VIOLATORS:
        names = {"attention": "explanation", "fixed-search": "worst"}
        honest = fb.ATTACKS.entry(next((names[tag] for tag in tags if tag in names), "injection"))
        yield "attacks", name, subject_of("attacks", entry(attack, tags)), subject_of("attacks", honest)
    vanilla, fgai = (subject_of("defenses", fb.DEFENSES.entry(name)) for name in ("vanilla", "fgai"))
    for name, defense, tags in violating_defenses.VIOLATORS:
        honest = fgai if {"needs-teacher", "needs-inner"} & set(tags) else vanilla
        yield "defenses", name, subject_of("defenses", entry(defense, tags)), honest
    for name, violator in DATASETS:
        yield "datasets", name, violator, dataset()
    honest = subject_of("certificates", entry(violating_certificates.Honest))
    for name, certificate in violating_certificates.VIOLATORS:
        yield "certificates", name, subject_of("certificates", entry(certificate)), honest
    for name, explainer in violating_explainers.VIOLATORS:
        subjects = (
            subject_of("explainers", entry(e, ("random", "attention")))
            for e in (explainer, violating_explainers.Honest)
        )
        yield "explainers", name, *subjects
    for name, metric, tags, values in METRICS:
        tags = ("inputs:logits", *tags)
        honest = fb.METRICS.entry("topk_overlap" if "similarity" in tags else "g_tvd_raw")
        yield "metrics", name, *(subject_of("metrics", e) for e in (entry(metric, tags, range=values), honest))
    for name, violator in SUITES.items():
        yield "suites", name, violator, subject_of("suites", entry(QUICK))


CASES = list(cases())


@pytest.mark.parametrize(
    ("kind", "name", "violator", "honest"),
    CASES,
    ids=[f"{kind}-{name}-{place}" for place, (kind, name, _, _) in enumerate(CASES)],
)
def test_the_check_rejects_a_violator_and_accepts_an_honest_entry(kind, name, violator, honest):
    (check,) = [check for check in checks_of(kind) if check.name == name]
    found = check.run(violator)
    assert found.status == "failed"
    assert found.message
    assert check.run(honest).status == "passed"


@pytest.mark.parametrize(
    "kind", ["models", "datasets", "attacks", "defenses", "certificates", "explainers", "metrics", "suites"]
)
def test_every_check_has_a_violator_and_a_sentence(kind):
    assert {check.name for check in checks_of(kind)} == {name for of, name, _, _ in CASES if of == kind}
    for check in checks_of(kind):
        assert check.name.startswith("check_")
        assert check.look.__doc__.endswith(".")
        assert "\n" not in check.look.__doc__


def test_a_dataset_whose_files_are_missing_is_skipped_with_the_reason():
    def missing(seed):
        raise MissingDataError("put it there")

    found = [check.run(dataset(missing)) for check in checks_of("datasets")]
    assert {(result.status, result.message) for result in found} == {("skipped", "put it there")}


def test_the_split_of_the_honest_graph_is_the_one_that_is_asked_for():
    assert Split.of(graph(1)).hash == random_split(36, 1).hash
