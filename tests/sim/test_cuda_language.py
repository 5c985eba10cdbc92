"""PTX that nvcc made from cuda_language.cu: what C++ adds to kernels, each against NumPy."""

from __future__ import annotations

import functools
import pathlib
import struct

import ml_dtypes
import numpy as np
import pytest

from pipec.sim import ArrayArgument, RawArgument, Result, SimulationError, launch

LANE = np.arange(32)


@functools.cache
def ptx() -> str:
    return (pathlib.Path(__file__).parent / "ptx" / "cuda_language.ptx").read_text()


def run(kernel: str, *arguments, block: int = 32) -> Result:
    return launch(ptx(), kernel, block=block, arguments=arguments)


def normal(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(count, np.float32)


def parameters(x: np.ndarray, out: np.ndarray, count: int, scale: float, bias: float) -> RawArgument:
    """struct { const float *in; float *out; int n; float scale; double bias; short mask[4]; }"""
    data = struct.pack("<QQifd4h", 0, 0, count, scale, bias, 1, 2, 3, 4)
    return RawArgument(data, {0: ArrayArgument(x), 8: ArrayArgument(out)})


def test_virtual_functions_of_diverging_lanes():
    x, y = normal(32), np.zeros(32, np.float32)
    run("virtuals", x, y)
    np.testing.assert_allclose(y, np.where(LANE % 3, 2 * x * x, 1.5 * x), rtol=1e-6)


def test_function_pointers():
    x, y = np.random.default_rng(1).integers(0, 50, 32).astype(np.int32), np.zeros(32, np.int32)
    run("pointers", x, y, 1)
    assert (y == np.choose((x + 1) % 3, [x + 7, x - 7, x * 7])).all()


@pytest.mark.parametrize(("kernel", "bias"), [("byvalue", 0.5), ("constgrid", 0.0)])
def test_a_struct_by_value(kernel, bias):
    x, y = normal(40), np.zeros(40, np.float32)
    run(kernel, parameters(x, y, 30, 2.0, bias), block=64)
    exact = np.where(np.arange(40) < 30, x * 2 + bias + np.tile([1, 2, 3, 4], 10), 0)
    np.testing.assert_allclose(y, exact, rtol=1e-6, atol=1e-6)


def test_a_struct_through_a_function():
    x, y = normal(32), np.zeros(32, np.float32)
    run("structs", parameters(x, y, 30, 2.0, 0.5), 3)
    exact = x * 6 + np.tile([1, 2, 3, 100], 8) + np.tile([1, 2, 3, 4], 8)
    np.testing.assert_allclose(y, exact, rtol=1e-6, atol=1e-5)


def test_printf():
    printed = run("prints", 2).printed
    assert printed == [f"thread {lane} of block: {lane / 4:5.2f} {'ab'[lane]} 1099511627776 ff\n" for lane in range(2)]


def test_assert():
    run("asserts", 32)
    with pytest.raises(SimulationError, match='lane 5: assertion `threadIdx.x < n && "too many"` failed') as caught:
        run("asserts", 5)
    assert caught.value.kind == "trap"


def test_cooperative_groups():
    x, y = np.random.default_rng(2).integers(0, 9, 500).astype(np.float32), np.zeros(3, np.float32)
    run("coop", x, y, 500, block=64)
    assert y.tolist() == [x.sum(), len(range(1, 64, 3)), 32]


def test_narrow_types():
    x = normal(66)
    pairs = x[:64].reshape(32, 2)
    half, brain = np.zeros((32, 2), np.float16), np.zeros((32, 2), ml_dtypes.bfloat16)
    tiny, wide = np.zeros((32, 4), ml_dtypes.float8_e4m3fn), np.zeros(32)
    run("types", x, half, brain, tiny, wide, 32)
    # Products and sums of 11-bit values are exact in float64, and rounded once.
    assert (half == (pairs.astype(np.float16).astype(np.float64) * 0.5 + [1, 2]).astype(np.float16)).all()
    assert (brain == (pairs.astype(ml_dtypes.bfloat16).astype(np.float32) * 3).astype(ml_dtypes.bfloat16)).all()
    windows = np.stack([x[LANE + i] for i in range(4)], axis=1)
    assert (tiny.view(np.uint8) == windows.astype(ml_dtypes.float8_e4m3fn).view(np.uint8)).all()
    v = x[:32].astype(np.float64)
    np.testing.assert_allclose(wide, np.sqrt(np.abs(v)) + 1 / np.sqrt(LANE + 1) + (v * 3 + 1), rtol=1e-14)


def test_bits_and_long_division():
    x = np.random.default_rng(3).integers(0, 2**32, 32, dtype=np.uint64)
    low, high = np.zeros(32, np.uint32), np.zeros(32, np.uint64)
    run("bits_", x.astype(np.uint32), low, high)
    for lane, v in enumerate(int(value) for value in x):
        w = v << 32 | v * 2654435761 & 0xFFFFFFFF
        signed = w - (1 << 64) if w >> 63 else w
        quotient = -(abs(signed) // 12345) if signed > 0 else abs(signed) // 12345
        expected = w // 1000003 + w % 977 + (w * w >> 64) + w.bit_count() + quotient + 64 - w.bit_length()
        assert int(high[lane]) == expected % (1 << 64)
        inverse = v ^ 0xFFFFFFFF
        first_set = (v & -v).bit_length()
        reversed_high = int(f"{v:032b}"[::-1], 2) & 0xFF000000
        permuted = (inverse & 0xFFFF) << 16 | v & 0xFFFF
        funnel = (inverse << 5 | v >> 27) & 0xFFFFFFFF
        added = sum(((v >> 8 * i) + 1 & 0xFF) << 8 * i for i in range(4))
        bytes_of_v = [byte - 256 if byte > 127 else byte for byte in v.to_bytes(4, "little")]
        dot = 5 + sum(a * b for a, b in zip(bytes_of_v, (4, 3, 2, 1), strict=True))
        counts = v.bit_count() + (32 - v.bit_length()) * 64 + first_set * 4096
        assert int(low[lane]) == (counts + reversed_high + permuted % 97 + funnel % 31 + added % 7 + dot) % (1 << 32)


def test_arrays_in_local_memory():
    x, y = normal(24), np.zeros(32, np.float32)
    run("locals", x, y)
    for k in range(32):
        a = [x[i] * np.float32(i) for i in range(24)]
        for i in range(24):
            j = (i * k + 3) % 24
            a[i], a[j] = a[j], a[i]
        assert y[k] == a[k % 24] + a[k * 5 % 24]


def test_constants_globals_and_shared_doubles():
    x, y = normal(64) / 2, np.zeros(65, np.float32)
    run("globals_", x, y, block=64)
    value = np.polyval([-0.125, 3, 0.25, -2, 1.5], x.astype(np.float64))
    np.testing.assert_allclose(y[:64], value + value[::-1], atol=1e-5)
    assert y[64] == 42


def test_recursion_is_reported_when_it_is_reached():
    with pytest.raises(SimulationError, match="the call of `_Z3fibi` is recursive") as caught:
        run("recursive", np.zeros(32, np.int32))
    assert caught.value.kind == "unsupported" and caught.value.ptx_line


def test_functions_of_a_warp():
    x, y = np.random.default_rng(4).integers(0, 5, 32).astype(np.int32), np.zeros(32, np.int32)
    run("warpfun", x, y)
    same = np.array([(x == value).sum() for value in x])
    assert (y == same + 100 * x.sum() + 100000 * x.max() + int((x == 3).any()) + x[LANE ^ 5]).all()
