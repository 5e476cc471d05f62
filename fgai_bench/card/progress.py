"""Show how far an evaluation has come: a bar on a terminal or in a notebook, a line a minute elsewhere."""

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

EVERY = 60.0  # seconds between two lines


@contextmanager
def lines(parts: Sequence[str]) -> Iterator[Callable[[str], None]]:
    """Print a line a minute to the standard error: which part is being measured, and for how long in all."""
    current, over = [parts[0]], threading.Event()

    def told() -> None:
        minutes = 0
        while not over.wait(EVERY):
            minutes += 1
            part = f"part {parts.index(current[0]) + 1} of {len(parts)}"
            print(f"evaluating: {current[0]} ({part}), {minutes} min", file=sys.stderr, flush=True)

    teller = threading.Thread(target=told, daemon=True)
    teller.start()
    try:
        yield lambda part: current.__setitem__(0, part)
    finally:
        over.set()
        teller.join()


@contextmanager
def shown_progress(parts: Sequence[str], show: bool) -> Iterator[Callable[[str], None]]:
    """Yield a function that is told which part begins; ``show=False`` shows nothing."""
    from rich.console import Console

    console = Console(stderr=True)
    if not show:
        yield lambda part: None
        return
    if not (console.is_terminal or console.is_jupyter):
        with lines(parts) as step:
            yield step
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("evaluating", total=len(parts))
        yield lambda part: bar.update(task, description=part, completed=parts.index(part))
