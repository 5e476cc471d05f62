"""Define the errors that are raised when data is missing or wrong."""


class DataError(ValueError):
    """Raised when data cannot be used; the message is one sentence with the dataset, the problem and what to do."""


class MissingDataError(DataError):
    """Raised when data is missing; the message names the dataset, its files and the folder that should hold them."""
