"""Canonical JSON and the hashes over it: equal content has equal bytes."""

from __future__ import annotations

import hashlib
import json
from typing import Any

PLAIN = frozenset({str, int, bool, type(None)})
# The text of a value that is plain already.
encoded = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=True, ensure_ascii=True).encode


def plain(value: Any) -> Any:
    """Return the value as JSON has it: tuples are lists, and 1.0 is 1, because a person means the same by them.

    >>> plain({"heads": (4, 2), "weight": 1e5})
    {'heads': [4, 2], 'weight': 100000}
    """
    if type(value) in PLAIN:  # most values are, and every step of a plan comes through here
        return value
    if isinstance(value, dict):
        return {str(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    return value


def canonical(value: Any) -> str:
    """Return the value as JSON with sorted keys, no spaces and the shortest form of every number.

    >>> canonical({"b": 1.0, "a": [True, None]})
    '{"a":[true,null],"b":1}'
    """
    return encoded(plain(value))


def sha256(value: Any) -> str:
    """Return the SHA-256 of bytes as they are, and of every other value in its canonical form, in hexadecimal."""
    content = value if isinstance(value, bytes) else canonical(value).encode()
    return hashlib.sha256(content).hexdigest()


class Texts:
    """Canonical JSON of many mappings that share parts: a part that was met before is neither copied nor written again.

    >>> texts, shared = Texts(), {"b": (1.0, 2)}
    >>> texts.plain(shared) is texts.plain(shared)
    True
    >>> texts.canonical({"y": texts.plain(shared), "x": 3}) == canonical({"x": 3, "y": shared})
    True
    """

    def __init__(self) -> None:
        # By identity, which holds because the values themselves are kept.
        self._plain: dict[int, tuple[Any, Any]] = {}
        self._text: dict[int, str] = {}

    def plain(self, value: Any) -> Any:
        """Return the value as :func:`plain` does, the same object for the same mapping."""
        if not isinstance(value, dict):
            return plain(value)
        if id(value) not in self._plain:
            made = plain(value)
            self._plain[id(value)] = value, made
            self._plain[id(made)] = made, made
            self._text[id(made)] = encoded(made)
        return self._plain[id(value)][1]

    def canonical(self, content: dict[str, Any]) -> str:
        """Return the canonical JSON of a mapping whose values came from :meth:`plain`."""
        pairs = (
            f"{encoded(key)}:{self._text[id(value)] if isinstance(value, dict) else encoded(value)}"
            for key, value in sorted(content.items())
        )
        return f"{{{','.join(pairs)}}}"
