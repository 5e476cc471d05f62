"""Cost: the clock runs, and a block's peak is its own."""

from __future__ import annotations

import math
import mmap
import time
from typing import Any

import psutil
import pytest
import torch

from fgai_bench.metrics import Cost, measure

MIB = 2**20


def test_seconds_cover_the_block() -> None:
    with measure() as cost:
        assert math.isnan(cost.seconds)
        time.sleep(0.05)
    assert cost.seconds >= 0.05


def test_peak_sees_memory_that_is_gone_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[int] = []
    usual = psutil.Process.memory_info

    def counted(process: psutil.Process) -> Any:
        reads.append(1)
        return usual(process)

    monkeypatch.setattr(psutil.Process, "memory_info", counted)
    with measure() as idle:
        pass
    with measure() as busy, mmap.mmap(-1, 64 * MIB) as block:  # given back at once, unlike a freed tensor
        block.write(b"1" * (64 * MIB))
        before = len(reads)
        while len(reads) < before + 2:  # however busy the machine is, the memory is read again
            time.sleep(0.001)
    with measure() as after:
        pass
    assert busy.memory == "rss"
    assert busy.peak_mib > idle.peak_mib + 50
    assert after.peak_mib < busy.peak_mib - 50  # a lifetime maximum would stay up


def _measured_failure(costs: list[Cost]) -> None:
    with measure() as cost:
        costs.append(cost)
        raise RuntimeError("broken")


def test_a_failing_block_is_measured_and_fails() -> None:
    costs: list[Cost] = []
    with pytest.raises(RuntimeError, match="broken"):
        _measured_failure(costs)
    assert costs[0].seconds > 0
    assert costs[0].peak_mib > 0


@pytest.mark.gpu
def test_gpu_peak_is_what_the_block_allocated() -> None:
    with measure("cuda") as cost:
        block = torch.ones(64 * MIB // 4, device="cuda")
        del block
    assert cost.memory == "gpu"
    assert 64 <= cost.peak_mib < 200


@pytest.mark.gpu
def test_what_other_streams_have_used_before_does_not_count() -> None:
    def multiply() -> None:
        square = torch.ones(256, 256, device="cuda")
        square @ square

    with measure("cuda") as first:
        multiply()
    with torch.cuda.stream(torch.cuda.Stream()):
        multiply()
    with measure("cuda") as second:
        multiply()
    assert second.peak_mib == pytest.approx(first.peak_mib, abs=2)
