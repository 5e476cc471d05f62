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


def test_a_matching_set_fits(install: Callable[..., None]) -> None:
    install("torch", "2.13.0", "+cu130", "triton==3.7.1; platform_system != ''")
    install("triton", "3.7.1")
    install("torchvision", "0.28.0", "+cu130", "torch (==2.13.0)")
    assert torch_fit("torchvision") == torch_fit("triton") == "yes"


def test_another_version_than_required_does_not_fit(install: Callable[..., None]) -> None:
    install("torch", "2.13.0", "+cu130", "triton==3.7.1")
    install("triton", "3.9.0")
    install("torchvision", "0.29.2", "+cu130", "torch (==2.15.0)")
    assert torch_fit("triton") == "no: torch 2.13.0 requires triton==3.7.1"
    assert torch_fit("torchvision") == "no: torchvision 0.29.2 requires torch==2.15.0"


@pytest.mark.parametrize(("torch", "tag"), [("+cpu", "the CPU"), ("+cu126", "cu126"), ("", "the CPU")])
def test_a_torchvision_for_another_cuda_does_not_fit(install: Callable[..., None], torch: str, tag: str) -> None:
    install("torch", "2.13.0", torch)
    install("torchvision", "0.28.0", "+cu130", "torch (==2.13.0)")
    assert torch_fit("torchvision").startswith(f"no: built for cu130, torch for {tag};")


@pytest.mark.parametrize("build", ["", "+cpu"])
def test_builds_without_cuda_fit(install: Callable[..., None], build: str) -> None:
    install("torch", "2.13.0", build)
    install("torchvision", "0.28.0", build, "torch (==2.13.0)")
    assert torch_fit("torchvision") == "yes"


def test_a_requirement_for_other_machines_is_not_read(install: Callable[..., None]) -> None:
    install("torch", "2.13.0", "+cpu", "triton==3.7.1; platform_system == 'no such system'")
    install("triton", "3.9.0")
    assert torch_fit("triton") == "unknown: this build of torch does not say which triton it requires"


def test_a_misfit_is_printed_and_is_no_failure(
    install: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    install("triton", "0.0.1")
    install("torchvision", "0.0.2", requires="torch==0.0.3")
    assert main(["doctor"]) == 0
    assert "no: torchvision 0.0.2 requires torch==0.0.3" in capsys.readouterr().out
