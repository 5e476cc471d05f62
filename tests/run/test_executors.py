"""Steps that die: each becomes a record with its type and reason, and the run goes on."""

from __future__ import annotations

import gc
import os
import signal
import sqlite3
import sys
import weakref
from contextlib import closing
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch

from fgai_bench.run.execute import execute
from fgai_bench.run.executors.base import Event, Job, WorkerSettings
from fgai_bench.run.executors.processes import Processes
from fgai_bench.run.executors.worker import free_circles
from fgai_bench.run.resume import planned, run

PLUGIN = r'''
"""Defenses that go wrong in every way there is."""
import ctypes, math, os, signal, subprocess, sys, time
from dataclasses import replace
from pathlib import Path
import torch
from fgai_bench.attacks import ATTACKS
from fgai_bench.attacks.base import Trace
from fgai_bench.attacks.injection import RandomInjection
from fgai_bench.defenses import DEFENSES
from fgai_bench.defenses.out_of_memory import OutOfMemory
from fgai_bench.defenses.vanilla import Vanilla
from fgai_bench.metrics import NotApplicable


def deed(name, what):
    class Deed(Vanilla):
        def fit(self, *arguments, **options):
            what()
            return super().fit(*arguments, **options)

    DEFENSES.register(name, tags=("node",))(Deed)


@DEFENSES.register("forgets", tags=("node",))
class Forgets(Vanilla):
    def fit(self, *arguments, **options):
        super().fit(*arguments, **options)  # and returns nothing


@ATTACKS.register("tells", tags=("injection",))
class Tells(RandomInjection):
    """Its trace holds tensors, and a flag that is no text."""

    def search(self, *arguments):
        trace = Trace(torch.tensor(1), (torch.tensor(0.5), math.nan), (ValueError("it wobbled"),))
        return replace(super().search(*arguments), trace=trace)


def fail_once():
    mark = Path(os.environ["DEEDS"]) / "tried"
    if not mark.exists():
        mark.touch()
        raise RuntimeError("the first time never works")


def raised(error):
    raise error


def forked():
    os.fork()  # and both go on as if nothing had happened


def left(**how):
    child = subprocess.Popen(["sleep", "600"], **how)
    (Path(os.environ["DEEDS"]) / f"{child.pid}.child").touch()


deed("forks", forked)
deed("spawns", left)
deed("detaches", lambda: left(start_new_session=True))
deed("clutches", lambda: ctypes.PyDLL(None).sleep(600))  # without giving up the lock of the interpreter
deed("stops", lambda: raised(KeyboardInterrupt()))
deed("quits", lambda: sys.exit(0))
deed("vanishes", lambda: os._exit(0))
deed("mumbles", lambda: raised(ValueError("caf\udce9 " + "x" * 5_000_000 + " end")))
deed("dies", lambda: os.kill(os.getpid(), signal.SIGKILL))
deed("raises", lambda: raised(KeyError("no such thing")))
deed("swells", lambda: raised(OutOfMemory("dense thing", 214 * 2**30, 20 * 2**30)))
deed("sleeps", lambda: time.sleep(600))
deed("declines", lambda: raised(NotApplicable("not for this graph")))
deed("leaves", lambda: raised(SystemExit(3)))
deed("recovers", fail_once)
deed("signs", lambda: (Path(os.environ["DEEDS"]) / f"{os.getpid()}.pid").touch())
'''


