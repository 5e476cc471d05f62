"""The zoo: trained models and attacked graphs of recorded runs, and models in files. Nothing is unpickled.

A model is called GRAPH/MODEL/DEFENSE, as in ``amazon-photo/gat/fgai-tuned``, or SUITE/GRAPH/MODEL/DEFENSE. Everything
is verified: an artifact by the SHA-256 that its record names, downloaded files by that of their manifest.
"""

import difflib
import os
import shutil
import urllib.request
from collections.abc import Iterator, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

import torch
import yaml
from safetensors import SafetensorError
from safetensors import torch as tensors
from torch import nn
from torch_geometric.data import Data

from fgai_bench.bounded import MIB, read_bounded
from fgai_bench.data import data_root as data_root_of
from fgai_bench.data.download import SILENT_SECONDS
from fgai_bench.data.user_graph import UNLABELLED
from fgai_bench.models import AttentionModel
from fgai_bench.models.base import ModelError
from fgai_bench.models.pyg_wrapper import FromPyG
from fgai_bench.records.canonical import sha256
from fgai_bench.records.errors import RequestError
from fgai_bench.records.export_format import MANIFEST, changed_files, read_manifest, sha256_of_file
from fgai_bench.records.packing import pack_model, rebuilt_model, unpack_model
from fgai_bench.records.store import StoreReader, is_export
from fgai_bench.records.verify import RecordedRow

PLACE = "FGAI_BENCH_ZOO"
LARGEST = 1024 * MIB  # of a file
Member = Mapping[str, Any]


def load_model(
    name: str, seed: int = 0, source: str | os.PathLike[str] | None = None, data_root: str | None = None
) -> AttentionModel:
    """Return a trained model of a recorded run, on the CPU, in evaluation mode; ``model.recorded`` has its scores.

    Args:
        name: as ``fgai-bench ls zoo`` lists it: ``amazon-photo/gat/fgai-tuned``.
        seed: of its training.
        source: a run folder or an export with models; the zoo of the study if not given.
        data_root: where a downloaded zoo is kept; else ``$FGAI_BENCH_DATA``, else your data folder.
    """
    with zoo_store(source, data_root) as store:
        clean = _member(store, name, seed, "clean")
        step = store.step(clean["step"])
        facts, config = step["facts"], step["config"]
        content = store.artifact(step["trial"], "model")
        model = unpack_model(content, config["model"], facts["features"], facts["classes"])
    model.recorded = _recorded(step)
    return model


def load_attacked(
    name: str,
    seed: int = 0,
    attack: str = "worst",
    source: str | os.PathLike[str] | None = None,
    data_root: str | None = None,
) -> Data:
    """Return the graph that an attack on a recorded model made, with ``y``, ``test_mask`` and ``recorded`` scores.

    Injected nodes come last, with the label -1. The clean graph is read from the raw files of its dataset, which lie
    below ``data_root``. ``attack`` is the label of the attack in its suite; the rest is as in :func:`load_model`.
    """
    with zoo_store(source, data_root) as store:
        step = store.step(_member(store, name, seed, "attack", attack)["step"])
        row = RecordedRow(store, step, data_root)
        (attacked, _), clean, targets = row.attacked, row.problem.data, row.problem.targets
    injected = attacked.x.shape[0] - clean.x.shape[0]
    attacked.y = torch.cat([clean.y, clean.y.new_full((injected,), UNLABELLED)])
    attacked.test_mask = torch.zeros(attacked.x.shape[0], dtype=torch.bool).index_fill(0, targets, True)
    attacked.recorded = _recorded(step)
    return attacked


def save(model: nn.Module, path: str | os.PathLike[str]) -> Path:
    """Write a trained model to a safetensors file, which :func:`load` and ``evaluate --weights`` read; return the path.

    A model of this package is rebuilt from the file alone; of a network of your own, the file has the parameters.
    """
    network = model.module if isinstance(model, FromPyG) else model
    if isinstance(network, AttentionModel):
        content = pack_model(network)
    else:
        content = tensors.save({name: part.detach().cpu().clone() for name, part in network.state_dict().items()})
    Path(path).write_bytes(content)
    return Path(path)


def load(path: str | os.PathLike[str], network: nn.Module | None = None) -> nn.Module:
    """Return the model that :func:`save` wrote, in evaluation mode.

    Args:
        path: the file. It can make the program import nothing but models of this package.
        network: your own network, whose parameters are replaced by those of the file; every one must be there.
    """
    size = sum(part.numel() * part.element_size() for part in network.state_dict().values()) if network else None
    content = read_bounded(path, LARGEST if size is None else MIB + 2 * size)
    try:
        state = tensors.load(content)
        if network is None:
            return rebuilt_model(content)
        network.load_state_dict(state)
    except SafetensorError as error:
        raise ModelError(f"{path} is not a safetensors file: {error}") from None
    except (KeyError, TypeError, ValueError) as error:
        raise ModelError(f"{path} does not say how to build its model ({error}); give your network, too") from None
    except RuntimeError as error:
        raise ModelError(f"the weights {path} do not fit the network: {' '.join(str(error).split())}") from None
    return network.eval()


