"""Verify that datasets are present, unchanged, and of the declared size."""

import os
from dataclasses import dataclass
from typing import Literal

from fgai_bench.data.catalogue import DATASETS
from fgai_bench.data.dataset import Statistics, data_root
from fgai_bench.data.download import missing_sentence
from fgai_bench.data.errors import DataError
from fgai_bench.data.graph import undirected_edge_count
from fgai_bench.data.load import load_dataset


@dataclass(frozen=True)
class Verification:
    """The result of verifying one dataset.

    Attributes:
        counts: size of the graph as loaded; if it could not be loaded, the declared size.
        optional: no checksum of its files is known, so that its absence is no failure.
        message: the sentence for the person who has to put it right; empty if ok.
    """

    name: str
    status: Literal["ok", "missing", "wrong"]
    counts: Statistics | None
    optional: bool = False
    message: str = ""

    @property
    def failed(self) -> bool:
        """Tell whether the dataset is wrong, or missing without being optional."""
        return self.status == "wrong" or (self.status == "missing" and not self.optional)


def verify_dataset(name: str, root: str | os.PathLike[str] | None = None) -> Verification:
    """Load ``name`` as a trial would and compare it with its declaration; nothing is downloaded or raised."""
    dataset, folder = DATASETS[name], data_root(root)
    declared, optional = dataset.statistics, dataset.without_reference
    if dataset.missing(folder):
        return Verification(name, "missing", declared, optional, missing_sentence(dataset, folder))
    try:
        data = load_dataset(name, root=folder, sparse=True)
    except DataError as error:
        return Verification(name, "wrong", declared, optional, str(error))
    counted = Statistics(data.x.size(0), undirected_edge_count(data.edge_index), data.x.size(1), data.num_classes)
    if declared not in (None, counted):
        return Verification(name, "wrong", counted, optional, f"{name} is declared with {declared} but has {counted}")
    return Verification(name, "ok", counted, optional)


def verify_datasets(root: str | os.PathLike[str] | None = None) -> list[Verification]:
    """Verify every registered dataset except the larger sizes of generated ones."""
    return [verify_dataset(name, root) for name in DATASETS if "scaling" not in DATASETS.entry(name).tags]
