"""PTX that nvcc made from cuda_kernels.cu: divergence, loops, shuffles, atomics, clusters, asynchronous copies."""

from __future__ import annotations

import functools
import pathlib
import struct

import ml_dtypes
import numpy as np
import pytest

from pipec.sim import ArrayArgument, Options, Result, ScalarArgument, launch

TIMINGS = [Options("order"), Options("late"), Options("random", seed=1), Options("random", seed=2)]
all_timings = pytest.mark.parametrize("options", TIMINGS, ids=lambda o: f"{o.timing}{o.seed}")


@functools.cache
def ptx() -> str:
    return (pathlib.Path(__file__).parent / "ptx" / "cuda_kernels.ptx").read_text()


def run(kernel: str, *arguments, grid=1, block=32, options: Options | None = None) -> Result:
    made = [ArrayArgument(a) if isinstance(a, np.ndarray) else ScalarArgument(struct.pack("<i", a)) for a in arguments]
    return launch(ptx(), kernel, grid=grid, block=block, arguments=made, options=options)


def collatz(value: int) -> int:
    steps = 0
    while value != 1 and steps <= 300:
        value = (3 * value + 1) % 2**32 if value & 1 else value >> 1
        steps += 1
    return steps


def test_divergent_loops_and_partial_warps():
    values, out = np.arange(1, 101, dtype=np.uint32) * 7, np.zeros(100, np.uint32)
    run("collatz", values, out, 100, grid=2, block=70)
    assert out.tolist() == [collatz(int(v)) for v in values]


def test_block_reduction():
    values, out = np.random.default_rng(0).integers(-9, 9, 1000).astype(np.float32), np.zeros(1, np.float32)
    run("reduce", values, out, 1000, grid=3, block=128)
    assert out[0] == values.sum()


def test_switch_reconverges():
    x, out = np.arange(32, dtype=np.int32) % 8, np.zeros(32, np.int32)
    run("switches", x, out)
    lane = np.arange(32)
    r = np.choose(np.minimum(x, 6), [7 + 0 * x, x * 3 + lane, -x, lane * lane, 1 << lane % 31, 99 + 0 * x, -1 + 0 * x]).astype(
        np.int32
    )
    ballot = np.uint32(sum(1 << i for i in range(32) if r[i] > 10)).view(np.int32)
    assert (out == (r ^ ballot)).all()


def test_spin_lock_inside_a_warp():
    lock, counter = np.zeros(1, np.int32), np.zeros(1, np.int32)
    run("spinlock", lock, counter, grid=2, block=32)
    assert counter[0] == 64 and lock[0] == 0


def test_shared_histogram():
    data, out = np.random.default_rng(1).integers(0, 256, 777).astype(np.uint8), np.zeros(256, np.uint32)
    run("histogram", data, out, 777, block=96)
    assert (out == np.bincount(data, minlength=256)).all()


def test_softmax():
    x = np.random.default_rng(2).normal(0, 2, (3, 200)).astype(ml_dtypes.bfloat16)
    out = np.zeros_like(x)
    run("softmax", x, out, 200, grid=3)
    wide = x.astype(np.float64)
    e = np.exp(wide - wide.max(axis=1, keepdims=True))
    np.testing.assert_allclose(out.astype(np.float64), e / e.sum(axis=1, keepdims=True), rtol=8e-3)


def test_local_memory():
    data = np.random.default_rng(3).integers(-99, 99, (32, 16)).astype(np.int32)
    out = np.zeros_like(data)
    run("local_sort", data, out)
    assert (out == np.sort(data, axis=1)).all()


@all_timings
def test_producer_consumer_ring(options):
    data, out = np.random.default_rng(4).integers(0, 2**32, (8, 128), np.uint32), np.zeros(128, np.uint32)
    run("ring", data, out, 8, block=160, options=options)
    want = np.zeros(128, np.uint32)
    for row in data:
        want = want * np.uint32(31) + row
    assert (out == want).all()


@all_timings
def test_distributed_shared_memory(options):
    out = np.zeros(8 * 128, np.uint32)
    run("cluster_exchange", out, grid=8, block=128, options=options)
    want = [(rank + 1) % 4 * 1000 + thread for _ in range(2) for rank in range(4) for thread in range(128)]
    assert out.tolist() == want


@all_timings
def test_cp_async_groups(options):
    data = np.arange(512, dtype=np.float32).reshape(128, 4)
    out = np.zeros_like(data)
    run("cp_async_copy", data, out, block=64, options=options)
    assert (out == np.concatenate([data[63::-1], data[:63:-1]])).all()


def test_ldmatrix_transposed():
    data, out = np.arange(256, dtype=np.uint16), np.zeros((4, 32), np.uint32)
    run("transpose_ldmatrix", data, out)
    halves = out.view(np.uint16).reshape(4, 8, 4, 2)
    matrices = data.reshape(4, 8, 8).transpose(0, 2, 1)
    assert (halves.reshape(4, 8, 8) == matrices).all()


def test_overlapping_and_strided_arguments():
    base = np.arange(200, dtype=np.uint32) + 1
    view, out = base[100:], np.zeros(200, np.uint32)[::-1]
    launch(
        ptx(),
        "collatz",
        grid=1,
        block=32,
        arguments=[ArrayArgument(view), ArrayArgument(base[120:152]), ScalarArgument(struct.pack("<i", 16))],
    )
    assert base[120:136].tolist() == [collatz(v) for v in range(101, 117)]
    assert out.sum() == 0
