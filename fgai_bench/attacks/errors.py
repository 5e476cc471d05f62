"""Define the error that is raised when a threat model cannot be used."""

from __future__ import annotations


class ThreatError(ValueError):
    """Raised when a budget or the targets of an attack cannot be used; the message is one sentence."""
