"""Hold the fused kernel against the plain core and print the largest relative error; run by ``test_kernels.py``.

It is a program of its own because Triton reads TRITON_INTERPRET once, when it is imported.
"""

import sys

import torch
import torch.nn.functional as F

from fgai_bench.models.edges import Part, sorted_edges
from fgai_bench.models.kernels.fused_attention import fused_attention
from fgai_bench.models.segments import segment_softmax, weighted_sum

SIZES = ((8, 8, False), (1, 5, True), (3, 10, True), (2, 8, False))
FACTOR = 0.2


def plain(values, edges, form, a, b, c, shift):
    j, i = edges.source, edges.destination
    scores = {
        "given": lambda: a,
        "additive": lambda: F.leaky_relu(a[j] + b[i], FACTOR),
        "dynamic": lambda: (F.leaky_relu(values[j] + b[i], FACTOR) * c).sum(-1),
        "dot": lambda: FACTOR * (a[j] * b[i]).sum(-1),
    }[form]()
    weights = segment_softmax(scores if shift is None else scores + shift.unsqueeze(1), edges)
    return weighted_sum(weights, values, edges), weights


def relative(ours, theirs):
    return ((ours - theirs).norm() / theirs.norm().clamp(min=1e-12)).item()


def graph(device, nodes, pairs, draw):
    """Random edges, a hub that all others know and that knows them, and a last node with its own loop only."""
    others = torch.arange(1, nodes - 1, device=device)
    hub = torch.stack([torch.zeros_like(others), others])
    random = torch.randint(0, nodes - 1, (2, pairs), generator=draw, device=device)
    return sorted_edges(torch.unique(torch.cat([random, hub, hub.flip(0)], dim=1), dim=1), nodes)


def largest_error(device, nodes, pairs, sizes=SIZES, forms=("given", "additive", "dynamic", "dot")):
    draw = torch.Generator(device).manual_seed(0)

    def normal(*shape):
        return torch.randn(*shape, generator=draw, device=device, requires_grad=True)

    edges = graph(device, nodes, pairs, draw)
    count, errors = edges.source.numel(), []
    for heads, channels, shifted in sizes:
        wide, narrow = (nodes, heads, channels), (nodes, heads)
        parts = {
            "given": ((count, heads), None, None),
            "additive": (narrow, narrow, None),
            "dynamic": (None, wide, (heads, channels)),
            "dot": (wide, wide, None),
        }
        for form, shapes in ((form, parts[form]) for form in forms):
            values, shift = normal(*wide), normal(count) if shifted else None
            given = [None if shape is None else normal(*shape) for shape in shapes]
            inputs = [x for x in (values, *given, shift) if x is not None]
            ours = fused_attention(values, edges, form, *given, shift, FACTOR)
            theirs = plain(values, edges, form, *given, shift)
            errors += [relative(*pair) for pair in zip(ours, theirs, strict=True)]
            directions = [torch.randn(x.shape, generator=draw, device=device) for x in theirs]
            for terms in (1, 2):  # the output alone, then the returned weights as well
                gradients = [
                    torch.autograd.grad(
                        sum((x * d).sum() for x, d in zip(out[:terms], directions, strict=False)),
                        inputs,
                        retain_graph=True,
                    )
                    for out in (ours, theirs)
                ]
                errors += [relative(*pair) for pair in zip(*gradients, strict=True)]
    return max(errors)


def part_error(device, nodes, pairs):
    """With few nodes that matter: their sums, and the gradients of their sources, are those of the whole."""
    draw = torch.Generator(device).manual_seed(1)
    edges = graph(device, nodes, pairs, draw)
    sources = torch.arange(nodes, device=device) < max(2, nodes // 100)
    destinations = torch.zeros(nodes, dtype=torch.bool, device=device)
    destinations[edges.destination[sources[edges.source]]] = True
    errors = []
    for form, wide in (("additive", False), ("dynamic", True), ("dot", True)):
        shape = (nodes, 2, 4) if wide else (nodes, 2)
        values = torch.randn(nodes, 2, 4, generator=draw, device=device, requires_grad=True)
        a, b = (torch.randn(shape, generator=draw, device=device, requires_grad=True) for _ in range(2))
        c = torch.randn(2, 4, generator=draw, device=device) if form == "dynamic" else None
        some, whole = (
            fused_attention(values, edges, form, a, b, c, factor=FACTOR, part=part)[0][destinations]
            for part in (Part(destinations, sources), None)
        )
        errors.append(relative(some, whole))
        inputs = [values] if form == "dynamic" else [values, a]
        gradients = [torch.autograd.grad(out.square().sum(), inputs) for out in (some, whole)]
        errors += [relative(x[sources], y[sources]) for x, y in zip(*gradients, strict=True)]
    return max(errors)


def dropout_error(device, nodes):
    """How far the mean of dropped-out sums of ones is from one, and whether the two passes drop the same weights."""
    edge_index = torch.stack([torch.arange(nodes), torch.arange(nodes).roll(1)]).to(device)
    edges = sorted_edges(edge_index, nodes)
    values = torch.ones(nodes, 2, 4, device=device, requires_grad=True)
    scores = torch.zeros(edges.source.numel(), 2, device=device)
    seed = torch.tensor([7], device=device)
    out, _ = fused_attention(values, edges, "given", scores, dropout=0.5, seed=seed)
    (gradient,) = torch.autograd.grad(out.sum(), values)
    # Each weight is 1/2 and kept or not: what arrives in the forward pass leaves in the backward pass.
    return abs(out.mean().item() - 1), abs(gradient.sum().item() - out.sum().item())


if __name__ == "__main__":
    where = sys.argv[1]
    if where == "cpu":  # the interpreter is slow: small graphs, and one with a hub for one form of scores
        hub = largest_error(where, 140, 5, sizes=((1, 2, False),), forms=("additive",))
        print(max(largest_error(where, 13, 40, sizes=SIZES[1:3]), hub))
        print(part_error(where, 13, 40))
    else:
        print(largest_error(where, 5000, 100_000))
        print(part_error(where, 5000, 100_000))
    print(*dropout_error(where, 60 if where == "cpu" else 5000))
