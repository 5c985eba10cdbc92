"""Kernels as tutorials of Triton have them, written anew: what people launch without knowing of a simulator."""

import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def add(x, y, z, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    tl.store(z + i, tl.load(x + i, mask=inside) + tl.load(y + i, mask=inside), mask=inside)


@triton.jit
def softmax_rows(x, y, stride_x, stride_y, rows, columns, BLOCK: tl.constexpr):
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0), num_stages=2):
        i = tl.arange(0, BLOCK)
        values = tl.load(x + row * stride_x + i, mask=i < columns, other=-float("inf"))
        weights = tl.exp(values - tl.max(values, axis=0))
        tl.store(y + row * stride_y + i, weights / tl.sum(weights, axis=0), mask=i < columns)


@triton.autotune(
    configs=[
        triton.Config({"BM": 32, "BN": 32, "BK": 32, "GROUP": 2}, num_stages=2, num_warps=2),
        triton.Config({"BM": 64, "BN": 32, "BK": 64, "GROUP": 2}, num_stages=3, num_warps=4),
    ],
    key=["M", "N", "K"],
)
@triton.jit
def matmul(
    a, b, c, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr, ACTIVATION: tl.constexpr,
):  # fmt: skip
    number = tl.program_id(0)
    rows, columns = tl.cdiv(M, BM), tl.cdiv(N, BN)
    strip = number // (GROUP * columns)
    height = min(rows - strip * GROUP, GROUP)
    row = strip * GROUP + number % (GROUP * columns) % height
    column = number % (GROUP * columns) // height
    m = (row * BM + tl.arange(0, BM)) % M
    n = (column * BN + tl.arange(0, BN)) % N
    k = tl.arange(0, BK)
    from_a = a + m[:, None] * stride_am + k[None, :] * stride_ak
    from_b = b + k[:, None] * stride_bk + n[None, :] * stride_bn
    total = tl.zeros((BM, BN), tl.float32)
    for step in range(tl.cdiv(K, BK)):
        left = K - step * BK
        part = tl.load(from_a, mask=k[None, :] < left, other=0.0), tl.load(from_b, mask=k[:, None] < left, other=0.0)
        total = tl.dot(part[0], part[1], total)
        from_a += BK * stride_ak
        from_b += BK * stride_bk
    if ACTIVATION == "leaky":
        total = tl.where(total >= 0, total, 0.01 * total)
    m, n = row * BM + tl.arange(0, BM), column * BN + tl.arange(0, BN)
    inside = (m[:, None] < M) & (n[None, :] < N)
    tl.store(c + m[:, None] * stride_cm + n[None, :] * stride_cn, total.to(tl.float16), mask=inside)


