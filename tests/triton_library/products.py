"""Matrix products as libraries have them: split, streamed, quantised, gathered, with epilogues; convolutions."""

import ml_dtypes
import numpy as np
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from .programs import integers, normal, program, rng, tensor, wide, zeros

E4M3 = ml_dtypes.float8_e4m3fn


@triton.jit
def split_k_kernel(
    a, b, c, locks, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, SPLIT: tl.constexpr, FAULT: tl.constexpr
):
    """Each program adds its share of K; the first stores, the others follow in turn, behind a counter for each tile."""
    tile = tl.program_id(0)
    part = tl.program_id(1)
    columns = tl.cdiv(N, BN)
    m = tile // columns * BM + tl.arange(0, BM)
    n = tile % columns * BN + tl.arange(0, BN)
    acc = tl.zeros([BM, BN], tl.float32)
    for start in range(part * BK, K, BK * SPLIT):
        k = start + tl.arange(0, BK)
        x = tl.load(a + m[:, None] * K + k[None, :], mask=(m < M)[:, None] & (k < K)[None, :], other=0.0)
        y = tl.load(b + k[:, None] * N + n[None, :], mask=(k < K)[:, None] & (n < N)[None, :], other=0.0)
        acc = tl.dot(x, y, acc)
    at = c + m[:, None] * N + n[None, :]
    mask = (m < M)[:, None] & (n < N)[None, :]
    if FAULT != "no turn":
        while tl.atomic_add(locks + tile, 0, sem="relaxed" if FAULT == "relaxed turn" else "acquire") != part:
            pass
    if part > 0:
        acc += tl.load(at, mask=mask, other=0.0)
    tl.store(at, acc, mask=mask)
    if FAULT == "skips a turn":
        tl.atomic_add(locks + tile, 2, sem="release")
    elif FAULT == "one counter":
        tl.atomic_add(locks, 1, sem="release")
    else:
        tl.atomic_add(locks + tile, 1, sem="release")


@program({"no turn": "race", "relaxed turn": "race", "skips a turn": "deadlock", "one counter": "deadlock race"})
def split_k(fault):
    M, N, K = 70, 50, 200
    a, b, c, locks = normal(M, K, dtype=np.float16), normal(K, N, dtype=np.float16), zeros(M, N), zeros(4, dtype=np.int32)
    split_k_kernel[(2, 3)](a, b, c, locks, M, N, K, BM=64, BN=64, BK=32, SPLIT=3, FAULT=fault)
    return [(c, wide(a) @ wide(b), 1e-5)]


