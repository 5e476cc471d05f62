"""Where the cost is the result: warm-up, split, and a training that is too slow for its limit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fgai_bench.run.resume import Run, run
from fgai_bench.run.timing import TimedEnough, stopwatch, warm_up

SUITE: dict[str, Any] = {
    "name": "timed",
    "datasets": ["csbm-1e3"],
    "models": ["gat"],
    "defenses": ["vanilla"],
    "attacks": ["injection"],
    "seeds": 1,
    "training": {"epochs": 3},
    "threat": {"nodes": 2, "edges_per_node": 2, "steps": 2},
    "exclusive": True,
    "time_limit": 60,
}


def config(limit: float | None, epochs: int = 10) -> dict[str, Any]:
    return {"exclusive": {"time_limit": limit}, "training": {"epochs": epochs}}


def test_setup_is_not_multiplied_by_the_epochs() -> None:
    stopped = TimedEnough(epochs=5, seconds=14.0, first=10.0)  # 9 s before the first epoch, 1 s each
    assert stopped.total(10) == pytest.approx(19.0)
    assert TimedEnough(epochs=1, seconds=2.0, first=2.0).total(10) == pytest.approx(20.0)


def test_a_training_over_its_share_is_stopped_and_others_are_not() -> None:
    heard: list[int] = []
    slow = stopwatch(config(1e-9), lambda epoch, epochs: heard.append(epoch))
    assert slow is not None
    with pytest.raises(TimedEnough) as stopped:
        slow(1, 10)
    assert stopped.value.epochs == 1
    slow(10, 10)  # the last epoch is never thrown away
    assert heard == [1, 10]
    fast = stopwatch(config(1e9), None)
    assert fast is not None
    fast(1, 10)
    late = stopwatch(config(100), None, warming=60.0)  # the warm-up has used the share up
    assert late is not None
    with pytest.raises(TimedEnough):
        late(1, 10)
    assert stopwatch(config(None), None) is None
    assert stopwatch({}, heard.append) is not None  # type: ignore[arg-type]


def test_only_what_is_timed_is_warmed_up() -> None:
    done: list[str] = []
    warm_up({}, lambda: done.append("plain"))
    warm_up(config(None), lambda: done.append("timed"))
    assert done == ["timed"]


def test_a_cost_suite_splits_train_attack_and_evaluate(tmp_path: Path) -> None:
    run(SUITE, tmp_path / "run", executor="inline", device="cpu")
    costs = Run(tmp_path / "run").records().query("family == 'cost'").groupby("kind")["metric"].apply(set).to_dict()
    assert costs["train"] == {"train_seconds", "train_peak_mib", "epochs_timed", "extrapolated"}
    assert costs["attack"] == {"attack_seconds", "attack_peak_mib", "evaluate_seconds", "evaluate_peak_mib"}
    assert costs["clean"] == {"evaluate_seconds", "evaluate_peak_mib"}


def test_a_slow_method_has_a_time_but_no_attacked_value(tmp_path: Path) -> None:
    slow = {**SUITE, "training": {"epochs": 10_000}, "time_limit": 1.0}
    run(slow, tmp_path / "run", executor="inline", device="cpu")
    records = Run(tmp_path / "run").records()
    trained = records.query("kind == 'train'").set_index("metric")
    assert trained.loc["extrapolated", "value"] == 1
    assert 1 <= trained.loc["epochs_timed", "value"] < 10_000
    assert trained.loc["train_seconds", "value"] > 1
    assert trained.loc["train_seconds", "flags"][0].startswith("extrapolated from ")
    (attacked,) = records.query("kind == 'attack'").to_dict("records")
    assert attacked["status"] == "timeout"
    assert "extrapolated from" in attacked["reason"]
