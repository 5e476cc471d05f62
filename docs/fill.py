"""Fill the numbers of the pages: ``python -m docs.fill`` after ``make tables``, which calls it.

A page marks what is generated with comments that readers do not see::

    AT leads alone in <!-- value: first_places AT tuned alone -->1<!-- /value --> of 12 cells.

    <!-- table: links gat -->

    (whatever stands here is replaced)

    <!-- /table -->

The first word names a function of ``docs/values.py``, the other words are its arguments.
"""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

from docs import values

ROOT = Path(__file__).parent.parent
PAGES = (
    "README.md",
    "results/README.md",
    "docs/study.md",
    "docs/tuning.md",
    "docs/explanations.md",
    "docs/graphs.md",
    "docs/performance.md",
    "docs/methodology.md",
    "docs/paper.md",
    "docs/attack-your-network.md",
)
VALUE = re.compile(r"<!-- value: ([^>]+?) -->[^<]*<!-- /value -->")
TABLE = re.compile(r"<!-- table: ([^>]+?) -->\n.*?<!-- /table -->", flags=re.DOTALL)
AT_LINE_START = re.compile(r"^[\s>*+-]*<!-- /?value", flags=re.MULTILINE)


def filled(page: str) -> str:
    """Return the text of a page with every marked value and table as the committed files have it now.

    Raises:
        ValueError: for a mark that begins a line, which Markdown would take for a block of HTML, or is not closed.
        KeyError: for a name that ``docs/values.py`` does not have.
    """
    if found := AT_LINE_START.search(page):
        raise ValueError(f"a value may not begin a line: put a word before {page[found.start() :][:60].strip()!r}")
    page = VALUE.sub(lambda mark: f"<!-- value: {mark[1]} -->{_call(values.VALUES, mark[1])}<!-- /value -->", page)
    page = TABLE.sub(lambda mark: f"<!-- table: {mark[1]} -->\n\n{_table(mark[1])}\n\n<!-- /table -->", page)
    for kind, marks in (("value", VALUE), ("table", TABLE)):
        if page.count(f"<!-- {kind}: ") != len(marks.findall(page)):
            raise ValueError(f"a {kind} is opened and not closed, or holds a '<'")
    return page


def _call(known: dict[str, values.Query], words: str) -> object:
    name, *arguments = shlex.split(words)
    return known[name](*arguments)


def _table(words: str) -> str:
    header, *rows = _call(values.TABLES, words)  # type: ignore[misc]
    return "\n".join(f"| {' | '.join(row)} |" for row in (header, ["---"] * len(header), *rows)).replace("|  |", "| |")


def main() -> int:
    """Fill all pages in place, say which have changed, and return 0."""
    for name in PAGES:
        path = ROOT / name
        before = path.read_text(encoding="utf-8")
        after = filled(before)
        if after != before:
            path.write_text(after, encoding="utf-8")
            print(f"{name} has new numbers")
    return 0


if __name__ == "__main__":
    sys.exit(main())
