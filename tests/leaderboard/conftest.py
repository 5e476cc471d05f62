"""Fixtures that the tests of leaderboards share with those of runs."""

from tests.run.conftest import reference, tiny

__all__ = ["reference", "tiny"]
