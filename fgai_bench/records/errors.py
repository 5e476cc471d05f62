"""Exceptions for a request that cannot be met and for a store that cannot be used."""


class RequestError(ValueError):
    """A request that cannot be met as it stands; the message says what would be right."""


class StoreError(ValueError):
    """A store that cannot be used; the message is one sentence with the file, what is wrong and what to do."""


class EmptyStore(StoreError):
    """A store that nothing was ever written to, as where a run ended at its very start or on a full disk."""
