"""Typed cells: what a metric says when there is nothing to measure."""

from __future__ import annotations


class NotApplicable(Exception):
    """The metric has no value here, and ``reason`` says why in one sentence; a cell of a table shows it, never a blank.

    >>> str(NotApplicable("the model has no attention"))
    'the model has no attention'
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
