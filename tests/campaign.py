"""How much of each kind of fault a test brings about: a little, or with FULL_CAMPAIGN=1 all of it, as for a release."""

from __future__ import annotations

import os


def campaign(few: int, full: int) -> int:
    """Return how many kills, requests, suites or flipped bits to try."""
    return full if os.environ.get("FULL_CAMPAIGN") else few
