"""From a built wheel, away from the checkout: suites, published numbers, claims and the page travel with it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
SOURCES = ("fgai_bench", "pyproject.toml", "README.md", "LICENSE")
TINY_RUN = (
    *("run", "--suite", "quick", "--models", "gat", "--defenses", "vanilla", "--attacks", "injection", "--seeds", "1"),
    *("--set", "training.epochs=1", "--executor", "inline", "--device", "cpu", "--out", "tiny"),
)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The content of the wheel, unpacked; it is built from a copy, so that the checkout stays as it is."""
    if not all((REPOSITORY / name).exists() for name in SOURCES):
        pytest.skip("the sources of the package are not here")
    folder = tmp_path_factory.mktemp("wheel")
    for name in SOURCES:
        source = REPOSITORY / name
        copy = shutil.copytree if source.is_dir() else shutil.copy
        copy(source, folder / name)
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", "dist", "."]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = (folder / "dist").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "site")
    return folder / "site"


def test_commands_from_the_wheel(installed: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(installed)}

    def said(*arguments: str) -> str:
        command = [sys.executable, "-P", *arguments]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    assert said("-c", "import fgai_bench; print(fgai_bench.__file__)").startswith(str(installed))
    command = ("-m", "fgai_bench.cli")
    said(*command, *TINY_RUN)
    said(*command, "report", "tiny", "--format", "latex,markdown,csv,html")
    assert "fgai-bench run --suite node" in said(*command, "compare", "tiny", "--to", "paper")
    assert "not tested" in said(*command, "claims", "tiny")
    written = {path.name for path in (tmp_path / "tiny" / "report").rglob("*")}
    assert {"page.html", "paper.tex", "table1.tex", "comparison.csv", "claims.md"} <= written
