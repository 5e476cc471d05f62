"""Hold the fused kernel against the plain core and print the largest relative error; run by ``test_kernels.py``.

It is a program of its own because Triton reads TRITON_INTERPRET once, when it is imported.
"""

import sys

import torch
import torch.nn.functional as F

from fgai_bench.models.edges import sorted_edges
from fgai_bench.models.kernels.fused_attention import fused_attention
from fgai_bench.models.segments import segment_softmax, weighted_sum

CASES = ((8, 8, True, False), (1, 5, True, True), (3, 10, False, True), (2, 8, False, False))


def plain(values, first, second, edges, shift):
    scores = first if second is None else F.leaky_relu(first[edges.source] + second[edges.destination], 0.2)
    weights = segment_softmax(scores if shift is None else scores + shift.unsqueeze(1), edges)
    return weighted_sum(weights, values, edges), weights


def relative(ours, theirs):
    return ((ours - theirs).norm() / theirs.norm().clamp(min=1e-12)).item()


def largest_error(device, nodes, pairs):
    draw = torch.Generator(device).manual_seed(0)

    def normal(*shape):
        return torch.randn(*shape, generator=draw, device=device, requires_grad=True)

    edge_index = torch.unique(torch.randint(0, nodes - 1, (2, pairs), generator=draw, device=device), dim=1)
    edges = sorted_edges(edge_index, nodes)  # the last node has its own loop only
    count, errors = edges.source.numel(), []
    for heads, channels, additive, shifted in CASES:
        inputs = [normal(nodes, heads, channels), normal(nodes if additive else count, heads)]
        second = normal(nodes, heads) if additive else None
        shift = normal(count) if shifted else None
        inputs += [x for x in (second, shift) if x is not None]
        ours = fused_attention(inputs[0], inputs[1], second, edges, shift)
        theirs = plain(inputs[0], inputs[1], second, edges, shift)
        errors += [relative(*pair) for pair in zip(ours, theirs, strict=True)]
        directions = [torch.randn(x.shape, generator=draw, device=device) for x in theirs]
        for terms in (1, 2):  # the output alone, then the returned weights as well
            gradients = [
                torch.autograd.grad(
                    sum((x * d).sum() for x, d in zip(out[:terms], directions, strict=False)), inputs, retain_graph=True
                )
                for out in (ours, theirs)
            ]
            errors += [relative(*pair) for pair in zip(*gradients, strict=True)]
    return max(errors)


def dropout_error(device, nodes):
    """How far the mean of dropped-out sums of ones is from one, and whether the two passes drop the same weights."""
    edge_index = torch.stack([torch.arange(nodes), torch.arange(nodes).roll(1)]).to(device)
    edges = sorted_edges(edge_index, nodes)
    values = torch.ones(nodes, 2, 4, device=device, requires_grad=True)
    scores = torch.zeros(edges.source.numel(), 2, device=device)
    out, _ = fused_attention(values, scores, None, edges, dropout=0.5, seed=torch.tensor([7], device=device))
    (gradient,) = torch.autograd.grad(out.sum(), values)
    # Each weight is 1/2 and kept or not: what arrives in the forward pass leaves in the backward pass.
    return abs(out.mean().item() - 1), abs(gradient.sum().item() - out.sum().item())


if __name__ == "__main__":
    where = sys.argv[1]
    print(largest_error(where, *((13, 40) if where == "cpu" else (5000, 100_000))))
    print(*dropout_error(where, 60 if where == "cpu" else 5000))
