"""Sums by index and sparse products: right, differentiable, and the same bits twice."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fgai_bench.fast.ordered_sums import CHUNK, SparseRows, rows_at, sum_at

PROGRAM = Path(__file__).with_name("check_triton_kernels.py")


def test_sums_by_hand() -> None:
    values = torch.tensor([[1.0, 10.0], [2.0, 20.0], [4.0, 40.0]])
    assert sum_at(torch.tensor([2, 0, 2]), values, 4).tolist() == [[2.0, 20.0], [0.0, 0.0], [5.0, 50.0], [0.0, 0.0]]
    assert sum_at(torch.empty(0, dtype=torch.long), values[:0], 2).tolist() == [[0.0, 0.0], [0.0, 0.0]]


def test_both_are_each_others_gradient() -> None:
    index = torch.tensor([1, 1, 0, 2])
    values = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    rows = torch.randn(3, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda v: sum_at(index, v, 3), values)
    assert torch.autograd.gradcheck(lambda r: rows_at(index, r), rows)


@given(st.lists(st.integers(0, 3 * CHUNK), min_size=1, max_size=8))
def test_every_row_has_the_pieces_that_hold_its_entries(lengths: list[int]) -> None:
    pointer = torch.tensor([0, *lengths]).cumsum(0)
    first, row_of = SparseRows(pointer, torch.zeros(int(pointer[-1]), dtype=torch.long), (len(lengths), 1)).chunks
    expected = [row for row, length in enumerate(lengths) for _ in range(max(1, -(-length // CHUNK)))]
    assert row_of.tolist()[: len(expected)] == expected
    assert set(row_of.tolist()[len(expected) :]) <= {len(lengths)}
    assert first.tolist() == [expected.index(row) for row in range(len(lengths))] + [len(expected)]


@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
def test_product_equals_the_dense_one(kind: torch.dtype) -> None:
    dense = torch.randn(6, 9, dtype=kind) * (torch.rand(6, 9) < 0.4)
    dense[2] = 0
    row, column = dense.nonzero().T
    pointer = torch.cat([torch.zeros(1, dtype=torch.long), torch.bincount(row, minlength=6).cumsum(0)])
    other = torch.randn(9, 5, dtype=kind)
    found = SparseRows(pointer, column, (6, 9)).product(dense[row, column], other)
    torch.testing.assert_close(found, dense @ other)


def errors(device: str, **environment: str) -> list[float]:
    done = subprocess.run(
        [sys.executable, str(PROGRAM), device], capture_output=True, text=True, env={**os.environ, **environment}
    )
    assert done.returncode == 0, done.stderr
    return [float(number) for number in done.stdout.split()]


@pytest.mark.slow
def test_kernels_equal_torch_in_the_interpreter() -> None:
    pytest.importorskip("triton", reason="Triton is not installed")
    of_product, of_factor, of_vectors = errors("cpu", TRITON_INTERPRET="1")
    assert of_product < 1e-6
    assert max(of_factor, of_vectors) < 1e-12


@pytest.mark.gpu
def test_kernels_equal_torch_on_cuda() -> None:
    of_product, of_factor, of_vectors = errors("cuda")
    assert of_product < 1e-6
    assert max(of_factor, of_vectors) < 1e-12


@pytest.mark.gpu
def test_the_same_bits_twice_on_cuda() -> None:
    index, values = torch.randint(50, (20_000,), device="cuda"), torch.randn(20_000, 7, device="cuda")
    first = sum_at(index, values, 50)
    assert all(torch.equal(sum_at(index, values, 50), first) for _ in range(20))
    expected = torch.zeros(50, 7, dtype=torch.float64, device="cuda").index_add_(0, index, values.double())
    torch.testing.assert_close(first.double(), expected, rtol=1e-4, atol=1e-4)
