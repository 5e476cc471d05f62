"""Define the inner loops of the CPU kernels (Numba): each fills the rows ``start`` to ``stop`` of its results.

Threads take ranges of rows, and every thread sums a row in the order of the edges, so results do not depend on the
number of threads. A sum by source runs over all edges and skips those of other ranges: no second order of the edges is
needed, and the rows of a range stay in the cache.

A random choice is written as a multiplication by 0 or 1, because a processor cannot foresee such a branch.

The machine code is kept on disk. All loops stand in this file because that copy is renewed when the file of a function
changes, but not when the file of a function it calls does.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit, types
from numba.extending import overload

# Sums may be reordered, which vectorises them; NaN and infinity keep their meaning.
SAFE_MATH = {"reassoc", "contract", "nsz"}


def compiled(function: Callable[..., None]) -> Any:
    """Compile ``function`` to code that runs beside other threads, kept on disk if a folder for it is writable."""
    options: dict[str, Any] = {"nogil": True, "fastmath": SAFE_MATH, "error_model": "numpy"}
    try:
        return njit(cache=True, **options)(function)
    except RuntimeError:  # neither this package's folder nor the user's cache can be written
        return njit(**options)(function)


@njit(inline="always")
def _key(seed, row):
    """Return 64 random bits for a row of draws: SplitMix64 of the seed and the row."""
    z = np.uint64(seed) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(row) * np.uint64(0xD1342543DE82EF95)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return np.uint32(z), np.uint32(z >> np.uint64(32))


@njit(inline="always")
def _draw(low, high, place):
    """Return 32 random bits for a place of a row whose key is ``low, high``; the same on every call."""
    x = np.uint32(low + np.uint32(place) * np.uint32(0x9E3779B9))
    x = np.uint32((x ^ (x >> np.uint32(16))) * np.uint32(0x7FEB352D))
    x = np.uint32((x ^ (x >> np.uint32(15)) ^ high) * np.uint32(0x846CA68B))
    return np.uint32(x ^ (x >> np.uint32(16)))


@njit(inline="always")
def _limit(p):
    """Return the limit below which draws are dropped."""
    return np.uint32(min(p * 2.0**32, 2.0**32 - 1))


@njit(inline="always")
def _factor(p):
    """Return the factor of kept entries."""
    return 1 / (1 - p) if p < 1 else 0.0


def _exp(x: float) -> float:
    return math.exp(x)


@njit(fastmath={"contract"})
def _exp_single(x):
    """Return ``exp(x)``, ``x <= 0``, to single precision, vectorisable as ``2^n exp(r)``, ``|r| <= log(2) / 2``."""
    magic = np.float32(12582912.0)  # 1.5 * 2^23: adding it rounds to an integer, which then stands in the last bits
    rounded = x * np.float32(1.44269504) + magic
    n = rounded - magic
    r = (x - n * np.float32(0.693359375)) + n * np.float32(2.12194440e-4)
    y = np.float32(1.9875691500e-4)
    y = y * r + np.float32(1.3981999507e-3)
    y = y * r + np.float32(8.3334519073e-3)
    y = y * r + np.float32(4.1665795894e-2)
    y = y * r + np.float32(1.6666665459e-1)
    y = y * r + np.float32(5.0000001201e-1)
    y = (y * r * r + r) + np.float32(1)
    power = np.int32((np.float32(rounded).view(np.int32) + np.int32(127)) << np.int32(23)).view(np.float32)
    return np.float32(0) if x < np.float32(-87) else np.float32(y * power)


@overload(_exp, inline="always")
def _exp_of(x):
    return (lambda x: _exp_single(x)) if x == types.float32 else (lambda x: math.exp(x))


@compiled
def attention(
    start, stop, source, pointer, wanted, values, first, second, shift, additive, slope, seed, p, out, weights, kept
):  # fmt: skip
    """Compute the softmax over the edges into each node, dropout and the weighted sum.

    Fills ``out`` (N, H, D), ``weights`` (E, H) and, with dropout, ``kept`` (E, H): the weights after it. Where
    ``wanted`` (N,) selects nodes, the sums of the others are 0 and their weights are not written.
    """
    number = values.dtype.type
    H, D = values.shape[1], values.shape[2]
    limit, factor, slope = _limit(p), number(_factor(p)), number(slope)
    largest, total, row = np.empty(H, values.dtype), np.empty(H, values.dtype), np.empty(H, values.dtype)
    for i in range(start, stop):
        begin, end = pointer[i], pointer[i + 1]
        for h in range(H):
            largest[h], total[h] = -np.inf, 0
            for d in range(D):
                out[i, h, d] = 0
        if wanted.size and not wanted[i]:
            continue
        for e in range(begin, end):
            j = source[e]
            added = shift[e] if shift.size else number(0)
            for h in range(H):
                if additive:
                    score = first[j, h] + second[i, h]
                    score = score if score > 0 else score * slope
                else:
                    score = first[e, h]
                score += added
                weights[e, h] = score
                largest[h] = max(largest[h], score)
        for e in range(begin, end):
            for h in range(H):
                weight = _exp(weights[e, h] - largest[h])
                weights[e, h] = weight
                total[h] += weight
        for h in range(H):
            total[h] = 1 / total[h]
        for e in range(begin, end):
            j = source[e]
            for h in range(H):
                weights[e, h] *= total[h]
                row[h] = weights[e, h]
            if p > 0:
                low, high = _key(seed, e)
                for h in range(H):
                    row[h] *= factor * number(_draw(low, high, h) >= limit)
                    kept[e, h] = row[h]
            for h in range(H):
                weight = row[h]
                for d in range(D):
                    out[i, h, d] += weight * values[j, h, d]


@compiled
def scores_gradient(
    start, stop, source, pointer, wanted, asked, values, first, second, additive, slope, out, weights, kept, grad_out,
    grad_weights, grad_scores, grad_second, grad_shift,
):  # fmt: skip
    """Fill ``ds_e = k_e g_i . v_j + a_e (u_e - sum_f (k_f g_i . v + a_f u_f))`` for every edge (E, H).

    Here a are the weights, k what dropout made of them, g and u the gradients of the sums and of the weights. Fills as
    well what follows from it for the destinations' part of additive scores (N, H) and for the shift (E,). It is 0 for
    edges into nodes that are not ``wanted`` (N,) and for edges between nodes whose gradient is not ``asked`` for (N,).
    """
    number = values.dtype.type
    H, D = values.shape[1], values.shape[2]
    slope = number(slope)
    mean, total = np.empty(H, values.dtype), np.empty(H, values.dtype)
    for i in range(start, stop):
        begin, end = pointer[i], pointer[i + 1]
        if wanted.size and not wanted[i]:
            for h in range(H):
                for e in range(begin, end):
                    grad_scores[e, h] = 0
                if additive:
                    grad_second[i, h] = 0
            continue
        for h in range(H):
            total[h] = 0
            product = number(0)
            for d in range(D):
                product += grad_out[i, h, d] * out[i, h, d]
            mean[h] = product
        if grad_weights.size:
            for e in range(begin, end):
                for h in range(H):
                    mean[h] += weights[e, h] * grad_weights[e, h]
        for e in range(begin, end):
            j = source[e]
            if asked.size and not (asked[i] or asked[j]):
                for h in range(H):
                    grad_scores[e, h] = 0
                continue
            summed = number(0)
            for h in range(H):
                towards = number(0)
                for d in range(D):
                    towards += values[j, h, d] * grad_out[i, h, d]
                direct = grad_weights[e, h] if grad_weights.size else number(0)
                change = kept[e, h] * towards + weights[e, h] * (direct - mean[h])
                summed += change
                if additive:
                    change *= number(1) if first[j, h] + second[i, h] > 0 else slope
                grad_scores[e, h] = change
                total[h] += change
            if grad_shift.size:
                grad_shift[e] = summed
        if additive:
            for h in range(H):
                grad_second[i, h] = total[h]


@compiled
def sum_by_source(start, stop, source, pointer, wanted, asked, weights, values, out, terms, sums):
    """Fill ``out_j = sum_{e: src(e) = j} w_e values_dst(e)``: (E, H), (N, H, D) -> (N, H, D).

    Where ``sums`` (N, H) has room, ``sums_j = sum_{e: src(e) = j} terms_e`` as well. Edges into nodes that are not
    ``wanted`` (N,) and out of nodes that are not ``asked`` for (N,) are left out; an empty mask excludes none.
    """
    N, H, D = values.shape
    for j in range(start, stop):
        for h in range(H):
            for d in range(D):
                out[j, h, d] = 0
            if sums.size:
                sums[j, h] = 0
    for i in range(N):
        if wanted.size and not wanted[i]:
            continue
        for e in range(pointer[i], pointer[i + 1]):
            j = source[e]
            if start <= j < stop and (not asked.size or asked[j]):
                for h in range(H):
                    weight = weights[e, h]
                    for d in range(D):
                        out[j, h, d] += weight * values[i, h, d]
                if sums.size:
                    for h in range(H):
                        sums[j, h] += terms[e, h]


@compiled
def sum_by_destination(start, stop, source, pointer, weights, values, out):
    """Fill ``out_i = sum_{e: dst(e) = i} w_e values_src(e)``: (E, H), (N, H, D) -> (N, H, D)."""
    H, D = values.shape[1], values.shape[2]
    for i in range(start, stop):
        for h in range(H):
            for d in range(D):
                out[i, h, d] = 0
        for e in range(pointer[i], pointer[i + 1]):
            j = source[e]
            for h in range(H):
                weight = weights[e, h]
                for d in range(D):
                    out[i, h, d] += weight * values[j, h, d]


@compiled
def dot_scores(start, stop, source, pointer, query, key, scores):
    """Fill ``s_e = query_dst(e) . key_src(e)``: (N, H, D) twice -> (E, H)."""
    H, D = query.shape[1], query.shape[2]
    for i in range(start, stop):
        for e in range(pointer[i], pointer[i + 1]):
            j = source[e]
            for h in range(H):
                product = query.dtype.type(0)
                for d in range(D):
                    product += query[i, h, d] * key[j, h, d]
                scores[e, h] = product


@compiled
def dynamic_scores(start, stop, source, pointer, left, right, att, slope, scores):
    """Fill ``s_e = att . LeakyReLU(left_src(e) + right_dst(e))``: (N, H, D) twice, (H, D) -> (E, H)."""
    number = left.dtype.type
    H, D = left.shape[1], left.shape[2]
    slope = number(slope)
    for i in range(start, stop):
        for e in range(pointer[i], pointer[i + 1]):
            j = source[e]
            for h in range(H):
                product = number(0)
                for d in range(D):
                    pair = left[j, h, d] + right[i, h, d]
                    product += att[h, d] * (pair if pair > 0 else pair * slope)
                scores[e, h] = product


@compiled
def dynamic_gradient_by_source(start, stop, source, pointer, left, right, att, slope, grad, grad_left):
    """Fill the gradient of ``left``: ``att sum_{e: src(e) = j} grad_e LeakyReLU'(left_j + right_dst(e))``."""
    number = left.dtype.type
    N, H, D = left.shape
    slope = number(slope)
    for j in range(start, stop):
        for h in range(H):
            for d in range(D):
                grad_left[j, h, d] = 0
    for i in range(N):
        for e in range(pointer[i], pointer[i + 1]):
            j = source[e]
            if start <= j < stop:
                for h in range(H):
                    steep, flat = grad[e, h], grad[e, h] * slope
                    for d in range(D):
                        grad_left[j, h, d] += att[h, d] * (steep if left[j, h, d] + right[i, h, d] > 0 else flat)


