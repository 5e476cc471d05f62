"""Read a file that somebody hands over: a regular one, and no more bytes than it can need."""

import os
import stat

MIB = 2**20


class UnreadableFile(ValueError):
    """A file that cannot or may not be read; the message is one sentence."""


def read_bounded(path: str | os.PathLike[str], most: int) -> bytes:
    """Return the content of a regular file of at most so many bytes; devices, pipes and larger files are not read.

    >>> read_bounded("/dev/zero", 8)
    Traceback (most recent call last):
    ...
    fgai_bench.bounded.UnreadableFile: /dev/zero cannot be read: it is no regular file
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # a pipe that nobody writes to would wait for ever
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            os.close(handle)
            raise UnreadableFile(f"{path} cannot be read: it is no regular file")
        with os.fdopen(handle, "rb") as stream:
            content = stream.read(most + 1)
    except OSError as error:
        raise UnreadableFile(f"{path} cannot be read: {error.strerror}") from None
    if len(content) > most:
        raise UnreadableFile(f"{path} is not read: it has more than the {most / MIB:.1f} MiB that it can need")
    return content
