"""What CSV files keep: seven digits of a number, nothing of a missing one, no text that a spreadsheet would compute."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from typing import Any

from fgai_bench.records.escaping import csv_cell

DIGITS = 7  # of a number in a file: single precision; more would say nothing and make it a third larger


def as_filed(value: float) -> float:
    """Return a number with the digits that files keep of it, so that what is computed from either is the same.

    >>> as_filed(2 / 3), as_filed(12.0)
    (0.6666667, 12.0)
    """
    return float(f"{value:.{DIGITS}g}")


def as_csv(lines: Iterable[Iterable[Any]]) -> str:
    """Return lines as the text of a CSV file; None and not-a-number leave a place empty.

    >>> as_csv([("method", "mean", "std"), ("=fgai", 2 / 3, float("nan"))])
    "method,mean,std\\n'=fgai,0.6666667,\\n"
    """
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(map(_written, line) for line in lines)
    return out.getvalue()


def _written(value: Any) -> Any:
    if value is None or value != value:
        return ""
    return as_filed(value) if isinstance(value, float) else csv_cell(value)
