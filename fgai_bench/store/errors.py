"""What can be wrong with a request or with a store, each said in one sentence."""

from __future__ import annotations


class RequestError(ValueError):
    """A request that cannot be met as it stands; the message says what would be right."""


class StoreError(ValueError):
    """A store that cannot be used; the message is one sentence with the file, what is wrong and what to do."""
