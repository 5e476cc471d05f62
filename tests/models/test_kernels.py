"""The fused kernel equals the plain core: outputs, weights and gradients."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

PROGRAM = Path(__file__).with_name("check_triton_attention.py")


def errors(device, **environment):
    done = subprocess.run(
        [sys.executable, str(PROGRAM), device], capture_output=True, text=True, env={**os.environ, **environment}
    )
    assert done.returncode == 0, done.stderr
    return [float(number) for number in done.stdout.split()]


@pytest.mark.slow
def test_fused_attention_equals_the_plain_core_in_the_interpreter():
    pytest.importorskip("triton", reason="Triton is not installed")
    largest, of_a_part, dropout_mean, between_passes = errors("cpu", TRITON_INTERPRET="1")
    assert max(largest, of_a_part) < 1e-5
    assert dropout_mean < 0.2
    assert between_passes < 1e-3


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_fused_attention_equals_the_plain_core_on_cuda():
    largest, of_a_part, dropout_mean, between_passes = errors("cuda")
    assert max(largest, of_a_part) < 1e-5
    assert dropout_mean < 0.02
    assert between_passes < 1e-1
