"""Attention in the variants that libraries serve: paged, split, grouped, windowed, backwards; linear attention and rotary embeddings."""

import numpy as np
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from .programs import integers, normal, program, rng, tensor, wide, zeros


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


@triton.jit
def paged_kernel(
    q,
    k,
    v,
    table,
    lengths,
    partial,
    most,
    sums,
    scale,
    PAGES: tl.constexpr,
    HEAD: tl.constexpr,
    GROUP: tl.constexpr,
    PAGE: tl.constexpr,
    SPLIT: tl.constexpr,
    FAULT: tl.constexpr,
):
    """Decoding: one query for each head of a group, keys in pages named by a table, the pages split over programs."""
    b = tl.program_id(0)
    h = tl.program_id(1)
    part = tl.program_id(2)
    n = tl.load(lengths + b)
    rows = tl.arange(0, 16)
    d = tl.arange(0, HEAD)
    heads = h * GROUP + rows
    mine = rows < GROUP
    query = tl.load(q + (b * tl.num_programs(1) * GROUP + heads)[:, None] * HEAD + d[None, :], mask=mine[:, None], other=0.0)
    m = tl.full([16], float("-inf"), tl.float32)
    s = tl.zeros([16], tl.float32)
    acc = tl.zeros([16, HEAD], tl.float32)
    pages = tl.cdiv(n, PAGE)
    per = tl.cdiv(pages, SPLIT)
    for i in range(part * per, min((part + 1) * per, pages + (1 if FAULT == "a page too many" else 0))):
        page = tl.load(table + b * PAGES + i)
        t = tl.arange(0, PAGE)
        at = ((page * PAGE + t) * tl.num_programs(1) + h)[:, None] * HEAD + d[None, :]
        inside = i * PAGE + t < n
        kk = tl.load(k + at, mask=inside[:, None], other=0.0)
        score = tl.dot(query, kk.T) * scale
        score = tl.where(inside[None, :], score, float("-inf"))
        new = tl.maximum(m, tl.max(score, 1))
        p = tl.exp(score - new[:, None])
        a = tl.exp(m - new)
        vv = tl.load(v + at, mask=inside[:, None], other=0.0)
        acc = acc * a[:, None] + tl.dot(p.to(tl.float16), vv)
        s = s * a + tl.sum(p, 1)
        m = new
    place = (b * tl.num_programs(1) * GROUP + heads) * SPLIT + (0 if FAULT == "parts in one place" else part)
    keep = mine if FAULT != "all rows" else rows < 16
    tl.store(partial + place[:, None] * HEAD + d[None, :], acc, mask=keep[:, None])
    tl.store(most + place, m, mask=keep)
    tl.store(sums + place, s, mask=keep)


@triton.jit
def joined_kernel(partial, most, sums, out, HEAD: tl.constexpr, SPLIT: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, SPLIT)
    d = tl.arange(0, HEAD)
    m = tl.load(most + row * SPLIT + i)
    w = tl.exp(m - tl.max(m))
    total = tl.sum(w * tl.load(sums + row * SPLIT + i))
    acc = tl.sum(tl.load(partial + (row * SPLIT + i)[:, None] * HEAD + d[None, :]) * w[:, None], 0)
    tl.store(out + row * HEAD + d, acc / total)


