"""The catalogue: what is declared about every built-in dataset, readable without torch.

A dataset is a name, the statistics its graph must have, the raw files it is read from with their checksums, and the
function that reads them. Checksums of ``.npz`` files are taken over the arrays, not over the archive: a re-compressed
copy of the same graph is the same graph. Checksums of pickles are taken over the bytes, before anything is unpickled.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from fgai_bench.data.errors import DataError

if TYPE_CHECKING:
    from torch_geometric.data import Data

GRAPH_ARRAYS = tuple(f"{part}_{key}" for part in ("adj", "attr") for key in ("data", "indices", "indptr", "shape"))
NPZ_GRAPH = (*GRAPH_ARRAYS, "labels")
NPZ_TOPOLOGY = ("indptr", "indices", "label", "year", "train_idx", "valid_idx", "test_idx")
SHCHUR = "https://github.com/shchur/gnn-benchmark/raw/master/data/npz"
PLANETOID = "https://github.com/kimiyoung/planetoid/raw/master/data"
OGB_ARXIV = "http://snap.stanford.edu/ogb/data/nodeproppred/arxiv.zip"


@dataclass(frozen=True)
class Statistics:
    """Size of a graph: nodes, undirected edges without loops and duplicates, feature columns, classes."""

    nodes: int
    edges: int
    features: int
    classes: int


@dataclass(frozen=True)
class RawFile:
    """One file a dataset is read from.

    Attributes:
        path: relative to the data root, in the layout of PyG's and OGB's own dataset classes.
        sha256: of the bytes, or of the arrays named by ``keys``; empty when no reference copy is known.
        keys: the arrays that are read from an ``.npz``; empty for other formats.
        url: where the file can be had; empty if nowhere.
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
        reader: ``"module:function"`` of ``(dataset, root, **options) -> Data``, imported on the first call.
        files: raw files, all needed.
        split: ``"random"`` (10/10/80 % by seed) or ``"published"`` (the reader brings the only split there is).
        embedded: the files lie inside the package instead of the data root.
        archive: address of one zip that holds all files.
        stand_in: a dataset to use where this one cannot be had; its presence makes this one optional.
        options: keyword arguments of the reader and their defaults.
    """

    name: str
    statistics: Statistics | None
    reader: str
    files: tuple[RawFile, ...] = ()
    split: Literal["random", "published"] = "random"
    embedded: bool = False
    archive: str = ""
    stand_in: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)

    def path(self, file: RawFile, root: Path) -> Path:
        """Where ``file`` lies when the data root is ``root``."""
        return (Path(__file__).parent if self.embedded else root) / file.path

    def missing(self, root: Path) -> list[RawFile]:
        """The raw files that are not there."""
        return [file for file in self.files if not self.path(file, root).is_file()]

    def __call__(self, root: Path, **options: Any) -> Data:
        """Read the graph, fetching missing files first; ``options`` override the declared ones."""
        unknown = sorted(options.keys() - self.options.keys())
        if unknown:
            possible = ", ".join(self.options) or "none"
            raise DataError(f"{self.name} has no option {', '.join(unknown)}; its options are: {possible}")
        if self.missing(root):
            importlib.import_module("fgai_bench.data.download").fetch_files(self, root)
        module, _, function = self.reader.partition(":")
        data: Data = getattr(importlib.import_module(module), function)(self, root, **{**self.options, **options})
        return data


def _npz(name: str, path: str, sha256: str, statistics: Statistics) -> Dataset:
    file = RawFile(path, sha256, NPZ_GRAPH, f"{SHCHUR}/{Path(path).name}")
    return Dataset(name, statistics, "fgai_bench.data.npz:read", (file,))


def _planetoid(name: str, folder: str, sums: dict[str, str], statistics: Statistics) -> Dataset:
    raw = [(f"ind.{name}.{part}", sha256) for part, sha256 in sums.items()]
    files = tuple(RawFile(f"{folder}/raw/{file}", sha256, url=f"{PLANETOID}/{file}") for file, sha256 in raw)
    return Dataset(name, statistics, "fgai_bench.data.planetoid:read", files)


def _csbm(name: str, edges: int) -> Dataset:
    options = {
        "edges": edges,
        "degree": 10.0,
        "classes": 5,
        "features": 64,
        "homophily": 0.8,
        "signal": 0.2,
        "graph_seed": 0,
    }
    return Dataset(name, Statistics(edges // 5, edges, 64, 5), "fgai_bench.data.csbm:read", options=options)


AMAZON_PHOTO = _npz(
    "amazon-photo",
    "Photo/raw/amazon_electronics_photo.npz",
    "bbb7c5830fbbc5118f9bf53daa8b1239434288102c38507809388c4689ea60ff",
    Statistics(7_650, 119_081, 745, 8),
)
AMAZON_CS = _npz(
    "amazon-cs",
    "Computers/raw/amazon_electronics_computers.npz",
    "b7372b2e80eb8e83a8c2a8b8d5edd603717ba40e806c785de97a961eb0cfcfd0",
    Statistics(13_752, 245_861, 767, 10),
)
COAUTHOR_CS = _npz(
    "coauthor-cs",
    "CS/raw/ms_academic_cs.npz",
    "11b8eadd0a9974c184fb46d84a0bbdbf0e4cf5388409667d8930dd8b45728c23",
    Statistics(18_333, 81_894, 6_805, 15),
)
COAUTHOR_PHYSICS = _npz(
    "coauthor-physics",
    "Physics/raw/ms_academic_phy.npz",
    "60940241b5b50d4071a7cca4d37df59bcc7026546ba73677b14dfa8d1ec27894",
    Statistics(34_493, 247_962, 8_415, 5),
)
OGBN_ARXIV = Dataset(
    "ogbn-arxiv",
    Statistics(169_343, 1_157_799, 128, 40),
    "fgai_bench.data.ogb_arxiv:read",
    tuple(
        RawFile(f"ogbn_arxiv/{part}.csv.gz")
        for part in (
            *(f"raw/{table}" for table in ("edge", "node-feat", "node-label", "num-node-list", "num-edge-list")),
            *(f"split/time/{part}" for part in ("train", "valid", "test")),
        )
    ),
    split="published",
    archive=OGB_ARXIV,
    stand_in="arxiv-topology",
)
ARXIV_TOPOLOGY = Dataset(
    "arxiv-topology",
    Statistics(169_343, 1_157_799, 128, 40),
    "fgai_bench.data.surrogate:read",
    (
        RawFile(
            "arxiv_topology/arxiv_topology.npz",
            "5a453d1ba9961b5b46592972fe2112e3a96a1febce627c657ca26aaa1aca0d95",
            NPZ_TOPOLOGY,
        ),
    ),
    split="published",
)
CORA = Dataset(
    "cora",
    Statistics(2_708, 5_278, 1_433, 7),
    "fgai_bench.data.npz:read",
    (RawFile("cora.npz", "ab28c1493d300f39f4693e10fde2a2470a2fe6bde305ed9b1dbd3d8e46ec3a9c", NPZ_GRAPH),),
    embedded=True,
)
CITESEER = _planetoid(
    "citeseer",
    "CiteSeer",
    {
        "x": "d20de19150741e555de0ed037195630fc194114ebc7fd72ced62810148aa22f6",
        "tx": "539a8906a2da97628d212f2fdd668c109a8b3f0d36574b59e5d3fd5b5303da21",
        "allx": "2ac30345d95c9ec933a817ee0bdd6a5f077f8c184a20e696910192d534414668",
        "y": "8ba87e515d8e3ee3cf52f6d2c5b86aa73f11ecad825a808455209ec26cd54924",
        "ty": "55e5bd1ba1e733a04598753ad1a8d57957f4b8f89e74519f41f4f4938767e4ce",
        "ally": "f704b2d986dde6c2669934de1f3ae5696a6cf9455c0f6b2646a2d135ea0a1c95",
        "graph": "d79a4ef9d3e7169aee8946145f6b7306e35bc79bffad26346cfb94e10e9912a7",
        "test.index": "2af990671580b6b2df5d158d1038f8292e30c9cd821b5453f399659b25b723d4",
    },
    Statistics(3_327, 4_552, 3_703, 6),
)
PUBMED = _planetoid(
    "pubmed",
    "PubMed",
    {
        "x": "fbe9cb5c47200d1b7769a26e579be3b7130b556831f9d850e77c4c74f2599b33",
        "tx": "4eb5f5d0f30f26497eb0ac6ac9719d09c67e284f1ed0385c93f3ef27a671da3d",
        "allx": "508e538e2abdccdd54c4d3e9f49d638b4af7107d85845f66ddea5a5152658b7e",
        "y": "e6c807633307a07ed659249006536a147c7999c797f11a2560752990181b41b3",
        "ty": "ee2e0d4819d9fbcc403689c3bf2e49face401b605932f093bc58ab6461130fdd",
        "ally": "0c37bbe3b5014ec365e9d393cf4791925e5ed94fb194305d74f064a8d7b50f0e",
        "graph": "5b89f0036ca22909471f1e6558eb42fa06e0c730a577bde5b058b40638f81dc9",
        "test.index": "b101d421688bbaecbd82e8a18f1e282378d6830f3a37666f28ebc47f844341b5",
    },
    Statistics(19_717, 44_324, 500, 3),
)
CSBM = _csbm("csbm", 10_000)
CSBM_1E3 = _csbm("csbm-1e3", 1_000)
CSBM_1E4 = _csbm("csbm-1e4", 10_000)
CSBM_1E5 = _csbm("csbm-1e5", 100_000)
CSBM_1E6 = _csbm("csbm-1e6", 1_000_000)
