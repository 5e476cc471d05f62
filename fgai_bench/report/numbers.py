"""Numbers as tables write them: mean and spread with as many digits as they deserve."""

from __future__ import annotations

import math


def written(mean: float, std: float, style: str = "fixed") -> str:
    """Write ``mean±std``; one seed has no spread to write.

    >>> written(0.82061, 0.0123)
    '0.821±0.012'
    >>> written(6.67e-7, 1.9e-7, "scientific")
    '6.67±1.90E-7'
    >>> written(95.0, math.nan, "seconds"), written(0.149, math.nan, "seconds"), written(1234.5, math.nan, "mebibytes")
    ('95.0s', '0.15s', '1234MiB')
    """
    return STYLES[style](mean, std)


def _fixed(mean: float, std: float) -> str:
    digits = 3 if abs(mean) < 100 else 1
    return f"{mean:.{digits}f}" + ("" if math.isnan(std) else f"±{std:.{digits}f}")


def _scientific(mean: float, std: float) -> str:
    if not math.isfinite(mean) or mean == 0:
        return _fixed(mean, std) if mean else "0" + ("" if math.isnan(std) else f"±{std:.0f}")
    exponent = math.floor(math.log10(abs(mean)))
    scaled = f"{mean / 10**exponent:.2f}" + ("" if math.isnan(std) else f"±{std / 10**exponent:.2f}")
    return f"{scaled}E{exponent}"


def _seconds(mean: float, std: float) -> str:
    digits = 1 if abs(mean) >= 10 else 2
    return f"{mean:.{digits}f}" + ("" if math.isnan(std) else f"±{std:.{digits}f}") + "s"


def _mebibytes(mean: float, std: float) -> str:
    return f"{mean:.0f}" + ("" if math.isnan(std) else f"±{std:.0f}") + "MiB"


STYLES = {"fixed": _fixed, "scientific": _scientific, "seconds": _seconds, "mebibytes": _mebibytes}