@triton.jit
def dropout(x, y, n, p, seed, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    kept = tl.rand(seed, i) > p
    value = tl.load(x + i, mask=i < n)
    tl.store(y + i, tl.where(kept, value / (1 - p), 0.0), mask=i < n)


@triton.jit
def layer_norm_gradient(dy, x, w, mean, scale, dx, dw, locks, n, GROUPS: tl.constexpr, BLOCK: tl.constexpr):
    """The gradient of x; that of w is summed up in GROUPS rows, each behind a lock."""
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    inside = i < n
    lock = locks + row % GROUPS
    count = lock + GROUPS
    dw += row % GROUPS * n + i
    values = tl.load(x + row * n + i, mask=inside, other=0.0).to(tl.float32)
    given = tl.load(dy + row * n + i, mask=inside, other=0.0).to(tl.float32)
    factor = tl.load(scale + row)
    normal = tl.where(inside, (values - tl.load(mean + row)) * factor, 0.0)
    weighted = tl.where(inside, tl.load(w + i, mask=inside).to(tl.float32) * given, 0.0)
    first = tl.sum(normal * weighted, axis=0) / n
    second = tl.sum(weighted, axis=0) / n
    tl.store(dx + row * n + i, (weighted - (normal * first + second)) * factor, mask=inside)
    part = given * normal
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    if tl.load(count) == 0:
        tl.atomic_xchg(count, 1)
    else:
        part += tl.load(dw, mask=inside)
    tl.store(dw, part, mask=inside)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


@triton.jit
def attention(q, k, v, out, scale, tokens, HEAD: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, CAUSAL: tl.constexpr):
    start = tl.program_id(0) * BM
    base = tl.program_id(1) * tokens * HEAD
    m, d = start + tl.arange(0, BM), tl.arange(0, HEAD)
    queries = tl.load(q + base + m[:, None] * HEAD + d[None, :], mask=m[:, None] < tokens, other=0.0)
    largest = tl.full((BM,), -float("inf"), tl.float32)
    total = tl.zeros((BM,), tl.float32)
    result = tl.zeros((BM, HEAD), tl.float32)
    for first in range(0, min(tokens, start + BM) if CAUSAL else tokens, BN):
        n = first + tl.arange(0, BN)
        keys = tl.load(k + base + n[None, :] * HEAD + d[:, None], mask=n[None, :] < tokens, other=0.0)
        scores = tl.dot(queries, keys) * (scale * 1.44269504)
        allowed = (n[None, :] < tokens) & ((m[:, None] >= n[None, :]) if CAUSAL else True)
        scores = tl.where(allowed, scores, -1.0e6)
        grown = tl.maximum(largest, tl.max(scores, axis=1))
        weights = tl.exp2(scores - grown[:, None])
        factor = tl.exp2(largest - grown)
        total = total * factor + tl.sum(weights, axis=1)
        values = tl.load(v + base + n[:, None] * HEAD + d[None, :], mask=n[:, None] < tokens, other=0.0)
        result = tl.dot(weights.to(tl.float16), values, result * factor[:, None])
        largest = grown
    tl.store(out + base + m[:, None] * HEAD + d[None, :], result / total[:, None], mask=m[:, None] < tokens)


@triton.jit
def grouped(addresses, sizes, groups, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Products whose matrices are found through tables of pointers."""
    tile = tl.program_id(0)
    before = 0
    for group in range(groups):
        M, N, K = tl.load(sizes + 3 * group), tl.load(sizes + 3 * group + 1), tl.load(sizes + 3 * group + 2)
        columns = tl.cdiv(N, BN)
        count = tl.cdiv(M, BM) * columns
        while tile >= before and tile < before + count:
            a = tl.load(addresses + 3 * group).to(tl.pointer_type(tl.float16))
            b = tl.load(addresses + 3 * group + 1).to(tl.pointer_type(tl.float16))
            c = tl.load(addresses + 3 * group + 2).to(tl.pointer_type(tl.float32))
            m = (tile - before) // columns * BM + tl.arange(0, BM)
            n = (tile - before) % columns * BN + tl.arange(0, BN)
            k = tl.arange(0, BK)
            total = tl.zeros((BM, BN), tl.float32)
            for first in range(0, K, BK):
                there = (first + k) < K
                part_a = tl.load(a + m[:, None] * K + first + k[None, :], mask=(m[:, None] < M) & there[None, :], other=0.0)
                part_b = tl.load(b + (first + k)[:, None] * N + n[None, :], mask=there[:, None] & (n[None, :] < N), other=0.0)
                total = tl.dot(part_a, part_b, total)
            tl.store(c + m[:, None] * N + n[None, :], total, mask=(m[:, None] < M) & (n[None, :] < N))
            tile += tl.num_programs(0)
        before += count


@triton.jit
def matmul_by_host_descriptors(a, b, c, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n = tl.program_id(0) * BM, tl.program_id(1) * BN
    total = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        total = tl.dot(a.load([m, k]), b.load([n, k]).T, total)
    c.store([m, n], total.to(tl.bfloat16))


@triton.jit
def transpose_by_device_descriptors(x, y, M, N, BM: tl.constexpr, BN: tl.constexpr):
    """The descriptors are made in memory that the launcher is asked for."""
    source = tl.make_tensor_descriptor(x, shape=[M, N], strides=[N, 1], block_shape=[BM, BN])
    target = tl.make_tensor_descriptor(y, shape=[N, M], strides=[M, 1], block_shape=[BN, BM])
    m, n = tl.program_id(0) * BM, tl.program_id(1) * BN
    target.store([n, m], source.load([m, n]).T)


@triton.jit
def arc_sines(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, libdevice.asin(tl.load(x + i, mask=i < n)), mask=i < n)


@triton.jit
def of_tuples(pairs, factors, n, BLOCK: tl.constexpr):
    """y = factor * x for each pair (x, y)."""
    i = tl.arange(0, BLOCK)
    for index in tl.static_range(len(pairs)):
        tl.store(pairs[index][1] + i, factors[index] * tl.load(pairs[index][0] + i, mask=i < n), mask=i < n)


@triton.heuristics({"EVEN": lambda given: given["n"] % given["BLOCK"] == 0})
@triton.jit
def histogram_of_heuristics(x, counts, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + i) if EVEN else tl.load(x + i, mask=i < n, other=0)
    tl.atomic_add(counts + value, 1, mask=i < n)


@triton.jit
def prints(x, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    value = tl.load(x + i, mask=i < n, other=0)
    tl.device_print("value", value)


@triton.jit
def asserts(x, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    value = tl.load(x + i, mask=i < n, other=1)
    tl.device_assert(value > 0, "all of them are positive")
    tl.store(x + i, value - 1, mask=i < n)


@triton.jit
def beyond(x, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    value = tl.load(x + i, mask=i < n)
    tl.store(x + i, value + 1)  # the mask is missing


@triton.jit
def turned_in_place(x, N: tl.constexpr):
    """Each program reads what the others write: a race."""
    i = tl.arange(0, N)
    other = tl.num_programs(0) - 1 - tl.program_id(0)
    row = tl.load(x + other * N + i)
    tl.store(x + tl.program_id(0) * N + i, row)


@triton.jit
def scaled_late(weights, x, y, WAIT: tl.constexpr):
    """Reads the weights while the grid before may still run, and waits for it before it reads x."""
    i = tl.arange(0, 256)
    weight = tl.load(weights + i)
    if WAIT:
        tl.extra.cuda.gdc_wait()
    tl.store(y + i, weight * tl.load(x + i))