@pytest.fixture
def deeds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The plugin under a name of its own for each test, since a registry takes a name once."""
    from fgai_bench.attacks import ATTACKS
    from fgai_bench.defenses import DEFENSES

    (tmp_path / "plugin").mkdir()
    (tmp_path / "plugin" / "deeds_gone_wrong.py").write_text(PLUGIN)
    monkeypatch.setenv("DEEDS", str(tmp_path))
    monkeypatch.syspath_prepend(str(tmp_path / "plugin"))
    for registry in (DEFENSES, ATTACKS):
        monkeypatch.setattr(registry, "_entries", dict(registry._entries))
    sys.modules.pop("deeds_gone_wrong", None)
    import deeds_gone_wrong  # type: ignore[import-not-found]

    return [deeds_gone_wrong.__name__]


@pytest.mark.slow
def test_every_way_to_die_is_a_typed_record_and_the_run_goes_on(
    deeds: list[str], tiny: dict[str, Any], tmp_path: Path
) -> None:
    names = ["dies", "raises", "swells", "sleeps", "declines", "leaves", "vanilla"]
    suite = {**tiny, "defenses": names, "seeds": 1, "time_limit": 8, "attacks": ["injection"]}
    done = run(suite, tmp_path / "run", jobs=2, device="cpu", plugins=deeds)
    table = done.records().drop_duplicates(["label", "kind"]).set_index(["label", "kind"])
    assert {name: table.loc[(name, "train"), "status"] for name in names} == {
        "dies": "failed",
        "raises": "failed",
        "swells": "oom",
        "sleeps": "timeout",
        "declines": "not-applicable",
        "leaves": "failed",
        "vanilla": "ok",
    }
    reasons = table["reason"]
    assert reasons["dies", "train"] == "its worker was killed by SIGKILL, as the system does when memory runs out"
    assert reasons["raises", "train"] == "KeyError: 'no such thing'"
    needs = "dense thing needs about 214.0 GiB, 20.0 GiB are available: it would take 11 such devices"
    assert reasons["swells", "train"] == needs
    assert reasons["sleeps", "train"] == "stopped after its time limit of 8 s"
    assert reasons["leaves", "train"] == "SystemExit: 3"
    assert table.loc[("swells", "attack"), "status"] == "oom"
    assert reasons["swells", "attack"].startswith("its model is missing: dense thing needs about 214.0 GiB")
    assert "no such thing" in done.provenance().query("status == 'failed'")["detail"].str.cat()


@pytest.mark.slow
def test_what_a_step_leaves_behind_is_ended_and_the_run_goes_on(
    deeds: list[str], tiny: dict[str, Any], tmp_path: Path
) -> None:
    names = ["forks", "spawns", "detaches", "clutches", "quits", "stops", "vanishes", "mumbles", "vanilla"]
    suite = {**tiny, "defenses": names, "seeds": 1, "time_limit": 10, "attacks": []}
    done = run(suite, tmp_path / "run", jobs=2, device="cpu", plugins=deeds)
    table = done.records().query("kind == 'train'").drop_duplicates("label").set_index("label")
    ok = ["forks", "spawns", "detaches", "vanilla"]
    assert table["status"].to_dict() == dict.fromkeys(ok, "ok") | {
        "clutches": "timeout",
        "quits": "failed",
        "stops": "failed",
        "vanishes": "failed",
        "mumbles": "failed",
    }
    assert table["reason"]["quits"] == "SystemExit: 0"
    assert "SIGKILL" not in table["reason"]["stops"]
    assert table["reason"]["vanishes"] == "its worker ended with exit code 0"
    assert table["reason"]["mumbles"].startswith("ValueError: caf\\udce9 xxx")
    assert table["reason"]["mumbles"].endswith("xxx end")
    assert (tmp_path / "run" / "store.sqlite").stat().st_size < 300_000
    children = [path.stem for path in tmp_path.glob("*.child")]
    assert len(children) == 2
    assert not [pid for pid in children if Path("/proc", pid, "cmdline").exists() and is_running(pid)]


def is_running(pid: str) -> bool:
    return Path("/proc", pid, "stat").read_text().rpartition(")")[2].split()[0] != "Z"


def test_a_defense_that_returns_nothing_has_failed(deeds: list[str], tiny: dict[str, Any], tmp_path: Path) -> None:
    suite = {**tiny, "defenses": ["forgets"], "seeds": 1, "attacks": []}
    records = run(suite, tmp_path / "run", executor="inline", device="cpu", plugins=deeds).records()
    why = "TypeError: the defense 'forgets' returned None and no model"
    assert dict(zip(records["kind"], records["reason"], strict=True)) == {
        "train": why,
        "clean": f"its model is missing: {why}",
    }


def test_what_an_attack_tells_is_recorded_as_plain_numbers_and_words(
    deeds: list[str], tiny: dict[str, Any], tmp_path: Path
) -> None:
    suite = {**tiny, "defenses": ["vanilla"], "seeds": 1, "attacks": ["tells"]}
    done = run(suite, tmp_path / "run", executor="inline", device="cpu", plugins=deeds)
    assert done.counts() == {"ok": 3}
    curve = done.curves().query("curve == 'objective'")["y"]
    assert repr(curve.tolist()) == "[0.5, nan]"
    assert {"unreliable: it wobbled"} <= set(done.records().query("kind == 'attack'")["flags"].explode())


def test_a_plugin_that_the_worker_lacks_is_named(tiny: dict[str, Any], tmp_path: Path) -> None:
    suite = {**tiny, "defenses": ["vanilla"], "seeds": 1, "attacks": []}
    done = run(suite, tmp_path / "run", jobs=1, device="cpu", plugins=["no_such_module"])
    (reason,) = done.records().query("kind == 'train'")["reason"]
    assert "cannot start: plugin 'no_such_module' cannot be imported: No module named 'no_such_module'" in reason


def test_an_entry_that_the_worker_lacks_is_a_failure_with_its_cause(tiny: dict[str, Any]) -> None:
    (step, *_) = planned({**tiny, "seeds": 1}, "cpu").steps.values()
    result = execute({**step.config, "dataset": {"name": "csbm-of-mine"}}, {})
    assert (result.status, result.reason[:45]) == ("failed", "RegistryError: unknown dataset 'csbm-of-mine'")


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU that answers")
def test_a_step_on_a_gpu_that_does_not_answer_is_a_failure_with_its_cause(tiny: dict[str, Any]) -> None:
    (step, *_) = planned({**tiny, "seeds": 1}, "cpu").steps.values()
    result = execute({**step.config, "device": "cuda"}, {})
    assert result.status == "failed"
    assert "CUDA" in result.reason or "NVIDIA" in result.reason
    assert result.environment["device"] == "cuda"


def test_what_failed_is_tried_again_only_when_asked_for(deeds: list[str], tiny: dict[str, Any], tmp_path: Path) -> None:
    suite = {**tiny, "defenses": ["recovers", "vanilla"], "seeds": 1, "attacks": []}
    options: dict[str, Any] = {"executor": "inline", "device": "cpu", "plugins": deeds}
    assert run(suite, tmp_path / "run", **options).counts() == {"failed": 2, "ok": 2}
    assert run(suite, tmp_path / "run", **options).executed == 0
    again = run(suite, tmp_path / "run", retry_failed=True, **options)
    assert (again.executed, again.counts()) == (2, {"ok": 4})


def test_a_failure_exits_1_and_says_which(deeds: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from fgai_bench.cli import main

    line = "run --datasets csbm-1e3 --models gat --defenses raises --seeds 1 --device cpu --attacks injection"
    line += f" --executor inline --set training.epochs=1 --out {tmp_path / 'run'}"
    assert main(line.split()) == 1
    assert "KeyError: 'no such thing'" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("timed", "device", "processes"),
    [(False, "cpu", 1), pytest.param(True, "cpu", 3, marks=pytest.mark.slow), (True, "cuda", 1)],
)
def test_timed_steps_share_a_process_only_where_its_memory_does_not_count(
    timed: bool, device: str, processes: int, deeds: list[str], tiny: dict[str, Any], tmp_path: Path
) -> None:
    if device == "cuda" and not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    suite = {**tiny, "defenses": ["signs"], "seeds": 3, "attacks": [], "exclusive": timed}
    run(suite, tmp_path / "run", jobs=1, device=device, plugins=deeds)
    assert len(list(tmp_path.glob("*.pid"))) == processes


def test_what_a_step_left_in_circles_is_freed_before_the_next_is_measured() -> None:
    """An attack on amazon-photo leaves 58 MiB so, and a worker makes many before Python looks."""

    class Left:
        def __init__(self) -> None:
            self.itself = self

    gc.disable()
    try:
        for _ in range(2):  # also after the first time, when what was alive is not looked at again
            left = weakref.ref(Left())
            assert left() is not None
            free_circles()
            assert left() is None
    finally:
        gc.enable()
        gc.unfreeze()


def gpu_of_each_worker() -> dict[str, int]:
    """Return the process that was given each GPU."""
    given = [(child.environ().get("CUDA_VISIBLE_DEVICES"), child.pid) for child in psutil.Process().children()]
    return {gpu: process for gpu, process in given if gpu is not None}


@pytest.mark.parametrize("retired", ["0", "1"])
def test_a_new_worker_gets_the_gpu_that_became_free(retired: str) -> None:
    with closing(Processes(2, WorkerSettings(devices=("0", "1")))) as executor:
        executor.start()
        before = gpu_of_each_worker()
        os.kill(before[retired], signal.SIGKILL)
        assert executor.events(60) == []
        for hash in "ab":
            executor.submit(Job(hash, {}, {}))
        after = gpu_of_each_worker()
    assert set(before) == set(after) == {"0", "1"}
    assert [gpu for gpu in after if after[gpu] != before[gpu]] == [retired]


MEETS = """
import os, time
from pathlib import Path
from fgai_bench.defenses import DEFENSES
from fgai_bench.defenses.vanilla import Vanilla


