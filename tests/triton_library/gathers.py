"""Products over gathered rows, convolutions, microscaled formats."""

import ml_dtypes
import numpy as np
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from .programs import integers, normal, program, rng, tensor, wide, zeros

E4M3 = ml_dtypes.float8_e4m3fn


@triton.jit
def experts_kernel(
    x, w, order, expert_of, y, tokens, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, FAULT: tl.constexpr
):
    """The product of a mixture of experts: rows gathered by a sorted, padded list, scattered to where they came from."""
    block = tl.program_id(0)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    place = tl.load(order + block * BM + tl.arange(0, BM))
    valid = place < tokens
    e = tl.load(expert_of + block)
    acc = tl.zeros([BM, BN], tl.float32)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        if FAULT == "padding loaded":
            a = tl.load(x + place[:, None] * K + k[None, :])
        else:
            a = tl.load(x + place[:, None] * K + k[None, :], mask=valid[:, None], other=0.0)
        acc = tl.dot(a, tl.load(w + e * N * K + n[None, :] * K + k[:, None]), acc)
    at = y + place[:, None] * N + n[None, :]
    if FAULT == "padding stored":
        tl.store(y + tl.minimum(place, tokens - 1)[:, None] * N + n[None, :], acc)
    else:
        tl.store(at, acc, mask=valid[:, None])


