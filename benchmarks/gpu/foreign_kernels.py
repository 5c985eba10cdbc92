"""Triton kernels whose times are predicted from their PTX, and what `pipec predict --launch` has to know of each launch."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import triton
import triton.language as tl


@triton.jit(do_not_specialize=["M", "N", "K"])
def matmul(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr):
    pid = tl.program_id(0)
    rows, columns = tl.cdiv(M, BM), tl.cdiv(N, BN)
    width = GROUP * columns
    first = pid // width * GROUP
    size = min(rows - first, GROUP)
    m = (first + pid % width % size) * BM + tl.arange(0, BM)
    n = pid % width // size * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    pa = a + m[:, None] * K + k[None, :]
    pb = b + k[:, None] * N + n[None, :]
    acc = tl.zeros((BM, BN), tl.float32)
    for _ in range(tl.cdiv(K, BK)):
        acc = tl.dot(tl.load(tl.multiple_of(pa, (1, 16))), tl.load(tl.multiple_of(pb, (1, 16))), acc)
        pa += BK
        pb += BK * N
    pc = c + m[:, None] * N + n[None, :]
    tl.store(tl.multiple_of(pc, (1, 16)), acc.to(tl.bfloat16))


@triton.jit(do_not_specialize=["M", "N", "K"])
def matmul_tma(a, b, d, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr):
    t = tl.program_id(0)
    rows, columns = tl.cdiv(M, BM), tl.cdiv(N, BN)
    first = t // (GROUP * columns) * GROUP
    size = min(rows - first, GROUP)
    m = (first + t % (GROUP * columns) % size) * BM
    n = t % (GROUP * columns) // size * BN
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(tl.cdiv(K, BK)):
        acc = tl.dot(a.load([m, k * BK]), b.load([n, k * BK]).T, acc)
    d.store([m, n], acc.to(tl.bfloat16))


@triton.jit(do_not_specialize=["M", "N", "K"])
def matmul_persistent(
    a, b, d, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr, BLOCKS: tl.constexpr
):
    rows, columns = tl.cdiv(M, BM), tl.cdiv(N, BN)
    for t in tl.range(tl.program_id(0), rows * columns, BLOCKS, flatten=True):
        first = t // (GROUP * columns) * GROUP
        size = min(rows - first, GROUP)
        m = (first + t % (GROUP * columns) % size) * BM
        n = t % (GROUP * columns) // size * BN
        acc = tl.zeros((BM, BN), dtype=tl.float32)
        for k in range(tl.cdiv(K, BK)):
            acc = tl.dot(a.load([m, k * BK]), b.load([n, k * BK]).T, acc)
        d.store([m, n], acc.to(tl.bfloat16))


@triton.jit
def attention(q, k, v, o, scale, N, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr, CAUSAL: tl.constexpr):
    head = tl.program_id(1) * N
    start = tl.program_id(0) * BM
    queries = q.load([head + start, 0])
    m = tl.full([BM], -float("inf"), tl.float32)
    total = tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, D], tl.float32)
    rows, columns = start + tl.arange(0, BM), tl.arange(0, BN)
    end = start + BM if CAUSAL else N
    for n in range(0, end, BN):
        scores = tl.dot(queries, k.load([head + n, 0]).T) * scale
        if CAUSAL:
            scores = tl.where(rows[:, None] >= n + columns[None, :], scores, -1.0e6)
        new = tl.maximum(m, tl.max(scores, 1))
        p = tl.math.exp2(scores - new[:, None])
        old = tl.math.exp2(m - new)
        total = total * old + tl.sum(p, 1)
        acc = acc * old[:, None]
        acc = tl.dot(p.to(tl.bfloat16), v.load([head + n, 0]), acc)
        m = new
    o.store([head + start, 0], (acc / total[:, None]).to(tl.bfloat16))


@triton.jit
def softmax(x, y, n, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    values = tl.load(x + row * n + column, mask=column < n, other=-float("inf")).to(tl.float32)
    powers = tl.exp(values - tl.max(values, 0))
    tl.store(y + row * n + column, powers / tl.sum(powers, 0), mask=column < n)


@triton.jit
def layer_norm(x, weight, bias, y, n, epsilon, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    inside = column < n
    v = tl.load(x + row * n + column, mask=inside, other=0.0).to(tl.float32)
    aside = tl.where(inside, v - tl.sum(v, 0) / n, 0.0)
    scale = tl.rsqrt(tl.sum(aside * aside, 0) / n + epsilon)
    w = tl.load(weight + column, mask=inside, other=0.0).to(tl.float32)
    b = tl.load(bias + column, mask=inside, other=0.0).to(tl.float32)
    tl.store(y + row * n + column, aside * scale * w + b, mask=inside)


@triton.jit
def rms_norm(x, weight, y, n, epsilon, BLOCK: tl.constexpr):
    """Two passes over the row, in chunks."""
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    squares = tl.zeros([BLOCK], tl.float32)
    for at in range(0, n, BLOCK):
        v = tl.load(x + row * n + at + column, mask=at + column < n, other=0.0).to(tl.float32)
        squares += v * v
    scale = tl.rsqrt(tl.sum(squares, 0) / n + epsilon)
    for at in range(0, n, BLOCK):
        inside = at + column < n
        v = tl.load(x + row * n + at + column, mask=inside, other=0.0).to(tl.float32)
        w = tl.load(weight + at + column, mask=inside, other=0.0).to(tl.float32)
        tl.store(y + row * n + at + column, v * scale * w, mask=inside)


@triton.jit
def add(x, y, z, n, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = index < n
    tl.store(z + index, tl.load(x + index, mask=inside) + tl.load(y + index, mask=inside), mask=inside)


@dataclass(frozen=True)
class Case:
    """`arrays`: by name, the type and the shape, and of descriptors the box; `order`: the kernel's arguments, arrays by name and numbers
    as (type, value)."""

    name: str
    function: Any
    arrays: dict[str, tuple[Any, ...]]
    order: list[Any]
    constants: dict[str, Any]
    grid: tuple[int, ...]
    warps: int
    stages: int
    flops: float = 0.0


def cases(blocks: int) -> list[Case]:
    """Persistent ones with so many blocks."""
    return [*_products(blocks), *_products_of_few_rows(), *_attention(), *_rows(), *_sums()]


_TILES = ((128, 256, 64, 8, 3), (128, 128, 64, 4, 4), (64, 128, 64, 4, 4))  # BM, BN, BK, warps, stages
_SQUARE = (2048, 2048, 2048)  # the one size of a persistent product with fewer tiles than blocks
_SIZES = ((1024, 1024, 4096), _SQUARE, (4096, 4096, 4096), (8192, 8192, 2048))


def _products(blocks: int) -> Iterator[Case]:
    for (bm, bn, bk, warps, stages), (m, n, k) in product(_TILES, _SIZES):
        tiles = triton.cdiv(m, bm) * triton.cdiv(n, bn)
        of = {"BM": bm, "BN": bn, "BK": bk, "GROUP": 8}
        of_persistent = of | {"BLOCKS": blocks}
        size, work = f"{m}x{n}x{k} {bm}x{bn}x{bk}", 2.0 * m * n * k
        sizes = [("i32", m), ("i32", n), ("i32", k)]
        plain = {"a": ("bf16", (m, k)), "b": ("bf16", (k, n)), "c": ("bf16", (m, n))}
        boxed = {"a": ("bf16", (m, k), (bm, bk)), "b": ("bf16", (n, k), (bn, bk)), "d": ("bf16", (m, n), (bm, bn))}
        order, grid, some = ["a", "b", "d", *sizes], (tiles,), (min(blocks, tiles),)
        yield Case(f"matmul {size}", matmul, plain, ["a", "b", "c", *sizes], of, grid, warps, stages, work)
        if bm == 64:
            continue
        yield Case(f"matmul_tma {size}", matmul_tma, boxed, order, of, grid, warps, stages, work)
        if tiles > blocks or (m, n, k) == _SQUARE:
            yield Case(f"matmul_persistent {size}", matmul_persistent, boxed, order, of_persistent, some, warps, stages, work)


def _products_of_few_rows() -> Iterator[Case]:
    """By mma.sync."""
    for m, n, k in ((16, 4096, 4096), (16, 14336, 4096), (32, 8192, 8192)):
        plain = {"a": ("bf16", (m, k)), "b": ("bf16", (k, n)), "c": ("bf16", (m, n))}
        order = ["a", "b", "c", ("i32", m), ("i32", n), ("i32", k)]
        of = {"BM": m, "BN": 64, "BK": 128, "GROUP": 1}
        yield Case(f"matmul {m}x{n}x{k} {m}x64x128", matmul, plain, order, of, (triton.cdiv(n, 64),), 4, 4, 2.0 * m * n * k)


def _attention() -> Iterator[Case]:
    tiles = ((64, 128, 128, 8), (128, 128, 64, 8), (64, 64, 64, 4))  # D, BM, BN, warps
    for (d, bm, bn, warps), (heads, n), causal in product(tiles, ((64, 1024), (32, 2048), (16, 4096)), (False, True)):
        boxed = {name: ("bf16", (heads * n, d), (bm if name in "qo" else bn, d)) for name in "qkvo"}
        order = ["q", "k", "v", "o", ("f32", 0.18), ("i32", n)]
        of = {"BM": bm, "BN": bn, "D": d, "CAUSAL": causal}
        name, work = f"attention {heads}x{n}x{d} {bm}x{bn}{' causal' if causal else ''}", 4.0 * heads * n * n * d
        yield Case(name, attention, boxed, order, of, (n // bm, heads), warps, 3, work / (2 if causal else 1))


def _rows() -> Iterator[Case]:
    for rows, n, warps in ((4096, 1024, 4), (8192, 4096, 8), (4096, 8192, 8), (1024, 2048, 4)):
        two = {"x": ("bf16", (rows, n)), "y": ("bf16", (rows, n))}
        three, four = two | {"w": ("bf16", (n,))}, two | {"w": ("bf16", (n,)), "b": ("bf16", (n,))}
        size, epsilon, grid = ("i32", n), ("f32", 1e-5), (rows,)
        for name, function, arrays, order, block, many in (
            ("softmax", softmax, two, ["x", "y", size], n, warps),
            ("layer_norm", layer_norm, four, ["x", "w", "b", "y", size, epsilon], n, warps),
            ("rms_norm", rms_norm, three, ["x", "w", "y", size, epsilon], 1024, 4),
        ):
            yield Case(f"{name} {rows}x{n}", function, arrays, order, {"BLOCK": block}, grid, many, 1)


def _sums() -> Iterator[Case]:
    for n, block in ((1 << 20, 1024), (1 << 24, 1024), (1 << 26, 2048)):
        arrays: dict[str, tuple[Any, ...]] = {name: ("bf16", (n,)) for name in "xyz"}
        order, grid = ["x", "y", "z", ("i32", n)], (triton.cdiv(n, block),)
        yield Case(f"add {n} {block}", add, arrays, order, {"BLOCK": block}, grid, 4, 1)


_SWIZZLES = ("none", "32B", "64B", "128B")


def launch_of(case: Case, ptx: str, metadata: Any, signature: dict[str, str]) -> dict[str, Any]:
    """`signature`: the types of the compiled kernel's arguments; "constexpr" if a value is compiled in."""
    meta = iter(getattr(metadata, "tensordesc_meta", None) or ())
    names = case.function.arg_names
    arguments, seen = [], set()
    for name, value in zip(names, case.order, strict=False):
        kind = signature[name]
        if kind == "constexpr":
            continue
        if not isinstance(value, str):
            arguments.append(f"{kind.replace('fp', 'f')}:{value[1]}")
            continue
        dtype, shape = case.arrays[value][:2]
        text = value if value in seen else f"{value}={dtype}[{','.join(map(str, shape))}]:zeros"
        seen.add(value)
        if len(case.arrays[value]) == 2:
            arguments.append(text)
            continue
        one = next(meta)
        box = ",".join(map(str, one["block_size"]))
        arguments.append(f"map({text}; box={box}; swizzle={_SWIZZLES[one['swizzle']]})")
        arguments += [f"i32:{size}" for size in shape] + [f"i64:{shape[1]}", "i64:1"]
    head = ptx[ptx.index(".entry") :]
    count = head[: head.index("{")].count(".param")
    arguments += ["i64:0"] * (count - len(arguments))  # scratch memory
    return {
        "kernel": metadata.name,
        "grid": list(case.grid),
        "block": [32 * case.warps],
        "shared": metadata.shared,
        "arguments": arguments,
    }
