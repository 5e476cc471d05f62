"""What the tests of the store share with those of the runner: a small finished run, and its content."""

from tests.run.conftest import content, reference, tiny

__all__ = ["content", "reference", "tiny"]