@compiled
def dynamic_gradient_by_destination(start, stop, source, pointer, left, right, att, slope, grad, grad_right, grad_att):
    """Fill the gradient of ``right`` and each destination's part of the gradient of ``att``, (N, H, D) both."""
    number = left.dtype.type
    H, D = left.shape[1], left.shape[2]
    slope = number(slope)
    for i in range(start, stop):
        for h in range(H):
            for d in range(D):
                grad_right[i, h, d] = 0
                grad_att[i, h, d] = 0
        for e in range(pointer[i], pointer[i + 1]):
            j = source[e]
            for h in range(H):
                steep, flat = grad[e, h], grad[e, h] * slope
                for d in range(D):
                    pair = left[j, h, d] + right[i, h, d]
                    change = steep if pair > 0 else flat
                    grad_right[i, h, d] += change
                    grad_att[i, h, d] += change * pair
        for h in range(H):
            for d in range(D):
                grad_right[i, h, d] *= att[h, d]


@compiled
def dropout(start, stop, x, seed, p, out):
    """Fill ``out`` with ``x``, a share p of the entries times zero and the others divided by 1 - p, (N, C)."""
    number = x.dtype.type
    limit, factor = _limit(p), number(_factor(p))
    for n in range(start, stop):
        low, high = _key(seed, n)
        for c in range(x.shape[1]):
            out[n, c] = x[n, c] * (factor * number(_draw(low, high, c) >= limit))


