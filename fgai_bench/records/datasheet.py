"""The data sheet of an export: what it holds, how it was made, what it lacks and how to read it, for people.

It goes with the records into an archive, and is made from them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from fgai_bench import __version__
from fgai_bench.records.escaping import markdown_cell
from fgai_bench.records.export_format import PACKS
from fgai_bench.records.merge import Merged, in_words
from fgai_bench.records.names import titles

PROGRAM = ("steps", "program", "device", "libraries")
FILES = {
    "steps.csv.xz": "one row per step: its hash, configuration, status, facts, environment and times",
    "metrics.csv.xz": "what was measured of a step, and what it cost",
    "curves.csv.xz": "curves: scores over removed edges, objectives over steps of an attack",
    "ledgers.csv.xz": "what an attack spent, counted on the attacked graph",
    "flags.csv.xz": "reasons to distrust a step, as it found them itself",
    "artifacts.csv.xz": "which files a step made, by role and hash",
    "environments.csv.xz": "program, device and versions of libraries",
    "members.csv.xz": "where a step stands: suite, task, graph, model, defense, attack, seed",
    "artifacts.zip": "small arrays that figures are drawn from",
    "graphs.zip": "attacked graphs, as differences from the clean ones (safetensors)",
    "models.zip": "trained models (safetensors, with their configuration)",
}


ABOUT = """Records of fgai-bench, written by `fgai-bench records export` of version {version}. Every number is one that
a recorded step measured; `manifest.json` has the SHA-256 of every file. What is measured: how predictions and
explanations of graph networks with attention change under attacks of one budget."""
MADE = """A step is a training, or a measurement of one. Its hash covers the graph's content, the split, all settings
and, where the record names it, the code that computed it; the same hash is the same result on the same kind of
device."""
USE = """```
fgai-bench ls                               # what every name stands for
fgai-bench report FOLDER --out REPORT       # tables, figures, leaderboards, a page to browse
fgai-bench claims FOLDER                    # a verdict on each claim of the paper
fgai-bench verify FOLDER --rows 20          # measure rows again from their models and attacked graphs
fgai-bench break FOLDER ROW --attacked F    # hold a stronger attacked graph against a row
fgai-bench records import FOLDER --out RUN  # go on from its models
```

The tables are CSV in UTF-8, numbers in full precision; nothing has to be unpickled. Their `step` is the beginning of
a `hash` in `steps.csv.xz`. The graphs themselves are not part of it: `fgai-bench data fetch NAME` gets them from their
sources, under their own terms."""
LISTED = 20  # reasons that are told one by one


def datasheet(merged: Merged, packed: Mapping[str, int]) -> str:
    """Return the data sheet of merged records as Markdown.

    Args:
        merged: what is exported.
        packed: the files of the export, each with its number of rows or entries.
    """
    files = [(f"`{name}`", FILES.get(name, ""), f"{packed[name]:,}") for name in sorted(packed)]
    sections = {
        "# Data sheet": ABOUT.format(version=__version__),
        "## What it holds": _table(("suite", "steps", "by status", "seeds"), _suites(merged)),
        "## Its files": _table(("file", "what", "rows"), files),
        "## How it was made": f"{_table(PROGRAM, _programs(merged))}\n\n{MADE}",
        "## What it lacks": _table(("number", "what", "why"), _lacking(merged, packed)),
        "## How to use it": USE,
    }
    return "\n\n".join(text for section in sections.items() for text in section) + "\n"


def _suites(merged: Merged) -> list[tuple[str, ...]]:
    named = titles(merged.members)
    seeds: dict[str, set[int]] = defaultdict(set)
    for member in merged.members:
        seeds[named[member["suite"]]].add(member["seed"])
    return [
        (suite, f"{sum(counts.values()):,}", in_words(counts), ", ".join(map(str, sorted(seeds[suite]))))
        for suite, counts in merged.by_suite().items()
    ]


def _programs(merged: Merged) -> list[tuple[str, ...]]:
    rows: Counter[tuple[str, ...]] = Counter()
    for result in merged.steps.values():
        where = result.step["environment"]
        commit = f"{where.get('package', '')}, commit {str(where.get('commit') or 'unknown')[:7]}"
        versions = where.get("versions") or {}
        libraries = ", ".join(f"{name} {versions[name]}" for name in ("torch", "torch-geometric") if name in versions)
        python = f"Python {where.get('python', 'unknown')}"
        changed = " with changes" if where.get("dirty") else ""
        rows[commit + changed, str(where.get("device", "")), ", ".join(filter(None, (python, libraries)))] += 1
    return [(f"{number:,}", *row) for row, number in sorted(rows.items(), key=lambda item: (-item[1], item[0]))]


def _lacking(merged: Merged, packed: Mapping[str, int]) -> list[tuple[str, ...]]:
    """Return which steps have no values and why, and how many models and attacked graphs stayed with their run."""
    gaps: Counter[tuple[str, str]] = Counter()
    for hash in {member["step"] for member in merged.members}:
        if (status := merged.status(hash)) != "ok":
            gaps[status, merged.steps[hash].step["reason"] if hash in merged.steps else "not run"] += 1
    told = sorted(gaps.items(), key=lambda item: (-item[1], item[0]))
    rows: list[tuple[str, ...]] = [(f"{number:,} steps", status, reason) for (status, reason), number in told[:LISTED]]
    if rest := sum(number for _, number in told[LISTED:]):
        rows.append((f"{rest:,} steps", "without values", "other reasons"))
    steps = [result.step for result in merged.steps.values()]
    for name, (file, role) in PACKS.items():
        made = len({row["sha256"] for step in steps for row in step["artifacts"] if row["role"] == role})
        rows.append((f"{made - packed.get(file, 0):,} of {made:,}", name, "stayed with the run"))
    return rows


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Write a Markdown table; whatever a name holds stays in its cell.

    >>> print(_table(("a",), [("1 | <b>",)]))
    | a |
    |---|
    | 1 \\| &lt;b> |
    """
    written = [f"| {' | '.join(map(markdown_cell, cells))} |" for cells in (head, *rows)]
    return "\n".join([written[0], "|" + "---|" * len(head), *written[1:]])
