"""Wrong suites, generated: each is answered with exit code 2 and one sentence."""

from __future__ import annotations

import contextlib
import copy
import io
import tempfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fgai_bench.cli import main
from tests.campaign import campaign

GOOD: dict[str, Any] = {
    "name": "mine",
    "tasks": ["node"],
    "datasets": ["csbm-1e3"],
    "models": ["gat"],
    "defenses": ["vanilla", {"name": "fgai", "options": {"k": 0.5}}],
    "attacks": ["injection", {"name": "injection", "label": "more", "threat": {"nodes": 30}}],
    "seeds": 1,
    "threat": {"nodes": 5},
    "inner": {"attack": "injection", "threat": {"steps": 2}},
    "training": {"epochs": 1},
    "settings": [{"when": {"defense": "fgai"}, "defense": {"prediction": 0.5}}],
    "time_limit": 60,
}
WORDS = st.text(st.characters(codec="ascii", categories=["L"]), min_size=1, max_size=8).map(lambda word: f"zz-{word}")
NEGATIVE = st.integers(max_value=-1) | st.floats(max_value=-1e-3, allow_nan=False, allow_infinity=False)
NO_NUMBER = WORDS | st.lists(st.integers(), max_size=2) | st.dictionaries(WORDS, st.integers(), max_size=2) | st.none()
NOT_FINITE = st.sampled_from([float("nan"), float("inf"), float("-inf")])
NO_NAMES = (
    st.integers()
    | st.floats(allow_nan=False)
    | st.booleans()
    | WORDS
    | st.just([])
    | st.lists(st.integers(), min_size=1, max_size=2)
)

# Where a value stands in a suite, and what must not stand there.
PLACES: list[tuple[tuple[Any, ...], st.SearchStrategy[Any]]] = [
    (("tasks",), NO_NAMES | st.lists(WORDS, min_size=1, max_size=2)),
    (("datasets",), NO_NAMES | st.none() | st.lists(WORDS, min_size=1, max_size=2)),
    (("models",), NO_NAMES | st.none() | st.lists(WORDS, min_size=1, max_size=2)),
    (("defenses",), NO_NAMES | st.none() | st.lists(WORDS, min_size=1, max_size=2)),
    (("attacks",), st.integers() | WORDS | st.lists(WORDS, min_size=1, max_size=2)),
    (
        ("seeds",),
        NEGATIVE | WORDS | st.just([]) | st.just(0) | st.lists(st.integers(max_value=-1), min_size=1, max_size=3),
    ),
    (("threat",), WORDS | st.integers() | st.dictionaries(WORDS, st.integers(), min_size=1, max_size=2)),
    *[
        (("threat", key), NEGATIVE | NO_NUMBER | NOT_FINITE)
        for key in ("nodes", "edges_per_node", "steps", "step", "restarts")
    ],
    (("threat", "scenario"), WORDS | st.integers()),
    (("threat", "feature_low"), st.floats(min_value=1.5, allow_nan=False, allow_infinity=False) | NOT_FINITE | WORDS),
    (("inner", "attack"), WORDS | st.integers()),
    (("inner", "threat", "steps"), NEGATIVE | NO_NUMBER),
    *[(("training", key), NEGATIVE | NO_NUMBER | NOT_FINITE) for key in ("epochs", "lr", "weight_decay")],
    (("defenses", 1, "options", "k"), NEGATIVE | NO_NUMBER | NOT_FINITE | st.floats(min_value=1.01, max_value=1e9)),
    (("defenses", 1, "options", "scope"), WORDS | st.integers()),
    (("defenses", 1, "options"), st.dictionaries(WORDS, st.integers(), min_size=1, max_size=2) | st.integers()),
    (("defenses", 0), st.integers() | st.fixed_dictionaries({"label": WORDS})),
    (("attacks", 1, "threat", "nodes"), NEGATIVE | NO_NUMBER),
    (("attacks", 1, "options"), st.dictionaries(WORDS, st.integers(), min_size=1, max_size=2)),
    (("attacks", 1, "label"), st.just("injection")),
    (("settings", 0, "when"), st.dictionaries(WORDS, WORDS, min_size=1, max_size=2) | st.integers() | st.just({})),
    (("settings", 0, "model"), st.dictionaries(WORDS, st.integers(), min_size=1, max_size=2)),
    (("settings", 0, "training"), st.dictionaries(WORDS, st.integers(), min_size=1, max_size=2)),
    (
        ("model",),
        st.dictionaries(WORDS, st.integers(), min_size=1, max_size=2) | st.just({"hidden": -3}) | st.integers(),
    ),
    (("time_limit",), NEGATIVE | st.just(0) | WORDS | NOT_FINITE),
    (("threads",), NEGATIVE | st.just(0) | WORDS),
    (("exclusive",), WORDS | st.integers(min_value=2)),
    (("metrics",), st.lists(WORDS, min_size=1, max_size=2)),
    (("include",), st.just(["quick"]) | st.lists(WORDS, min_size=1, max_size=1)),
]