@njit(inline="always")
def _stays(value, low, high, place, limit):
    """Tell whether an entry is not 0 after dropout: it is kept and not zero, or it is not finite."""
    return ((value != 0) & (_draw(low, high, place) >= limit)) | (value - value != 0)


@compiled
def count_kept(start, stop, pointer, values, seed, p, counts):
    """Count the entries of each row that dropout keeps, (N,); row n is ``values[pointer[n] : pointer[n + 1]]``."""
    limit = _limit(p)
    for n in range(start, stop):
        low, high = _key(seed, n)
        begin, count = pointer[n], 0
        for k in range(pointer[n + 1] - begin):
            count += _stays(values[begin + k], low, high, k, limit)
        counts[n] = count


@compiled
def gather_kept(start, stop, pointer, column, values, seed, p, first, columns, kept):
    """Fill columns and values of the entries that :func:`count_kept` counts; those of row n begin at ``first[n]``.

    Without ``column``, the k-th entry of a row stands in column k.
    """
    number = values.dtype.type
    limit, factor = _limit(p), number(_factor(p))
    for n in range(start, stop):
        low, high = _key(seed, n)
        begin, place, end = pointer[n], first[n], first[n + 1]
        for k in range(pointer[n + 1] - begin):
            if place == end:
                break
            value = values[begin + k]
            columns[place] = column[begin + k] if column.size else k
            kept[place] = value * factor
            place += _stays(value, low, high, k, limit)


