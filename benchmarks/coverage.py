"""How often a printed centre with its interval covers: ``python -m benchmarks.coverage``.

Populations are the rows of the committed leaderboards whose seeds are skewed, or fall into two groups. A study draws
seeds from such a row, a little smoothed on the metric's scale, and prints a centre and an interval. It covers where the
interval holds the same centre of the whole population.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import numpy as np
from scipy import stats
from scipy.special import expit, logit

from docs.values import SCORES, by_seed, worst_rows
from fgai_bench.statistics.intervals import centre_interval, is_split

SMOOTHING = 0.05  # of the row's range, the spread of the noise that is added to a drawn seed
SKEWED = 1.0  # least skewness on the scale of logits
MANY = 100_000  # draws that stand for the population
Interval = Callable[[dict[int, float]], tuple[float, float] | None]


@cache
def populations() -> dict[str, list[np.ndarray]]:
    """Return the skewed rows of the worst case and those in two groups, as values on the scale of logits."""
    rows = [
        logit(list(by_seed(row, SCORES[suite]).values())) for suite in ("node", "link") for row in worst_rows(suite)
    ]
    apart = [values for values in rows if is_split(values.tolist())]
    skewed = [
        values for values in rows if abs(stats.skew(values, bias=False)) > SKEWED and not is_split(values.tolist())
    ]
    return {"skewed": skewed, "two groups": apart}


def drawn(values: np.ndarray, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Return scores of further seeds from the population of a row."""
    return expit(rng.choice(values, shape) + rng.normal(0.0, SMOOTHING * np.ptp(values), shape))


def coverage(kind: str, seeds: int, studies: int, centre: Callable[[np.ndarray], float], bounds: Interval) -> float:
    """Return the share of studies, over all rows of a kind, whose interval holds the centre of the population."""
    rng, covered = np.random.default_rng(0), []
    for values in populations()[kind]:
        truth = centre(drawn(values, (MANY,), rng))
        for scores in drawn(values, (studies, seeds), rng):
            low, high = bounds(dict(enumerate(scores.tolist()))) or (math.nan, math.nan)
            covered.append(low <= truth <= high)
    return float(np.mean(covered))


def of_median(values: dict[int, float]) -> tuple[float, float] | None:
    """Return the interval that is printed beside a median."""
    return centre_interval(values, "logit")


def of_logits(values: dict[int, float]) -> tuple[float, float] | None:
    """Return Student's t interval on the scale of logits, which stood beside a mean."""
    logits = logit(list(values.values()))
    low, high = stats.t.interval(0.95, logits.size - 1, logits.mean(), stats.sem(logits))
    return float(expit(low)), float(expit(high))


WAYS: dict[str, tuple[Callable[[np.ndarray], float], Interval]] = {
    "median, sign test": (np.median, of_median),
    "mean, t of logits": (np.mean, of_logits),
    "mean of logits, t of logits": (lambda scores: float(expit(logit(scores).mean())), of_logits),
}


def main() -> None:
    """Print the coverage of each way to print a row."""
    for kind, rows in populations().items():
        for seeds in (5, 10):
            shown = "; ".join(f"{name} {coverage(kind, seeds, 1000, *way):.3f}" for name, way in WAYS.items())
            print(f"{len(rows)} rows, {kind}, {seeds} seeds: {shown}")


if __name__ == "__main__":
    main()
