"""Print tables: as wide as the terminal, or unwrapped when the output goes to a file or a pipe."""

import sys
from collections.abc import Iterable, Sequence

PIPE_WIDTH = 240


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print ``rows`` under the headings ``columns``, which may all be empty; cells are plain text, never markup."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(width=None if sys.stdout.isatty() else PIPE_WIDTH)
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_header=any(columns))
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    console.print(Text(title, style="bold"))
    console.print(table)
