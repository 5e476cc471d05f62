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
OGB = "https://snap.stanford.edu/ogb/data/nodeproppred"
OGB_PAPER = "https://arxiv.org/abs/2005.00687"
OGB_TABLES = [f"raw/{part}" for part in ("edge", "node-feat", "node-label")]
OGB_TABLES += [f"split/time/{part}" for part in ("train", "valid", "test")]
ARXIV = Statistics(169_343, 1_157_799, 128, 40)
SHA256 = {  # by the name of the file
    "amazon_electronics_photo.npz": "bbb7c5830fbbc5118f9bf53daa8b1239434288102c38507809388c4689ea60ff",
    "amazon_electronics_computers.npz": "b7372b2e80eb8e83a8c2a8b8d5edd603717ba40e806c785de97a961eb0cfcfd0",
    "ms_academic_cs.npz": "11b8eadd0a9974c184fb46d84a0bbdbf0e4cf5388409667d8930dd8b45728c23",
    "ms_academic_phy.npz": "60940241b5b50d4071a7cca4d37df59bcc7026546ba73677b14dfa8d1ec27894",
    "arxiv_topology.npz": "5a453d1ba9961b5b46592972fe2112e3a96a1febce627c657ca26aaa1aca0d95",
    "cora.npz": "ab28c1493d300f39f4693e10fde2a2470a2fe6bde305ed9b1dbd3d8e46ec3a9c",
    "ind.citeseer.x": "d20de19150741e555de0ed037195630fc194114ebc7fd72ced62810148aa22f6",
    "ind.citeseer.tx": "539a8906a2da97628d212f2fdd668c109a8b3f0d36574b59e5d3fd5b5303da21",
    "ind.citeseer.allx": "2ac30345d95c9ec933a817ee0bdd6a5f077f8c184a20e696910192d534414668",
    "ind.citeseer.y": "8ba87e515d8e3ee3cf52f6d2c5b86aa73f11ecad825a808455209ec26cd54924",
    "ind.citeseer.ty": "55e5bd1ba1e733a04598753ad1a8d57957f4b8f89e74519f41f4f4938767e4ce",
    "ind.citeseer.ally": "f704b2d986dde6c2669934de1f3ae5696a6cf9455c0f6b2646a2d135ea0a1c95",
    "ind.citeseer.graph": "d79a4ef9d3e7169aee8946145f6b7306e35bc79bffad26346cfb94e10e9912a7",
    "ind.citeseer.test.index": "2af990671580b6b2df5d158d1038f8292e30c9cd821b5453f399659b25b723d4",
    "ind.pubmed.x": "fbe9cb5c47200d1b7769a26e579be3b7130b556831f9d850e77c4c74f2599b33",
    "ind.pubmed.tx": "4eb5f5d0f30f26497eb0ac6ac9719d09c67e284f1ed0385c93f3ef27a671da3d",
    "ind.pubmed.allx": "508e538e2abdccdd54c4d3e9f49d638b4af7107d85845f66ddea5a5152658b7e",
    "ind.pubmed.y": "e6c807633307a07ed659249006536a147c7999c797f11a2560752990181b41b3",
    "ind.pubmed.ty": "ee2e0d4819d9fbcc403689c3bf2e49face401b605932f093bc58ab6461130fdd",
    "ind.pubmed.ally": "0c37bbe3b5014ec365e9d393cf4791925e5ed94fb194305d74f064a8d7b50f0e",
    "ind.pubmed.graph": "5b89f0036ca22909471f1e6558eb42fa06e0c730a577bde5b058b40638f81dc9",
    "ind.pubmed.test.index": "b101d421688bbaecbd82e8a18f1e282378d6830f3a37666f28ebc47f844341b5",
    "tolokers.npz": "99220c9246f662c9bd57ce4c0522d4124482a35cda6c755a08362bcc540c683a",
    "minesweeper.npz": "2e2d51cdb7a74259e4cec76a524cfdff981dbb3e0683ec2771fd370913476a58",
    "actor.npz": "28a724f873621a0c39562bb57f2675a24a8e8ce6c23c608ea9e10d79df329f0b",
    "squirrel_filtered.npz": "85fcff317f712cf86474b10b7339ef0056bba1928da67f34d60ef3d440f6b7dd",
    "chameleon_filtered.npz": "10cd86c90a50c35834c27a7ee72e8a27f57affb24717f4b1797a98fd874ea662",
    "arxiv.zip": "49f85c801589ecdcc52cfaca99693aaea7b8af16a9ac3f41dd85a5f3193fe276",
}


