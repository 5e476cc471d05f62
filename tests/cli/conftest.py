"""What tests of requests share: a folder to stand in, a small run, and a way to ask that cannot hang."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from fgai_bench.cli import main
from fgai_bench.run.resume import run

LONGEST_ANSWER = 600  # seconds: a request that hangs fails, and a busy machine does not
SUITE: dict[str, Any] = {
    "name": "tiny",
    "datasets": ["csbm-1e3"],
    "models": ["gat"],
    "defenses": ["vanilla"],
    "attacks": ["injection"],
    "seeds": 1,
    "training": {"epochs": 1},
    "threat": {"nodes": 2, "edges_per_node": 2, "steps": 1},
}


class Answer(NamedTuple):
    """What a command answered."""

    code: int
    out: str
    err: str


def _asked(request: Sequence[str]) -> Answer:
    """Run a command in this process; a defect raises here, and an answer that takes too long fails."""

    def too_long(*_: object) -> None:
        pytest.fail(f"no answer within {LONGEST_ANSWER} seconds: {request!r:.200}")

    out, err = io.StringIO(), io.StringIO()
    before = signal.signal(signal.SIGALRM, too_long)
    signal.alarm(LONGEST_ANSWER)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main(list(request))
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    return Answer(code, out.getvalue(), err.getvalue())


@pytest.fixture(scope="session")
def ask() -> Callable[[Sequence[str]], Answer]:
    return _asked


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of three steps; tests read it, or copy it."""
    folder = tmp_path_factory.mktemp("finished") / "run"
    run(SUITE, folder, executor="inline", device="cpu")
    return folder


@pytest.fixture
def place(finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory of a request: a copy of the run, a file, an empty folder, and no network."""
    folder = tmp_path / "here"
    folder.mkdir()
    shutil.copytree(finished, folder / "run")
    (folder / "file").write_text("mine")
    (folder / "empty").mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("FGAI_BENCH_OFFLINE", "1")
    monkeypatch.setenv("FGAI_BENCH_DATA", os.fspath(tmp_path / "data"))
    return folder