@compiled
def sparse_product(start, stop, first, columns, kept, weight, out):
    """Fill ``out_n = sum_k kept_k weight_columns(k)`` over the entries of row n: (F, C) -> (N, C)."""
    C = weight.shape[1]
    for n in range(start, stop):
        for c in range(C):
            out[n, c] = 0
        for k in range(first[n], first[n + 1]):
            f, value = columns[k], kept[k]
            for c in range(C):
                out[n, c] += value * weight[f, c]


@compiled
def sparse_product_gradient(start, stop, first, columns, kept, grad, grad_weight):
    """Fill the rows ``start`` to ``stop`` of ``grad_weight_f = sum_n kept_nf grad_n``: (N, C) -> (F, C)."""
    N, C = grad.shape
    for f in range(start, stop):
        for c in range(C):
            grad_weight[f, c] = 0
    for n in range(N):
        for k in range(first[n], first[n + 1]):
            f, value = columns[k], kept[k]
            if start <= f < stop:
                for c in range(C):
                    grad_weight[f, c] += value * grad[n, c]


@compiled
def greedy_loop(source, destination, push, begins, by_destination, enters, needed, sharpness, gains, gain, chosen):
    """Fill ``chosen`` with different targets, one after the other, each the one that adds the most expected falls.

    Under a push p target v falls with probability ``1 / (1 + (needed_v / p) ** sharpness)``.

    Args:
        source, destination, push: ``(P,)`` the pairs (u, v), sorted by u, and what an edge to u does to v.
        begins: ``(T + 1,)`` the first pair from every target.
        by_destination, enters: the pairs in the order of v, and the first one into every target.
        needed: ``(T,)`` the push under which half would fall.
        sharpness: of the response.
        gains, gain: ``(P,)`` expected falls that a pair adds, and their sum over the pairs of each target; both change.
        chosen: ``(K,)`` the result.
    """
    pushed = np.zeros_like(needed)
    for place in range(chosen.size):
        pick = gain.argmax()
        chosen[place] = pick
        for pair in range(begins[pick], begins[pick + 1]):
            v = destination[pair]
            pushed[v] += push[pair]
            before = 1 / (1 + (needed[v] / pushed[v]) ** sharpness)
            for entry in range(enters[v], enters[v + 1]):
                other = by_destination[entry]
                now = 1 / (1 + (needed[v] / (pushed[v] + push[other])) ** sharpness) - before
                gain[source[other]] += now - gains[other]
                gains[other] = now
        gain[pick] = -np.inf
