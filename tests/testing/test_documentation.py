"""The documentation: every code block of every page is run or is visibly none, and references hold every name."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest
import torch
import yaml

import fgai_bench as fb
from fgai_bench.cli import main
from fgai_bench.suites.schema import Suite

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(str(path.relative_to(DOCS).with_suffix("")) for path in DOCS.rglob("*.md"))
NOTEBOOKS = [page for page in PAGES if page.startswith("notebooks/")]
FENCE = re.compile(r"^ *```(.*?)\n(.*?)^ *```$", flags=re.DOTALL | re.MULTILINE)
SHARED = ROOT.parent / "shared" / "data"

# Pages whose runs go on in this process; the others start workers, as a reader's do.
INLINE = {"verifying", "adding-a-suite", "adding-a-defense"}
# Pages that forecast a whole study.
SLOW = {"submit-a-row", "tuning"}
# What the blocks of a page must have printed.
PRINTED = {
    "index": ["Predictions", "fgai-attention", "worst-continued"],
    "evaluate-your-network": ["Predictions", "needs edge_attr"],
    "cards": ["its gradients rank edges by their effect", "rank correlation of attention"],
    "adding-a-defense": ["twice the hidden width", "defenses calm", "torch.Size([2728, 7])", "runs/mine"],
    "adding-an-attack": [
        "Ledger(nodes=20, edges=400, largest_feature=1.0,",
        "spent nodes = 3, but its threat model allows 2",
    ],
    "adding-an-explainer": ["torch.Size([4, 10556])"],
    "gpu": ["Predictions"],
    "verifying": ["0 rows or files are not as recorded", "Ada L."],
}
# What it must have written.
WRITTEN = {
    "evaluate-your-network": {"card/index.html": "Predictions"},
    "adding-a-suite": {
        "runs/own/report/tables/metrics.md": "worst_node_tvd↓",
        "runs/own/report/leaderboard_node_full.csv": "worst_node_tvd_mean",
    },
}


def blocks(page: str) -> list[tuple[str, str]]:
    """Return the code blocks of a page as (language, code)."""
    return FENCE.findall((DOCS / f"{page}.md").read_text(encoding="utf-8"))


def with_code(pages: list[str]) -> list[str]:
    return [page for page in pages if blocks(page)]


FILES = {
    code.split()[2]: code for page in PAGES for kind, code in blocks(page) if code.startswith("# file: ")
}  # pages refer to each other's files


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working directory with the files of the pages as a reader would have saved them; nothing stays registered."""
    for name, code in FILES.items():
        (tmp_path / name).write_text(code, encoding="utf-8")
        monkeypatch.delitem(sys.modules, name.removesuffix(".py"), raising=False)
    for name in dir(fb):
        if name.isupper():
            monkeypatch.setattr(getattr(fb, name), "_entries", dict(getattr(fb, name)._entries))
    if "FGAI_BENCH_DATA" not in os.environ and SHARED.is_dir():
        monkeypatch.setenv("FGAI_BENCH_DATA", str(SHARED))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield tmp_path


def run_block(page: str, kind: str, code: str, names: dict[str, object]) -> None:
    """Run one block of a page; ``names`` are those that its Python blocks have defined."""
    if code.startswith("# file: "):
        assert kind in ("python", "yaml")
    elif kind == "python":
        exec(compile(code, f"{page}.md", "exec"), names)
    elif kind == "bash":
        for line in code.splitlines():
            words = [str(names[w[1:]]) if w.startswith("$") else w for w in shlex.split(line, comments=True)]
            assert words[0] == "fgai-bench", f"{page} asks to run {words[0]}"
            words += ["--executor", "inline"] if page in INLINE and "run" in words else []
            assert main(words[1:]) == 0, line
    elif kind == "toml":
        assert all(group.startswith("fgai_bench.") for group in tomllib.loads(code)["project"]["entry-points"])
    else:
        assert kind == "text", f"a block of {page} is neither run nor marked as text: {code[:80]}"


@pytest.mark.slow
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=[pytest.mark.slow] if page in SLOW else [])
        for page in with_code(PAGES)
        if page not in NOTEBOOKS
    ],
)
def test_a_page_works_when_pasted_from_top_to_bottom(page, folder, capsys):
    names: dict[str, object] = {"__name__": page}
    for kind, code in blocks(page):
        run_block(page, kind, code, names)
    said = capsys.readouterr().out
    for words in PRINTED.get(page, []):
        assert words in said
    for file, words in WRITTEN.get(page, {}).items():
        assert words in (folder / file).read_text(encoding="utf-8")
    assert "failed" not in said.replace("--retry-failed", "")


