"""``fgai-bench doctor`` says whether torchvision and triton fit torch; each case is an installation written by hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from fgai_bench.cli import main
from fgai_bench.cli.doctor import torch_fit


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return a function that installs a package's metadata and ``version.py`` in front of the real packages."""
    monkeypatch.syspath_prepend(tmp_path)

    def write(name: str, version: str, build: str = "", requires: str = "") -> None:
        metadata = tmp_path / f"{name}-{version}.dist-info" / "METADATA"
        metadata.parent.mkdir()
        lines = [f"Name: {name}", f"Version: {version}", *([f"Requires-Dist: {requires}"] if requires else [])]
        metadata.write_text("\n".join(["Metadata-Version: 2.1", *lines, ""]))
        (tmp_path / name).mkdir()
        (tmp_path / name / "version.py").write_text(f"__version__ = '{version}{build}'\n")

    return write


@pytest.mark.parametrize(
    ("torch", "torchvision", "said"),
    [
        ("+cu130", "+cu130", "yes"),
        ("", "", "yes"),
        ("+cpu", "+cpu", "yes"),
        ("+cpu", "+cu130", "no: built for cu130, torch for the CPU;"),
        ("+cu126", "+cu130", "no: built for cu130, torch for cu126;"),
        ("", "+cu130", "no: built for cu130, torch for the CPU;"),
    ],
)
def test_a_torchvision_fits_a_torch_of_the_same_cuda(
    install: Callable[..., None], torch: str, torchvision: str, said: str
) -> None:
    install("torch", "2.13.0", torch)
    install("torchvision", "0.28.0", torchvision, "torch (==2.13.0)")
    assert torch_fit("torchvision").startswith(said)


@pytest.mark.parametrize(
    ("requirement", "said"),
    [
        ("triton==3.9.0; platform_system != ''", "yes"),
        ("triton==3.7.1", "no: torch 2.13.0 requires triton==3.7.1"),
        (
            "triton==3.7.1; platform_system == 'no such system'",
            "unknown: this build of torch does not say which triton it requires",
        ),
    ],
)
def test_a_triton_fits_if_it_is_the_one_that_torch_requires_here(
    install: Callable[..., None], requirement: str, said: str
) -> None:
    install("torch", "2.13.0", "+cu130", requirement)
    install("triton", "3.9.0")
    assert torch_fit("triton") == said


def test_a_misfit_is_printed_and_is_no_failure(
    install: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    install("triton", "0.0.1")
    install("torchvision", "0.0.2", requires="torch==0.0.3")
    assert main(["doctor"]) == 0
    assert "no: torchvision 0.0.2 requires torch==0.0.3" in capsys.readouterr().out