def _files(*paths: str, keys: tuple[str, ...] = (), url: str = "") -> tuple[RawFile, ...]:
    """Return raw files, of which those with a ``url`` can be downloaded from there by their names."""
    names = {path: Path(path).name for path in paths}
    return tuple(RawFile(path, SHA256.get(name, ""), keys, url and f"{url}/{name}") for path, name in names.items())


def _real(
    name: str, statistics: Statistics, reader: str, about: str, paper: str, *tags: str, more: str = "", **facts: Any
) -> Dataset:
    """Return a dataset whose summary says what it is ``about``, its size, and what ``more`` there is to know."""
    summary = f"{about}: {statistics.edges:,} edges, {statistics.classes} classes{more and f', {more}'}"
    return Dataset(name, statistics, reader, summary=summary, paper=paper, tags=("node", "real", *tags), **facts)


def _npz(name: str, path: str, statistics: Statistics, nonzeros: float, about: str) -> Dataset:
    paper, files = "https://arxiv.org/abs/1811.05868", _files(path, keys=NPZ_GRAPH, url=SHCHUR)
    return _real(name, statistics, "fgai_bench.data.readers.npz:read", about, paper, files=files, nonzeros=nonzeros)


def _heterophilous(name: str, statistics: Statistics, nonzeros: float, about: str) -> Dataset:
    stem, paper = name.replace("-", "_"), "https://arxiv.org/abs/2302.11640"
    files = _files(f"heterophilous/{stem}/raw/{stem}.npz", keys=NPZ_HETEROPHILOUS, url=PLATONOV)
    score = "roc_auc" if statistics.classes == 2 else "f1"
    facts: dict[str, Any] = {"files": files, "split": "published", "score": score, "nonzeros": nonzeros}
    reader = "fgai_bench.data.readers.heterophilous:read"
    return _real(name, statistics, reader, about, paper, "heterophilous", more="ten splits", **facts)


def _planetoid(name: str, folder: str, statistics: Statistics, nonzeros: float) -> Dataset:
    paper, parts = "https://arxiv.org/abs/1603.08861", ("x", "tx", "allx", "y", "ty", "ally", "graph", "test.index")
    files = _files(*(f"{folder}/raw/ind.{name}.{part}" for part in parts), url=PLANETOID)
    reader = "fgai_bench.data.readers.planetoid:read"
    return _real(name, statistics, reader, "citations", paper, "link", files=files, nonzeros=nonzeros)


def _generated(
    name: str, reader: str, statistics: Statistics, summary: str, paper: str, options: dict[str, Any], *tags: str
) -> Dataset:
    """Return a dataset that a function draws; the seed of the graph is one of its options."""
    facts: dict[str, Any] = {"options": {**options, "graph_seed": 0}, "tags": ("node", "generated", *tags)}
    return Dataset(name, statistics, reader, summary=summary, paper=paper, **facts)


def _csbm(name: str, edges: int, *tags: str, degree: float = 10.0, classes: int = 5, features: int = 64) -> Dataset:
    statistics = Statistics(round(2 * edges / degree), edges, features, classes)
    sizes = {"edges": edges, "degree": degree, "classes": classes, "features": features}
    any_size = "contextual stochastic block model of any size: 10,000 edges, 5 classes"
    summary, paper = f"csbm with {edges:,} edges" if tags else any_size, "https://arxiv.org/abs/1807.09596"
    options = {**sizes, "homophily": 0.8, "signal": 0.2}
    reader = "fgai_bench.data.readers.csbm:generate_csbm"
    return _generated(name, reader, statistics, summary, paper, options, *tags)


def _truth(name: str, kind: str, statistics: Statistics, summary: str, paper: str, options: dict[str, Any]) -> Dataset:
    reader = f"fgai_bench.data.readers.known_truth:generate_{kind}"
    return _generated(name, reader, statistics, f"known edges: {summary}", paper, options, "truth")


def _motifs(motif: str, nodes: int, edges: int) -> Dataset:
    options = {"motif": motif, "nodes": 400, "edges": 3, "motifs": 80}
    summary = f"{motif} motifs on a Barabasi-Albert graph, PyG's ExplainerDataset"
    statistics = Statistics(nodes, edges, 12, 4)
    return _truth(f"ba-{motif}", "motifs", statistics, summary, "https://arxiv.org/abs/1903.03894", options)


