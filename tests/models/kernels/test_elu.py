"""Our ELU is the library's, forward and backward, on every sign and size."""

import torch
import torch.nn.functional as F

from fgai_bench.models.kernels.elu import elu


def test_equals_the_library():
    x = torch.tensor([-1e30, -90.0, -3.0, -1e-3, -1e-9, -0.0, 0.0, 1e-9, 2.5, 1e30], requires_grad=True)
    torch.testing.assert_close(elu(x), F.elu(x), rtol=0, atol=6e-8)
    (ours,) = torch.autograd.grad(elu(x).sum(), x)
    (theirs,) = torch.autograd.grad(F.elu(x).sum(), x)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=6e-8)


def test_gradient_is_exact_in_double_precision():
    assert torch.autograd.gradcheck(elu, torch.tensor([-2.0, -0.3, 0.7], dtype=torch.float64, requires_grad=True))


def test_nan_stays():
    assert elu(torch.tensor([float("nan")])).isnan().all()