@triton.jit
def stream_k_kernel(
    a, b, c, partial, flags, N, K, tiles, per, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, FAULT: tl.constexpr
):
    """Each program does `per` steps of K, across tiles; who begins a tile adds what the others leave in a workspace."""
    pid = tl.program_id(0)
    steps = K // BK
    now = pid * per
    end = tl.minimum(now + per, tiles * steps)
    while now < end:
        tile = now // steps
        first = now - tile * steps
        last = tl.minimum(steps, first + end - now)
        m = tile // (N // BN) * BM + tl.arange(0, BM)
        n = tile % (N // BN) * BN + tl.arange(0, BN)
        acc = tl.zeros([BM, BN], tl.float32)
        for s in range(first, last):
            k = s * BK + tl.arange(0, BK)
            acc = tl.dot(tl.load(a + m[:, None] * K + k[None, :]), tl.load(b + n[None, :] * K + k[:, None]), acc)
        own = tl.arange(0, BM)[:, None] * BN + tl.arange(0, BN)[None, :]
        if first > 0:
            tl.store(partial + pid * BM * BN + own, acc)
            tl.debug_barrier()
            if FAULT == "relaxed":
                tl.atomic_xchg(flags + pid, 1, sem="relaxed")
            elif FAULT != "no flag":
                tl.atomic_xchg(flags + pid, 1, sem="release")
        else:
            other = pid + 1
            done = last
            while done < steps:
                if FAULT != "no wait":
                    while tl.atomic_cas(flags + other, 1, 1, sem="acquire") != 1:
                        pass
                tl.debug_barrier()
                acc += tl.load(partial + other * BM * BN + own)
                done += per
                other += 1
            tl.store(c + m[:, None] * N + n[None, :], acc)
        now += last - first


@program({"relaxed": "race", "no flag": "deadlock", "no wait": "race"})
def stream_k(fault):
    M, N, K, per = 128, 64, 96, 4
    a, b, c = normal(M, K, dtype=np.float16), normal(N, K, dtype=np.float16), zeros(M, N)
    partial, flags = zeros(3, 64 * 64), zeros(3, dtype=np.int32)
    stream_k_kernel[(3,)](a, b, c, partial, flags, N, K, 2, per, BM=64, BN=64, BK=16, FAULT=fault)
    return [(c, wide(a) @ wide(b).T, 1e-5)]


@triton.jit
def int4_kernel(
    a, q, scales, zeros_, c, M, N, K, G: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, FAULT: tl.constexpr
):
    """Weights of 4 bits, eight to a word along K, a scale and a zero point for each group."""
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros([BM, BN], tl.float32)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        x = tl.load(a + m[:, None] * K + k[None, :], mask=(m < M)[:, None], other=0.0)
        words = tl.load(q + (k // (4 if FAULT == "four to a word" else 8))[:, None] * N + n[None, :])
        w = (words >> ((k % 8) * 4)[:, None]) & 15
        s = tl.load(scales + (k // G)[:, None] * N + n[None, :])
        z = tl.load(zeros_ + (k // G)[:, None] * N + n[None, :])
        acc = tl.dot(x, ((w - z).to(tl.float16) * s), acc)
    tl.store(c + m[:, None] * N + n[None, :], acc, mask=(m < (M + 8 if FAULT == "rows beyond" else M))[:, None])


@program({"four to a word": "out_of_bounds", "rows beyond": "out_of_bounds"})
def int4_weights(fault):
    M, N, K, G = 17, 64, 128, 32
    a, w = normal(M, K, dtype=np.float16), rng().integers(0, 16, (K, N))
    q = tensor(
        (w.reshape(K // 8, 8, N).astype(np.uint32) << (4 * np.arange(8, dtype=np.uint32))[None, :, None])
        .sum(1)
        .astype(np.uint32)
        .view(np.int32)
    )
    scales, points = tensor(np.full((K // G, N), 0.125, np.float16)), integers(0, 16, K // G, N)
    c = zeros(M, N)
    int4_kernel[(1, 1)](a, q, scales, points, c, M, N, K, G=G, BM=32, BN=64, BK=32, FAULT=fault)
    real = (w - np.repeat(np.asarray(points), G, 0)) * 0.125
    return [(c, wide(a) @ real, 1e-3)]


@triton.jit
def fp8_blocks_kernel(a, b, sa, sb, c, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, FAULT: tl.constexpr):
    """e4m3 with a scale for each 1 x 64 of A and each 64 x 64 of B, promoted into f32 after each step."""
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros([BM, BN], tl.float32)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        x = tl.load(a + m[:, None] * K + k[None, :])
        y = tl.load(b + n[None, :] * K + k[:, None])
        s = tl.load(sa + m * (K // BK) + start // BK)
        t = tl.load(sb + (n // BN) * (K // BK) + start // BK + (1000 if FAULT == "scale beyond" else 0))
        acc += tl.dot(x, y) * s[:, None] * t[None, :]
    if FAULT == "one tile":
        tl.store(c + (m % BM)[:, None] * N + n[None, :], acc.to(tl.bfloat16))
    else:
        tl.store(c + m[:, None] * N + n[None, :], acc.to(tl.bfloat16))


@program({"scale beyond": "out_of_bounds", "one tile": "race"})
def fp8_blocks(fault):
    M, N, K = 256, 64, 128
    a, b = normal(M, K, dtype=E4M3), normal(N, K, dtype=E4M3)
    sa, sb, c = (
        tensor(np.abs(np.asarray(normal(M, K // 64)))),
        tensor(np.abs(np.asarray(normal(1, K // 64)))),
        zeros(M, N, dtype=ml_dtypes.bfloat16),
    )
    import triton as t

    view = [
        t.reinterpret(one, tl.float8e4nv) for one in (tensor(np.asarray(a).view(np.uint8)), tensor(np.asarray(b).view(np.uint8)))
    ]
    fp8_blocks_kernel[(2, 1)](*view, sa, sb, c, N, K, BM=128, BN=64, BK=64, FAULT=fault)
    x = wide(a).reshape(M, K // 64, 64) * wide(sa)[:, :, None]
    y = wide(b).reshape(N, K // 64, 64) * wide(sb)[:, :, None]
    return [(c, x.reshape(M, K) @ y.reshape(N, K).T, 2.0**-7)]


@triton.jit
def persistent_kernel(
    a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, SPECIAL: tl.constexpr, FAULT: tl.constexpr
):
    """Persistent, warp-specialised by the compiler, with two half tiles in the epilogue."""
    columns = tl.cdiv(N, BN)
    tiles = tl.cdiv(M, BM) * columns
    for tile in tl.range(tl.program_id(0), tiles, tl.num_programs(0), warp_specialize=SPECIAL, flatten=not SPECIAL):
        m = tile // columns * BM
        n = tile % columns * BN
        acc = tl.zeros([BM, BN], tl.float32)
        for k in range(0, K, BK):
            acc = tl.dot(a.load([m, k]), b.load([n, k]).T, acc)
        left, right = tl.split(tl.permute(tl.reshape(acc, [BM, 2, BN // 2]), [0, 2, 1]))
        c.store([m, n], left.to(c.dtype))
        if FAULT == "same half":
            c.store([m, n], right.to(c.dtype))
        elif FAULT == "next tile":
            c.store([m, n + BN], right.to(c.dtype))
        else:
            c.store([m, n + BN // 2], right.to(c.dtype))


def _persistent(fault, special):
    M, N, K = 256, 256, 96
    a, b, c = normal(M, K, dtype=np.float16), normal(N, K, dtype=np.float16), zeros(M, N, dtype=np.float16)
    described = [TensorDescriptor.from_tensor(one, block) for one, block in ((a, [128, 32]), (b, [64, 32]), (c, [128, 32]))]
    persistent_kernel[(3,)](*described, M, N, K, BM=128, BN=64, BK=32, SPECIAL=special, FAULT=fault)
    return [(c, wide(a) @ wide(b).T, 2.0**-9)]


@program({"next tile": "race"})
def persistent_halves(fault):
    return _persistent(fault, False)


@program({"next tile": "race"})
def persistent_specialised(fault):
    return _persistent(fault, True)


@program({"next tile": "race"}, arch="sm_90a")
def persistent_on_hopper(fault):
    return _persistent(fault, False)


@triton.jit
def bias_gelu_kernel(
    a, b, bias, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, PRECISION: tl.constexpr, FAULT: tl.constexpr
):
    """f32 through tf32, split in three; bias and an activation; block pointers with boundary checks."""
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    x = a + m[:, None] * K + tl.arange(0, BK)[None, :]
    y = b + tl.arange(0, BK)[:, None] * N + n[None, :]
    acc = tl.zeros([BM, BN], tl.float32)
    for k in range(0, K, BK):
        inside = k + tl.arange(0, BK) < K
        acc = tl.dot(
            tl.load(x, mask=(m < M)[:, None] & inside[None, :], other=0.0),
            tl.load(y, mask=inside[:, None] & (n < N)[None, :], other=0.0),
            acc,
            input_precision=PRECISION,
        )
        x += BK
        y += BK * N
    acc += tl.load(bias + n, mask=n < (N if FAULT != "bias beyond" else N + BN), other=0.0)[None, :]
    acc = 0.5 * acc * (1 + tl.erf(acc * 0.7071067811865476))
    tl.store(
        c + m[:, None] * N + n[None, :], acc, mask=(m < M)[:, None] & (n < (N if FAULT != "columns beyond" else N + BN))[None, :]
    )


@program({"bias beyond": "out_of_bounds", "columns beyond": "race out_of_bounds"})
def bias_gelu(fault):
    from math import erf

    M, N, K = 40, 48, 72
    a, b, bias, c = normal(M, K), normal(K, N), normal(N), zeros(M, N)
    bias_gelu_kernel[(2, 2)](a, b, bias, c, M, N, K, BM=32, BN=32, BK=32, PRECISION="tf32x3", FAULT=fault)
    z = wide(a) @ wide(b) + wide(bias)
    return [(c, 0.5 * z * (1 + np.vectorize(erf)(z / np.sqrt(2))), 1e-5)]


@triton.jit
def doubles_kernel(a, b, c, N: tl.constexpr):
    i = tl.arange(0, N)
    at = i[:, None] * N + i[None, :]
    tl.store(c + at, tl.dot(tl.load(a + at), tl.load(b + at), out_dtype=c.dtype.element_ty))


@program()
def products_of_doubles_and_bytes(fault):
    a, b, c = normal(32, 32, dtype=np.float64), normal(32, 32, dtype=np.float64), zeros(32, 32, dtype=np.float64)
    doubles_kernel[(1,)](a, b, c, N=32)
    x, y, z = (
        integers(-128, 128, 64, 64, dtype=np.int8),
        integers(-127, 128, 64, 64, dtype=np.int8),
        zeros(64, 64, dtype=np.int32),
    )
    doubles_kernel[(1,)](x, y, z, N=64)
    return [(c, wide(a) @ wide(b), 1e-12), (z, wide(x) @ wide(y), 0)]
