"""Norms, losses, scans, sorts, histograms and atomics."""

import itertools

import numpy as np
import triton
import triton.language as tl

from .programs import integers, normal, program, tensor, wide, zeros


@triton.jit
def group_norm_kernel(x, y, w, b, mean, rstd, C, HW, eps, GROUP: tl.constexpr, BLOCK: tl.constexpr, FAULT: tl.constexpr):
    pid = tl.program_id(0)
    groups = C // GROUP
    n = pid // groups
    g = pid % groups
    base = (n * C + g * GROUP) * HW
    size = GROUP * HW
    total = tl.zeros([BLOCK], tl.float32)
    square = tl.zeros([BLOCK], tl.float32)
    for start in range(0, size, BLOCK):
        i = start + tl.arange(0, BLOCK)
        v = tl.load(x + base + i, mask=i < size, other=0.0)
        total += v
        square += v * v
    mu = tl.sum(total) / size
    var = tl.sum(square) / size - mu * mu
    scale = 1 / tl.sqrt(var + eps)
    tl.store(mean + pid, mu)
    tl.store(rstd + (0 if FAULT == "one place" else pid), scale)
    for start in range(0, size, BLOCK):
        i = start + tl.arange(0, BLOCK)
        if FAULT == "no mask":
            c = g * GROUP + i // HW
            v = tl.load(x + base + i)
            tl.store(y + base + i, (v - mu) * scale * tl.load(w + c) + tl.load(b + c))
        else:
            c = g * GROUP + i // HW
            v = tl.load(x + base + i, mask=i < size)
            tl.store(
                y + base + i, (v - mu) * scale * tl.load(w + c, mask=i < size) + tl.load(b + c, mask=i < size), mask=i < size
            )


