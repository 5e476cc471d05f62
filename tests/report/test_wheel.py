"""What is built travels whole: suites, published numbers, claims and the page work away from the checkout."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
SOURCES = ("fgai_bench", "baselines", "pyproject.toml", "README.md", "LICENSE")
TINY_RUN = (
    *("run", "--suite", "quick", "--models", "gat", "--defenses", "vanilla", "--attacks", "injection", "--seeds", "1"),
    *("--set", "training.epochs=1", "--executor", "inline", "--device", "cpu", "--out", "tiny"),
)

pytestmark = pytest.mark.skipif(
    not all((REPOSITORY / name).exists() for name in SOURCES), reason="the sources of the package are not here"
)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the sdist and, from it, the wheel; from a copy, so that the checkout stays as it is."""
    folder = tmp_path_factory.mktemp("build")
    for name in SOURCES:
        source = REPOSITORY / name
        copy = shutil.copytree if source.is_dir() else shutil.copy
        copy(source, folder / name)
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", "dist", "."]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "dist"


@pytest.fixture(scope="module")
def installed(built: Path) -> Path:
    """Unpack the wheel."""
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(built / "site")
    return built / "site"


@pytest.mark.slow
def test_commands_from_the_wheel(installed: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(installed)}

    def output(*arguments: str) -> str:
        command = [sys.executable, "-P", *arguments]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    assert output("-c", "import fgai_bench; print(fgai_bench.__file__)").startswith(str(installed))
    assert output("-c", "import fgai_bench.baselines as b; print(b.__file__)").startswith(str(installed))
    command = ("-m", "fgai_bench.cli")
    output(*command, *TINY_RUN)
    output(*command, "report", "tiny", "--format", "latex,markdown,csv,html")
    assert "fgai-bench run --suite node" in output(*command, "compare", "tiny", "--to", "paper")
    assert "not tested" in output(*command, "claims", "tiny")
    written = {path.name for path in (tmp_path / "tiny" / "report").rglob("*")}
    assert {"page.html", "table1.tex", "comparison.csv", "claims.md"} <= written


def test_wheel_and_sdist_hold_the_published_numbers(built: Path) -> None:
    (wheel,), (sdist,) = built.glob("*.whl"), built.glob("*.tar.gz")
    files = {path.name for path in (REPOSITORY / "baselines" / "fgai").iterdir() if path.suffix in (".csv", ".yaml")}
    assert {"paper.yaml", "claims.yaml", "table1_stability.csv", "released_settings.csv"} <= files
    with zipfile.ZipFile(wheel) as archive:
        assert {f"fgai_bench/baselines/fgai/{name}" for name in files} <= set(archive.namelist())
    with tarfile.open(sdist) as archive:
        root = sdist.name.removesuffix(".tar.gz")
        assert {f"{root}/baselines/fgai/{name}" for name in files} <= set(archive.getnames())


def test_every_package_is_listed() -> None:
    listed = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    folders = [path.parent.relative_to(REPOSITORY) for path in (REPOSITORY / "fgai_bench").rglob("__init__.py")]
    assert sorted(listed) == sorted([*(".".join(folder.parts) for folder in folders), "fgai_bench.baselines"])
