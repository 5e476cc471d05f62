"""Every registered metric does what its tags, range and direction say."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import torch

from fgai_bench.metrics import METRICS
from fgai_bench.metrics.f_slope import RATES
from fgai_bench.models.attention import Attention

NAN = float("nan")


def _attention(seed: int) -> Attention:
    g = torch.Generator().manual_seed(seed)
    edges = torch.tensor([[0, 1, 2, 3, 0, 1, 2, 3], [1, 2, 3, 0, 2, 3, 0, 1]])
    return Attention(edges, torch.rand(4, 2, generator=g, dtype=torch.double).softmax(1).T.flatten())


def one(inputs: str, seed: int) -> Any:
    """One argument of the kind that a metric takes, drawn by seed."""
    g = torch.Generator().manual_seed(seed)
    return {
        "probabilities": torch.randn(5, 3, generator=g).softmax(1),
        "logits": 3 * torch.randn(5, 3, generator=g),
        "weights": torch.rand(9, generator=g),
        "attentions": _attention(seed),
        "attention": _attention(seed),
        "curve": torch.rand(6, generator=g).tolist(),
        "labels": torch.randint(3, (7,), generator=g),
        "scores": torch.rand(6, generator=g),
    }[inputs]


def inputs_of(name: str) -> str:
    (inputs,) = [tag.partition(":")[2] for tag in METRICS.entry(name).tags if tag.startswith("inputs:")]
    return inputs


def value(name: str, a: Any, b: Any) -> float:
    entry, metric = METRICS.entry(name), METRICS[name]
    third = [3] if "needs-k" in entry.tags else [0.5] if "needs-share" in entry.tags else []
    match inputs_of(name):
        case "attention":
            return metric(a)
        case "curve":
            return metric(RATES, a)
        case "scores":
            return metric(a, torch.tensor([1, 0, 1, 0, 0, 1]))
        case _:
            return metric(a, b, *third)


def with_nan(argument: Any) -> Any:
    if isinstance(argument, Attention):
        return Attention(argument.edge_index, with_nan(argument.weight))
    if isinstance(argument, list):
        return [NAN, *argument[1:]]
    broken = argument.clone().float()
    broken.view(-1)[0] = NAN
    return broken


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("name", METRICS.names())
def test_value_is_a_float_within_the_declared_range(name: str, seed: int) -> None:
    kind = inputs_of(name)
    result = value(name, one(kind, seed), one(kind, seed + 100))
    declared = METRICS.entry(name).range
    assert declared is not None
    assert type(result) is float
    assert declared[0] <= result <= declared[1]


@pytest.mark.parametrize("name", METRICS.names("distance"))
def test_distance_of_a_thing_to_itself_is_zero(name: str) -> None:
    thing, other = one(inputs_of(name), 0), one(inputs_of(name), 1)
    assert value(name, thing, thing) == 0.0
    assert value(name, thing, other) > 0.0


@pytest.mark.parametrize("name", METRICS.names("similarity"))
def test_similarity_of_a_thing_to_itself_is_one(name: str) -> None:
    thing = one(inputs_of(name), 0)
    assert value(name, thing, thing) == 1.0


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", METRICS.names("symmetric"))
def test_symmetric_metrics_are(name: str, seed: int) -> None:
    a, b = one(inputs_of(name), seed), one(inputs_of(name), seed + 50)
    assert value(name, a, b) == pytest.approx(value(name, b, a), rel=1e-12)


@pytest.mark.parametrize("name", METRICS.names())
def test_nan_raises_one_sentence(name: str) -> None:
    thing = one(inputs_of(name), 0)
    with pytest.raises(ValueError, match=r"^[^\n]+$"):
        value(name, with_nan(thing), thing)


@pytest.mark.parametrize("name", METRICS.names())
def test_inputs_stay_as_they_are(name: str) -> None:
    kind = inputs_of(name)
    a, b = one(kind, 0), one(kind, 1)
    value(name, a, b)
    for used, fresh in ((a, one(kind, 0)), (b, one(kind, 1))):
        if isinstance(used, Attention):
            used, fresh = used.weight, fresh.weight
        assert torch.equal(torch.as_tensor(used), torch.as_tensor(fresh))


@pytest.mark.parametrize("name", METRICS.names("inputs:weights"))
def test_history_and_double_precision_are_no_obstacle(name: str) -> None:
    a, b = one("weights", 0), one("weights", 1)
    expected = value(name, a, b)
    assert value(name, a.double().requires_grad_(), b.double()) == pytest.approx(expected, rel=1e-6)


def to_cuda(argument: Any) -> Any:
    if isinstance(argument, Attention):
        return Attention(argument.edge_index.cuda(), argument.weight.cuda(), argument.added)
    return argument.cuda() if isinstance(argument, torch.Tensor) else argument


@pytest.mark.gpu
@pytest.mark.parametrize("name", [n for n in METRICS.names() if "inputs:scores" not in METRICS.entry(n).tags])
def test_values_are_the_same_on_a_gpu(name: str) -> None:
    a, b = one(inputs_of(name), 0), one(inputs_of(name), 1)
    assert value(name, to_cuda(a), to_cuda(b)) == pytest.approx(value(name, a, b), rel=1e-9)


def test_every_entry_says_what_it_takes_and_which_way_is_better() -> None:
    for name in METRICS.names():
        entry = METRICS.entry(name)
        assert inputs_of(name)
        assert entry.summary
        assert entry.direction != "none" or "inputs:attention" in entry.tags


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

    with pytest.raises(AttributeError, match="no attribute 'g_jds'"):
        metrics.g_jds  # noqa: B018
