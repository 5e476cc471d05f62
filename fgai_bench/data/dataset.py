"""Define what a dataset is: declared facts, readable without torch, and a call that reads the graph.

Also here: the folder of raw files (:func:`data_root`).
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import platformdirs

from fgai_bench.data.errors import DataError
from fgai_bench.registry import object_at

if TYPE_CHECKING:
    from torch_geometric.data import Data


APP = "fgai-bench"
SCORES = {"f1": "F1", "roc_auc": "ROC-AUC"}  # of nodes: what a dataset may be ranked by, and in words
IN_MEMORY = "fgai_bench.data.readers.in_memory:"  # imports torch


def data_root(root: str | os.PathLike[str] | None = None) -> Path:
    """Return the folder of raw files: ``root`` if given, else ``$FGAI_BENCH_DATA``, else the user's data folder.

    >>> data_root("graphs").name
    'graphs'
    """
    return Path(root or os.environ.get("FGAI_BENCH_DATA") or platformdirs.user_data_dir(APP)).expanduser().absolute()


@dataclass(frozen=True)
class Statistics:
    """The size of a graph: nodes, undirected edges without loops and duplicates, feature columns, classes."""

    nodes: int
    edges: int
    features: int
    classes: int


@dataclass(frozen=True)
class RawFile:
    """One file that a dataset is read from.

    Attributes:
        path: relative to the data root, in the layout of PyG's and OGB's own dataset classes.
        sha256: checksum of the bytes, or of the arrays named by ``keys``; empty when no reference copy is known.
        keys: the arrays that are read from an ``.npz``; empty for other formats.
        url: where the file can be downloaded; empty if nowhere.
    """

    path: str
    sha256: str = ""
    keys: tuple[str, ...] = ()
    url: str = ""


@dataclass(frozen=True)
class Dataset:
    """A dataset as registered: declared facts, and a call that reads the graph.

    Attributes:
        name: as in the registry.
        statistics: what the graph must have; ``None`` leaves it open.
        reader: a function ``(root, **options) -> Data``, or, for built-in datasets, ``"module:function"`` of
            ``(dataset, root, **options) -> Data``, imported on the first call; ``(**options) -> Data`` without files.
        files: raw files, all needed.
        split: ``"random"`` (10/10/80 % by seed) or ``"published"`` (the reader brings one split, or one per seed).
        score: what ranks predictions of its nodes: ``"f1"``, or ``"roc_auc"`` for two classes of unequal size.
        embedded: the files lie inside the package instead of the data root.
        archive: one zip that holds all files, or what they are built from.
        builder: ``"module:function"`` of ``(name, folder, target)``, builds the only file from the unpacked archive.
        stand_in: a dataset to use if this one is unavailable.
        nonzeros: share of the features that are not zero, about; what is below a tenth is kept as CSR.
        options: keyword arguments of the reader and their defaults.
        summary, paper, version: what ``fgai-bench ls`` shows; ``version`` changes when the graph changes.
        tags: the tasks it is for, ``node`` and ``link`` (both if neither is named), and further properties.
    """

    name: str
    statistics: Statistics | None
    reader: str | Callable[..., Data]
    files: tuple[RawFile, ...] = ()
    split: Literal["random", "published"] = "random"
    score: str = "f1"
    embedded: bool = False
    archive: RawFile | None = None
    builder: str = ""
    stand_in: str = ""
    nonzeros: float = 1.0
    options: Mapping[str, Any] = field(default_factory=dict)
    summary: str = ""
    paper: str = ""
    version: str = "1"
    tags: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.score not in SCORES:
            raise TypeError(f"its score is {self.score!r}; possible are {', '.join(SCORES)}")

    @property
    def without_reference(self) -> bool:
        """Tell whether no checksum is known for a file, so that nobody can be required to have it."""
        return any(not file.sha256 for file in self.files)

    def path(self, file: RawFile, root: Path) -> Path:
        """Return where ``file`` lies when the data root is ``root``."""
        return (Path(__file__).parent if self.embedded else root) / file.path

    def missing(self, root: Path) -> list[RawFile]:
        """Return the raw files that do not exist under ``root``."""
        return [file for file in self.files if not self.path(file, root).is_file()]

    def __call__(self, root: Path, **options: Any) -> Data:
        """Read the graph from its files, which must exist; ``options`` override the declared ones."""
        unknown = sorted(options.keys() - self.options.keys())
        if unknown:
            possible = ", ".join(self.options) or "none"
            raise DataError(f"{self.name} has no option {', '.join(unknown)}; its options are: {possible}")
        chosen = {**self.options, **options}
        if callable(self.reader):
            tidy: Data = object_at(f"{IN_MEMORY}for_suites")(self.name, self.reader(root, **chosen))
            for said in (tidy.get("score"), getattr(self.reader, "score", None)):
                if isinstance(said, str) and said != self.score:
                    raise DataError(
                        f"the dataset {self.name!r} is registered with the score {self.score!r}, and its graph or "
                        f"function says {said!r}; register it with score={said!r}"
                    )
            return tidy
        read = object_at(self.reader)
        return read(self, root, **chosen) if self.files else read(**chosen)


def _of_graph(name: str, graph: Any) -> Dataset:
    """Return the dataset of a graph in memory, with the statistics counted on it."""
    try:
        reader, sizes = object_at(f"{IN_MEMORY}counted")(graph)
    except DataError as error:
        raise TypeError(str(error)) from None
    statistics = Statistics(*sizes)
    summary = f"a graph of one's own: {statistics.edges:,} edges, {statistics.classes} classes"
    return Dataset(name, statistics, reader, score=score_of(reader.data), summary=summary, tags=("node",))


def score_of(data: Any) -> str:
    """Return the score that ranks predictions on a graph: what ``data.score`` says, micro F1 where it says nothing."""
    declared = data.to_dict().get("score")
    score = declared if isinstance(declared, str) else "f1"
    if score not in SCORES:
        raise DataError(f"data.score is {score!r}; possible are {', '.join(SCORES)}")
    if score == "roc_auc" and data.y is not None and int(data.y.max()) > 1:
        raise DataError(f"data.score is 'roc_auc', which needs two classes, and there are {int(data.y.max()) + 1}")
    return score


DECLARED_FACTS = ("statistics", "files", "split", "score", "summary", "paper", "version", "tags")


def admitted(obj: Any, name: str) -> Dataset:
    """Return a dataset made of a :class:`Dataset`, a function ``(root, **options) -> Data``, or a PyG ``Data`` itself.

    Further facts about the graph (``summary``, ``statistics``, ``split``, ...) may be attributes of the function;
    options are its keyword arguments with their defaults.
    """
    if isinstance(obj, Dataset):
        return obj
    if any(kind.__module__.startswith("torch_geometric.data") for kind in type(obj).__mro__):  # imports no torch
        return _of_graph(name, obj)
    if not callable(obj) or isinstance(obj, type):
        raise TypeError(f"it is {obj!r:.60}, neither a Dataset nor a function of the data root nor a PyG Data")
    parameters = list(inspect.signature(obj).parameters.values())
    if not parameters or parameters[0].kind is inspect.Parameter.KEYWORD_ONLY:
        raise TypeError("its function must take the data root as the first argument")
    options = {p.name: p.default for p in parameters[1:] if p.default is not p.empty}
    facts = {key: getattr(obj, key) for key in DECLARED_FACTS if hasattr(obj, key)}
    first_line = (obj.__doc__ or "").strip().split("\n")[0]
    return Dataset(name, reader=obj, options=options, **{"statistics": None, "summary": first_line, **facts})
