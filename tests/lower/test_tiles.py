"""Register tiles on the simulator: functions, conversions, how rows and columns are spread, vectors, reductions, stores."""

import math

import numpy as np
import pytest
from running import CONVERTED, NUMPY, exact, run, values

from pipec.isa.dtypes import DTYPES

pytestmark = pytest.mark.combinations(0.35)

SOURCE = """
kernel k(x: tensor[{x}, M, N], y: tensor[{y}, M, N]{extra}):
    grid(ceildiv(M, {rows}), ceildiv(N, {columns}))
    ring = InputTilePipeline(TilePayload(x=tile[{x}, {rows}, {columns}]), stages=2)
    role load(warps=1) produces ring:
        with ring.produce() as s:
            tma.load(s.x, x[block.x * {rows}, block.y * {columns}])
    role compute(warps={warps}) consumes ring:
        with ring.consume() as s:
            {store}(y[block.x * {rows}, block.y * {columns}], {value})
"""
M, N = 136, 80


def evaluate(value, x, out="f32", kind="f32", rows=128, columns=64, warps=4, store="store", extra="", more=()):
    source = SOURCE.format(x=kind, y=out, rows=rows, columns=columns, warps=warps, store=store, value=value, extra=extra)
    y = np.full(x.shape, 77, NUMPY[out])
    run(source, "k", x, y, *more)
    return exact(y)


def erf(x):
    return np.vectorize(math.erf)(x)


@pytest.mark.parametrize(
    ("value", "reference", "relative", "absolute"),
    [
        ("exp(s.x)", np.exp, 3e-6, 0),
        ("exp2(s.x)", np.exp2, 5e-7, 0),
        ("exp2(s.x - 130.0) * 8.507059173023462e37", lambda x: np.exp2(x - 4), 2e-5, 2.0**-23),
        ("exp2_ftz(s.x)", np.exp2, 5e-7, 0),
        ("exp2_ftz(s.x - 130.0) * 8.507059173023462e37", lambda x: np.where(x < 4, 0, np.exp2(x - 4)), 2e-5, 0),
        ("log(abs(s.x) + 0.01)", lambda x: np.log(abs(x) + 0.01), 1e-6, 3e-7),
        ("log2(abs(s.x) + 0.01)", lambda x: np.log2(abs(x) + 0.01), 1e-6, 3e-7),
        ("sqrt(abs(s.x))", lambda x: np.sqrt(abs(x)), 1e-7, 0),
        ("rsqrt(abs(s.x) + 0.1)", lambda x: 1 / np.sqrt(abs(x) + 0.1), 3e-7, 0),
        ("rcp(s.x)", lambda x: 1 / x, 1e-7, 0),
        ("sigmoid(s.x)", lambda x: 1 / (1 + np.exp(-x)), 3e-6, 0),
        ("tanh(s.x)", np.tanh, 2e-6, 0),
        ("sin(s.x * 100.0)", lambda x: np.sin(exact((x * 100).astype(np.float32))), 0, 2e-7),
        ("cos(s.x)", np.cos, 0, 2e-7),
        ("round(s.x * 2.0) - floor(s.x) + ceil(s.x * 4.0)", lambda x: np.rint(2 * x) - np.floor(x) + np.ceil(4 * x), 0, 0),
        ("erf(s.x)", erf, 0, 5e-7),
        ("gelu(s.x)", lambda x: x * (1 + erf(x / math.sqrt(2))) / 2, 1e-6, 5e-7),
        ("fma(s.x, 2.0, 1.0)", lambda x: 2 * x + 1, 1e-7, 1e-7),
        ("relu(s.x)", lambda x: np.maximum(x, 0), 0, 0),
        ("min(max(s.x, -1.0), 1.0)", lambda x: np.clip(x, -1, 1), 0, 0),
        ("select(s.x > 0.0, s.x, -s.x * 2.0)", lambda x: np.where(x > 0, x, -2 * x), 0, 0),
        ("1.0 / (s.x + 20.0)", lambda x: 1 / (x + 20), 2e-7, 0),
    ],
)
def test_functions(value, reference, relative, absolute):
    x = (np.random.default_rng(1).standard_normal((M, N)) * 3).astype(np.float32)
    np.testing.assert_allclose(evaluate(value, x), reference(exact(x)), rtol=relative + 1e-9, atol=absolute + 1e-30)


@pytest.mark.parametrize("out", CONVERTED)
def test_conversion_to(out):
    x = values((M, N), "f32")
    if DTYPES[out].family == "unsigned":
        x = abs(x)
    np.testing.assert_array_equal(evaluate(f"cast[{out}](s.x * 4.0)", x, out=out), exact(x) * 4)


@pytest.mark.parametrize("kind", CONVERTED)
def test_conversion_from(kind):
    x = values((M, N), kind)
    np.testing.assert_array_equal(evaluate("cast[f32](s.x) * 2.0 + 1.0", x, kind=kind), exact(x) * 2 + 1)


def test_arithmetic_in_narrow_and_integer_types():
    x = values((M, N), "bf16")
    np.testing.assert_array_equal(evaluate("s.x * s.x + s.x", x, kind="bf16", out="bf16"), exact(x) ** 2 + exact(x))
    x = values((M, N), "i32")
    expected = x * 3 - x // 2 + x % 3
    np.testing.assert_array_equal(evaluate("s.x * 3 - s.x // 2 + s.x % 3", x, kind="i32", out="i32"), expected)