def _planted(name: str, strength: float, edges: int) -> Dataset:
    sizes = {"nodes": 800, "carriers": 120, "classes": 4, "features": 16, "planted": 2}
    options = {**sizes, "noise_degree": 6.0, "strength": strength}
    summary = f"planted carriers of the label, strength {strength:g}, in a graph of noise"
    return _truth(name, "planted", Statistics(920, edges, 16, 4), summary, "https://arxiv.org/abs/1807.09596", options)


(OGB_ARCHIVE,) = _files("arxiv.zip", url=OGB)
DATASETS: Registry[Dataset] = Registry("dataset", "fgai_bench.datasets", "fgai_bench.data.dataset:admitted")
for _dataset in (
    _npz(
        "amazon-photo",
        "Photo/raw/amazon_electronics_photo.npz",
        Statistics(7_650, 119_081, 745, 8),
        0.35,
        "Amazon co-purchases, photo",
    ),
    _npz(
        "amazon-cs",
        "Computers/raw/amazon_electronics_computers.npz",
        Statistics(13_752, 245_861, 767, 10),
        0.35,
        "Amazon co-purchases, computers",
    ),
    _npz(
        "coauthor-cs",
        "CS/raw/ms_academic_cs.npz",
        Statistics(18_333, 81_894, 6_805, 15),
        0.009,
        "co-authors, computer science",
    ),
    _npz(
        "coauthor-physics",
        "Physics/raw/ms_academic_phy.npz",
        Statistics(34_493, 247_962, 8_415, 5),
        0.004,
        "co-authors, physics",
    ),
    _real(
        "ogbn-arxiv",
        ARXIV,
        "fgai_bench.data.readers.ogb_arxiv:read",
        "arXiv citations",
        OGB_PAPER,
        "large",
        more="split by year",
        files=_files(*(f"ogbn_arxiv/{table}.csv.gz" for table in OGB_TABLES)),
        split="published",
        archive=OGB_ARCHIVE,
        stand_in="arxiv-topology",
    ),
    Dataset(
        "arxiv-topology",
        ARXIV,
        "fgai_bench.data.readers.arxiv_topology:read",
        _files("arxiv_topology/arxiv_topology.npz", keys=NPZ_TOPOLOGY),
        split="published",
        archive=OGB_ARCHIVE,
        builder="fgai_bench.data.readers.ogb_arxiv:build_topology",
        summary="graph, labels and split of ogbn-arxiv under surrogate features: for scale and cost only",
        paper=OGB_PAPER,
        tags=("node", "surrogate", "large"),
    ),
    _real(
        "cora",
        Statistics(2_708, 5_278, 1_433, 7),
        "fgai_bench.data.readers.npz:read",
        "citations inside the package",
        "https://arxiv.org/abs/1603.08861",
        "link",
        "embedded",
        files=_files("cora.npz", keys=NPZ_GRAPH),
        embedded=True,
        nonzeros=0.013,
    ),
    _planetoid("citeseer", "CiteSeer", Statistics(3_327, 4_552, 3_703, 6), 0.009),
    _planetoid("pubmed", "PubMed", Statistics(19_717, 44_324, 500, 3), 0.1),
    _heterophilous("tolokers", Statistics(11_758, 519_000, 10, 2), 0.52, "workers of a crowd who shared a task"),
    _heterophilous("minesweeper", Statistics(10_000, 39_402, 7, 2), 0.14, "cells of a grid, mines to be found"),
    _heterophilous("actor", Statistics(7_600, 26_659, 932, 5), 0.006, "actors who share a page"),
    _heterophilous(
        "squirrel-filtered", Statistics(2_223, 46_998, 2_089, 5), 0.007, "pages on squirrels, duplicates left out"
    ),
    _heterophilous(
        "chameleon-filtered", Statistics(890, 8_854, 2_325, 5), 0.005, "pages on chameleons, duplicates left out"
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
        "paths of an infection in a random graph, PyG's InfectionDataset",
        "https://doi.org/10.1145/3447548.3467283",
        {"nodes": 1_000, "mean_degree": 4.0, "infected": 60},
    ),
    _planted("csbm-planted-strong", 2.0, 3_985),
    _planted("csbm-planted", 1.0, 3_985),
    _planted("csbm-planted-weak", 0.3, 3_985),
):
    DATASETS.add(_dataset.name, _dataset, OURS)
