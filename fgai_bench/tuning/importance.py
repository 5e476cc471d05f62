"""How much each setting of a search matters, by PED-ANOVA (https://arxiv.org/abs/2304.10255)."""

from __future__ import annotations

from fgai_bench.options import Choice
from fgai_bench.tuning.outcome import SearchOutcome
from fgai_bench.tuning.sampling import study_of

LEAST_TRIALS = 8  # trials below which a share would be noise
GOOD_SHARE = 0.5  # share of the trials that counts as good


def importances(outcome: SearchOutcome) -> dict[str, float]:
    """Return each setting's share of what tells the better half of the trials from all; empty with too few trials."""
    cell = outcome.cell
    varied = [name for name, d in cell.space.items() if not (isinstance(d, Choice) and len(d.values) == 1)]
    history = [(tried.values, outcome.value(tried)) for tried in outcome.tried if tried.values and tried.ok]
    if len(history) < LEAST_TRIALS or len({value for _, value in history}) < 2:
        return {}
    from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances

    evaluator = PedAnovaImportanceEvaluator(target_quantile=GOOD_SHARE)
    found = get_param_importances(study_of(cell.space, history), evaluator=evaluator, params=varied)
    return {name: float(found[name]) for name in varied}