def zoo_name(member: Member) -> str:
    """Return what the zoo calls the model of a place.

    >>> zoo_name({"dataset": "cora", "model": "gat", "label": "fgai tuned"})
    'cora/gat/fgai-tuned'
    """
    return "/".join(str(member[key]).replace(" ", "-") for key in ("dataset", "model", "label"))


def zoo_rows(store: StoreReader) -> dict[tuple[str, int], dict[str, Mapping[str, float]]]:
    """Return the recorded scores of every model that is there: by name and seed, then by attack; clean is ``""``."""
    rows: dict[tuple[str, int], dict[str, Mapping[str, float]]] = {}
    for member in _members(store):
        scores = rows.setdefault((zoo_name(member), member["seed"]), {})
        scores.setdefault(member["attack_label"], _recorded(store.step(member["step"])))  # of suites, the first
    return rows


def _members(store: StoreReader, name: str = "") -> Iterator[Member]:
    """Yield the clean evaluations and attacks whose model is there: those of a name, or all."""
    ready = store.ready()
    named = [
        member
        for member in store.members()
        if member["step"] in ready and not member.get("metric")
        if not name or name in (zoo_name(member), f"{member['suite'].replace(' ', '-')}/{zoo_name(member)}")
    ]
    has_model = {
        member["step"]
        for member in named
        if member["kind"] == "train"
        for row in store.step(member["step"])["artifacts"]
        if row["role"] == "model" and store.artifacts.holds(row["sha256"])
    }
    there = {_trained(member) for member in named if member["step"] in has_model}
    yield from (m for m in named if m["kind"] in ("clean", "attack") and _trained(m) in there)


def _trained(member: Member) -> tuple[Any, ...]:
    return tuple(member[key] for key in ("suite", "task", "dataset", "model", "label", "seed"))


def _member(store: StoreReader, name: str, seed: int, kind: str, attack: str = "") -> Member:
    """Return the place of a model's clean evaluation, or of an attack on it; raise a sentence with what there is."""
    named = list(_members(store, name))
    if not named:
        near = difflib.get_close_matches(name, dict.fromkeys(map(zoo_name, _members(store))), 3)
        raise RequestError(
            f"the zoo in {store.folder} has no {name!r}; "
            + (f"the nearest names are: {', '.join(near)}" if near else "`fgai-bench ls zoo` lists what it has")
        )
    if seed not in (seeds := sorted({m["seed"] for m in named})):
        raise RequestError(f"{name} is there with seed {', '.join(map(str, seeds))}, not {seed}")
    own = {m["attack_label"]: m for m in reversed(named) if m["seed"] == seed and m["kind"] == kind}
    if attack not in own:
        raise RequestError(f"{name} has no attack {attack!r}; recorded are {', '.join(own)}")
    return own[attack]


def _recorded(step: Mapping[str, Any]) -> dict[str, float]:
    rows = [row for row in step["metrics"] if row["family"] == "measure" and row["value"] is not None]
    return {row["name"]: float(row["value"]) for row in rows}


def zoo_store(source: str | os.PathLike[str] | None = None, data_root: str | None = None) -> StoreReader:
    """Open a run folder or an export; without one $FGAI_BENCH_ZOO if set, else a checkout's records or the release."""
    if source is not None:
        return StoreReader(source)
    address, committed = os.environ.get(PLACE, ""), Path(__file__).parents[1] / "results" / "records"
    if address and "://" not in address:
        return StoreReader(address)
    if not address and is_export(committed):
        return StoreReader(committed)
    declared = yaml.safe_load(resources.files("fgai_bench").joinpath("zoo.yaml").read_text(encoding="utf-8"))
    cache = data_root_of(data_root) / "zoo"
    return StoreReader(downloaded(address or declared["address"], declared["manifest_sha256"], cache))


def downloaded(address: str, manifest_sha256: str, cache: Path) -> Path:
    """Return the folder with the files of an export at an address, fetched if they are not there yet, and verified.

    All files are held against its manifest, and the manifest against its SHA-256 where a release declares it.
    """
    if not address:
        raise RequestError(
            "no trained models are installed, and none were released for download; give `source`, or set "
            f"{PLACE}, to results/records of a checkout, a run folder, or an export with models"
        )
    folder = cache / (manifest_sha256 or sha256(address.encode()))[:16]
    if is_export(folder):
        return folder
    part = folder.with_name(f".{folder.name}-{os.getpid()}")
    part.mkdir(parents=True, exist_ok=True)
    try:
        _fetch(address, MANIFEST, part, 16 * MIB)
        if manifest_sha256 and sha256_of_file(part / MANIFEST) != manifest_sha256:
            raise RequestError(f"the {MANIFEST} of {address} is not the one that was released")
        for name, about in read_manifest(part)["files"].items():
            _fetch(address, name, part, about["bytes"])
        for sentence in changed_files(part).values():
            raise RequestError(sentence)
        os.replace(part, folder)
    except OSError as error:
        if not is_export(folder):  # it is one if another process has fetched the same meanwhile
            raise RequestError(f"{address} cannot be fetched: {error}") from None
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return folder


def _fetch(address: str, name: str, folder: Path, most: int) -> None:
    request = urllib.request.Request(f"{address.rstrip('/')}/{name}", headers={"User-Agent": "fgai-bench"})
    with urllib.request.urlopen(request, timeout=SILENT_SECONDS) as response:
        (folder / name).write_bytes(response.read(most))
