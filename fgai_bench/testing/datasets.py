"""Check datasets: declared statistics, and splits that follow the seed.

Loading itself refuses or mends unusable features, labels, edges and splits (:func:`fgai_bench.data.load_dataset`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from torch_geometric.data import Data

from fgai_bench.data import Dataset, MissingDataError, Split, Statistics, data_root, load_dataset
from fgai_bench.data.download import missing_sentence
from fgai_bench.registry import Entry
from fgai_bench.testing.checks import CheckSkipped, require
from fgai_bench.testing.traces import no_trace_on, same

PARTS = ("train_index", "val_index", "test_index")


@dataclass(frozen=True)
class DatasetSubject:
    """A dataset to be checked; if its files are missing, every check is skipped and nothing is downloaded."""

    load: Callable[[int], Data]  # returns the graph with the split of a seed
    declared: Statistics | None = None
    tags: frozenset[str] = frozenset()

    @cached_property
    def data(self) -> Data:
        try:
            return self.load(0)
        except MissingDataError as reason:
            raise CheckSkipped(str(reason)) from None


def subject(entry: Entry[Any]) -> DatasetSubject:
    """Return the registered dataset ``entry`` as a subject, with files under the data root of the environment."""
    dataset: Dataset = entry.load()

    def load(seed: int) -> Data:
        if dataset.missing(data_root()):
            raise MissingDataError(missing_sentence(dataset, data_root()))
        return load_dataset(entry.name, seed=seed, sparse=True)

    brings_its_split = dataset.split == "published" or (
        callable(dataset.reader) and Split.given(dataset(data_root())) is not None
    )
    tags = entry.tags | {"published-split" if brings_its_split else "random-split"}
    return DatasetSubject(load, dataset.statistics, tags=frozenset(tags))


def check_statistics(subject: DatasetSubject) -> None:
    """The graph has as many nodes, undirected edges, features and classes as are declared."""
    data = subject.data
    counted = Statistics(data.x.shape[0], data.edge_index.size(1) // 2, data.x.shape[1], int(data.y.max()) + 1)
    if subject.declared is None:
        raise CheckSkipped(f"nothing is declared; found are {counted}")
    require(counted == subject.declared, f"declared are {subject.declared}, found are {counted}")


def check_seed_decides_the_split(subject: DatasetSubject) -> None:
    """One seed gives one graph and split, and keeps the global random state; another splits the same graph anew."""
    data, graph = subject.data, ("x", "edge_index", "y")
    with no_trace_on():
        again = subject.load(0)
    for key in (*graph, *PARTS):
        require(same(data[key], again[key]), f"data.{key} differs between two loads")
    if "random-split" in subject.tags:
        other = subject.load(1)
        for key in graph:
            require(same(data[key], other[key]), f"data.{key} depends on the seed of the split")
        require(not same(data.train_index, other.train_index), "two seeds give one split")
