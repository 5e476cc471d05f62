"""Transfer one file from the first of its addresses that gives it, and give up on a server that does not get on."""

from __future__ import annotations

import http.client
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from fgai_bench.data.errors import DataError

CONNECT_SECONDS = 30.0  # without a sign of life from a server
ANSWER_SECONDS = 60.0  # until the headers of its answer are complete
PATIENCE_SECONDS = 60.0  # in which at least PATIENCE_SECONDS * SLOWEST bytes must arrive
SLOWEST = 4096  # bytes a second: below, the largest file would take five hours
LARGEST = 2**31  # bytes; the largest file has 81 million
CHUNK = 2**16


class TransferError(Exception):
    """No address gave the file; the message says of each what happened."""


def transferred(addresses: Iterable[str], target: Path, verify: Callable[[Path], None]) -> Path:
    """Write the file at the first address that gives one which ``verify`` accepts, and return its path.

    ``verify`` raises a ``DataError`` when the content is not the right one; then the next address is tried, and the
    last such error is raised when no address is left.
    """
    reasons: list[str] = []
    wrong: DataError | None = None
    for address in addresses:
        try:
            _copy(address, target)
            verify(target)
            return target
        except DataError as error:
            wrong = error
        except (
            OSError,
            ValueError,
            http.client.HTTPException,
        ) as error:  # no network, no such page, a broken connection
            reasons.append(f"{address}: {' '.join(str(error).split()) or type(error).__name__}")
    if wrong is not None:
        raise wrong
    raise TransferError("; ".join(reasons) or "no address is known")


def _answer(request: urllib.request.Request) -> Any:
    """Return a server's answer once its headers are complete; one whose headers never end is given up on."""
    answer: Future[Any] = Future()

    def ask() -> None:
        try:
            response = urllib.request.urlopen(request, timeout=CONNECT_SECONDS)
        except BaseException as error:
            if isinstance(error, urllib.error.HTTPError):
                error.close()  # it holds the connection
            if answer.set_running_or_notify_cancel():
                answer.set_exception(error)
            return
        if answer.set_running_or_notify_cancel():
            answer.set_result(response)
        else:
            response.close()  # too late

    threading.Thread(target=ask, daemon=True).start()
    try:
        return answer.result(ANSWER_SECONDS)
    except TimeoutError:
        if not answer.cancel():
            raise
        raise TimeoutError(f"its answer has not begun after {ANSWER_SECONDS:g} s") from None


def _copy(address: str, target: Path) -> None:
    request = urllib.request.Request(address, headers={"User-Agent": "fgai-bench"})
    with _answer(request) as response, target.open("wb") as stream:
        total, arrived, since = 0, 0, time.monotonic()
        while chunk := response.read1(CHUNK):  # whatever has arrived: a full chunk may never come
            stream.write(chunk)
            total, arrived = total + len(chunk), arrived + len(chunk)
            if total > LARGEST:
                raise OSError(f"it sends more than {LARGEST:,} bytes")
            waited = time.monotonic() - since
            if waited > PATIENCE_SECONDS:
                if arrived < SLOWEST * waited:
                    raise TimeoutError(f"it sent {arrived} bytes in {waited:.0f} s, which is too slow to wait for")
                arrived, since = 0, time.monotonic()
        expected = response.headers.get("Content-Length")
        if expected is not None and expected.isdigit() and total != int(expected):
            raise OSError(f"the connection ended after {total} of {expected} bytes")
