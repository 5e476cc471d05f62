"""Suggest the settings of a trial: a pure function of the space, the seed and the trials of earlier batches.

Trials come in batches of fixed size. What a trial is suggested depends on the results of the batches before its own and
on nothing else, so neither the number of workers, nor their order, nor an interruption changes any suggestion.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fgai_bench.options import Choice, Dimension, LogRange, Space
from fgai_bench.seeds import derive

if TYPE_CHECKING:
    import optuna

History = Sequence[tuple[Mapping[str, Any], float | None]]
BATCH = 4
DIGITS = 4  # significant digits of a suggested number: what a person would write down


def suggest(space: Space, history: History, seed: int, number: int) -> dict[str, Any]:
    """Return the settings of trial ``number``; trial 0 is the suite's own settings, so nothing is set.

    ``history`` has the settings and the value of every trial of earlier batches, in order; no value for a trial that
    failed.
    """
    if number == 0:
        return {}
    import optuna

    def distribution(dimension: Dimension) -> optuna.distributions.BaseDistribution:
        if isinstance(dimension, Choice):
            return optuna.distributions.CategoricalDistribution(dimension.values)
        log, low, high = isinstance(dimension, LogRange), dimension.low, dimension.high
        if isinstance(low, int) and isinstance(high, int):
            return optuna.distributions.IntDistribution(low, high, log=log)
        return optuna.distributions.FloatDistribution(low, high, log=log)

    known, trials = {name: distribution(dimension) for name, dimension in space.items()}, []
    for values, value in history:
        inside = {name: setting for name, setting in values.items() if setting in space[name]}
        state = optuna.trial.TrialState.FAIL if value is None else optuna.trial.TrialState.COMPLETE
        own = {name: known[name] for name in inside}
        trials.append(optuna.trial.create_trial(state=state, params=inside, distributions=own, value=value))
    level = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)  # Optuna reports every study and trial otherwise
    try:
        sampler = optuna.samplers.TPESampler(seed=derive(seed, f"trial-{number}") % 2**32)
        study = optuna.create_study(direction="maximize", sampler=sampler)
        study.add_trials(trials)
    finally:
        optuna.logging.set_verbosity(level)
    asked = study.ask(known)
    return {name: _rounded(asked.params[name], dimension) for name, dimension in space.items()}


def _rounded(value: Any, dimension: Dimension) -> Any:
    """Return a suggested number with few digits, inside its bounds.

    >>> _rounded(0.00123456, LogRange(0.001, 0.1)), _rounded("raw", Choice("raw"))
    (0.001235, 'raw')
    """
    if isinstance(dimension, Choice) or not isinstance(value, float) or value == 0:
        return value
    digits = DIGITS - 1 - math.floor(math.log10(abs(value)))
    return min(max(round(value, digits), dimension.low), dimension.high)
