"""Declare every built-in dataset, readable without torch.

A dataset is a name, the statistics its graph must have, the raw files it is read from with their checksums, and the
function that reads them. Checksums of ``.npz`` files are taken over the arrays, not over the archive: a re-compressed
copy of the same graph is the same graph. Checksums of pickles are taken over the bytes, before anything is unpickled.
OGB's tables have none of their own: the archive that they come from has one. Three graphs have none at all: no copy was
at hand, so they are optional, and a run hashes what it reads.
"""

from pathlib import Path
from typing import Any

from fgai_bench.data.dataset import Dataset, RawFile, Statistics
from fgai_bench.registry import OURS, Registry

GRAPH_ARRAYS = tuple(f"{part}_{key}" for part in ("adj", "attr") for key in ("data", "indices", "indptr", "shape"))
NPZ_GRAPH = (*GRAPH_ARRAYS, "labels")
NPZ_TOPOLOGY = ("indptr", "indices", "label", "year", "train_idx", "valid_idx", "test_idx")
NPZ_HETEROPHILOUS = ("node_features", "node_labels", "edges", "train_masks", "val_masks", "test_masks")
SHCHUR = "https://github.com/shchur/gnn-benchmark/raw/master/data/npz"
PLATONOV = "https://github.com/yandex-research/heterophilous-graphs/raw/main/data"
PLANETOID = "https://github.com/kimiyoung/planetoid/raw/master/data"
OGB_ARXIV = RawFile(
    "arxiv.zip",
    "49f85c801589ecdcc52cfaca99693aaea7b8af16a9ac3f41dd85a5f3193fe276",
    url="https://snap.stanford.edu/ogb/data/nodeproppred/arxiv.zip",
)


def _npz(name: str, path: str, sha256: str, statistics: Statistics, nonzeros: float, summary: str) -> Dataset:
    file = RawFile(path, sha256, NPZ_GRAPH, f"{SHCHUR}/{Path(path).name}")
    return Dataset(
        name,
        statistics,
        "fgai_bench.data.readers.npz:read",
        (file,),
        nonzeros=nonzeros,
        summary=summary,
        paper="https://arxiv.org/abs/1811.05868",
        tags=("node", "real"),
    )


def _heterophilous(name: str, statistics: Statistics, nonzeros: float, about: str, sha256: str = "") -> Dataset:
    stem = name.replace("-", "_")
    file = RawFile(f"heterophilous/{stem}/raw/{stem}.npz", sha256, NPZ_HETEROPHILOUS, f"{PLATONOV}/{stem}.npz")
    return Dataset(
        name,
        statistics,
        "fgai_bench.data.readers.heterophilous:read",
        (file,),
        split="published",
        score="roc_auc" if statistics.classes == 2 else "f1",
        nonzeros=nonzeros,
        summary=f"{about}: {statistics.edges:,} edges, {statistics.classes} classes, ten splits",
        paper="https://arxiv.org/abs/2302.11640",
        tags=("node", "real", "heterophilous"),
    )


def _planetoid(
    name: str, folder: str, sums: dict[str, str], statistics: Statistics, nonzeros: float, summary: str
) -> Dataset:
    names = {f"ind.{name}.{part}": sha256 for part, sha256 in sums.items()}
    files = tuple(RawFile(f"{folder}/raw/{file}", sha256, (), f"{PLANETOID}/{file}") for file, sha256 in names.items())
    return Dataset(
        name,
        statistics,
        "fgai_bench.data.readers.planetoid:read",
        files,
        nonzeros=nonzeros,
        summary=summary,
        paper="https://arxiv.org/abs/1603.08861",
        tags=("node", "link", "real"),
    )


def _csbm(name: str, edges: int, *tags: str, degree: float = 10.0, classes: int = 5, features: int = 64) -> Dataset:
    sizes = {"edges": edges, "degree": degree, "classes": classes, "features": features}
    any_size = "contextual stochastic block model of any size: 10,000 edges, 5 classes"
    return Dataset(
        name,
        Statistics(round(2 * edges / degree), edges, features, classes),
        "fgai_bench.data.readers.csbm:generate_csbm",
        options={**sizes, "homophily": 0.8, "signal": 0.2, "graph_seed": 0},
        summary=f"csbm with {edges:,} edges" if tags else any_size,
        paper="https://arxiv.org/abs/1807.09596",
        tags=("node", "generated", *tags),
    )