@program({"padding loaded": "out_of_bounds", "padding stored": "race", "an expert too many": "out_of_bounds"})
def experts(fault):
    tokens, E, N, K, BM = 40, 3, 32, 32, 16
    x, w, y = normal(tokens, K, dtype=np.float16), normal(E, N, K, dtype=np.float16), zeros(tokens, N)
    chosen = rng().integers(0, E, tokens)
    order, expert_of = [], []
    for e in range(E):
        mine = np.flatnonzero(chosen == e).tolist()
        mine += [tokens] * (-len(mine) % BM)
        order += mine
        expert_of += [e + (fault == "an expert too many")] * (len(mine) // BM)
    blocks = len(expert_of)
    experts_kernel[(blocks, 1)](
        x,
        w,
        tensor(np.array(order, np.int32)),
        tensor(np.array(expert_of, np.int32)),
        y,
        tokens,
        N,
        K,
        BM=BM,
        BN=32,
        BK=16,
        FAULT=fault,
    )
    return [(y, np.stack([wide(w)[e] @ wide(x)[t] for t, e in enumerate(chosen)]), 1e-5)]


@triton.jit
def gathered_kernel(a, w, index, y, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, FAULT: tl.constexpr):
    """Rows gathered and scattered through descriptors (TMA gather4 and scatter4)."""
    rows = tl.load(index + tl.program_id(0) * BM + tl.arange(0, BM))
    acc = tl.zeros([BM, BN], tl.float32)
    for k in range(0, K, BK):
        acc = tl.dot(a.gather(rows, k), w.load([0, k]).T, acc)
    if FAULT == "same rows":
        y.scatter(acc.to(tl.float16), tl.load(index + tl.arange(0, BM)), 0)
    else:
        y.scatter(acc.to(tl.float16), rows, 0)


@program({"same rows": "race"})
def gathered_by_descriptors(fault):
    M, N, K, BM = 128, 64, 128, 64
    a, w, y = normal(M, K, dtype=np.float16), normal(N, K, dtype=np.float16), zeros(M, N, dtype=np.float16)
    index = tensor(rng().permutation(M).astype(np.int32))
    gathered_kernel[(2,)](
        TensorDescriptor.from_tensor(a, [1, 64]), TensorDescriptor.from_tensor(w, [N, 64]), index,
        TensorDescriptor.from_tensor(y, [1, N]), N, K, BM=BM, BN=N, BK=64, FAULT=fault,
    )  # fmt: skip
    return [(y, wide(a) @ wide(w).T, 2.0**-9)]


@triton.jit
def scaled_kernel(
    a, sa, b, sb, c, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, FORMAT: tl.constexpr, FAULT: tl.constexpr
):
    PACK: tl.constexpr = 2 if FORMAT == "e2m1" else 1
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros([BM, BN], tl.float32)
    for start in range(0, K, BK):
        k = start // PACK + tl.arange(0, BK // PACK)
        g = start // 32 + tl.arange(0, BK // 32)
        x = tl.load(a + m[:, None] * (K // PACK) + k[None, :])
        y = tl.load(b + n[None, :] * (K // PACK) + k[:, None])
        s = tl.load(sa + m[:, None] * (K // 32) + g[None, :])
        t = tl.load(sb + n[:, None] * (K // 32) + (g + (64 if FAULT == "scales beyond" else 0))[None, :])
        acc = tl.dot_scaled(x, s, FORMAT, y, t, FORMAT, acc)
    tl.store(c + m[:, None] * N + n[None, :], acc)


@program({"scales beyond": "out_of_bounds"})
def microscaled_fp4(fault):
    M, N, K = 128, 128, 128
    values = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6])
    a, b = rng().integers(0, 256, (M, K // 2)), rng().integers(0, 256, (N, K // 2))[::-1]
    sa, sb = integers(120, 130, M, K // 32, dtype=np.uint8), integers(121, 130, N, K // 32, dtype=np.uint8)
    c = zeros(M, N)
    scaled_kernel[(1, 1)](
        tensor(a.astype(np.uint8)),
        sa,
        tensor(b.astype(np.uint8)),
        sb,
        c,
        N,
        K,
        BM=128,
        BN=128,
        BK=128,
        FORMAT="e2m1",
        FAULT=fault,
    )

    def real(packed, scales):
        v = np.stack([values[packed & 15], values[packed >> 4]], -1).reshape(len(packed), -1, 32)
        return (v * 2.0 ** (wide(scales) - 127)[:, :, None]).reshape(len(packed), -1)

    return [(c, real(a, sa) @ real(b, sb).T, 1e-6)]


@triton.jit
def convolution_kernel(x, w, y, H, W, C: tl.constexpr, O: tl.constexpr, BM: tl.constexpr, FAULT: tl.constexpr):
    """3 x 3 with a border of zeros, as a product over gathered pixels (NHWC)."""
    p = tl.program_id(0) * BM + tl.arange(0, BM)
    i = p // W
    j = p % W
    c = tl.arange(0, C)
    o = tl.arange(0, O)
    acc = tl.zeros([BM, O], tl.float32)
    for r in range(3):
        for s in range(3):
            u = i + r - 1
            v = j + s - 1
            inside = (u >= 0) & (u < H) & (v >= 0) & (v < W)
            if FAULT == "no border":
                inside = p < H * W
            pixel = tl.load(x + (u * W + v)[:, None] * C + c[None, :], mask=inside[:, None], other=0.0)
            acc = tl.dot(pixel, tl.load(w + (r * 3 + s) * C * O + c[:, None] * O + o[None, :]), acc)
    tl.store(y + p[:, None] * O + o[None, :], acc, mask=(p < (H * W + BM if FAULT == "no mask" else H * W))[:, None])


@program({"no border": "out_of_bounds", "no mask": "out_of_bounds"})
def convolution(fault):
    H, W, C, O = 9, 7, 16, 32
    x, w, y = normal(H, W, C, dtype=np.float16), normal(3, 3, C, O, dtype=np.float16), zeros(H, W, O)
    convolution_kernel[(2,)](x, w, y, H, W, C=C, O=O, BM=32, FAULT=fault)
    padded = np.pad(wide(x), ((1, 1), (1, 1), (0, 0)))
    exact = sum(padded[r : r + H, s : s + W] @ wide(w)[r, s] for r in range(3) for s in range(3))
    return [(y, exact, 1e-5)]


@triton.jit
def depthwise_kernel(x, w, b, y, state, T, D: tl.constexpr, BT: tl.constexpr, FAULT: tl.constexpr):
    """The causal convolution in front of a state space: 4 taps, silu, the last inputs kept as the next state."""
    batch = tl.program_id(0)
    t = tl.program_id(1) * BT + tl.arange(0, BT)
    d = tl.arange(0, D)
    acc = tl.zeros([BT, D], tl.float32) + tl.load(b + d)[None, :]
    for k in tl.static_range(4):
        s = t - 3 + k
        acc += (
            tl.load(x + (batch * T + s)[:, None] * D + d[None, :], mask=((s >= 0) & (s < T))[:, None], other=0.0)
            * tl.load(w + d * 4 + k)[None, :]
        )
    tl.store(y + (batch * T + t)[:, None] * D + d[None, :], acc / (1 + tl.exp(-acc)), mask=(t < T)[:, None])
    if FAULT == "all write the state" or tl.program_id(1) == 0:
        kept = T - 3 + tl.arange(0, 4)
        v = tl.load(x + (batch * T + kept)[:, None] * D + d[None, :], mask=(kept < T)[:, None])
        if FAULT == "all write the state":
            v += tl.program_id(1)
        tl.store(
            state + (batch * 3 + tl.arange(0, 4))[:, None] * D + d[None, :],
            v,
            mask=(tl.arange(0, 4) < (4 if FAULT == "four taps" else 3))[:, None],
        )


@program({"all write the state": "race", "four taps": "race out_of_bounds"})
def depthwise(fault):
    B, T, D = 2, 50, 32
    x, w, b, y, state = normal(B, T, D), normal(D, 4), normal(D), zeros(B, T, D), zeros(B, 3, D)
    depthwise_kernel[(B, 2)](x, w, b, y, state, T, D=D, BT=32, FAULT=fault)
    padded = np.pad(wide(x), ((0, 0), (3, 0), (0, 0)))
    z = sum(padded[:, k : k + T] * wide(w)[:, k] for k in range(4)) + wide(b)
    return [(y, z / (1 + np.exp(-z)), 1e-5), (state, wide(x)[:, -3:], 0)]
