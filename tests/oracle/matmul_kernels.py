"""Matrix products in Triton: through descriptors, persistent, with pointers, attention, block-scaled."""

import triton
import triton.language as tl


@triton.jit
def descriptors(
    a, b, d, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, SPECIALISED: tl.constexpr, PRECISION: tl.constexpr
):
    """D = A @ B.T"""
    row, column = tl.program_id(0) * BM, tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in tl.range(0, tl.cdiv(K, BK), warp_specialize=SPECIALISED):
        acc = tl.dot(a.load([row, k * BK]), b.load([column, k * BK]).T, acc, input_precision=PRECISION)
    d.store([row, column], acc)


@triton.jit
def integers(a, b, d, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """D = A @ B.T of 8-bit integers"""
    row, column = tl.program_id(0) * BM, tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), dtype=tl.int32)
    for k in tl.range(0, tl.cdiv(K, BK)):
        acc = tl.dot(a.load([row, k * BK]), b.load([column, k * BK]).T, acc)
    d.store([row, column], acc)


@triton.jit
def persistent(a, b, d, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, FLATTEN: tl.constexpr):
    """D = A @ B.T; each program takes every num_programs-th tile, and stores it in two halves."""
    columns = tl.cdiv(N, BN)
    tiles = tl.cdiv(M, BM) * columns
    for tile in tl.range(tl.program_id(0), tiles, tl.num_programs(0), flatten=FLATTEN, warp_specialize=True):
        row, column = tile // columns * BM, tile % columns * BN
        acc = tl.zeros((BM, BN), dtype=tl.float32)
        for k in range(tl.cdiv(K, BK)):
            acc = tl.dot(a.load([row, k * BK]), b.load([column, k * BK]).T, acc)
        left, right = tl.split(tl.permute(tl.reshape(acc, (BM, 2, BN // 2)), (0, 2, 1)))
        d.store([row, column], left.to(tl.bfloat16))
        d.store([row, column + BN // 2], right.to(tl.bfloat16))


@triton.jit
def pointers(a, b, d, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """D = A @ B with masked loads through pointers"""
    rows, columns = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        x = tl.load(a + rows[:, None] * K + k[None, :], mask=(rows[:, None] < M) & (k[None, :] < K), other=0.0)
        y = tl.load(b + k[:, None] * N + columns[None, :], mask=(columns[None, :] < N) & (k[:, None] < K), other=0.0)
        acc = tl.dot(x, y, acc)
    tl.store(d + rows[:, None] * N + columns[None, :], acc, mask=(rows[:, None] < M) & (columns[None, :] < N))


@triton.jit
def attention(
    q, k, v, o, n, scale, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr, SPECIALISED: tl.constexpr, CAUSAL: tl.constexpr
):
    """O = softmax(Q @ K.T * scale) @ V with the running maximum; `scale` holds log2(e)."""
    start = tl.program_id(0) * BM
    queries = q.load([start, 0])
    most = tl.full((BM,), -float("inf"), tl.float32)
    total = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, D), tl.float32)
    end = start + BM if CAUSAL else n
    for j in tl.range(0, end, BN, warp_specialize=SPECIALISED):
        column = j + tl.arange(0, BN)
        seen = column[None, :] <= (start + tl.arange(0, BM))[:, None] if CAUSAL else (column < n)[None, :]
        score = tl.where(seen, tl.dot(queries, k.load([j, 0]).T) * scale, -1.0e30)
        grown = tl.maximum(most, tl.max(score, 1))
        weight, shrink = tl.exp2(score - grown[:, None]), tl.exp2(most - grown)
        total = total * shrink + tl.sum(weight, 1)
        acc = tl.dot(weight.to(tl.bfloat16), v.load([j, 0]), acc * shrink[:, None])
        most = grown
    o.store([start, 0], (acc / total[:, None]).to(tl.bfloat16))


@triton.jit
def scaled(
    a,
    a_scale,
    b,
    b_scale,
    d,
    N,
    K,
    A: tl.constexpr,
    B: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    VECTOR: tl.constexpr,
    PACK_A: tl.constexpr,
    PACK_B: tl.constexpr,
):
    """D = (A * scales) @ (B * scales).T, one scale for VECTOR elements of K; 4-bit elements two to a byte"""
    rows, columns = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        block = k // VECTOR + tl.arange(0, BK // VECTOR)
        x = tl.load(a + rows[:, None] * (K // PACK_A) + (k // PACK_A + tl.arange(0, BK // PACK_A))[None, :])
        y = tl.load(b + columns[None, :] * (K // PACK_B) + (k // PACK_B + tl.arange(0, BK // PACK_B))[:, None])
        x_scale = tl.load(a_scale + rows[:, None] * (K // VECTOR) + block[None, :])
        y_scale = tl.load(b_scale + columns[:, None] * (K // VECTOR) + block[None, :])
        acc = tl.dot_scaled(x, x_scale, A, y, y_scale, B, acc)
    tl.store(d + rows[:, None] * N + columns[None, :], acc)
