"""Data: graphs with declared statistics, verified files, seeded splits and Laplacian encodings."""

from typing import TYPE_CHECKING, Any

from fgai_bench.data.catalogue import Dataset, RawFile, Statistics
from fgai_bench.data.errors import DataError, MissingDataError
from fgai_bench.lazy import lazy_names
from fgai_bench.registry import Registry

if TYPE_CHECKING:
    from fgai_bench.data.csbm import generate_csbm
    from fgai_bench.data.datasets import load_dataset
    from fgai_bench.data.download import fetch_dataset
    from fgai_bench.data.graph import undirected_edge_count
    from fgai_bench.data.laplacian import laplacian_encoding
    from fgai_bench.data.roots import cache_root, data_root
    from fgai_bench.data.splits import Split, random_split
    from fgai_bench.data.verify import Verification, verification_failed, verify_dataset, verify_datasets

DATASETS: Registry[Any] = Registry("dataset", "fgai_bench.datasets")
_SHCHUR = "https://arxiv.org/abs/1811.05868"
_PLANETOID = "https://arxiv.org/abs/1603.08861"
_OGB = "https://arxiv.org/abs/2005.00687"
_CSBM = "https://arxiv.org/abs/1807.09596"
for _name, _attribute, _summary, _paper, _tags in (
    ("amazon-photo", "AMAZON_PHOTO", "Amazon co-purchases, photo: 119,081 edges, 8 classes", _SHCHUR, "node real"),
    ("amazon-cs", "AMAZON_CS", "Amazon co-purchases, computers: 245,861 edges, 10 classes", _SHCHUR, "node real"),
    ("coauthor-cs", "COAUTHOR_CS", "co-authors, computer science: 81,894 edges, 15 classes", _SHCHUR, "node real"),
    ("coauthor-physics", "COAUTHOR_PHYSICS", "co-authors, physics: 247,962 edges, 5 classes", _SHCHUR, "node real"),
    (
        "ogbn-arxiv",
        "OGBN_ARXIV",
        "arXiv citations: 1,157,799 edges, 40 classes, split by year",
        _OGB,
        "node real large",
    ),
    (
        "arxiv-topology",
        "ARXIV_TOPOLOGY",
        "graph, labels and split of ogbn-arxiv under surrogate features: for scale and cost only",
        _OGB,
        "node surrogate large",
    ),
    ("cora", "CORA", "citations inside the package: 5,278 edges, 7 classes", _PLANETOID, "node link real embedded"),
    ("citeseer", "CITESEER", "citations: 4,552 edges, 6 classes", _PLANETOID, "node link real"),
    ("pubmed", "PUBMED", "citations: 44,324 edges, 3 classes", _PLANETOID, "node link real"),
    ("csbm", "CSBM", "contextual stochastic block model of any size: 10,000 edges, 5 classes", _CSBM, "node generated"),
    ("csbm-1e3", "CSBM_1E3", "csbm with 1,000 edges", _CSBM, "node generated scaling"),
    ("csbm-1e4", "CSBM_1E4", "csbm with 10,000 edges", _CSBM, "node generated scaling"),
    ("csbm-1e5", "CSBM_1E5", "csbm with 100,000 edges", _CSBM, "node generated scaling"),
    ("csbm-1e6", "CSBM_1E6", "csbm with 1,000,000 edges", _CSBM, "node generated scaling large"),
):
    DATASETS.declare(
        _name, f"fgai_bench.data.catalogue:{_attribute}", summary=_summary, paper=_paper, tags=_tags.split()
    )

__all__ = [
    "DATASETS",
    "DataError",
    "Dataset",
    "MissingDataError",
    "RawFile",
    "Split",
    "Statistics",
    "Verification",
    "cache_root",
    "data_root",
    "fetch_dataset",
    "generate_csbm",
    "laplacian_encoding",
    "load_dataset",
    "random_split",
    "undirected_edge_count",
    "verification_failed",
    "verify_dataset",
    "verify_datasets",
]
__getattr__ = lazy_names(
    __name__,
    {
        "Split": "fgai_bench.data.splits",
        "Verification": "fgai_bench.data.verify",
        "cache_root": "fgai_bench.data.roots",
        "data_root": "fgai_bench.data.roots",
        "fetch_dataset": "fgai_bench.data.download",
        "generate_csbm": "fgai_bench.data.csbm",
        "laplacian_encoding": "fgai_bench.data.laplacian",
        "load_dataset": "fgai_bench.data.datasets",
        "random_split": "fgai_bench.data.splits",
        "undirected_edge_count": "fgai_bench.data.graph",
        "verification_failed": "fgai_bench.data.verify",
        "verify_dataset": "fgai_bench.data.verify",
        "verify_datasets": "fgai_bench.data.verify",
    },
)
