"""Read a file that somebody hands over: a regular one, and no more bytes than it can need."""

import os
import stat
from typing import BinaryIO

MIB = 2**20


class UnreadableFile(ValueError):
    """A file that cannot or may not be read; the message is one sentence."""


def open_bounded(path: str | os.PathLike[str], most: int) -> BinaryIO:
    """Open a regular file of at most so many bytes; devices, pipes and larger files are not opened."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # a pipe that nobody writes to would wait for ever
    except OSError as error:
        raise UnreadableFile(f"{path} cannot be read: {error.strerror}") from None
    status, reason = os.fstat(handle), ""
    if not stat.S_ISREG(status.st_mode):
        reason = f"{path} cannot be read: it is no regular file"
    elif status.st_size > most:
        reason = _too_large(path, most)
    if reason:
        os.close(handle)
        raise UnreadableFile(reason)
    return os.fdopen(handle, "rb")


def read_bounded(path: str | os.PathLike[str], most: int) -> bytes:
    """Return the content of a regular file of at most so many bytes.

    >>> read_bounded("/dev/zero", 8)
    Traceback (most recent call last):
    ...
    fgai_bench.bounded.UnreadableFile: /dev/zero cannot be read: it is no regular file
    """
    with open_bounded(path, most) as stream:
        try:
            content = stream.read(most + 1)
        except OSError as error:
            raise UnreadableFile(f"{path} cannot be read: {error.strerror}") from None
    if len(content) > most:  # it grows, or the system does not tell its size
        raise UnreadableFile(_too_large(path, most))
    return content


def _too_large(path: str | os.PathLike[str], most: int) -> str:
    return f"{path} is not read: it has more than the {most / MIB:.1f} MiB that it can need"
