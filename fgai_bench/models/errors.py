"""Define the error that is raised when a network cannot be used."""

from __future__ import annotations


class ModelError(ValueError):
    """Raised when a network cannot be used; the message is one sentence with the problem and what to do."""
