"""Show how far an evaluation has come: a bar on a terminal or in a notebook, nothing elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from fgai_bench.attacks import ATTACKS
from fgai_bench.models import AttentionModel

PASSES = {"clean": 5, "explanation": 150}  # through the model, of what is no attack
OTHER_GRADIENTS = 10  # of an attack that does not declare how many it takes


@contextmanager
def shown_progress(model: AttentionModel, parts: dict[str, int], show: bool) -> Iterator[Callable[[str, int], None]]:
    """Yield a function that is told which part begins; the bar moves with every pass through the model.

    Args:
        model: its passes are counted while the bar is shown.
        parts: name of every part and how many times it is done.
        show: False shows nothing, and so does an output that is no terminal and no notebook.
    """
    from rich.console import Console

    console = Console(stderr=True)
    if not show or not (console.is_terminal or console.is_jupyter):
        yield lambda part, draws: None
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    sizes = {part: passes_of(part) * max(draws, 1) for part, draws in parts.items()}
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:.0f} %"))
    with Progress(*columns, TimeElapsedColumn(), console=console, transient=True) as bar:
        task = bar.add_task("evaluating", total=sum(sizes.values()))

        def begin(part: str, draws: int) -> None:
            names = list(sizes)
            bar.update(task, description=part, completed=sum(sizes[name] for name in names[: names.index(part)]))

        with _counted(model, lambda: bar.advance(task)):
            yield begin


def passes_of(part: str) -> float:
    """Return about how many passes a part takes: those of an attack follow from the gradients that it declares."""
    known = PASSES.get(part)
    return PASSES["clean"] + ATTACKS.entry(part).cost.get("gradients", OTHER_GRADIENTS) if known is None else known


@contextmanager
def _counted(model: AttentionModel, count: Callable[[], None]) -> Iterator[None]:
    """Call ``count`` with every pass through the model; afterwards the model is as it was."""
    propagate = model.propagate

    def counted(*args: Any, **kwargs: Any) -> Any:
        count()
        return propagate(*args, **kwargs)

    model.propagate = counted  # type: ignore[method-assign]
    try:
        yield
    finally:
        del model.propagate
