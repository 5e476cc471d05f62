"""The card: the answer to "how far can this network's predictions, and its attention, be trusted on this graph?"."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fgai_bench.card.judgement import Judgement
from fgai_bench.card.text import text

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Card(Judgement):
    """What one network is worth on one graph: ``print(card)``, ``card.frame``, ``card.figure()``, ``card.to_html(..)``.

    Attributes are those of :class:`Judgement`. The verdicts are ``card.prediction`` and ``card.explanation``, the
    reasons for distrust ``card.alarms``; in a notebook the card shows itself.
    """

    def __str__(self) -> str:
        return text(self)

    __repr__ = __str__

    def figure(self) -> Figure:
        """Return a picture of the predictions, from clean to worst."""
        from fgai_bench.card.figure import draw

        return draw(self)

    def to_html(self, folder: str | os.PathLike[str]) -> Path:
        """Write the card as a page that needs nothing else, with its table and picture beside it; return the page."""
        from fgai_bench.card.page import write

        return write(self, Path(folder))

    def to_json(self) -> str:
        """Return the card as JSON; :class:`fgai_bench.card.CardFile` reads it and has its schema."""
        from fgai_bench.card.schema import as_file

        return as_file(self).model_dump_json(indent=2)

    def _repr_html_(self) -> str:
        from fgai_bench.card.page import fragment

        return fragment(self)
