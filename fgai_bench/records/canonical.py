"""Canonical JSON and the hashes over it: equal content has equal bytes."""

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
