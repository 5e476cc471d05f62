"""Write what a study found: ``tuned.yaml`` (a suite) and ``trials.csv`` (a table of all trials)."""

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from fgai_bench.records.canonical import canonical, plain
from fgai_bench.records.files import write_files
from fgai_bench.tuning.cells import FINAL_ATTACK, FINALISTS
from fgai_bench.tuning.outcome import SCORES, TOLERANCE, SearchOutcome, Tried

TUNED, TRIALS = "tuned.yaml", "trials.csv"


def write_outcomes(folder: Path, outcomes: Sequence[SearchOutcome]) -> list[Path]:
    """Write ``tuned.yaml``, and ``trials.csv`` with a row per trial."""
    seeds = sorted({seed for outcome in outcomes for tried in outcome.tried for seed in (*tried.by_seed, *tried.final)})
    rows = [_row(outcome, tried, seeds) for outcome in outcomes for tried in outcome.tried]
    table = pd.DataFrame(rows).to_csv(index=False, float_format="%.6g", lineterminator="\n")
    return write_files(folder, {TUNED: as_suite(outcomes), TRIALS: table})


def as_suite(outcomes: Sequence[SearchOutcome]) -> str:
    """Return the text of ``tuned.yaml``: the suite with its own lines, tuned lines beside them, and what was chosen.

    Of repeated searches the first one chooses.
    """
    outcomes = [outcome for outcome in outcomes if not outcome.cell.repeat]
    cell, suite = outcomes[0].cell, outcomes[0].cell.suite
    lines = [line for line in suite.defenses if any(outcome.cell.line == line for outcome in outcomes)]
    shown = (*lines, *(line.as_tuned() for line in lines))
    tuned = []
    for setting in filter(None, (outcome.chosen for outcome in outcomes)):
        own = plain(setting.model_dump(exclude_defaults=True))
        when = {key: names[0] for key, names in own["when"].items()}
        tuned.append({**own, "when": when, "trial": setting.trial, "feasible": setting.feasible})
    content = {
        **plain(suite.model_dump(mode="json", exclude_defaults=True, exclude={"tuned"})),
        "name": f"{suite.name}-tuned",
        "summary": f"{suite.name} with its own settings and with those of {outcomes[0].cell.trials} trials each",
        "defenses": [plain(line.model_dump(exclude_defaults=True)) for line in shown],
        "tuned": tuned,
    }
    seeds, finals = (", ".join(map(str, some)) for some in (cell.seeds, cell.finals))
    head = (
        f"# Searched on validation nodes of the split seeds {seeds} under the validation attack.\n"
        f"# The best {FINALISTS} met the suite's own settings in a final on {finals} under the attack {FINAL_ATTACK}.\n"
        "# Chosen: the highest attacked score of the final among those that keep the clean score within\n"
        f"# {TOLERANCE} of the vanilla model's. All trials stand in {TRIALS}.\n"
    )
    return head + yaml.safe_dump(content, sort_keys=False, width=120, default_flow_style=None)


def _row(outcome: SearchOutcome, tried: Tried, seeds: Sequence[int]) -> dict[str, Any]:
    cell, scores, final = outcome.cell, {**tried.by_seed, **tried.final}, replace(tried, by_seed=tried.final)
    chosen = outcome.choice is not None and tried.number == outcome.choice.number
    return {
        "task": cell.task,
        "dataset": cell.dataset,
        "model": cell.model,
        "defense": cell.line.title,
        "repeat": cell.repeat,
        "trial": tried.number,
        "status": "ok" if tried.ok else "failed",
        "reason": tried.reason,
        "clean": tried.clean,
        "attacked": tried.attacked,
        **{f"{name}@{seed}": scores.get(seed, {}).get(name, math.nan) for name in SCORES for seed in seeds},
        "final_clean": final.clean,
        "final_attacked": final.attacked,
        "reference": outcome.reference(tried),
        "allowed": outcome.reference(tried) - TOLERANCE,
        "feasible": "yes" if outcome.feasible(tried) else "no",
        "chosen": "yes" if chosen else "no",
        "seconds": round(tried.seconds, 2),
        "space": cell.space_hash[:12],
        "settings": canonical(dict(tried.values)),
    }
