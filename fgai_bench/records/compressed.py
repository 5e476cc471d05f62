"""Compressed tables of an export: xz; gzip in the first format, which takes half as much again and is still read.

The small window of gzip ends before the next record that resembles the last one; that of xz holds thousands of them.
"""

from __future__ import annotations

import gzip
import io
import lzma
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

SUFFIXES = {1: ".csv.gz", 2: ".csv.xz", 3: ".csv.xz", 4: ".csv.xz"}  # of a table's file, by the format of the export
LARGEST_WINDOW = 128 * 2**20  # bytes that unpacking may hold at once, whatever a file says that it needs
PIECE = 64  # bytes of a damaged file that are tried at a time
GZIP_HEADER = 10  # bytes; behind them lies what can be unpacked whatever the checksum at the end says


def compressed(content: bytes) -> bytes:
    """Return the content as xz; the same content has the same bytes."""
    return lzma.compress(content, lzma.FORMAT_XZ)


def unpacker(path: Path, content: bytes) -> Callable[[int], bytes]:
    """Return a function that gives the next bytes of a compressed file, at most so many, and none at its end.

    >>> read = unpacker(Path("steps.csv.xz"), compressed(b"hash,kind"))
    >>> read(4), read(100), read(100)
    (b'hash', b',kind', b'')
    """
    if path.suffix == ".gz":
        return gzip.GzipFile(fileobj=io.BytesIO(content)).read
    unpacking = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=LARGEST_WINDOW)
    given = iter((content,))

    def read(size: int) -> bytes:
        part = b"" if unpacking.eof else unpacking.decompress(next(given, b""), size)
        if not part and not unpacking.eof:
            raise EOFError("it ends too early")
        return part

    return read


def salvaged(path: Path) -> str:
    """Return as much of a compressed file as can be had, whatever its checksum."""
    content = path.read_bytes() if path.is_file() else b""
    if path.suffix == ".gz":
        parts = _tried(zlib.decompressobj(-zlib.MAX_WBITS).decompress, content[GZIP_HEADER:])
    else:
        parts = _tried(lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=LARGEST_WINDOW).decompress, content)
    return b"".join(parts).decode(errors="replace")


def _tried(unpack: Callable[[bytes], bytes], content: bytes) -> list[bytes]:
    """Return what comes out of a file before it stumbles."""
    parts = []
    with suppress(zlib.error, lzma.LZMAError, EOFError):
        for start in range(0, len(content), PIECE):
            parts.append(unpack(content[start : start + PIECE]))
    return parts
