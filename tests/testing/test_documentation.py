"""The documentation: its pages work when pasted, its references hold every name, and every page is in the contents."""

from __future__ import annotations

import importlib.util
import re
import shlex
import sys
from pathlib import Path

import pytest
import torch
import yaml

import fgai_bench as fb
from fgai_bench.cli import main
from fgai_bench.suites.schema import Suite

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PASTED = ("index", "evaluate-your-network")


def blocks(page: str) -> list[tuple[str, str]]:
    """Return the code blocks of a page as (language, code)."""
    return re.findall(r"```(\w+)\n(.*?)```", (DOCS / f"{page}.md").read_text(), flags=re.DOTALL)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty working directory; nothing stays registered."""
    monkeypatch.setattr(fb.DATASETS, "_entries", dict(fb.DATASETS._entries))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield tmp_path


@pytest.mark.parametrize("page", PASTED)
def test_a_page_works_when_pasted_from_top_to_bottom(page, folder, monkeypatch, capsys):
    names: dict[str, object] = {}
    for kind, code in blocks(page):
        if code.startswith("# file: "):
            name = code.split()[2]
            (folder / name).write_text(code)
            monkeypatch.delitem(sys.modules, name.removesuffix(".py"), raising=False)
        elif kind == "python":
            exec(compile(code, f"{page}.md", "exec"), names)
        elif kind == "bash" and "pip install" not in code:
            for line in code.splitlines():
                assert main(shlex.split(line)[1:]) == 0, line
    assert "Predictions" in capsys.readouterr().out


def test_every_page_is_in_the_contents():
    config = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
    listed = set(re.findall(r"[\w/-]+\.md", str(config["nav"])))
    assert listed == {str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md")}


def _generated():
    spec = importlib.util.spec_from_file_location("generated_pages", DOCS / "generated.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_references_are_made_from_the_code():
    generated = _generated()
    for page, names in (("suite-file", Suite.model_fields), ("metrics", fb.METRICS.names())):
        made = generated.on_page_markdown((DOCS / "reference" / f"{page}.md").read_text())
        assert "<!--" not in made
        for name in names:
            assert f"| `{name}` |" in made


def test_links_between_pages_lead_somewhere():
    for path in DOCS.rglob("*.md"):
        for target in re.findall(r"\]\(([^)#:]+\.md)", path.read_text()):
            assert (path.parent / target).is_file(), f"{path.name} links to {target}"