def _truth(
    name: str, kind: str, statistics: Statistics, summary: str, paper: str, options: dict[str, Any], *tags: str
) -> Dataset:
    return Dataset(
        name,
        statistics,
        f"fgai_bench.data.readers.known_truth:generate_{kind}",
        options=options,
        summary=summary,
        paper=paper,
        tags=("node", "generated", "truth", *tags),
    )


def _motifs(motif: str, nodes: int, edges: int) -> Dataset:
    options = {"motif": motif, "nodes": 400, "edges": 3, "motifs": 80, "graph_seed": 0}
    summary = f"known edges: {motif} motifs on a Barabasi-Albert graph, PyG's ExplainerDataset"
    statistics = Statistics(nodes, edges, 12, 4)
    return _truth(f"ba-{motif}", "motifs", statistics, summary, "https://arxiv.org/abs/1903.03894", options)


def _planted(name: str, strength: float, edges: int) -> Dataset:
    sizes = {"nodes": 800, "carriers": 120, "classes": 4, "features": 16, "planted": 2}
    options = {**sizes, "noise_degree": 6.0, "strength": strength, "graph_seed": 0}
    summary = f"known edges: planted carriers of the label, strength {strength:g}, in a graph of noise"
    return _truth(name, "planted", Statistics(920, edges, 16, 4), summary, "https://arxiv.org/abs/1807.09596", options)


