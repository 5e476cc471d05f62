"""A cell of a study: one task, dataset, model and defense, with the space that is searched and the trials it gets."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

from fgai_bench.data import DATASETS
from fgai_bench.defenses import DEFENSES
from fgai_bench.models import MODELS
from fgai_bench.options import OPTIMISER, Choice, Dimension, by_section, joined
from fgai_bench.records.canonical import sha256
from fgai_bench.records.errors import RequestError
from fgai_bench.run.plan import EVALUATION_SEEDS, TEACHER, Trial, applies
from fgai_bench.suites.schema import DefenseLine, Suite, TunedSetting, When

TUNING_SEEDS = (1000, 1001)
FINAL_SEEDS = (1002, 1003, 1004)
FINALISTS = 4  # best trials that meet the suite's own settings in the final
FINAL_ATTACK = "worst"  # the standard attack, on validation nodes of splits that the search has not seen


def space_of(model: str, defense: str) -> dict[str, Dimension]:
    """Return what is searched: the optimiser's settings, the model's where it is trained afresh, the defense's own.

    A defense that declares no space is searched over the optimiser's settings alone.

    >>> list(space_of("gat", "ln"))[:4]
    ['training.lr', 'training.weight_decay', 'training.epochs', 'model.dropout']
    """
    kind = DEFENSES[defense]
    own = getattr(kind, "search_space", None)
    if own is None:
        return joined(OPTIMISER)
    replaced = "replaces-model" in DEFENSES.entry(defense).tags
    afresh = getattr(kind, "starts_from", "model") == "model" and not replaced
    return joined(OPTIMISER, MODELS[model].search_space if afresh else {}, own)


@dataclass(frozen=True)
class SearchCell:
    """One search: its place in the suite, how many settings are tried, and the split seeds they are averaged over.

    ``finals`` are the split seeds of the final, which chooses among the best trials. ``repeat`` tells searches of the
    same cell apart: each suggests other settings.
    """

    suite: Suite
    task: str
    dataset: str
    model: str
    line: DefenseLine
    trials: int
    seeds: tuple[int, ...] = TUNING_SEEDS
    finals: tuple[int, ...] = FINAL_SEEDS
    repeat: int = 0

    @property
    def name(self) -> str:
        again = f" repeat {self.repeat}" if self.repeat else ""
        return f"{self.task} {self.dataset} {self.model} {self.line.title}{again}"

    @cached_property
    def space(self) -> dict[str, Dimension]:
        """Return the space that is searched: what the line names itself is not."""
        fixed = {f"defense.{option}" for option in self.line.options}
        return {name: known for name, known in space_of(self.model, self.line.name).items() if name not in fixed}

    @property
    def space_hash(self) -> str:
        plain = {
            name: [type(d).__name__, *(d.values if isinstance(d, Choice) else (d.low, d.high))]
            for name, d in self.space.items()
        }
        return sha256(plain)

    def trained(self, number: int, values: Mapping[str, Any], seeds: Sequence[int] = ()) -> list[Trial]:
        """Return the trainings of one trial, one for each split seed: those of the search, or others."""
        label = f"{self.line.title} #{number + self.repeat * self.trials}"
        line = self.line.model_copy(update={"tuned": True, "label": label})
        suite = self.suite.model_copy(update={"tuned": (self.setting(number, values),)})
        return [Trial(suite, self.task, self.dataset, self.model, line, seed) for seed in seeds or self.seeds]

    def words_for(self, number: int) -> str:
        """Return what a person reads of a trial with this number among all searches: ``trial 2 of 16, search 3``."""
        again = f", search {self.repeat + 1}" if self.repeat else ""
        return f"trial {number % self.trials} of {self.trials}{again}"

    def reference(self, seeds: Sequence[int] = ()) -> list[Trial]:
        """Return the trainings of the vanilla model with the suite's own settings, whose clean score is the measure."""
        return [Trial(self.suite, self.task, self.dataset, self.model, TEACHER, seed) for seed in seeds or self.seeds]

    def setting(self, number: int, values: Mapping[str, Any], **known: Any) -> TunedSetting:
        when = When(task=(self.task,), dataset=(self.dataset,), model=(self.model,), defense=(self.line.name,))
        search = {"split": self.suite.split, "trials": self.trials, "trial": number}
        return TunedSetting(when=when, **search, **by_section(values), **known)


def cells_of(
    suite: Suite, trials: int, seeds: Sequence[int] = TUNING_SEEDS, finals: Sequence[int] = FINAL_SEEDS, repeat: int = 1
) -> list[SearchCell]:
    """Return the cells of a suite, dataset by dataset; raise if a seed belongs to an evaluation."""
    if not 1 <= trials <= 10_000:
        raise RequestError(f"--trials must lie between 1 and 10000, not {trials}")
    if not 1 <= repeat <= 100:
        raise RequestError(f"--repeat must lie between 1 and 100, not {repeat}")
    if not seeds or len(set(seeds)) < len(seeds):
        raise RequestError(f"--seeds needs distinct seeds such as 1000,1001, not {','.join(map(str, seeds))}")
    if not finals or len({*seeds, *finals}) < len(seeds) + len(finals):
        raise RequestError(f"--finals needs seeds beside those of --seeds, each once, not {','.join(map(str, finals))}")
    taken = sorted({*EVALUATION_SEEDS, *suite.seeds} & {*seeds, *finals})
    if taken:
        raise RequestError(
            f"seed {taken[0]} belongs to the evaluation, which settings must not be chosen on; the split seeds of a "
            "search are others, such as 1000,1001"
        )
    cells = []
    every = product(suite.datasets, suite.tasks, suite.models, suite.defenses, range(repeat))
    for dataset, task, model, line, number in every:
        fits = applies(DATASETS.entry(dataset).tags, task) and applies(DEFENSES.entry(line.name).tags, task)
        if fits and not line.tuned and (not line.models or model in line.models):
            cells.append(SearchCell(suite, task, dataset, model, line, trials, tuple(seeds), tuple(finals), number))
    return cells
