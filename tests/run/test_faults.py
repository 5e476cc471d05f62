"""kill -9 at random moments: what was recorded stays, what was not is done again, and the end is the same."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from fgai_bench.records.errors import StoreError
from fgai_bench.records.store import StoreReader
from fgai_bench.run.resume import run
from tests.campaign import campaign

KILLS = campaign(4, 20)
Content = Callable[[Path], dict[str, Any]]

# Imports everything once, then forks a child that carries out the run whenever it is told to: a killed child costs no
# import of torch, so that many of them fit into seconds.
NURSERY = """
import json, os, sys, torch
torch.set_num_threads(1)
import fgai_bench.run.execute, fgai_bench.run.schedule
from fgai_bench.run.resume import run
from fgai_bench.run.preflight import check_options
from fgai_bench.run.resume import planned
suite, folder = json.loads(sys.argv[1]), sys.argv[2]
check_options(planned(suite, "cpu").steps.values())
print("ready", flush=True)
for _ in sys.stdin:
    child = os.fork()
    if not child:
        run(suite, folder, executor="inline", device="cpu")
        os._exit(0)
    print(child, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@pytest.fixture
def nursery(tiny: dict[str, Any], tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    line = [sys.executable, "-c", NURSERY, json.dumps(tiny), str(tmp_path / "run")]
    with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process
        assert process.stdin is not None
        process.stdin.close()


def carry_out(nursery: subprocess.Popen[str], kill_after: float | None) -> int:
    """One attempt, killed after some seconds unless it is done before; returns the exit code of the child."""
    assert nursery.stdin is not None
    assert nursery.stdout is not None
    nursery.stdin.write("go\n")
    child = int(nursery.stdout.readline())
    if kill_after is not None:
        time.sleep(kill_after)
        os.kill(child, signal.SIGKILL)
    return int(nursery.stdout.readline())


def assert_whole(folder: Path, reference: Path, content: Content) -> None:
    """The store of an undisturbed run, record by record; no duplicate, no file that no record names."""
    assert content(folder) == content(reference)
    with StoreReader(folder) as store:
        assert store.damaged() == {}
        named = {store.artifacts.path(row["sha256"]) for step in store.steps() for row in step["artifacts"]}
    assert set((folder / "artifacts").iterdir()) == named
    assert {path.name for path in folder.iterdir()} == {"store.sqlite", "artifacts", "run.lock"}


@pytest.mark.slow
def test_kills_at_random_moments_lose_nothing(
    nursery: subprocess.Popen[str], reference: Path, tmp_path: Path, content: Content
) -> None:
    folder, rng, killed, held = tmp_path / "run", random.Random(7), 0, set()
    began = time.perf_counter()
    assert carry_out(nursery, None) == 0
    whole = time.perf_counter() - began
    shutil.rmtree(folder)
    while killed < KILLS:
        killed += carry_out(nursery, rng.uniform(0, 0.15 * whole)) == -signal.SIGKILL
        if (folder / "store.sqlite").exists() and (folder / "store.sqlite").stat().st_size:
            with StoreReader(folder) as store:
                now = set(store.statuses())
            assert held <= now, "a record was lost"
            held = now
        if len(held) == len(content(reference)["steps"]):  # finished before the last kill: once more from the start
            assert carry_out(nursery, None) == 0
            assert_whole(folder, reference, content)
            shutil.rmtree(folder)
            held = set()
    assert carry_out(nursery, None) == 0
    assert_whole(folder, reference, content)


def kill_once(line: list[str], folder: Path, records: int, worker: bool) -> bool:
    """Start the command, kill it or one of its workers after so many further records; tell whether it came to that."""
    known = recorded(folder)
    with subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True) as driver:
        while driver.poll() is None and recorded(folder) < known + records:
            time.sleep(0.05)
        struck = driver.poll() is None
        if struck and worker:
            below = psutil.Process(driver.pid).children(recursive=True)
            words = {child: " ".join(child.cmdline()) for child in below if child.is_running()}
            own = [child for child in words if "executors.worker" in words[child] or words[child].startswith("ray::")]
            random.Random(known).choice(own or [driver]).kill()  # the command itself if it has no worker yet
            driver.wait()
        with contextlib.suppress(ProcessLookupError):  # with all that it started: nobody is left who could write
            os.killpg(driver.pid, signal.SIGKILL)
    return struck


def recorded(folder: Path) -> int:
    """How many steps have values."""
    try:
        with StoreReader(folder) as store:
            return list(store.statuses().values()).count("ok")
    except StoreError:
        return 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("executor", "kills"),
    [("local", campaign(2, 20)), pytest.param("ray", campaign(1, 8), marks=pytest.mark.ray)],
)
def test_kills_of_the_command_and_its_workers_lose_nothing(
    executor: str, kills: int, tiny: dict[str, Any], reference: Path, tmp_path: Path, content: Content
) -> None:
    (tmp_path / "tiny.yaml").write_text(yaml.safe_dump(tiny))
    folder, rng, killed = tmp_path / "run", random.Random(7), 0
    line = [sys.executable, "-m", "fgai_bench.cli", "run", "--suite", str(tmp_path / "tiny.yaml"), "--out", str(folder)]
    line += ["--jobs", "2", "--device", "cpu", "--executor", executor, "--retry-failed"]
    while killed < kills:
        killed += kill_once(line, folder, rng.randrange(8), worker=killed % 2 == 1)
        if recorded(folder) == len(content(reference)["steps"]):  # finished before the last kill
            assert_whole(folder, reference, content)
            shutil.rmtree(folder)
    run(tiny, folder, executor="inline", device="cpu", retry_failed=True)
    assert_whole(folder, reference, content)