@st.composite
def bad_suites(draw: st.DrawFn) -> dict[str, Any]:
    """The good suite with one thing wrong: a value, a key that nobody knows, or a key that is missing."""
    suite = copy.deepcopy(GOOD)
    kind = draw(st.sampled_from(["value", "value", "value", "key", "missing"]))
    if kind == "missing":
        del suite[draw(st.sampled_from(["datasets", "models", "defenses"]))]
        return suite
    place, wrong = draw(st.sampled_from(PLACES))
    inner: Any = suite
    for part in place[:-1]:
        inner = inner[part]
    if kind == "key" and isinstance(inner, dict):
        inner[draw(WORDS)] = draw(st.integers() | WORDS)
    else:
        inner[place[-1]] = draw(wrong)
    return suite


def refused(suite: dict[str, Any], flags: tuple[str, ...] = ()) -> str:
    """The answer to a request, after checking that it is a refusal that wrote nothing."""
    with tempfile.TemporaryDirectory() as folder:
        path, out = Path(folder) / "mine.yaml", Path(folder) / "run"
        path.write_text(yaml.safe_dump(suite))
        said, errors = io.StringIO(), io.StringIO()
        line = ["run", "--suite", str(path), "--out", str(out), "--device", "cpu", "--executor", "inline", *flags]
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(errors):
            code = main(line)
        assert (code, said.getvalue()) == (2, ""), errors.getvalue()
        assert [entry.name for entry in Path(folder).iterdir()] == ["mine.yaml"]
    answer = errors.getvalue()
    assert answer.startswith("error: ")
    assert answer.count("\n") == 1
    assert "Traceback" not in answer
    return answer


@pytest.mark.slow
@settings(
    max_examples=campaign(40, 200),
    deadline=None,
    suppress_health_check=list(HealthCheck),
    database=None,
    derandomize=True,
)
@given(bad_suites())
def test_generated_bad_suites_are_refused(suite: dict[str, Any]) -> None:
    refused(suite)


def test_the_good_suite_is_good(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(GOOD))
    assert main(["run", "--suite", str(tmp_path / "mine.yaml"), "--device", "cpu", "--dry-run"]) == 0
    assert "8 steps (2 train, 2 clean, 4 attack)" in capsys.readouterr().out


def test_a_device_that_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert "no CUDA device was found; use --device cpu" in refused(GOOD, ("--device", "cuda"))


def test_a_dataset_that_cannot_be_had_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FGAI_BENCH_OFFLINE", "1")
    monkeypatch.setenv("FGAI_BENCH_DATA", str(tmp_path))
    answer = refused({**GOOD, "datasets": ["amazon-photo"]})
    assert "amazon-photo needs Photo/raw/amazon_electronics_photo.npz" in answer
