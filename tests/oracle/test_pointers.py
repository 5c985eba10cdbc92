"""Triton kernels without tensor cores against NumPy."""

from __future__ import annotations

import functools
import math

import ml_dtypes
import numpy as np
import pytest

from . import pointer_kernels as kernels
from .support import TIMINGS, build, simulate
from .tolerance import check, normal

all_timings = pytest.mark.parametrize("timing", TIMINGS, ids=lambda o: f"{o.timing}{o.seed}")
cached = functools.cache(lambda name, *signature, warps=4, **constants: _build(name, signature, warps, constants))


def _build(name, signature, warps, constants):
    return build(getattr(kernels, name), dict(signature), constants, num_warps=warps)


@pytest.mark.parametrize("kind", ["fp32", "bf16", "fp16"])
@pytest.mark.parametrize("n", [1, 333, 512])
def test_softmax(kind, n):
    x = normal(np.random.default_rng(20), (3, n), {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}[kind])
    y = np.zeros((3, n), np.float32)
    simulate(cached("softmax", ("x", f"*{kind}"), ("y", "*fp32"), ("n", "i32"), SIZE=512), (3,), x=x, y=y, n=n)
    wide = x.astype(np.float64)
    exact = np.exp(wide - wide.max(axis=1, keepdims=True))
    exact /= exact.sum(axis=1, keepdims=True)
    # ex2.approx is good to 2**-22; its argument, x * log2(e), is rounded to 2**-24 of at most 16.
    check(y, exact, 2.0**-18 * exact)


def test_layer_norm():
    n, rng = 700, np.random.default_rng(21)
    x, y = normal(rng, (4, n), "float16"), np.zeros((4, n), np.float16)
    scale, shift = normal(rng, (n,), "float32"), normal(rng, (n,), "float32")
    signature = (("x", "*fp16"), ("scale", "*fp32"), ("shift", "*fp32"), ("y", "*fp16"), ("n", "i32"), ("eps", "fp32"))
    simulate(cached("layer_norm", *signature, warps=2, SIZE=256), (4,), x=x, scale=scale, shift=shift, y=y, n=n, eps=1e-5)
    wide = x.astype(np.float64)
    exact = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + 1e-5) * scale + shift
    # The output's rounding, and a float32 sum of 700 terms of at most 16.
    check(y, exact, 2.0**-11 * np.abs(exact) + 1e-4)


@pytest.mark.parametrize(("kind", "within"), [("fp32", 4e-6), ("fp64", 1e-13)])
def test_functions(kind, within):
    """Through libdevice: range reduction with carries, mixed precision, tables of constants."""
    n, dtype = 150, {"fp32": np.float32, "fp64": np.float64}[kind]
    x = (np.random.default_rng(22).normal(size=n) * 3).astype(dtype)
    y = np.zeros((12, n), dtype)
    simulate(cached("functions", ("x", f"*{kind}"), ("y", f"*{kind}"), ("n", "i32"), warps=1, SIZE=128), (2,), x=x, y=y, n=n)
    v = x.astype(np.float64)
    exact = [
        np.exp(v),
        np.log(np.abs(v) + 1),
        np.sin((x * dtype(1000)).astype(np.float64)),
        np.cos(v),
        [math.erf(value) for value in v],
        1 / np.sqrt(np.abs(v) + 1),
        v / (v * v + 1),
        np.tanh(v),
        (np.abs(v) + 0.5) ** v,
        np.arctan2(v, (x + dtype(1)).astype(np.float64)),
        [math.lgamma(abs(value) + 0.5) for value in v],
        np.cbrt(v),
    ]
    # fp32: the approximations that Triton chooses for exp and log, and the rounding of v + 1 and v + 0.5 before them.
    check(y, np.array(exact), within * np.maximum(1, np.abs(exact)))


@pytest.mark.parametrize("warps", [1, 4])
def test_reductions_scans_and_sorting(warps):
    rows, columns, rng = 8, 64, np.random.default_rng(23)
    x = rng.permutation(rows * columns).reshape(rows, columns).astype(np.float32)
    sums, places = np.zeros(rows + columns, np.float32), np.zeros(rows + columns, np.int32)
    tables = np.zeros((4, rows, columns), np.float32)
    signature = (("x", "*fp32"), ("sums", "*fp32"), ("places", "*i32"), ("tables", "*fp32"))
    compiled = cached("rearranged", *signature, warps=warps, ROWS=rows, COLUMNS=columns)
    simulate(compiled, (1,), x=x, sums=sums, places=places, tables=tables)
    # Whole numbers below 2**24: exact.
    assert (sums == np.concatenate([x.sum(1), x.max(0)])).all()
    assert (places == np.concatenate([x.argmax(1), x.argmin(0)])).all()
    assert (tables == [x.cumsum(1), x.cumsum(0), np.sort(x, 1), x[:, ::-1]]).all()


