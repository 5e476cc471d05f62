"""Wrong requests that once ended in a traceback, a hang or a wrong record: each is refused with one sentence."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

LONG = "n" * 300
GRID = "datasets: [csbm-1e3]\nmodels: [gat]\ndefenses: [vanilla]\n"
OTHER_GRID = "datasets: [csbm-1e3]\nmodels: [gat]\n"
NAME = "a suite's name is that of its folder under runs/"
FOLDER = "is a file; name a folder"

# What a suite file holds, and the sentence that refuses it.
SUITES: list[tuple[str, str]] = [
    *[(GRID + f"name: {name}\n", NAME) for name in ("../x", "/abs/olute", "'..'", "'.'", '"a\\0b"', LONG, "''", "a/b")],
    ("? [a, b]\n: 1\n", "a key is a word, not a list or a mapping"),
    ("? {a: 1}\n: 1\n", "a key is a word, not a list or a mapping"),
    ("5: 1\n" + GRID, "the key 5 is not a word"),
    ("model: &x {hidden: *x}\n" + GRID, "an alias such as *name is not supported"),
    ("[" * 5_000, "is not valid YAML"),
    (GRID + "threads: 1e20\n", "threads: "),
    (GRID + "threads: 5000\n", "threads: input should be less than or equal to 1024"),
    (GRID + "seeds: [true]\n", "seeds: a number is needed, not True"),
    (GRID + "seeds: true\n", "seeds: a number is needed, not True"),
    (GRID + "time_limit: true\n", "time_limit: a number is needed, not True"),
    (GRID + "training: {epochs: true}\n", "epochs: a number is needed, not True"),
    (GRID + "training: {epochs: 1e20}\n", "training.epochs: "),
    (GRID + "training: {lr: 1e300}\n", "training.lr: input should be less than or equal to"),
    (GRID + "threat: {nodes: 1e18}\n", "threat.nodes: input should be less than or equal to"),
    (GRID + "model: {hidden: 0}\n", "model 'gat': hidden: input should be greater than or equal to 1, not 0"),
    (GRID + "model: {hidden: 1e12}\n", "model 'gat': hidden: input should be less than or equal to 65536"),
    (GRID + "model: {hidden: true}\n", "model 'gat': hidden: a number is needed, not True"),
    (GRID + "model: {dropout: 2}\n", "model 'gat': dropout: input should be less than 1, not 2"),
    (GRID + "model: {dropout: -1}\n", "model 'gat': dropout: input should be greater than or equal to 0"),
    (GRID + "model: {attention_dropout: 1}\n", "model 'gat': attention_dropout: input should be less than 1"),
    (GRID + "model: {heads: [0]}\n", "model 'gat': heads[0]: input should be greater than or equal to 1"),
    (GRID + "model: {heads: '12'}\n", "model 'gat': heads: input should be a valid tuple"),
    (GRID + "model: {input_norm: column}\n", "model 'gat': input_norm: input should be 'none' or 'row'"),
    (GRID.replace("gat", "gt") + "model: {hidden: 2}\n", "model 'gt': hidden: input should be greater than or equal"),
    (GRID.replace("gat", "gt") + "model: {heads: []}\n", "model 'gt': heads: tuple should have at least 1 item"),
    (GRID + "attacks: [{name: prbcd, options: {block_size: 0}}]\n", "a block holds at least one candidate edge"),
    (GRID + "attacks: [{name: explanation, options: {loss: 5}}]\n", "attack 'explanation' cannot be made"),
    *[
        (
            OTHER_GRID + f"defenses: [{{name: {name}, options: {{{option}}}}}]\n",
            f"defense '{name}': {key}: input should",
        )
        for name in ("gcn", "gnnguard", "gnnguard-sparse", "gnn-svd", "gnn-svd-sparse", "pro-gnn")
        for key, option in (("hidden", "hidden: 0"), ("dropout", "dropout: 2"))
    ],
    (
        OTHER_GRID + "defenses: [{name: gnnguard, options: {threshold: -1}}]\n",
        "threshold: input should be greater than 0, not -1",
    ),
    (OTHER_GRID + "defenses: [{name: fgai, options: {k: true}}]\n", "defense 'fgai': k: a number is needed, not True"),
]

# Command lines, and the sentence that refuses them.
LINES: list[tuple[list[str], str]] = [
    *[
        ([*command, option, path], sentence)
        for command, option in (
            (["report", "run"], "--out"),
            (["claims", "run"], "--out"),
            (["compare", "run"], "--out"),
            (["leaderboard", "add", "run"], "--to"),
            (["records", "export", "run"], "--out"),
            (["run", "--dry-run"], "--out"),
            (["tune", "--datasets", "cora"], "--out"),
            (["evaluate", "file"], "--out"),
            (["run", "--dry-run"], "--data-root"),
            (["audit", "run"], "--data-root"),
            (["data", "fetch", "amazon-photo"], "--data-root"),
        )
        for path, sentence in (
            ("file", FOLDER),
            ("file/below", FOLDER),
            ("/dev/null", FOLDER),
            (LONG, "is too long"),
            ("/".join(["d" * 200] * 30), "is too long"),
            ("a\0b", "holds a NUL"),
            ("", "a path is needed"),
        )
    ],
    *[
        ([*command, path], sentence)
        for command in (["status"], ["report"], ["claims"], ["compare"], ["audit"], ["records", "export"])
        for path, sentence in ((LONG, "is too long"), ("a\0b", "holds a NUL"), ("", "a path is needed"))
    ],
    (["run", "--suite", f"./{LONG}.yaml"], "there is no suite file"),
    (["run", "--suite", "a\0b.yaml"], "there is no suite file"),
    (["run", "--suite", "./empty"], "it is no regular file"),
    (["run", "--suite", "/dev/zero", "--dry-run"], "it is no regular file"),
    (["compare", "run", "--to", LONG], "--to can be paper"),
    *[(["ls", "--plugin", name], "is not a Python file") for name in (".", "..", "../x", "./empty", "./file", "..x")],
    (["ls", "--plugin", ""], "--plugin needs a module or a Python file"),
    (["ls", "--plugin", "a\0b"], "cannot be imported"),
    *[
        (["audit", "run", "--device", "cpu", "--radius", radius], "the audit: radii")
        for radius in ("nan", "inf", "1,nan", "1e400", "0", "-1", "2,1")
    ],
    *[(["audit", "run", "--k1", share], "the audit: k1: input should be") for share in ("nan", "inf", "0", "2")],
    (["audit", "run", "--steps", "9" * 20], "the audit: steps: input should be less than"),
    *[
        (line, "names nothing; write names separated by commas")
        for line in (
            ["report", "run", "--format", ""],
            ["report", "run", "--format", ","],
            ["report", "run", "--only", ""],
            ["audit", "run", "--suites", ""],
            ["audit", "run", "--radius", ""],
            ["run", "--datasets", ""],
            ["records", "export", "run", "--out", "new", "--datasets", ""],
        )
    ],
    (
        ["run", "--dry-run", "--set", "attack.steps=&x [*x]"],
        "--set attack.steps: an alias such as *name",
    ),
    (["run", "--dry-run", "--set", "threads=1e20"], "threads: "),
    (["run", "--dry-run", "--set", "model.hidden=0"], "hidden: input should be greater than or equal to 1"),
    (["run", "--dry-run", "--seeds", "9" * 5000], "is not a whole number"),
    *[
        (line, "'0-3' is not a whole number")
        for line in (
            ["evaluate", "file", "--split", "0-3"],
            ["evaluate", "file", "--seed", "0-3"],
            ["run", "--dry-run", "--jobs", "0-3"],
            ["tune", "--trials", "0-3"],
            ["verify", "run", "--rows", "0-3"],
        )
    ],
    (["verify", "run", "--rows", "0"], "--rows must be at least 1, not 0"),
    (["run", "--dry-run", "--set", "training.epochs=0-3"], "epochs: a number is needed, not 0-3"),
    (["verify", "run", "--list", "--rows", "2"], "--list names every row; leave out --rows"),
    (["run", "--suite", "quick", "--jobs", "0", "--dry-run"], "--jobs must lie between 1 and 1024, not 0"),
    (["run", "--suite", "quick", "--address", "x", "--dry-run"], "--address is the address of a Ray cluster"),
    (["run", "--suite", "quick", "--models", "gat,gat", "--dry-run"], "'gat' stands twice in 'gat,gat'; name it once"),
    (
        ["run", "--suite", "quick", "--set", "training.epochs=5", "--set", "training.epochs=6", "--dry-run"],
        "--set training.epochs stands twice; name it once",
    ),
    (["records", "export", "run", "./run", "--out", "twice"], "run is named twice; name each run once"),
    (["ls", "--plugin", "0-3"], "plugin '0-3' cannot be imported"),
    (["records", "export", "run", "--out", "new", "--seeds", "9" * 20], "there are no records of the seed "),
]

# Plugins by the body of their file.
PLUGINS = {
    "raises": "1 / 0",
    "exits": "import sys\nsys.exit(0)",
    "raises_base": "class Mine(BaseException): pass\nraise Mine('two\\nlines')",
    "never_ends_calling": "def f(): f()\nf()",
    "holds_a_nul": "x = '\0'",
    "is_half": "def",
    "says_no_text": "raise ValueError('\\udcff')",
}


def entries(folder: Path) -> list[Path]:
    return sorted(folder.parent.rglob("*"))


def refused(answer: Any) -> str:
    """The sentence of a refusal."""
    assert (answer.code, answer.out) == (2, ""), answer.err
    assert answer.err.startswith("error: ")
    assert answer.err.count("\n") == 1
    return answer.err


@pytest.mark.parametrize(("text", "sentence"), SUITES, ids=lambda value: repr(value[-40:]))
def test_a_suite_that_cannot_be_meant_is_refused(
    text: str, sentence: str, place: Path, ask: Callable[..., Any]
) -> None:
    (place / "suite.yaml").write_text(text)
    before = entries(place)
    line = ["run", "--suite", "./suite.yaml", "--device", "cpu", "--executor", "inline"]
    assert sentence in refused(ask(line))
    assert entries(place) == before


@pytest.mark.parametrize(("line", "sentence"), LINES, ids=lambda value: repr(value)[:60])
def test_a_line_that_cannot_be_meant_is_refused(
    line: list[str], sentence: str, place: Path, ask: Callable[..., Any]
) -> None:
    before = entries(place)
    assert sentence in refused(ask(line))
    assert entries(place) == before
    assert (place / "file").read_text() == "mine"


@pytest.mark.parametrize("body", PLUGINS)
@pytest.mark.parametrize("form", ["bad_{}", "./bad_{}.py"])
def test_a_plugin_that_breaks_is_refused(body: str, form: str, place: Path, ask: Callable[..., Any]) -> None:
    (place / f"bad_{body}.py").write_text(PLUGINS[body])
    assert f"bad_{body}" in refused(ask(["ls", "tasks", "--plugin", form.format(body)]))


def test_a_plugin_that_ends_the_program_later_does_not_make_it_a_success(
    place: Path, ask: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    import fgai_bench.cli.ls as module

    def ended(*_: object) -> None:
        raise SystemExit(0)

    monkeypatch.setattr(module, "_print_registry", ended)
    answer = ask(["ls", "tasks"])
    assert (answer.code, answer.err) == (2, "error: a plugin has ended the program with sys.exit(0)\n")


def test_a_pipe_that_nobody_writes_to_is_not_waited_for(place: Path, ask: Callable[..., Any]) -> None:
    os.mkfifo(place / "pipe.yaml")
    assert "it is no regular file" in refused(ask(["run", "--suite", "pipe.yaml", "--dry-run"]))
