"""Published numbers: read the tables of a paper, each number with the cell of a run that it may be held against.

A paper is a folder of tables (CSV) with a ``paper.yaml`` that says which table holds which metric. The comments of
``baselines/fgai/paper.yaml`` explain every key; the classes here are its schema.
"""

from __future__ import annotations

import csv
import io
import math
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from importlib import resources
from importlib.resources.abc import Traversable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from fgai_bench.registry import Direction
from fgai_bench.statistics.results import ReportError

PACKAGE = "fgai_bench.baselines"
DESCRIPTION = "paper.yaml"
ALIASES = {"paper": "fgai"}  # the benchmark grew out of this paper
StepKind = Literal["clean", "attack", "train"]


@dataclass(frozen=True)
class Published:
    """Hold one published number and say where ours stands."""

    table: str
    task: str
    dataset: str
    model: str
    label: str
    metric: str  # its name in the paper
    ours: str  # the metric of a run that has the same scale
    kind: StepKind  # of the steps that measure it
    mean: float
    std: float
    status: str
    suites: tuple[str, ...]  # that measure it; the first is the one to run
    note: str = ""  # how the scales differ
    direction: Direction = "none"  # which way is better
    attack: str = ""  # label of the attack that it was measured under; empty where nothing attacks
    stand_in: bool = False  # whether the dataset stands in for the one that the number was published for


class Strict(BaseModel):
    """Refuse unknown keys, and take a number as its text where a word is due."""

    model_config = ConfigDict(frozen=True, extra="forbid", coerce_numbers_to_str=True)

    @model_validator(mode="before")
    @classmethod
    def _knows_every_key(cls, content: Any) -> Any:
        unknown = [key for key in content if key not in cls.model_fields] if isinstance(content, dict) else []
        if unknown:
            raise ValueError(f"unknown key {unknown[0]!r}; possible are {', '.join(cls.model_fields)}")
        return content


class NameSource(Strict):
    """Say where the rows of a table have a name: in a column, nowhere (a constant), or spread over switches.

    >>> NameSource(switches={"l1": "similarity", "l2": "prediction"}).name_in({"l1": "1", "l2": "1"})
    'similarity+prediction'
    """

    column: str = ""
    names: dict[str, str] = Field(default_factory=dict)
    constant: str = ""
    switches: dict[str, str] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _is_a_single_source(self) -> NameSource:
        if sum(map(bool, (self.column, self.constant, self.switches))) != 1:
            raise ValueError("give one of column, constant and switches")
        if self.names and not self.column:
            raise ValueError("names translate what stands in a column; give the column")
        return self

    def name_in(self, row: Mapping[str, str]) -> str:
        """Return our name for what a row is about."""
        if self.constant:
            return self.constant
        if self.switches:
            return "+".join(word for column, word in self.switches.items() if row[column] == "1")
        written = row[self.column]
        if self.names and written not in self.names:
            raise ValueError(f"{self.column} is {written!r}, but {DESCRIPTION} names only {', '.join(self.names)}")
        return self.names.get(written, written)


class RowNames(Strict):
    """Say where a row names what it is about."""

    dataset: NameSource
    model: NameSource
    defense: NameSource


class PublishedMetric(Strict):
    """Describe one metric of a table, and ours on the same scale."""

    name: str
    where: dict[str, str] = Field(default_factory=dict)
    mean: str
    std: str = ""
    ours: str
    kind: StepKind
    direction: Direction
    scale: float = 1.0
    positive_where: dict[str, str] = Field(default_factory=dict)
    note: str = ""

    def mean_in(self, row: Mapping[str, str]) -> float:
        """Return the mean in a row on our scale, with its sign where the table prints magnitudes."""
        mean = self.scale * _number(row[self.mean])
        return -mean if self.positive_where and not _has(row, self.positive_where) else mean

    def std_in(self, row: Mapping[str, str]) -> float:
        """Return the spread in a row on our scale; NaN where none was published."""
        return self.scale * _number(row[self.std]) if self.std else math.nan


class PublishedTable(Strict):
    """Describe one CSV file: what its rows are about, and the metrics they hold."""

    name: str
    file: str
    task: str
    suites: tuple[str, ...] = Field(min_length=1)
    attack: str = "injection"
    status: str = ""
    rows: RowNames
    metrics: tuple[PublishedMetric, ...] = Field(min_length=1)

    def numbers_in(self, row: Mapping[str, str]) -> list[Published]:
        """Return the published numbers of a row."""
        metrics = [metric for metric in self.metrics if _has(row, metric.where)]
        if not metrics:
            raise ValueError(f"no metric of {DESCRIPTION} stands in this row; correct `where`, or remove the row")
        return [
            Published(
                table=self.name,
                task=self.task,
                dataset=self.rows.dataset.name_in(row),
                model=self.rows.model.name_in(row),
                label=self.rows.defense.name_in(row),
                metric=metric.name,
                ours=metric.ours,
                kind=metric.kind,
                mean=metric.mean_in(row),
                std=metric.std_in(row),
                status=row[self.status].lower() if self.status else "ok",
                suites=self.suites,
                note=metric.note,
                direction=metric.direction,
                attack=self.attack if metric.kind == "attack" else "",
            )
            for metric in metrics
        ]


