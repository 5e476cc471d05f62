"""Memory: a method that would not fit is refused, with the figures, before it builds anything."""

from __future__ import annotations

import pickle
from pathlib import Path

import psutil
import pytest
import torch
from torch_geometric.data import Data

from fgai_bench.data import Split
from fgai_bench.defenses import DEFENSES, out_of_memory
from fgai_bench.defenses.out_of_memory import OutOfMemory, available_bytes, dense_bytes, require_memory
from fgai_bench.models import build_model

ARXIV = 169_343


def huge() -> Data:
    """Return a graph with the nodes of ogbn-arxiv, two edges and one feature."""
    pair = torch.tensor([[0, 1], [1, 0]])
    return Data(x=torch.zeros(ARXIV, 1), edge_index=pair, y=torch.zeros(ARXIV, dtype=torch.long))


def test_bytes_are_counted_in_single_precision() -> None:
    assert dense_bytes(10, matrices=3) == 3 * 10 * 10 * 4
    assert dense_bytes(10, matrices=0, num_features=7, copies=2) == 2 * 10 * 7 * 4


def test_the_limit_is_what_is_available(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(out_of_memory, "available_bytes", lambda device: 1000)
    require_memory("a method", 1000, "cpu")
    with pytest.raises(OutOfMemory, match=r"a method needs about 0\.0 GiB, 0\.0 GiB are available") as raised:
        require_memory("a method", 1001, "cpu")
    assert (raised.value.needed, raised.value.available) == (1001, 1000)
    require_memory("a method", 1249, "cpu", doubt=1.25)
    with pytest.raises(OutOfMemory, match="it would take 2 such devices"):
        require_memory("a method", 1251, "cpu", doubt=1.25)


def test_the_figures_survive_a_process_border() -> None:
    error = pickle.loads(pickle.dumps(OutOfMemory("a method", 3 * 2**30, 2**30)))
    assert (error.method, error.needed, str(error)) == (
        "a method",
        3 * 2**30,
        "a method needs about 3.0 GiB, 1.0 GiB are available: it would take 3 such devices",
    )


def test_the_system_and_its_control_group_both_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def within_the_system() -> bool:
        return 2**27 < available_bytes("cpu") < psutil.virtual_memory().total

    monkeypatch.setattr(out_of_memory, "_CGROUP", tmp_path)
    assert within_the_system()  # no control group here
    (tmp_path / "memory.current").write_text("1000\n")
    (tmp_path / "memory.max").write_text("4000\n")
    assert available_bytes("cpu") == 3000
    (tmp_path / "memory.max").write_text("500\n")  # lowered below what is in use
    assert available_bytes("cpu") == 0
    for generous in (str(2**62), "max"):
        (tmp_path / "memory.max").write_text(f"{generous}\n")
        assert within_the_system()


@pytest.mark.parametrize("name", [name for name in DEFENSES.names() if "dense" in DEFENSES.entry(name).tags])
def test_a_dense_defense_refuses_the_nodes_of_arxiv(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(out_of_memory, "available_bytes", lambda device: 20 * 2**30)
    data, model = huge(), build_model("gat", 1, 2)
    index = torch.arange(3)
    with pytest.raises(
        OutOfMemory, match=rf"{name} on 169343 nodes needs about [\d,]+\.\d GiB, 20\.0 GiB are"
    ) as raised:
        DEFENSES[name]().fit(model, data, Split(index, index, index))
    assert raised.value.needed >= 4 * ARXIV**2  # at least one N x N matrix


@pytest.mark.gpu
def test_a_gpu_offers_what_is_free_and_what_torch_keeps_in_reserve() -> None:
    before = available_bytes("cuda")
    block = torch.zeros(2**26, device="cuda")  # 256 MiB
    held = available_bytes("cuda")
    assert before - held >= 2**28
    del block  # goes back to torch's reserve, not to the device
    assert available_bytes("cuda") - held >= 2**28
