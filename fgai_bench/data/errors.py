"""What can be wrong with data, said to the person who has to put it right."""

from __future__ import annotations


class DataError(ValueError):
    """Data that cannot be used; the message is one sentence with the dataset, what is wrong and what to do."""


class MissingDataError(DataError):
    """Data that is not there; the message names the dataset, its files and the folder that should hold them."""
