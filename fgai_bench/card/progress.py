"""Show how far an evaluation has come: a bar on a terminal or in a notebook, nothing elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager


@contextmanager
def shown_progress(parts: Sequence[str], show: bool) -> Iterator[Callable[[str], None]]:
    """Yield a function that is told which part begins; ``show=False`` shows nothing."""
    from rich.console import Console

    console = Console(stderr=True)
    if not show or not (console.is_terminal or console.is_jupyter):
        yield lambda part: None
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("evaluating", total=len(parts))
        yield lambda part: bar.update(task, description=part, completed=parts.index(part))
