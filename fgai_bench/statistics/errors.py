"""A wrong request to a report, in one sentence."""

from __future__ import annotations


class ReportError(ValueError):
    """What was asked cannot be reported; the message says what can."""