DATASETS: Registry[Dataset] = Registry("dataset", "fgai_bench.datasets", "fgai_bench.data.dataset:admitted")
for _dataset in (
    _npz(
        "amazon-photo",
        "Photo/raw/amazon_electronics_photo.npz",
        "bbb7c5830fbbc5118f9bf53daa8b1239434288102c38507809388c4689ea60ff",
        Statistics(7_650, 119_081, 745, 8),
        0.35,
        "Amazon co-purchases, photo: 119,081 edges, 8 classes",
    ),
    _npz(
        "amazon-cs",
        "Computers/raw/amazon_electronics_computers.npz",
        "b7372b2e80eb8e83a8c2a8b8d5edd603717ba40e806c785de97a961eb0cfcfd0",
        Statistics(13_752, 245_861, 767, 10),
        0.35,
        "Amazon co-purchases, computers: 245,861 edges, 10 classes",
    ),
    _npz(
        "coauthor-cs",
        "CS/raw/ms_academic_cs.npz",
        "11b8eadd0a9974c184fb46d84a0bbdbf0e4cf5388409667d8930dd8b45728c23",
        Statistics(18_333, 81_894, 6_805, 15),
        0.009,
        "co-authors, computer science: 81,894 edges, 15 classes",
    ),
    _npz(
        "coauthor-physics",
        "Physics/raw/ms_academic_phy.npz",
        "60940241b5b50d4071a7cca4d37df59bcc7026546ba73677b14dfa8d1ec27894",
        Statistics(34_493, 247_962, 8_415, 5),
        0.004,
        "co-authors, physics: 247,962 edges, 5 classes",
    ),
    Dataset(
        "ogbn-arxiv",
        Statistics(169_343, 1_157_799, 128, 40),
        "fgai_bench.data.readers.ogb_arxiv:read",
        tuple(
            RawFile(f"ogbn_arxiv/{part}.csv.gz")
            for part in (
                *(f"raw/{table}" for table in ("edge", "node-feat", "node-label")),
                *(f"split/time/{part}" for part in ("train", "valid", "test")),
            )
        ),
        split="published",
        archive=OGB_ARXIV,
        stand_in="arxiv-topology",
        summary="arXiv citations: 1,157,799 edges, 40 classes, split by year",
        paper="https://arxiv.org/abs/2005.00687",
        tags=("node", "real", "large"),
    ),
    Dataset(
        "arxiv-topology",
        Statistics(169_343, 1_157_799, 128, 40),
        "fgai_bench.data.readers.arxiv_topology:read",
        (
            RawFile(
                "arxiv_topology/arxiv_topology.npz",
                "5a453d1ba9961b5b46592972fe2112e3a96a1febce627c657ca26aaa1aca0d95",
                NPZ_TOPOLOGY,
            ),
        ),
        split="published",
        archive=OGB_ARXIV,
        builder="fgai_bench.data.readers.ogb_arxiv:build_topology",
        summary="graph, labels and split of ogbn-arxiv under surrogate features: for scale and cost only",
        paper="https://arxiv.org/abs/2005.00687",
        tags=("node", "surrogate", "large"),
    ),
    Dataset(
        "cora",
        Statistics(2_708, 5_278, 1_433, 7),
        "fgai_bench.data.readers.npz:read",
        (RawFile("cora.npz", "ab28c1493d300f39f4693e10fde2a2470a2fe6bde305ed9b1dbd3d8e46ec3a9c", NPZ_GRAPH),),
        embedded=True,
        nonzeros=0.013,
        summary="citations inside the package: 5,278 edges, 7 classes",
        paper="https://arxiv.org/abs/1603.08861",
        tags=("node", "link", "real", "embedded"),
    ),
    _planetoid(
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
        0.009,
        "citations: 4,552 edges, 6 classes",
    ),
    _planetoid(
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
        0.1,
        "citations: 44,324 edges, 3 classes",
    ),
    _heterophilous(
        "tolokers",
        Statistics(11_758, 519_000, 10, 2),
        0.52,
        "workers of a crowd who shared a task",
        "99220c9246f662c9bd57ce4c0522d4124482a35cda6c755a08362bcc540c683a",
    ),
    _heterophilous(
        "minesweeper",
        Statistics(10_000, 39_402, 7, 2),
        0.14,
        "cells of a grid, mines to be found",
        "2e2d51cdb7a74259e4cec76a524cfdff981dbb3e0683ec2771fd370913476a58",
    ),
    _heterophilous(
        "actor",
        Statistics(7_600, 26_659, 932, 5),
        0.006,
        "actors who share a page",
        "28a724f873621a0c39562bb57f2675a24a8e8ce6c23c608ea9e10d79df329f0b",
    ),
    _heterophilous(
        "squirrel-filtered",
        Statistics(2_223, 46_998, 2_089, 5),
        0.007,
        "pages on squirrels, duplicates left out",
        "85fcff317f712cf86474b10b7339ef0056bba1928da67f34d60ef3d440f6b7dd",
    ),
    _heterophilous(
        "chameleon-filtered",
        Statistics(890, 8_854, 2_325, 5),
        0.005,
        "pages on chameleons, duplicates left out",
        "10cd86c90a50c35834c27a7ee72e8a27f57affb24717f4b1797a98fd874ea662",
    ),
    _heterophilous("roman-empire", Statistics(22_662, 32_927, 300, 18), 1.0, "words of an article"),
    _heterophilous("amazon-ratings", Statistics(24_492, 93_050, 300, 5), 1.0, "products bought together"),
    _heterophilous("questions", Statistics(48_921, 153_540, 301, 2), 1.0, "users who answered each other"),
    _csbm("csbm", 10_000),
    _csbm("csbm-1e3", 1_000, "scaling"),
    _csbm("csbm-1e4", 10_000, "scaling"),
    _csbm("csbm-1e5", 100_000, "scaling"),
    _csbm("csbm-1e6", 1_000_000, "scaling", "large"),
    # The size of ogbn-products; about a minute and 13 GiB to make.
    _csbm("csbm-products", 60_000_000, "scaling", "large", "huge", degree=50.0, classes=47, features=100),
    _motifs("house", 800, 1_724),
    _motifs("grid", 1_120, 2_204),
    _motifs("tree", 960, 1_724),
    _truth(
        "infection",
        "infection",
        Statistics(1_000, 1_966, 2, 4),
        "known edges: paths of an infection in a random graph, PyG's InfectionDataset",
        "https://doi.org/10.1145/3447548.3467283",
        {"nodes": 1_000, "mean_degree": 4.0, "infected": 60, "graph_seed": 0},
    ),
    _planted("csbm-planted-strong", 2.0, 3_985),
    _planted("csbm-planted", 1.0, 3_985),
    _planted("csbm-planted-weak", 0.3, 3_985),
):
    DATASETS.add(_dataset.name, _dataset, OURS)
