"""The data sheet of an export: what it holds, how it was made, what it lacks and how to read it, for people.

It goes with the records into an archive, and is made from them.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

from fgai_bench import __version__
from fgai_bench.records.escaping import markdown_cell
from fgai_bench.records.merge import Merged, in_words

PROGRAM = ("steps", "program", "device", "libraries")


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
LISTED = 20  # the most frequent reasons


def datasheet(merged: Merged) -> str:
    """Return the data sheet of merged records as Markdown: suites, programs, steps without values, how to read them."""
    suites = [(suite, f"{sum(counts.values()):,}", in_words(counts)) for suite, counts in merged.by_suite().items()]
    gaps: Counter[tuple[str, str]] = Counter()
    for result in merged.steps.values():
        if result.step["status"] != "ok":
            gaps[result.step["status"], result.step["reason"]] += 1
    reasons = [(f"{number:,}", *gap) for gap, number in gaps.most_common(LISTED)]
    sections = {
        "# Data sheet": ABOUT.format(version=__version__),
        "## What it holds": _table(("suite", "steps", "by status"), suites),
        "## How it was made": f"{_table(PROGRAM, _programs(merged))}\n\n{MADE}",
        "## What it lacks": _table(("steps", "status", "why"), reasons),
        "## How to use it": USE,
    }
    return "\n\n".join(text for section in sections.items() for text in section) + "\n"


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


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Write a Markdown table; whatever a name holds stays in its cell.

    >>> print(_table(("a",), [("1 | <b>",)]))
    | a |
    |---|
    | 1 \\| &lt;b> |
    """
    written = [f"| {' | '.join(map(markdown_cell, cells))} |" for cells in (head, *rows)]
    return "\n".join([written[0], "|" + "---|" * len(head), *written[1:]])
