"""Numbers as text: how many digits tables, sentences and files write. Come here for the rules of our CSV files."""

import csv
import io
import math
from collections.abc import Iterable
from typing import Any

from fgai_bench.escaping import csv_cell

DIGITS = 7  # of a number in a file: single precision; more would say nothing and make it a third larger


def as_filed(value: float) -> float:
    """Return a number with the digits that files keep of it, so that what is computed from either is the same.

    >>> as_filed(2 / 3), as_filed(12.0)
    (0.6666667, 12.0)
    """
    return float(f"{value:.{DIGITS}g}")


def as_csv(lines: Iterable[Iterable[Any]]) -> str:
    """Return lines as the text of a CSV file; None and not-a-number leave a field empty.

    Text that a spreadsheet would compute is quoted.

    >>> as_csv([("method", "mean", "std"), ("=fgai", 2 / 3, float("nan"))])
    "method,mean,std\\n'=fgai,0.6666667,\\n"
    """
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(map(csv_field, line) for line in lines)
    return out.getvalue()


def csv_field(value: Any) -> Any:
    """Return a value as :func:`as_csv` writes it."""
    if value is None or value != value:
        return ""
    return as_filed(value) if isinstance(value, float) else csv_cell(value)


def written(mean: float, std: float = math.nan, style: str = "fixed") -> str:
    """Write ``mean±std``; one seed has no spread to write. Styles: fixed, scientific, seconds, mebibytes.

    >>> written(0.82061, 0.0123), written(6.67e-7, 1.9e-7, "scientific")
    ('0.821±0.012', '6.67±1.90E-7')
    >>> written(95.0, style="seconds"), written(0.149, style="seconds"), written(1234.5, style="mebibytes")
    ('95.0s', '0.15s', '1234MiB')
    """
    if style == "seconds":
        return _with_spread(mean, std, 1 if abs(mean) >= 10 else 2) + "s"
    if style == "mebibytes":
        return _with_spread(mean, std, 0) + "MiB"
    if style == "fixed" or not math.isfinite(mean):
        return _with_spread(mean, std, 3 if abs(mean) < 100 else 1)
    if mean == 0:
        return _with_spread(0.0, std, 0)
    exponent = math.floor(math.log10(abs(mean)))
    return f"{_with_spread(mean / 10**exponent, std / 10**exponent, 2)}E{exponent}"


def _with_spread(mean: float, std: float, digits: int) -> str:
    return f"{mean:.{digits}f}" + ("" if math.isnan(std) else f"±{std:.{digits}f}")


def difference_text(value: float, bounds: tuple[float, float] | None, is_ratio: bool = False) -> str:
    """Write a difference or a ratio with its interval.

    >>> difference_text(0.5, (0.25, 0.75)), difference_text(4.0, (2.0, 8.0), is_ratio=True)
    ('+0.5 [+0.25, +0.75]', 'x4 [x2, x8]')
    """
    sign = "x{:.3g}" if is_ratio else "{:+.3g}"
    within = f" [{sign.format(bounds[0])}, {sign.format(bounds[1])}]" if bounds else ""
    return sign.format(value) + within


def short(value: float, digits: int = 3) -> str:
    """Write a score without the zero before its point.

    >>> short(0.9274), short(1.0, 2)
    ('.927', '1.00')
    """
    return f"{value:.{digits}f}".removeprefix("0")


def counted(number: int, noun: str) -> str:
    """Write a number of things.

    >>> counted(1, "cell"), counted(3, "cell")
    ('1 cell', '3 cells')
    """
    return f"{number} {noun}{'s' if number != 1 else ''}"


def listed(parts: Iterable[str]) -> str:
    """Join parts as a sentence does.

    >>> listed(["a", "b", "c"]), listed(["a"])
    ('a, b and c', 'a')
    """
    *first, last = parts
    return f"{', '.join(first)} and {last}" if first else last