def test_histogram_and_gather():
    rng, size = np.random.default_rng(24), 256
    x, index = rng.integers(0, 64, size).astype(np.int32), rng.integers(0, size, size).astype(np.int32)
    counts, picked = np.zeros(64, np.int32), np.zeros(size, np.int32)
    signature = tuple((name, "*i32") for name in ("x", "index", "counts", "picked"))
    simulate(cached("counted", *signature, SIZE=size, BINS=64), (1,), x=x, index=index, counts=counts, picked=picked)
    assert (counts == np.bincount(x, minlength=64)).all() and (picked == x[index]).all()


@all_timings
def test_atomics(timing):
    n = 500
    x, i = np.random.default_rng(25).integers(0, 1000, n).astype(np.int32), np.arange(n)
    sums, halves = np.zeros(8, np.float32), np.zeros(16, np.float16)
    words, lock, guarded = np.array([0, 10**6, 0, -1, 0, 0], np.int32), np.zeros(1, np.int32), np.zeros(1, np.int32)
    kinds = {"x": "*i32", "sums": "*fp32", "words": "*i32", "halves": "*fp16", "lock": "*i32", "guarded": "*i32", "n": "i32"}
    compiled = cached("atomics", *kinds.items(), SIZE=128)
    simulate(compiled, (4,), timing, x=x, sums=sums, words=words, halves=halves, lock=lock, guarded=guarded, n=n)
    bits = (np.bitwise_or, np.bitwise_and, np.bitwise_xor)
    assert words.tolist() == [x.max(), x.min(), *(int(operation.reduce(x)) for operation in bits), 4]
    assert sums.tolist() == [*np.bincount(i % 7, x, 7), x.max()]
    assert halves.tolist() == np.bincount(i % 16, x % 4, 16).tolist()
    assert (guarded[0], lock[0]) == (x.sum(), 0)


def test_conversions():
    size, rng = 256, np.random.default_rng(26)
    x, i = (rng.normal(size=size) * 4).astype(np.float32), np.arange(size)
    out = {
        "e4m3": ml_dtypes.float8_e4m3fn,
        "e5m2": ml_dtypes.float8_e5m2,
        "bf16": ml_dtypes.bfloat16,
        "i8": np.int8,
        "mixed": np.float32,
    }
    arrays = {name: np.zeros(size, dtype) for name, dtype in out.items()}
    kinds = {"x": "*fp32", "e4m3": "*fp8e4nv", "e5m2": "*fp8e5", "bf16": "*bf16", "i8": "*i8", "mixed": "*fp32", "factor": "i32"}
    simulate(cached("converted", *kinds.items(), warps=2, SIZE=size), (1,), x=x, factor=13, **arrays)
    for name in ("e4m3", "e5m2", "bf16"):
        assert (arrays[name].view(np.uint8) == x.astype(out[name]).view(np.uint8)).all(), name
    # A float beyond int8 is cut to 32 bits and then to its low byte.
    assert (arrays["i8"] == (x * np.float32(10)).astype(np.int32).astype(np.int8)).all()
    exact = np.trunc(x * np.float32(8)) * 3 - i // 3 % 5 + i * 13 % 11
    parts = sum(arrays[name].astype(np.float64) for name in ("e4m3", "e5m2", "bf16"))
    check(arrays["mixed"], parts + exact, 2.0**-22 * (np.abs(parts) + np.abs(exact) + 64))


def test_a_function_that_is_called():
    compiled = cached("calls", ("x", "*fp32"), ("y", "*fp32"), ("n", "i32"), SIZE=256)
    assert "call.uni" in compiled.ptx
    x, y = np.random.default_rng(27).integers(0, 9, 256).astype(np.float32), np.zeros(1, np.float32)
    simulate(compiled, (1,), x=x, y=y, n=5)
    assert y[0] == x.sum() * 10 + 5


@all_timings
def test_rows_by_index(timing):
    kinds = {"x": "tensordesc<fp32[1,32]>", "y": "tensordesc<fp32[1,32]>", "total": "tensordesc<fp32[16,32]>", "index": "*i32"}
    compiled = cached("rows_by_index", *kinds.items(), SIZE=16, WIDTH=32)
    assert "tile::gather4" in compiled.ptx and "cp.reduce.async.bulk.tensor" in compiled.ptx
    rng = np.random.default_rng(28)
    x, index = rng.integers(-9, 9, (70, 32)).astype(np.float32), rng.permutation(70)[:16].astype(np.int32)
    y, total = np.zeros_like(x), np.ones((16, 32), np.float32)
    simulate(compiled, (1,), timing, x=x, y=y, total=total, index=index)
    assert (y[index] == x[index]).all() and not np.delete(y, index, 0).any()
    assert (total == x[index] + 1).all()


def test_inline_assembly():
    x, y = np.arange(256, dtype=np.int32) % 11, np.zeros(256, np.int32)
    simulate(cached("inline_assembly", ("x", "*i32"), ("y", "*i32"), warps=2, SIZE=256), (1,), x=x, y=y)
    # shf.l takes the high part from its second source.
    assert (y == (x << 3 | np.where(x > 5, 2, 1) >> 29)).all()
