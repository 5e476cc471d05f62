"""A table as Markdown and as CSV. The same table gives the same bytes."""

import csv
import io
from collections.abc import Iterable

from fgai_bench.escaping import markdown, markdown_cell
from fgai_bench.report.tables.build import Shown, Table
from fgai_bench.statistics.numbers import csv_field

CSV_COLUMNS = ("column", "mean", "std", "n", "rank", "bold", "status", "reason", "text")


def pipe_table(rows: Iterable[Iterable[str]]) -> list[str]:
    """Return the lines of a pipe table whose first row is its header; cells are Markdown already.

    >>> pipe_table([["a", "b"], ["1", "2"]])
    ['| a | b |', '| --- | --- |', '| 1 | 2 |']
    """
    head, *body = map(list, rows)
    return [f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *body)]


def to_markdown(table: Table) -> str:
    """Return a pipe table under its caption, with the notes below."""
    head = [*table.heads, *(" ".join(path) for path in table.columns)]
    rows = [[*map(markdown_cell, row.heads), *map(_cell, row.cells)] for row in table.rows]
    lines = [markdown(table.caption), "", *pipe_table([map(markdown_cell, head), *rows])]
    lines += ["", *(f"- {markdown(note)}" for note in table.notes)] if table.notes else []
    return "\n".join(lines) + "\n"


def _cell(shown: Shown) -> str:
    text = markdown_cell(shown.text)
    if shown.underline:
        text = f"<u>{text}</u>"
    return f"**{text}**" if shown.bold else text


def to_csv(table: Table) -> str:
    """Return one line per cell, with the digits that files keep, its status and its reason."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*(head.lower() for head in table.heads), *CSV_COLUMNS])
    for row in table.rows:
        for path, cell in zip(table.columns, row.cells, strict=True):
            names = (*row.heads, " / ".join(path))
            facts = (cell.mean, cell.std, cell.n, cell.rank, int(cell.bold), cell.status, cell.reason)
            writer.writerow([*map(csv_field, (*names, *facts)), cell.text])  # the text is ours, and no formula
    return out.getvalue()