SHAPES = [(128, 64, 8), (64, 64, 4), (32, 64, 4), (256, 32, 4), (8, 64, 1), (16, 16, 2), (128, 8, 4), (96, 32, 4), (40, 64, 4)]


@pytest.mark.parametrize("store", ["store", "store.direct"])
@pytest.mark.parametrize(("rows", "columns", "warps"), SHAPES)
def test_every_element_has_one_thread(rows, columns, warps, store):
    x = values((M, N), "f32")
    found = evaluate("s.x + 1.0", x, rows=rows, columns=columns, warps=warps, store=store)
    np.testing.assert_array_equal(found, exact(x) + 1)


@pytest.mark.parametrize(("rows", "columns", "warps"), [(128, 64, 4), (64, 64, 4), (16, 64, 4), (128, 64, 8), (256, 32, 4)])
def test_vectors_and_residuals(rows, columns, warps):
    x, bias, scale, rest = values((M, N), "f32"), values((N,), "f32", 3), values((M,), "f32", 4), values((M, N), "bf16", 5)
    value = (
        f"s.x * per_row(scale[block.x * {rows}], {rows}) + per_column(bias[block.y * {columns}], {columns})"
        f" + load(rest[block.x * {rows}, block.y * {columns}], {rows}, {columns})"
    )
    extra = ", bias: tensor[f32, N], scale: tensor[f32, M], rest: tensor[bf16, M, N]"
    found = evaluate(value, x, rows=rows, columns=columns, warps=warps, extra=extra, more=(bias, scale, rest))
    np.testing.assert_array_equal(found, exact(x) * exact(scale)[:, None] + exact(bias) + exact(rest))


@pytest.mark.parametrize(("rows", "columns", "warps"), [(128, 128, 4), (64, 128, 4), (8, 128, 4), (128, 128, 8)])
def test_row_reductions(rows, columns, warps):
    x = values((M, N), "f32")
    found = evaluate("s.x - row_max(s.x) + row_sum(s.x * 2.0)", x, rows=rows, columns=columns, warps=warps)
    padded = np.pad(exact(x), ((0, 0), (0, columns - N)))  # what lies outside the tensor is loaded as zero
    expected = exact(x) - padded.max(1, keepdims=True) + 2 * padded.sum(1, keepdims=True)
    np.testing.assert_array_equal(found, expected)


def test_direct_store_of_odd_shapes():
    """61 columns of bf16: no row is aligned to more than 2 bytes."""
    source = """
kernel k(x: tensor[f32, M, N], y: tensor[bf16, M, P]):
    grid(ceildiv(M, 128))
    ring = InputTilePipeline(TilePayload(x=tile[f32, 128, 64]), stages=1)
    role load(warps=1) produces ring:
        with ring.produce() as s:
            tma.load(s.x, x[block.x * 128, 0])
    role compute(warps=4) consumes ring:
        with ring.consume() as s:
            t = s.x * 2.0
            store.direct(y[block.x * 128, 0], cast[bf16](t + 1.0 if block.x > 0 else t))
"""
    x, y = values((M, 64), "f32"), np.zeros((M, 61), NUMPY["bf16"])
    run(source, "k", x, y)
    np.testing.assert_array_equal(exact(y), exact(x)[:, :61] * 2 + (np.arange(M) >= 128)[:, None])


def test_tensors_of_three_and_one_dimensions():
    source = """
kernel k(x: tensor[f32, B, M, N], y: tensor[f32, B, M, N], v: tensor[f32, L], w: tensor[f32, L]):
    grid(ceildiv(M, 128), ceildiv(N, 32), B)
    ring = InputTilePipeline(TilePayload(x=tile[f32, 128, 32], v=tile[f32, 1, 128]), stages=1)
    role load(warps=1) produces ring:
        with ring.produce() as s:
            tma.load(s.x, x[block.z, block.x * 128, block.y * 32])
            tma.load(s.v, v[0])
    role compute(warps=4) consumes ring:
        with ring.consume() as s:
            store(y[block.z, block.x * 128, block.y * 32], s.x * 2.0)
            if block.x + block.y + block.z == 0:
                store.direct(w[0], s.v + 1.0)
"""
    x, v = values((2, M, 32), "f32"), values((100,), "f32", 2)
    y, w = np.zeros_like(x), np.zeros_like(v)
    run(source, "k", x, y, v, w)
    np.testing.assert_array_equal(y, x * 2)
    np.testing.assert_array_equal(w, v + 1)


@pytest.mark.parametrize(
    ("value", "reference"),
    [
        ("exp(s.x)", np.exp),
        ("sigmoid(s.x)", lambda x: 1 / (1 + np.exp(-x))),
        ("tanh(s.x)", np.tanh),
        ("erf(s.x)", erf),
        ("sqrt(s.x)", np.sqrt),
        ("log2(s.x)", np.log2),
        ("relu(s.x)", lambda x: np.maximum(x, 0)),
    ],
)
def test_functions_at_the_ends(value, reference):
    ends = np.array([0.0, np.inf, 60.0, 1e-6, 1e30, 0.25, 9.0, 0.5], np.float32)
    x = np.tile(np.concatenate([ends, -ends]), (8, 1))
    if value.startswith(("sqrt", "log2", "relu")):
        x = abs(x)
    with np.errstate(all="ignore"):
        expected = reference(exact(x)).astype(np.float32)
    found = evaluate(value, x, rows=8, columns=16, warps=1)
    np.testing.assert_allclose(found, expected, rtol=4e-6, atol=5e-7)