@program({"no mask": "race out_of_bounds", "one place": "race"})
def group_norm(fault):
    N, C, H, G = 2, 12, 25, 3
    x, y, w, b = normal(N, C, H), zeros(N, C, H), normal(C), normal(C, 1)
    mean, rstd = zeros(N * C // G), zeros(N * C // G)
    group_norm_kernel[(N * C // G,)](x, y, w, b, mean, rstd, C, H, 1e-5, GROUP=G, BLOCK=64, FAULT=fault)
    v = wide(x).reshape(N, C // G, G * H)
    mu, var = v.mean(2, keepdims=True), v.var(2, keepdims=True)
    exact = ((v - mu) / np.sqrt(var + 1e-5)).reshape(N, C, H) * wide(w)[None, :, None] + wide(b).reshape(1, C, 1)
    return [(y, exact, 1e-5), (mean, mu.ravel(), 1e-6)]


@triton.jit
def rms_norm_backward_kernel(dy, x, w, rstd, dx, dw, rows, n, PER: tl.constexpr, BLOCK: tl.constexpr, FAULT: tl.constexpr):
    pid = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    mask = i < n
    weight = tl.load(w + i, mask=mask, other=0.0)
    acc = tl.zeros([BLOCK], tl.float32)
    for row in range(pid * PER, min((pid + 1) * PER, rows)):
        v = tl.load(x + row * n + i, mask=mask, other=0.0)
        g = tl.load(dy + row * n + i, mask=mask, other=0.0)
        r = tl.load(rstd + row)
        m = g * weight
        d = r * m - r * r * r / n * tl.sum(m * v) * v
        tl.store(dx + row * n + i, d, mask=mask)
        acc += g * v * r
    if FAULT == "not atomic":
        tl.store(dw + i, tl.load(dw + i, mask=mask) + acc, mask=mask)
    elif FAULT == "beyond":
        tl.atomic_add(dw + i, acc)
    else:
        tl.atomic_add(dw + i, acc, mask=mask)


@program({"not atomic": "race", "beyond": "out_of_bounds"})
def rms_norm_backward(fault):
    rows, n = 7, 90
    x, dy, w, dx, dw = normal(rows, n), normal(rows, n), normal(n), zeros(rows, n), zeros(n)
    r = 1 / np.sqrt((wide(x) ** 2).mean(1) + 1e-6)
    rms_norm_backward_kernel[(3,)](dy, x, w, tensor(r.astype(np.float32)), dx, dw, rows, n, PER=3, BLOCK=128, FAULT=fault)
    m = wide(dy) * wide(w)
    exact = r[:, None] * m - r[:, None] ** 3 / n * (m * wide(x)).sum(1, keepdims=True) * wide(x)
    return [(dx, exact, 1e-5), (dw, (wide(dy) * wide(x) * r[:, None]).sum(0), 1e-5)]


@triton.jit
def cross_entropy_kernel(logits, target, loss, n, stride, ignore, BLOCK: tl.constexpr, FAULT: tl.constexpr):
    """The gradient takes the place of the logits, as fused losses do."""
    row = tl.program_id(0).to(tl.int64)
    t = tl.load(target + row)
    at = logits + row * stride
    if t == ignore:
        for start in range(0, n, BLOCK):
            i = start + tl.arange(0, BLOCK)
            tl.store(at + i, 0.0, mask=i < n)
        return
    m = float("-inf")
    d = 0.0
    picked = tl.load(at + t)
    for start in range(0, n, BLOCK):
        i = start + tl.arange(0, BLOCK)
        v = tl.load(at + i, mask=i < n, other=float("-inf"))
        new = tl.maximum(m, tl.max(v))
        d = d * tl.exp(m - new) + tl.sum(tl.exp(v - new))
        m = new
    tl.debug_barrier()
    for start in range(0, n, BLOCK):
        i = start + tl.arange(0, BLOCK)
        v = tl.load(at + i, mask=i < n, other=float("-inf"))
        g = tl.exp(v - m) / d - tl.where(i == t, 1.0, 0.0)
        if FAULT == "next row":
            tl.store(at + i, g, mask=i < n + 1)
        else:
            tl.store(at + i, g, mask=i < n)
    tl.store(loss + row, tl.log(d) + m - picked)


@program({"next row": "race out_of_bounds", "target": "out_of_bounds"})
def cross_entropy(fault):
    rows, n = 5, 300
    logits, loss = normal(rows, n), zeros(rows)
    target = integers(0, n, rows, dtype=np.int64)
    target[3] = -100
    if fault == "target":
        target[1] = 40000
    z = wide(logits)
    cross_entropy_kernel[(rows,)](logits, target, loss, n, n, -100, BLOCK=128, FAULT=fault)
    p = np.exp(z - z.max(1, keepdims=True))
    lse = np.log(p.sum(1)) + z.max(1)
    p /= p.sum(1, keepdims=True)
    kept = np.asarray(target) != -100
    exact = np.where(kept, lse - z[np.arange(rows), np.where(kept, target, 0)], 0)
    p[np.arange(rows)[kept], np.asarray(target)[kept]] -= 1
    return [(loss, exact, 1e-5), (logits, p * kept[:, None], 1e-5)]


@triton.jit
def _combine(a1, b1, a2, b2):
    return a1 * a2, a2 * b1 + b2


@triton.jit
def selective_scan_kernel(a, b, c, h, y, T, D: tl.constexpr, BLOCK: tl.constexpr, FAULT: tl.constexpr):
    """h[t] = a[t] * h[t-1] + b[t] in blocks of time, y = sum over the state of c * h."""
    batch = tl.program_id(0)
    d = tl.arange(0, D)
    state = tl.zeros([D], tl.float32)
    for start in range(0, T, BLOCK):
        t = start + tl.arange(0, BLOCK)
        at = (batch * T + t)[:, None] * D + d[None, :]
        mask = (t < T)[:, None]
        av = tl.load(a + at, mask=mask, other=1.0)
        bv = tl.load(b + at, mask=mask, other=0.0)
        prod, acc = tl.associative_scan((av, bv), 0, _combine)
        hv = prod * state[None, :] + acc
        cv = tl.load(c + at, mask=mask, other=0.0)
        tl.store(y + batch * T + t, tl.sum(cv * hv, 1), mask=t < T)
        last = (tl.arange(0, BLOCK) == BLOCK - 1)[:, None]
        state = tl.sum(tl.where(last, hv, 0.0), 0)
    if FAULT == "another batch":
        tl.store(h + (batch // 2) * D + d, state)
    elif FAULT == "beyond":
        tl.store(h + (batch + 1) * D + d, state)
    else:
        tl.store(h + batch * D + d, state)


@program({"another batch": "race", "beyond": "out_of_bounds"})
def selective_scan(fault):
    B, T, D = 3, 70, 16
    a = tensor((1 / (1 + np.exp(-np.asarray(normal(B, T, D))))).astype(np.float32))
    b, c, h, y = normal(B, T, D), normal(B, T, D, scale=0.5), zeros(B, D), zeros(B, T)
    selective_scan_kernel[(B,)](a, b, c, h, y, T, D=D, BLOCK=32, FAULT=fault)
    state, exact = np.zeros((B, D)), np.zeros((B, T))
    for t in range(T):
        state = wide(a)[:, t] * state + wide(b)[:, t]
        exact[:, t] = (wide(c)[:, t] * state).sum(1)
    return [(y, exact, 1e-5), (h, state, 1e-5)]


@triton.jit
def sorted_kernel(x, y, places, n: tl.constexpr, FAULT: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, n)
    v = tl.load(x + row * n + i)
    tl.store(y + row * n + i, tl.sort(v, descending=True))
    _best, where = tl.max(v, 0, return_indices=True)
    tl.store(places + row * 2, where)
    tl.store(places + (row * 2 + 1 if FAULT != "one less" else row * 2 - 1), tl.argmin(v, 0))


@program({"one less": "race out_of_bounds"})
def sorting(fault):
    x, y, places = normal(4, 64), zeros(4, 64), zeros(4, 2, dtype=np.int32)
    sorted_kernel[(4,)](x, y, places, n=64, FAULT=fault)
    v = wide(x)
    return [(y, -np.sort(-v, 1), 0), (places, np.stack([v.argmax(1), v.argmin(1)], 1), 0)]


@triton.jit
def topk_kernel(x, y, E: tl.constexpr, K: tl.constexpr, ROWS: tl.constexpr):
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    v = tl.load(x + r[:, None] * E + tl.arange(0, E)[None, :])
    tl.store(y + r[:, None] * K + tl.arange(0, K)[None, :], tl.topk(v, K, 1))


@program()
def topk(fault):
    x, y = normal(16, 32), zeros(16, 4)
    topk_kernel[(2,)](x, y, E=32, K=4, ROWS=8)
    return [(y, -np.sort(-wide(x), 1)[:, :4], 0)]


@triton.jit
def radix_kernel(keys, out, offsets, n, SHIFT: tl.constexpr, BLOCK: tl.constexpr, BINS: tl.constexpr, FAULT: tl.constexpr):
    """One pass of a radix sort of one block: rank within the digit plus the digit's first place."""
    i = tl.arange(0, BLOCK)
    mask = i < n
    k = tl.load(keys + i, mask=mask, other=2147483647)
    digit = (k >> SHIFT) & (BINS - 1)
    one = (digit[:, None] == tl.arange(0, BINS)[None, :]).to(tl.int32)
    rank = tl.sum(tl.cumsum(one, 0) * one, 1) - 1
    count = tl.sum(one, 0)
    first = tl.cumsum(count, 0) - count
    tl.store(offsets + tl.arange(0, BINS), first)
    if FAULT != "no barrier":
        tl.debug_barrier()
    place = tl.load(offsets + digit) + rank
    if FAULT == "no rank":
        place = tl.load(offsets + digit)
    tl.store(out + place, k, mask=mask)


@program({"no rank": "race", "no barrier": "race"})
def radix_pass(fault):
    n, bins = 200, 16
    keys, out, offsets = integers(0, 1 << 20, n), zeros(256, dtype=np.int32), zeros(bins, dtype=np.int32)
    radix_kernel[(1,)](keys, out, offsets, n, SHIFT=4, BLOCK=256, BINS=bins, FAULT=fault)
    k = np.asarray(keys)
    digit = (k >> 4) & 15
    return [(out[:n], k[np.argsort(digit, kind="stable")], 0)]


@triton.jit
def segments_kernel(x, starts, y, D: tl.constexpr, BLOCK: tl.constexpr, FAULT: tl.constexpr):
    """Sums of ragged segments."""
    s = tl.program_id(0)
    first = tl.load(starts + s)
    last = tl.load(starts + s + 1)
    d = tl.arange(0, D)
    acc = tl.zeros([D], tl.float32)
    for r in range(first, last, BLOCK):
        i = r + tl.arange(0, BLOCK)
        acc += tl.sum(
            tl.load(x + i[:, None] * D + d[None, :], mask=(i < (last + 64 if FAULT == "beyond" else last))[:, None], other=0.0), 0
        )
    tl.store(y + s * (D // 2 if FAULT == "overlap" else D) + d, acc)


@program({"beyond": "out_of_bounds", "overlap": "race"})
def segments(fault):
    starts = np.array([0, 5, 5, 37, 80], np.int32)
    x, y = normal(80, 32), zeros(4, 32)
    segments_kernel[(4,)](x, tensor(starts), y, D=32, BLOCK=16, FAULT=fault)
    exact = np.stack([wide(x)[a:b].sum(0) for a, b in itertools.pairwise(starts)])
    return [(y, exact, 1e-5)]


@triton.jit
def _welford(m1, s1, n1, m2, s2, n2):
    d = m2 - m1
    n = n1 + n2
    share = tl.where(n == 0.0, 0.0, n2 / n)
    return m1 + d * share, s1 + s2 + d * d * n1 * share, n


@triton.jit
def welford_kernel(x, mean, var, n, BLOCK: tl.constexpr, FAULT: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    v = tl.load(x + row * n + i, mask=i < n, other=0.0)
    m, s, c = tl.reduce((v, tl.zeros([BLOCK], tl.float32), (i < n).to(tl.float32)), 0, _welford)
    tl.store(mean + row, m)
    tl.store(var + row, s / c)


@program()
def welford(fault):
    x, mean, var = normal(3, 150), zeros(3), zeros(3)
    welford_kernel[(3,)](x, mean, var, 150, BLOCK=256, FAULT=fault)
    return [(mean, wide(x).mean(1), 1e-6), (var, wide(x).var(1), 1e-5)]