class StandIn(Strict):
    """Name a dataset that a run may have in place of a published one."""

    dataset: str
    stand_in: str
    note: str


class Paper(Strict):
    """Describe a paper: its tables, and how a comparison refers to it."""

    title: str
    link: str
    called: str = ""
    stand_ins: tuple[StandIn, ...] = ()
    tables: tuple[PublishedTable, ...] = Field(min_length=1)

    @property
    def reference(self) -> str:
        """Return what a comparison calls the paper."""
        return self.called or f'"{self.title}"'


def shipped_baselines() -> Traversable:
    """Return the folder of papers: the installed package, else the folder beside ours in a bare checkout."""
    spec = find_spec(PACKAGE)
    # A folder without __init__.py is what an update of an older checkout leaves behind, not the package.
    if spec is None or spec.origin is None:
        return Path(__file__).parents[2] / "baselines"
    return resources.files(PACKAGE)


def text_of(name: str) -> str:
    """Return the content of a file of the shipped paper, such as its claims."""
    return shipped_baselines().joinpath("fgai", name).read_text(encoding="utf-8")


def paper_folder(where: str | os.PathLike[str]) -> Traversable:
    """Return the folder of a paper: a shipped one by its name, any other by its path."""
    baselines = shipped_baselines()
    names = sorted(folder.name for folder in baselines.iterdir() if folder.joinpath(DESCRIPTION).is_file())
    if isinstance(where, str) and ALIASES.get(where, where) in names:
        return baselines.joinpath(ALIASES.get(where, where))
    if (Path(where) / DESCRIPTION).is_file():
        return Path(where)
    possible = ", ".join([*ALIASES, *names])
    raise ReportError(
        f"there are no published numbers in {os.fspath(where)!r}; "
        f"--to can be {possible}, or the path of a folder that holds a {DESCRIPTION}"
    )


def read_paper(where: str | os.PathLike[str] = "fgai") -> Paper:
    """Return the description of a paper, checked; ``where`` is the name of a shipped folder or the path of any."""
    file = paper_folder(where).joinpath(DESCRIPTION)
    try:
        content = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError, RecursionError, ValueError) as error:
        raise ReportError(f"{file} cannot be read: {' '.join(str(error).split())}") from None
    if not isinstance(content, dict):
        raise ReportError(f"{file} must be a mapping with the keys {', '.join(Paper.model_fields)}")
    try:
        return Paper.model_validate(content)
    except ValidationError as error:
        raise ReportError(f"{file}: {_first_finding(error)}") from None


def _first_finding(error: ValidationError) -> str:
    """Return what is wrong in one sentence that begins with its place, as ``tables[0].metrics[1].kind``."""
    finding = error.errors()[0]
    place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in finding["loc"]).lstrip(".")
    message = finding["msg"].removeprefix("Value error, ")
    return ": ".join(filter(None, [place, message[:1].lower() + message[1:]]))


def published(where: str | os.PathLike[str] = "fgai") -> tuple[Published, ...]:
    """Return every number of a paper's tables; those on a dataset that has a stand-in also for the stand-in."""
    paper, folder = read_paper(where), paper_folder(where)
    numbers = [number for table in paper.tables for number in _numbers(table, folder.joinpath(table.file))]
    return tuple(variant for number in numbers for variant in _with_stand_ins(number, paper.stand_ins))


def _numbers(table: PublishedTable, file: Traversable) -> Iterator[Published]:
    """Yield the numbers of a table, row by row."""
    try:
        reader = csv.DictReader(io.StringIO(file.read_text(encoding="utf-8")), restval="")
    except (OSError, UnicodeDecodeError) as error:
        raise ReportError(f"the table {file} cannot be read: {error}") from None
    for row in reader:
        try:
            yield from table.numbers_in(row)
        except KeyError as error:
            has = ", ".join(reader.fieldnames or ())
            raise ReportError(f"{file} has no column {error}, which {DESCRIPTION} reads; it has {has}") from None
        except ValueError as error:
            raise ReportError(f"{file}, line {reader.line_num}: {error}") from None


def _with_stand_ins(number: Published, stand_ins: Iterable[StandIn]) -> Iterator[Published]:
    yield number
    for other in stand_ins:
        if other.dataset == number.dataset:
            note = "; ".join(filter(None, [number.note, other.note]))
            yield replace(number, dataset=other.stand_in, note=note, stand_in=True)


def _has(row: Mapping[str, str], cells: Mapping[str, str]) -> bool:
    return all(row[column] == value for column, value in cells.items())


def _number(text: str) -> float:
    return float(text) if text else math.nan