@DEFENSES.register("sociable", tags=("node",))
class Sociable(Vanilla):
    pass


here = Path(__file__).parent
(here / f"{os.getpid()}.up").touch()
limit = time.monotonic() + 120
while len(list(here.glob("*.up"))) < 2:
    if time.monotonic() > limit:
        raise RuntimeError("nobody came")
    time.sleep(0.05)
"""


def test_workers_that_are_started_for_a_job_get_ready_side_by_side(tmp_path: Path) -> None:
    plugin = tmp_path / "meets.py"
    plugin.write_text(MEETS)
    config = {"kind": "unheard-of", "device": "cpu", "threads": 1}
    inputs = {"model": bytes(1_000_000)}  # more than a pipe holds before somebody reads
    events: list[Event] = []
    with closing(Processes(2, WorkerSettings(plugins=[str(plugin)]))) as executor:
        for hash in "ab":
            executor.submit(Job(hash, config, inputs))
        while len(events) < 2:
            events += executor.events(60)
    assert {event.hash for event in events} == {"a", "b"}
    assert {event.result.reason for event in events if event.result} == {"KeyError: 'unheard-of'"}


def test_a_worker_that_dies_before_it_has_read_its_settings_fails_its_step_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with closing(Processes(1, WorkerSettings(datasets={"large": bytes(10_000_000)}))) as executor:
        executor.start()
        executor.submit(Job("a", {}, {}))
        (event,) = executor.events(60)
    assert event.result is not None
    assert (event.result.status, event.result.reason) == ("failed", "its worker ended with exit code 1")


def test_a_damaged_step_of_a_finished_run_is_redone_in_a_worker(
    deeds: list[str], tiny: dict[str, Any], tmp_path: Path
) -> None:
    suite = {**tiny, "defenses": ["signs"], "seeds": 1, "attacks": []}
    run(suite, tmp_path / "run", executor="inline", device="cpu", plugins=deeds)
    (signed,) = tmp_path.glob("*.pid")
    assert signed.stem == str(os.getpid())
    signed.unlink()
    with closing(sqlite3.connect(tmp_path / "run" / "store.sqlite")) as connection, connection:
        connection.execute("UPDATE steps SET checksum = '' WHERE json_extract(content, '$.kind') = 'train'")
    assert run(suite, tmp_path / "run", jobs=1, device="cpu", plugins=deeds).executed == 1
    (signed,) = tmp_path.glob("*.pid")
    assert signed.stem != str(os.getpid())


@pytest.mark.gpu
def test_the_memory_of_a_training_is_its_own_whatever_ran_before(tiny: dict[str, Any]) -> None:
    """On one GPU in one process: a small graph, a larger one with five attacks, and the small one again."""
    suite = {
        **tiny,
        "datasets": ["csbm-1e3", "csbm-1e5"],
        "defenses": ["vanilla"],
        "seeds": 1,
        "attacks": ["injection"],
    }
    steps = list(planned(suite, "cuda").steps.values())
    trainings = [step for step in steps if step.kind == "train"]
    (attack,) = (step for step in steps if step.kind == "attack" and step.trial == trainings[1].hash)
    small, large = (execute(step.config, {}) for step in trainings)
    for _ in range(5):
        assert execute(attack.config, {"model": large.artifacts["model"]}).status == "ok"
    free_circles()  # as a worker does before every step
    again = execute(trainings[0].config, {})
    peaks = [result.cost["train_peak_mib"] for result in (small, large, again)]
    assert peaks[1] > peaks[0] + 20
    assert peaks[2] == pytest.approx(peaks[0], rel=0.1)