@program({"a page too many": "out_of_bounds", "parts in one place": "race", "all rows": "race out_of_bounds"})
def paged_attention(fault):
    B, H, G, D, PAGE, PAGES, SPLIT = 2, 2, 4, 32, 16, 5, 2
    lengths = np.array([37, 70], np.int32)
    pool = rng().permutation(B * PAGES)
    table = np.full((B, PAGES), 10**6, np.int32)
    for b in range(B):
        used = -(-lengths[b] // PAGE)
        table[b, :used] = pool[b * PAGES : b * PAGES + used]
    q = normal(B, H * G, D, dtype=np.float16)
    k, v = normal(B * PAGES, PAGE, H, D, dtype=np.float16), normal(B * PAGES, PAGE, H, D, dtype=np.float16, scale=2)
    partial, most, sums, out = zeros(B * H * G, SPLIT, D), zeros(B * H * G, SPLIT), zeros(B * H * G, SPLIT), zeros(B * H * G, D)
    given = {"PAGES": PAGES, "HEAD": D, "GROUP": G, "PAGE": PAGE, "SPLIT": SPLIT}
    paged_kernel[(B, H, SPLIT)](q, k, v, tensor(table), tensor(lengths), partial, most, sums, 0.2, **given, FAULT=fault)
    joined_kernel[(B * H * G,)](partial, most, sums, out, HEAD=D, SPLIT=SPLIT)
    exact = np.zeros((B, H * G, D))
    for b in range(B):
        pages = table[b, : -(-lengths[b] // PAGE)]
        kk, vv = (wide(one)[pages].reshape(-1, H, D)[: lengths[b]] for one in (k, v))
        for h in range(H * G):
            exact[b, h] = softmax(wide(q)[b, h] @ kk[:, h // G].T * 0.2) @ vv[:, h // G]
    return [(out, exact.reshape(-1, D), 2e-3)]


@triton.jit
def windowed_kernel(
    q,
    k,
    v,
    out,
    lse,
    scale,
    T,
    WINDOW,
    HEAD: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    SPECIAL: tl.constexpr,
    FAULT: tl.constexpr,
):
    """By descriptors, causal within a window, with a soft cap; the loop over keys may be warp-specialised."""
    i = tl.program_id(0) * BM + tl.arange(0, BM)
    query = q.load([tl.program_id(0) * BM, 0])
    m = tl.full([BM], float("-inf"), tl.float32)
    s = tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, HEAD], tl.float32)
    first = tl.maximum(0, (tl.program_id(0) * BM - WINDOW) // BN * BN)
    for start in tl.range(first, tl.minimum(T, (tl.program_id(0) + 1) * BM), BN, warp_specialize=SPECIAL):
        kk = k.load([start, 0])
        score = tl.dot(query, kk.T) * scale
        score = 20.0 * (1 - 2 / (tl.exp(score * 0.1) + 1))
        j = start + tl.arange(0, BN)
        score = tl.where((j[None, :] <= i[:, None]) & (j[None, :] > i[:, None] - WINDOW), score, -1e30)
        new = tl.maximum(m, tl.max(score, 1))
        p = tl.exp(score - new[:, None])
        a = tl.exp(m - new)
        acc = tl.dot(p.to(tl.float16), v.load([start, 0]), acc * a[:, None])
        s = s * a + tl.sum(p, 1)
        m = new
    if FAULT == "the same rows":
        out.store([0, 0], (acc / s[:, None]).to(tl.float16))
    else:
        out.store([tl.program_id(0) * BM, 0], (acc / s[:, None]).to(tl.float16))
    tl.store(lse + i, m + tl.log(s), mask=i < (T if FAULT != "no mask" else T + BM))


def _windowed(fault, special):
    T, D, W = 150, 64, 40
    q, k, v, out = (
        normal(T, D, dtype=np.float16),
        normal(T, D, dtype=np.float16, scale=2),
        normal(T, D, dtype=np.float16),
        zeros(T, D, dtype=np.float16),
    )
    lse = zeros(T)
    blocks = [[64, D], [32, D], [32, D], [64, D]]
    maps = [TensorDescriptor.from_tensor(one, block) for one, block in zip((q, k, v, out), blocks, strict=True)]
    windowed_kernel[(3,)](*maps, lse, 0.125, T, W, HEAD=D, BM=64, BN=32, SPECIAL=special, FAULT=fault)
    score = 20 * np.tanh(wide(q) @ wide(k).T * 0.125 / 20)
    i, j = np.ogrid[:T, :T]
    score = np.where((j <= i) & (j > i - W), score, -np.inf)
    return [(out, softmax(score) @ wide(v), 4e-3), (lse, np.log(np.exp(score).sum(1)), 1e-3)]


@program({"the same rows": "race", "no mask": "out_of_bounds"})
def windowed_attention(fault):
    return _windowed(fault, False)


@program({"the same rows": "race"}, arch="sm_90a")
def windowed_attention_on_hopper(fault):
    return _windowed(fault, False)


@triton.jit
def gradients_kernel(
    q, k, v, do, lse, delta, dq, dk, dv, scale, T, HEAD: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, FAULT: tl.constexpr
):
    """A block of keys for each program; the gradient of the queries is summed by atomics."""
    j = tl.program_id(0) * BN + tl.arange(0, BN)
    d = tl.arange(0, HEAD)
    inside = (j < T)[:, None]
    kk = tl.load(k + j[:, None] * HEAD + d[None, :], mask=inside, other=0.0)
    vv = tl.load(v + j[:, None] * HEAD + d[None, :], mask=inside, other=0.0)
    gk = tl.zeros([BN, HEAD], tl.float32)
    gv = tl.zeros([BN, HEAD], tl.float32)
    for start in range(0, T, BM):
        i = start + tl.arange(0, BM)
        rows = (i < T)[:, None]
        qq = tl.load(q + i[:, None] * HEAD + d[None, :], mask=rows, other=0.0)
        g = tl.load(do + i[:, None] * HEAD + d[None, :], mask=rows, other=0.0)
        l = tl.load(lse + i, mask=i < T, other=0.0)
        p = tl.exp(tl.dot(qq, kk.T) * scale - l[:, None])
        p = tl.where(rows & (j < T)[None, :], p, 0.0)
        gv = tl.dot(p.to(tl.float16).T, g, gv)
        ds = p * (tl.dot(g, vv.T) - tl.load(delta + i, mask=i < T, other=0.0)[:, None]) * scale
        gk = tl.dot(ds.to(tl.float16).T, qq, gk)
        update = tl.dot(ds.to(tl.float16), kk)
        at = dq + i[:, None] * HEAD + d[None, :]
        if FAULT == "plain sum":
            tl.store(at, tl.load(at, mask=rows, other=0.0) + update, mask=rows)
        elif FAULT == "beyond":
            tl.atomic_add(at, update, sem="relaxed")
        else:
            tl.atomic_add(at, update, mask=rows, sem="relaxed")
    tl.store(dk + j[:, None] * HEAD + d[None, :], gk, mask=inside)
    tl.store(dv + j[:, None] * HEAD + d[None, :], gv, mask=inside)


@program({"plain sum": "race", "beyond": "out_of_bounds"})
def gradients_of_attention(fault):
    T, D = 80, 32
    q, k, v, g = (normal(T, D, dtype=np.float16, scale=s) for s in (1, 0.7, 1.3, 0.9))
    score = wide(q) @ wide(k).T * 0.2
    p = softmax(score)
    delta = ((p @ wide(v)) * wide(g)).sum(1)
    dq, dk, dv = zeros(T, D), zeros(T, D), zeros(T, D)
    lse = tensor(np.log(np.exp(score).sum(1)).astype(np.float32))
    gradients_kernel[(2,)](
        q, k, v, g, lse, tensor(delta.astype(np.float32)), dq, dk, dv, 0.2, T, HEAD=D, BM=32, BN=64, FAULT=fault
    )
    ds = p * (wide(g) @ wide(v).T - delta[:, None]) * 0.2
    return [(dq, ds @ wide(k), 2e-3), (dk, ds.T @ wide(q), 2e-3), (dv, p.T @ wide(g), 2e-3)]


@triton.jit
def rope_kernel(x, cosines, sines, heads, D: tl.constexpr, FAULT: tl.constexpr):
    """In place: both halves are read before either is written."""
    t = tl.program_id(0)
    h = tl.program_id(1)
    i = tl.arange(0, D // 2)
    c = tl.load(cosines + t * (D // 2) + i)
    s = tl.load(sines + t * (D // 2) + i)
    at = x + (t * heads + h) * D + i
    a = tl.load(at)
    b = tl.load(at + D // 2)
    tl.store(at, a * c - b * s)
    if FAULT == "a head too far":
        tl.store(at + D, b * c + a * s)
    else:
        tl.store(at + D // 2, b * c + a * s)


@program({"a head too far": "race out_of_bounds"})
def rotary_embedding(fault):
    T, H, D = 3, 2, 64
    x, angles = normal(T, H, D), np.arange(T)[:, None] * 10000.0 ** (-np.arange(D // 2) / (D // 2))
    old = wide(x).copy()
    rope_kernel[(T, H)](
        x, tensor(np.cos(angles).astype(np.float32)), tensor(np.sin(angles).astype(np.float32)), H, D=D, FAULT=fault
    )
    c, s = np.cos(angles)[:, None], np.sin(angles)[:, None]
    a, b = old[..., : D // 2], old[..., D // 2 :]
    return [(x, np.concatenate([a * c - b * s, b * c + a * s], -1), 1e-5)]


@triton.jit
def linear_kernel(q, k, v, decay, out, T, D: tl.constexpr, BT: tl.constexpr, FAULT: tl.constexpr):
    """Linear attention with decay, chunk by chunk: within the chunk a masked product, before it a state."""
    h = tl.program_id(0)
    rate = tl.load(decay + h)
    d = tl.arange(0, D)
    t = tl.arange(0, BT)
    state = tl.zeros([D, D], tl.float32)
    for start in range(0, T, BT):
        at = (h * T + start + t)[:, None] * D + d[None, :]
        qq = tl.load(q + at)
        kk = tl.load(k + at)
        vv = tl.load(v + at)
        gap = (t[:, None] - t[None, :]).to(tl.float32)
        weight = tl.where(gap >= 0, tl.exp(-rate * gap), 0.0)
        inner = tl.dot((tl.dot(qq, kk.T) * weight).to(tl.float16), vv)
        outer = tl.dot(qq, state.to(tl.float16)) * tl.exp(-rate * (t + 1.0))[:, None]
        tl.store(out + at + (BT * D if FAULT == "next chunk" else 0), inner + outer)
        left = tl.exp(-rate * (BT - 1.0 - t))[:, None]
        state = state * tl.exp(-rate * BT) + tl.dot((kk * left).to(tl.float16).T, vv)


@program({"next chunk": "race out_of_bounds"})
def linear_attention(fault):
    H, T, D = 2, 96, 32
    q, k, v, out = (normal(H, T, D, dtype=np.float16, scale=s) for s in (0.5, 0.6, 0.7, 0))
    out, decay = zeros(H, T, D), tensor(np.array([0.1, 0.3], np.float32))
    linear_kernel[(H,)](q, k, v, decay, out, T, D=D, BT=32, FAULT=fault)
    gap = np.arange(T)[:, None] - np.arange(T)
    weight = np.where(gap >= 0, np.exp(-wide(decay)[:, None, None] * gap), 0)
    return [(out, (wide(q) @ wide(k).swapaxes(1, 2) * weight) @ wide(v), 4e-3)]


@triton.jit
def philox_kernel(out, seed, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a, b, c, d = tl.randint4x(seed, i)
    tl.store(out + i * 4, a, mask=i < n)
    tl.store(out + i * 4 + 1, b, mask=i < n)
    tl.store(out + i * 4 + 2, c, mask=i < n)
    tl.store(out + i * 4 + 3, d, mask=i < n)


@program()
def philox(fault):
    n, seed = 100, 0x1234_5678_9ABC
    out = zeros(n, 4, dtype=np.uint32)
    philox_kernel[(1,)](out, seed, n, BLOCK=128)
    c = np.zeros((4, n), np.uint64)
    c[0] = np.arange(n)
    key = [np.uint64(seed & 0xFFFFFFFF), np.uint64(seed >> 32)]
    mask = np.uint64(0xFFFFFFFF)
    for _ in range(10):
        x, y = np.uint64(0xD2511F53) * c[0], np.uint64(0xCD9E8D57) * c[2]
        c = np.stack([(y >> np.uint64(32)) ^ c[1] ^ key[0], y & mask, (x >> np.uint64(32)) ^ c[3] ^ key[1], x & mask])
        key = [(key[0] + np.uint64(0x9E3779B9)) & mask, (key[1] + np.uint64(0xBB67AE85)) & mask]
    return [(out, c.T, 0)]


@triton.jit
def embedding_gradient_kernel(ids, grad, table, n, D: tl.constexpr, FAULT: tl.constexpr):
    t = tl.program_id(0)
    d = tl.arange(0, D)
    row = tl.load(ids + t)
    g = tl.load(grad + t * D + d)
    if FAULT == "not atomic":
        tl.store(table + row * D + d, tl.load(table + row * D + d) + g)
    else:
        tl.atomic_add(table + row * D + d, g.to(table.dtype.element_ty))


@program({"not atomic": "race"})
def gradient_of_an_embedding(fault):
    ids, grad, table = integers(0, 5, 12), normal(12, 64), zeros(5, 64)
    embedding_gradient_kernel[(12,)](ids, grad, table, 12, D=64, FAULT=fault)
    exact = np.zeros((5, 64))
    np.add.at(exact, np.asarray(ids), wide(grad))
    return [(table, exact, 1e-5)]


@triton.jit
def swiglu_kernel(x, y, rows, n, BLOCK: tl.constexpr, FAULT: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    for start in tl.range(0, n, BLOCK, num_stages=3):
        i = start + tl.arange(0, BLOCK)
        a = tl.load(x + row * 2 * n + i, mask=i < n).to(tl.float32)
        b = tl.load(x + row * 2 * n + n + i, mask=i < n)
        y_at = y + (row * n + i if FAULT != "wide rows" else row * (n - 1) + i)
        tl.store(y_at, a * tl.sigmoid(a) * b, mask=i < n)


@program({"wide rows": "race"})
def swiglu(fault):
    x, y = normal(4, 2, 150, dtype=np.float16), zeros(4, 150)
    swiglu_kernel[(4,)](x, y, 4, 150, BLOCK=64, FAULT=fault)
    a, b = wide(x)[:, 0], wide(x)[:, 1]
    return [(y, a / (1 + np.exp(-a)) * b, 1e-6)]