@pytest.mark.parametrize("page", with_code(PAGES))
def test_shown_commands_name_options_that_exist(page, capsys):
    """What is only shown, because it takes hours or other machines, is spelled as the program takes it."""
    for kind, code in blocks(page):
        for line in code.splitlines() if kind == "text" else ():
            if not line.startswith("fgai-bench "):
                continue
            words = shlex.split(line, comments=True)
            command = words[1:3] if words[1] in ("records", "leaderboard", "data") else words[1:2]
            assert main([*command, "--help"]) == 0
            offered = capsys.readouterr().out
            assert all(word in offered for word in words if word.startswith("--")), line


def generated() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generated_pages", DOCS / "generated.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def output_of(notebook: str) -> str:
    """Return what a notebook prints, run as the site runs it."""
    page = (DOCS / f"{notebook}.md").read_text(encoding="utf-8")
    shown = generated().with_outputs(page)
    return "\n".join(code for kind, code in FENCE.findall(shown) if kind == "text")


@pytest.mark.slow
def test_attention_is_held_against_what_edges_do(monkeypatch):
    monkeypatch.chdir(ROOT)
    said = output_of("notebooks/attention")
    correlation = {name: float(value) for name, value in re.findall(r"^([\w-]+) +(-?[\d.]+)", said, flags=re.MULTILINE)}
    assert correlation["gatt"] > correlation["attention-last"]
    assert abs(correlation["random"]) < 0.3
    assert "gatt beats " in said


def test_the_leaderboard_is_read_from_the_committed_files(monkeypatch):
    monkeypatch.chdir(ROOT)
    said = output_of("notebooks/leaderboard")
    assert "ranked rows share their rank with another" in said
    assert re.search(r"gnn-svd-sparse tuned +10 +1", said)
    assert "oom: " in said or "timeout: " in said


def test_every_page_is_in_the_contents():
    config = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
    listed = set(re.findall(r"[\w/-]+\.md", str(config["nav"])))
    assert listed == {f"{page}.md" for page in PAGES}


def test_references_are_made_from_the_code():
    made = {page: generated().on_page_markdown((DOCS / f"{page}.md").read_text()) for page in PAGES if "ref" in page}
    for page, names in (("suite-file", Suite.model_fields), ("metrics", fb.METRICS.names())):
        assert "<!--" not in made[f"reference/{page}"]
        for name in names:
            assert f"| `{name}` |" in made[f"reference/{page}"]
    told = yaml.safe_load((DOCS / "reference" / "metrics.yaml").read_text())
    assert set(re.findall(r"^## (\w+)$", made["reference/metrics"], flags=re.MULTILINE)) == set(told)


def test_links_between_pages_lead_somewhere():
    for path in DOCS.rglob("*.md"):
        for target in re.findall(r"\]\(([^)#:]+\.md)", path.read_text()):
            assert (path.parent / target).is_file(), f"{path.name} links to {target}"


def test_files_that_pages_name_exist():
    """A path of code in backticks is one of the repository, of the package, or a file that a page shows."""
    pages = [*DOCS.rglob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "results" / "README.md"]
    for page in pages:
        for name in re.findall(r"`([\w./*-]+\.py)`", page.read_text(encoding="utf-8")):
            known = name in FILES or any((folder / name).is_file() for folder in (ROOT, ROOT / "fgai_bench"))
            assert known, f"{page.name} names {name}"


def test_the_files_of_the_repository_are_complete():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == fb.__version__
    assert "## [Unreleased]" in (ROOT / "CHANGELOG.md").read_text()
    for folder, kind in (("ISSUE_TEMPLATE", "issue"), ("PULL_REQUEST_TEMPLATE", "pull request")):
        assert (ROOT / ".github" / folder / "submit-a-row.md").is_file(), kind
    assert (ROOT / ".github" / "ISSUE_TEMPLATE" / "break-a-row.md").is_file()
    assert "make docs" in (ROOT / ".ci" / "run").read_text()


@pytest.mark.slow
def test_the_site_has_no_example_as_a_quotation_and_no_raw_role(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("NO_MKDOCS_2_WARNING", "1")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-q", "-d", str(tmp_path)]
    subprocess.run(command, check=True, timeout=600)
    reference = (tmp_path / "reference" / "api.html").read_text()
    assert "<blockquote" not in reference
    assert "load_attacked" in reference
    for page in tmp_path.rglob("*.html"):
        assert not re.search(r":(mod|func|class|meth|data|attr|exc):", page.read_text()), page
