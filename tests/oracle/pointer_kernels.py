"""Triton kernels without tensor cores: rows, reductions, conversions, atomics, functions, gathers."""

import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def softmax(x, y, n, SIZE: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, SIZE)
    value = tl.load(x + row * n + i, mask=i < n, other=-float("inf")).to(tl.float32)
    weight = tl.exp(value - tl.max(value, axis=0))
    tl.store(y + row * n + i, weight / tl.sum(weight, axis=0), mask=i < n)


@triton.jit
def layer_norm(x, scale, shift, y, n, eps, SIZE: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros((SIZE,), tl.float32)
    squares = tl.zeros((SIZE,), tl.float32)
    for start in range(0, n, SIZE):
        i = start + tl.arange(0, SIZE)
        value = tl.load(x + row * n + i, mask=i < n, other=0.0).to(tl.float32)
        total += value
        squares += value * value
    mean = tl.sum(total) / n
    factor = 1 / tl.sqrt(tl.sum(squares) / n - mean * mean + eps)
    for start in range(0, n, SIZE):
        i = start + tl.arange(0, SIZE)
        value = tl.load(x + row * n + i, mask=i < n)
        result = (value - mean) * factor * tl.load(scale + i, mask=i < n) + tl.load(shift + i, mask=i < n)
        tl.store(y + row * n + i, result.to(y.dtype.element_ty), mask=i < n)


@triton.jit
def functions(x, y, n, SIZE: tl.constexpr):
    """One row of y for each function."""
    i = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    mask = i < n
    v = tl.load(x + i, mask=mask)
    tl.store(y + 0 * n + i, tl.exp(v), mask=mask)
    tl.store(y + 1 * n + i, tl.log(tl.abs(v) + 1), mask=mask)
    tl.store(y + 2 * n + i, tl.sin(v * 1000), mask=mask)
    tl.store(y + 3 * n + i, tl.cos(v), mask=mask)
    tl.store(y + 4 * n + i, tl.erf(v), mask=mask)
    tl.store(y + 5 * n + i, tl.rsqrt(tl.abs(v) + 1), mask=mask)
    tl.store(y + 6 * n + i, v / (v * v + 1), mask=mask)
    tl.store(y + 7 * n + i, libdevice.tanh(v), mask=mask)
    tl.store(y + 8 * n + i, libdevice.pow(tl.abs(v) + 0.5, v), mask=mask)
    tl.store(y + 9 * n + i, libdevice.atan2(v, v + 1), mask=mask)
    tl.store(y + 10 * n + i, libdevice.lgamma(tl.abs(v) + 0.5), mask=mask)
    tl.store(y + 11 * n + i, libdevice.cbrt(v), mask=mask)


@triton.jit
def rearranged(x, sums, places, tables, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Reductions along both axes, positions of extremes, scans, a sort, a reversal."""
    i, j = tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    whole = i[:, None] * COLUMNS + j[None, :]
    v = tl.load(x + whole)
    tl.store(sums + i, tl.sum(v, 1))
    tl.store(sums + ROWS + j, tl.max(v, 0))
    tl.store(places + i, tl.argmax(v, 1))
    tl.store(places + ROWS + j, tl.argmin(v, 0))
    tl.store(tables + whole, tl.cumsum(v, 1))
    tl.store(tables + ROWS * COLUMNS + whole, tl.cumsum(v, 0))
    tl.store(tables + 2 * ROWS * COLUMNS + whole, tl.sort(v, 1))
    tl.store(tables + 3 * ROWS * COLUMNS + whole, tl.flip(v, 1))


@triton.jit
def counted(x, index, counts, picked, SIZE: tl.constexpr, BINS: tl.constexpr):
    i = tl.arange(0, SIZE)
    v = tl.load(x + i)
    tl.store(counts + tl.arange(0, BINS), tl.histogram(v, BINS))
    tl.store(picked + i, tl.gather(v, tl.load(index + i), 0))


@triton.jit
def atomics(x, sums, words, halves, lock, guarded, n, SIZE: tl.constexpr):
    i = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    mask = i < n
    v = tl.load(x + i, mask=mask, other=0)
    same = i * 0
    tl.atomic_add(sums + i % 7, v.to(tl.float32), mask=mask)
    tl.atomic_max(sums + same + 7, v.to(tl.float32), mask=mask)
    tl.atomic_max(words + same, v, mask=mask)
    tl.atomic_min(words + same + 1, v, mask=mask)
    tl.atomic_or(words + same + 2, v, mask=mask)
    tl.atomic_and(words + same + 3, v, mask=mask)
    tl.atomic_xor(words + same + 4, v, mask=mask)
    tl.atomic_add(words + 5, 1)
    tl.atomic_add(halves + i % 16, (v % 4).to(tl.float16), mask=mask)
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    tl.store(guarded, tl.load(guarded) + tl.sum(v))
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


@triton.jit
def converted(x, e4m3, e5m2, bf16, i8, mixed, factor, SIZE: tl.constexpr):
    i = tl.arange(0, SIZE)
    v = tl.load(x + i)
    a, b, c = v.to(tl.float8e4nv), v.to(tl.float8e5), v.to(tl.bfloat16)
    tl.store(e4m3 + i, a)
    tl.store(e5m2 + i, b)
    tl.store(bf16 + i, c)
    tl.store(i8 + i, (v * 10).to(tl.int8))
    exact = (v * 8).to(tl.int64) * 3 - i // 3 % 5 + (i * factor) % 11
    tl.store(mixed + i, a.to(tl.float32) + b.to(tl.float32) + c.to(tl.float32) + exact.to(tl.float32))


@triton.jit(noinline=True)
def weighted(total, step):
    return total * step + 1


@triton.jit
def calls(x, y, n, SIZE: tl.constexpr):
    """A function that stays a function, in a loop."""
    v = tl.load(x + tl.arange(0, SIZE))
    total = 0.0
    for step in range(n):
        total += weighted(tl.sum(v), step)
    tl.store(y, total)


@triton.jit
def rows_by_index(x, y, total, index, SIZE: tl.constexpr, WIDTH: tl.constexpr):
    """TMA gather of rows, scatter of them, and a sum into global memory."""
    rows = tl.load(index + tl.arange(0, SIZE))
    v = x.gather(rows, 0)
    y.scatter(v, rows, 0)
    total.atomic_add([0, 0], v)


@triton.jit
def inline_assembly(x, y, SIZE: tl.constexpr):
    """Scopes, registers and labels of the same names in every copy."""
    i = tl.arange(0, SIZE)
    v = tl.inline_asm_elementwise(
        """{
        .reg .pred p; .reg .b32 t;
        setp.gt.s32 p, $1, 5;
        @p bra BIG;
        mov.b32 t, 1;
        bra JOIN;
        BIG: mov.b32 t, 2;
        JOIN: shf.l.wrap.b32 $0, t, $1, 3;
        }""",
        "=r,r",
        [tl.load(x + i)],
        dtype=tl.int32,
        is_pure=True,
        pack=1,
    )
    tl.store(y + i, v)
