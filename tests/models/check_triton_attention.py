"""Hold the fused kernel against the plain core and print the largest relative error; run by ``test_kernels.py``.

It is a program of its own because Triton reads TRITON_INTERPRET once, when it is imported.
"""

import sys

import torch
import torch.nn.functional as F

from fgai_bench.models import sorted_edges as graphs
from fgai_bench.models.kernels.segments import segment_softmax, weighted_sum
from fgai_bench.models.kernels.triton_attention import FORMS, PARTS, fused_attention
from fgai_bench.models.sorted_edges import NodeMask, sorted_edges

SIZES = ((8, 8, False), (1, 5, True), (3, 10, True), (2, 8, False))
FACTOR = 0.2


def plain(x, edges, form, given, c, d, shift):
    j, i = edges.source, edges.destination
    parts = x.unbind(1)
    values = parts[2 if form == "dot" else 0]
    scores = {
        "given": lambda: given,
        "linear": lambda: F.leaky_relu((values * c).sum(-1)[j] + (values * d).sum(-1)[i], FACTOR),
        "dynamic": lambda: (F.leaky_relu(values[j] + parts[1][i], FACTOR) * c).sum(-1),
        "dot": lambda: FACTOR * (parts[1][j] * parts[0][i]).sum(-1),
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


def largest_error(device, nodes, pairs, sizes=SIZES, forms=FORMS):
    draw = torch.Generator(device).manual_seed(0)

    def normal(*shape):
        return torch.randn(*shape, generator=draw, device=device, requires_grad=True)

    edges = graph(device, nodes, pairs, draw)
    count, errors = edges.source.numel(), []
    for heads, channels, shifted in sizes:
        along = (heads, channels)
        shapes = {"given": ((count, heads), None, None), "linear": (None, along, along), "dynamic": (None, along, None)}
        for form in forms:
            x, shift = normal(nodes, PARTS[form], *along), normal(count) if shifted else None
            given = [None if shape is None else normal(*shape) for shape in shapes.get(form, (None, None, None))]
            inputs = [y for y in (x, *given, shift) if y is not None]
            ours = fused_attention(x, edges, form, *given, shift, FACTOR)
            theirs = plain(x, edges, form, *given, shift)
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
    for form in FORMS[1:]:
        x = torch.randn(nodes, PARTS[form], 2, 4, generator=draw, device=device, requires_grad=True)
        c, d = (torch.randn(2, 4, generator=draw, device=device) for _ in range(2))
        arriving = destinations[edges.destination]
        found = []
        for part in (NodeMask(destinations, sources), None):
            out, weights = fused_attention(x, edges, form, None, c, d, factor=FACTOR, mask=part)
            found.append((out[destinations], weights[arriving]))
        errors += [relative(*pair) for pair in zip(*found, strict=True)]
        for terms in (1, 2):  # of the output alone, then of the returned weights as well
            losses = [sum(term.square().sum() for term in which[:terms]) for which in found]
            errors.append(relative(*(torch.autograd.grad(loss, x, retain_graph=True)[0][sources] for loss in losses)))
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
    if where == "cpu":  # the interpreter is slow: small graphs, without hubs and with one
        without = largest_error(where, 9, 20, sizes=SIZES[2:3])
        graphs.HUB = 3
        print(max(without, largest_error(where, 9, 5, sizes=((2, 3, True),))))
        print(part_error(where, 9, 5))
    else:
        print(largest_error(where, 5000, 100_000))
        print(part_error(where, 5000, 100_000))
    print(*dropout_error(where, 60 if where == "cpu" else 5000))
