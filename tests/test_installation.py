"""Installation files agree with ``pyproject.toml``, and ``constraints.txt`` has a solution on every platform.

Come here after ``make constraints``, or when ``make env`` fails.
"""

from __future__ import annotations

import configparser
import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

REPOSITORY = Path(__file__).parents[1]
PLATFORMS = {
    "Linux x86_64": "x86_64-unknown-linux-gnu",
    "Linux aarch64": "aarch64-unknown-linux-gnu",
    "macOS 14 arm64": "aarch64-apple-darwin",
}
WORKFLOWS = sorted((REPOSITORY / ".github" / "workflows").glob("*.yml"))
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
PYTHONS = [
    line.removeprefix("Programming Language :: Python :: ")
    for line in PROJECT["classifiers"]
    if line.startswith("Programming Language :: Python :: ")
]


def test_tox_has_an_environment_for_every_python() -> None:
    tox = configparser.ConfigParser(interpolation=None)
    tox.read(REPOSITORY / "tox.ini")
    environments = tox["tox"]["env_list"].split(", ")
    assert [name for name in environments if name.startswith("py")] == [f"py{v.replace('.', '')}" for v in PYTHONS]


def test_the_workflow_runs_every_python_on_every_platform() -> None:
    matrix = yaml.safe_load((REPOSITORY / ".github/workflows/test.yml").read_text())["jobs"]["test"]["strategy"][
        "matrix"
    ]
    assert matrix["python"] == PYTHONS
    assert [name.split("-")[0] for name in matrix["os"]] == ["ubuntu", "ubuntu", "macos"]


def test_the_extra_all_names_every_other_extra() -> None:
    (everything,) = PROJECT["optional-dependencies"]["all"]
    named = everything.removeprefix("fgai-bench[").removesuffix("]").split(",")
    assert sorted([*named, "all"]) == sorted(PROJECT["optional-dependencies"])


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_keep_the_schema_of_github(workflow: Path, tmp_path: Path) -> None:
    pytest.importorskip("check_jsonschema", reason="check-jsonschema is not installed")
    wrong = tmp_path / "wrong.yml"
    wrong.write_text(workflow.read_text().replace("runs-on:", "runs-where:", 1))
    assert schema_check(workflow).returncode == 0, schema_check(workflow).stdout
    assert schema_check(wrong).returncode == 1


def schema_check(workflow: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.github-workflows", str(workflow)]
    return subprocess.run(command, capture_output=True, text=True)


def test_the_devcontainer_and_the_image_build_the_environment_with_make() -> None:
    devcontainer = json.loads((REPOSITORY / ".devcontainer" / "devcontainer.json").read_text())
    assert set(devcontainer) == {"name", "image", "postCreateCommand"}
    assert devcontainer["postCreateCommand"] == "make env BACKEND=cpu"
    assert "RUN make env BACKEND=${BACKEND}\n" in (REPOSITORY / "Dockerfile").read_text()


@pytest.mark.slow
def test_make_env_shows_why_an_installation_fails(tmp_path: Path) -> None:
    for name in ("Makefile", "constraints.txt"):
        shutil.copy(REPOSITORY / name, tmp_path)
    project = '[project]\nname = "fgai-bench"\nversion = "0"\noptional-dependencies.all = ["a>1", "a<1"]\n'
    (tmp_path / "pyproject.toml").write_text(project)
    environment = os.environ | {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path)}
    command = ["make", "env", f"PYTHON={sys.executable}"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 2
    assert "No matching distribution found for" in done.stderr
    assert "The installation failed; the whole output is in .venv/pip.log" in done.stderr
    assert not (tmp_path / ".venv" / ".installed").exists()


def uv_compile(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Resolve without folders of local wheels, for macOS 14 where the platform is macOS."""
    environment = {name: value for name, value in os.environ.items() if name != "UV_FIND_LINKS"}
    return subprocess.run(
        [sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--no-header", "--no-annotate", *arguments],
        input=stdin,
        env=environment | {"MACOSX_DEPLOYMENT_TARGET": "14.0"},
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
    )


def resolve(platform: str, python: str) -> dict[str, str]:
    """Return name and version of everything that ``make env`` installs there; wheels only."""
    done = uv_compile(
        *("--python-platform", PLATFORMS[platform], "--python-version", python, "--only-binary", ":all:"),
        *("--extra", "all", "--constraints", "constraints.txt", "pyproject.toml"),
    )
    assert done.returncode == 0, done.stderr
    return dict(line.split("==") for line in done.stdout.split())


@pytest.fixture(scope="module")
def registry() -> None:
    """Skip where uv is not installed or the package registry cannot be reached."""
    pytest.importorskip("uv", reason="uv is not installed")
    done = uv_compile("--no-cache", "-", stdin="iniconfig")
    if "Failed to fetch" in done.stderr or "network was disabled" in done.stderr:
        pytest.skip("the package registry cannot be reached")
    assert done.returncode == 0, done.stderr  # anything else would hide that no combination is resolved


@pytest.mark.slow
@pytest.mark.usefixtures("registry")
@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("platform", PLATFORMS)
def test_constraints_have_a_solution(platform: str, python: str) -> None:
    resolved = resolve(platform, python)
    pins = {str(Requirement(line).specifier) for line in constraint_lines() if Requirement(line).name == "torch"}
    assert pins == {f"=={resolved['torch']}"}
    assert "torchvision" in resolved
    assert ("triton" in resolved) == platform.startswith("Linux")
    unpinned = resolved.keys() - {Requirement(line).name for line in constraint_lines()}
    assert not unpinned, "run `make constraints`"
    print(platform, python, *(f"{name} {resolved.get(name, '-')}" for name in ("torch", "triton", "torchvision")))


def constraint_lines() -> list[str]:
    lines = (REPOSITORY / "constraints.txt").read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]
