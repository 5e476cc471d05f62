"""Registered metrics: their contract is walked elsewhere; here is what holds for all of them together."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import torch

from fgai_bench.metrics import METRICS
from fgai_bench.metrics.base import INPUTS, inputs_of
from fgai_bench.models.attention import Attention
from fgai_bench.testing.contracts import subject_of

ON_A_GPU = [name for name in METRICS if inputs_of(METRICS.entry(name).tags) not in ("scores", "model")]


@pytest.mark.parametrize("name", METRICS.names("inputs:weights"))
def test_history_and_double_precision_are_no_obstacle(name: str) -> None:
    subject = subject_of("metrics", METRICS.entry(name))
    a, b = subject.argument(0), subject.argument(1)
    value = subject.value(a, b)
    assert subject.value(a.double().requires_grad_(), b.double()) == pytest.approx(value, rel=1e-6)


def to_cuda(argument: Any) -> Any:
    if isinstance(argument, Attention):
        return Attention(argument.edge_index.cuda(), argument.weight.cuda(), argument.added)
    if isinstance(argument, list | tuple):
        return type(argument)(to_cuda(part) for part in argument)
    return argument.cuda() if isinstance(argument, torch.Tensor) else argument


@pytest.mark.gpu
@pytest.mark.parametrize("name", ON_A_GPU)
def test_values_are_the_same_on_a_gpu(name: str) -> None:
    subject = subject_of("metrics", METRICS.entry(name))
    a, b = subject.argument(0), subject.argument(1)
    assert subject.value(to_cuda(a), to_cuda(b)) == pytest.approx(subject.value(a, b), rel=1e-9)


@pytest.mark.parametrize("name", METRICS)
def test_every_entry_says_what_it_takes_and_where_its_values_lie(name: str) -> None:
    entry = METRICS.entry(name)
    assert inputs_of(entry.tags) in INPUTS
    assert entry.summary
    assert entry.range is not None
    assert entry.scale in ("identity", "log", "logit")


def test_names_are_found_without_torch_and_f_slope_is_the_function() -> None:
    code = (
        "import sys, fgai_bench.metrics as m; assert m.METRICS.names() and 'torch' not in sys.modules\n"
        "from fgai_bench.metrics.f_slope import f_acc_curve\n"
        "from fgai_bench.metrics import f_slope\n"
        "assert f_slope([0, 1], [1, 0]) == m.f_slope([0, 1], [1, 0]) == -1\n"
        "assert all(callable(getattr(m, name)) for name in m.__all__ if name != 'METRICS')"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_unknown_public_name_is_an_attribute_error() -> None:
    import fgai_bench.metrics as metrics

    with pytest.raises(AttributeError, match="g_jds"):
        metrics.g_jds  # noqa: B018
