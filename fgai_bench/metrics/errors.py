"""The exception that a metric raises where there is nothing to measure."""

from __future__ import annotations


class NotApplicable(Exception):
    """Raised where a metric has no value; ``reason`` says why in one sentence, which a table shows in place of a value.

    >>> str(NotApplicable("the model has no attention"))
    'the model has no attention'
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
