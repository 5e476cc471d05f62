"""Random requests to every command: whatever is asked, the answer is an exit code and at most one sentence."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import typer

from fgai_bench.cli.app import app
from tests.campaign import campaign

REQUESTS = campaign(100, 300)
# What keeps a well-formed request from working long: nothing is trained here. Last on the line, so that it wins.
BRIEF = {
    "run": ["--dry-run", "--device", "cpu"],
    "audit": ["--jobs", "0"],
    "report": ["--only", "table1", "--format", "csv"],
    "check": ["--kind", "task"],
    **{name: [] for name in ("status", "claims", "compare", "ls", "doctor", "export", "add")},
    **{name: [] for name in ("list", "verify", "fetch", "break", "import", "tune")},
}
UNKNOWN = ["--no-such-option"]  # for a command that is not in the table
SLOW = {"--imports", "--help"}  # options that import everything, or that end a request before it is read
WORDS = (
    *("", " ", ",", ".", "..", "/", "~", "-", "--", "-1", "0", "1", "1e400", "nan", "inf", "9" * 25, "true", "null"),
    *("a\0b", "a\nb", "n" * 300, "../x", "/dev/null", "file", "file/below", "empty", "run", "missing", "pipe.yaml"),
    *(
        "\udcff",
        "\u202eabc",
        "🦆",
        "<!--<script>",
        "=1+1",
        "'; DROP TABLE steps; --",
        "%s%n",
        "{}",
        "[",
        "*",
        "&x [*x]",
    ),
    *("auto", "cpu", "csv", "gat", "vanilla", "injection", "quick", "tiny", "csbm-1e3", "node", "paper", "models"),
    *("threads=1e20", "model.hidden=0", "attack.steps={[a]: 1}", "suite.yaml", "0,1", "5", "task", "__init__", "a:b"),
)


def commands(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command below a group, with the words that lead to it."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name), command


def request(random: random.Random, path: tuple[str, ...], command: Any) -> list[str]:
    """A command with some of its options, and with arguments where it takes them."""
    line = list(path)
    for parameter in command.params:
        words = random.choices(WORDS, k=random.choice((0, 1, 1, 1, 2)))
        if parameter.param_type_name == "argument":
            line += words[: 1 + (parameter.nargs == -1)] or [random.choice(WORDS)]
        elif not set(parameter.opts) & SLOW and random.random() < 0.3:
            line += [parameter.opts[0], *([] if parameter.is_flag else words[:1])]
    if random.random() < 0.1:
        line += ["--plugin", random.choice(WORDS)]
    return [*line, *BRIEF.get(path[-1], UNKNOWN)]


def test_random_requests_are_answered(place: Path, ask: Callable[..., Any]) -> None:
    (place / "suite.yaml").write_text("datasets: [csbm-1e3]\nmodels: [gat]\ndefenses: [vanilla]\n")
    draw = random.Random(20_000)
    every = list(commands(typer.main.get_command(app)))
    assert len(every) >= 14
    codes = []
    for number in range(REQUESTS):
        line = request(draw, *every[number % len(every)])
        answer = ask(line)
        codes.append(answer.code)
        assert answer.code in (0, 1, 2), line
        assert "Traceback" not in answer.out + answer.err, line
        if answer.code == 2:
            assert answer.err.startswith("error: "), line
            assert answer.err.count("\n") == 1, line
    assert {0, 2} <= set(codes)
    assert (place / "file").read_text() == "mine"
