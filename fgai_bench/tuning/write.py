"""Write what a study found: ``tuned.yaml`` (a suite), and tables of all trials and of how much each setting matters."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from fgai_bench.records.canonical import canonical, plain
from fgai_bench.suites.schema import Suite, TunedSetting
from fgai_bench.tuning.cells import FINALISTS
from fgai_bench.tuning.importance import importances
from fgai_bench.tuning.outcome import SCORES, TOLERANCE, SearchOutcome, Tried

TUNED, TRIALS, IMPORTANCE = "tuned.yaml", "trials.csv", "importance.csv"
CELL = ("task", "dataset", "model", "defense")
HEAD = (*CELL, "trial", "status", "reason", "clean", "attacked", "overlap")
TAIL = ("reference", "allowed", "feasible", "on_front", "chosen", "seconds", "space", "settings")


def write_outcomes(folder: Path, outcomes: Sequence[SearchOutcome]) -> list[Path]:
    """Write ``tuned.yaml``, ``trials.csv`` and ``importance.csv``, each as a whole or not at all."""
    texts = {TUNED: as_suite(outcomes), TRIALS: as_table(outcomes), IMPORTANCE: importance_table(outcomes)}
    for name, text in texts.items():
        part = folder / f"{name}.part"
        part.write_text(text, encoding="utf-8", newline="\n")
        part.replace(folder / name)
    return [folder / name for name in texts]


def as_suite(outcomes: Sequence[SearchOutcome]) -> str:
    """Return the text of ``tuned.yaml``: the suite with its own lines, tuned lines beside them, and what was chosen."""
    cell, suite = outcomes[0].cell, outcomes[0].cell.suite
    lines = [line for line in suite.defenses if any(outcome.cell.line == line for outcome in outcomes)]
    shown = (*lines, *(line.as_tuned() for line in lines))
    chosen = [outcome.chosen for outcome in outcomes if outcome.chosen is not None]
    content = {
        **_written(suite),
        "name": f"{suite.name}-tuned",
        "summary": f"{suite.name} with its own settings and with those of {outcomes[0].cell.trials} trials each",
        "defenses": [plain(line.model_dump(exclude_defaults=True)) for line in shown],
        "tuned": [_setting(setting) for setting in chosen],
    }
    seeds, finals = (", ".join(map(str, some)) for some in (cell.seeds, cell.finals))
    confirmed = f", the best {FINALISTS} also of {finals}" if finals else ""
    head = (
        f"# Chosen on validation nodes of the split seeds {seeds}{confirmed},\n"
        "# under the validation attack: the highest attacked score among the settings that keep the clean score\n"
        f"# within {TOLERANCE} of the vanilla model's. All trials stand in {TRIALS}.\n"
    )
    return head + yaml.safe_dump(content, sort_keys=False, width=120, default_flow_style=None)


def _written(suite: Suite) -> dict[str, Any]:
    content = plain(suite.model_dump(mode="json", exclude_defaults=True))
    return {key: value for key, value in content.items() if key in Suite.model_fields and key != "tuned"}


def _setting(setting: TunedSetting) -> dict[str, Any]:
    content: dict[str, Any] = plain(setting.model_dump(exclude_defaults=True))
    when = {key: names[0] for key, names in content["when"].items()}
    return {**content, "when": when, "trial": setting.trial, "feasible": setting.feasible}


def as_table(outcomes: Sequence[SearchOutcome]) -> str:
    """Return the text of ``trials.csv``: one row per trial, with its settings and scores."""
    seeds = sorted({seed for outcome in outcomes for tried in outcome.tried for seed in tried.by_seed})
    by_seed = [f"{name}@{seed}" for name in SCORES for seed in seeds]
    out = io.StringIO()
    writer = csv.DictWriter(out, [*HEAD, *by_seed, *TAIL], lineterminator="\n")
    writer.writeheader()
    for outcome in outcomes:
        for tried in outcome.tried:
            writer.writerow({name: _text(value) for name, value in _row(outcome, tried).items()})
    return out.getvalue()


def importance_table(outcomes: Sequence[SearchOutcome]) -> str:
    """Return the text of ``importance.csv``: the share of each setting in each cell that has enough trials."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*CELL, "setting", "importance"])
    for outcome in outcomes:
        cell = outcome.cell
        for setting, share in importances(outcome).items():
            writer.writerow([cell.task, cell.dataset, cell.model, cell.line.title, setting, f"{share:.4f}"])
    return out.getvalue()


def _row(outcome: SearchOutcome, tried: Tried) -> dict[str, Any]:
    cell = outcome.cell
    scores = {f"{name}@{seed}": value for seed, found in tried.by_seed.items() for name, value in found.items()}
    return {
        **dict(zip(HEAD, (cell.task, cell.dataset, cell.model, cell.line.title, tried.number), strict=False)),
        "status": "ok" if tried.ok else "failed",
        "reason": tried.reason,
        "clean": tried.clean,
        "attacked": tried.attacked,
        "overlap": tried.overlap,
        **scores,
        "reference": outcome.reference(tried),
        "allowed": outcome.reference(tried) - TOLERANCE,
        "feasible": outcome.feasible(tried),
        "on_front": any(tried.number == other.number for other in outcome.front),
        "chosen": outcome.choice is not None and tried.number == outcome.choice.number,
        "seconds": round(tried.seconds, 2),
        "space": cell.space_hash[:12],
        "settings": canonical(dict(tried.values)),
    }


def _text(value: Any) -> Any:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return "" if value != value else f"{value:.6g}"
    return value
