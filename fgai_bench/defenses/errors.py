"""Define the error that is raised when a training is asked for that cannot be."""

from __future__ import annotations


class FitError(ValueError):
    """Raised when a defense does not have what it is asked for; the message is one sentence."""
