"""Matrix products that Triton compiled: descriptors and TMA, warp specialisation, tensor memory, every element type."""

from __future__ import annotations

import functools

import ml_dtypes
import numpy as np
import pytest
from samples import some

from . import matmul_kernels as kernels
from .support import HOPPER, TARGET, TIMINGS, Compiled, build, simulate
from .tolerance import STEP, TF32_INPUTS, check, check_product, normal

all_timings = pytest.mark.parametrize("timing", TIMINGS, ids=lambda o: f"{o.timing}{o.seed}")
NUMPY = {"fp16": "float16", "bf16": "bfloat16", "fp32": "float32", "fp8e4nv": "float8_e4m3fn", "fp8e5": "float8_e5m2"}


def grid(m: int, n: int, tile: tuple[int, int, int]) -> tuple[int, int]:
    return -(-m // tile[0]), -(-n // tile[1])


@functools.cache
def descriptors(kind: str, tile: tuple[int, int, int], specialised: bool, precision: str, warps: int, target=TARGET) -> Compiled:
    bm, bn, bk = tile
    maps = {"a": f"tensordesc<{kind}[{bm}, {bk}]>", "b": f"tensordesc<{kind}[{bn}, {bk}]>", "d": f"tensordesc<fp32[{bm}, {bn}]>"}
    constants = {"BM": bm, "BN": bn, "BK": bk, "SPECIALISED": specialised, "PRECISION": precision}
    return build(kernels.descriptors, maps | {"K": "i32"}, constants, target, num_warps=warps)


FORMS = [
    ("fp16", (128, 128, 64), False, "ieee", 4),
    ("fp16", (128, 64, 64), True, "ieee", 4),
    ("bf16", (64, 64, 64), False, "ieee", 4),
    ("bf16", (256, 64, 64), False, "ieee", 8),
    ("bf16", (128, 32, 32), False, "ieee", 4),
    ("fp8e4nv", (128, 128, 64), False, "ieee", 4),
    ("fp8e5", (128, 64, 128), True, "ieee", 4),
    ("fp32", (128, 64, 32), False, "tf32", 4),
    ("fp32", (128, 64, 32), False, "tf32x3", 4),
]


@pytest.mark.parametrize("form", some("descriptors", FORMS, 0.2), ids=lambda form: "-".join(str(part) for part in form))
@pytest.mark.parametrize("timing", TIMINGS[1:3], ids=lambda o: o.timing)
def test_descriptors(form, timing):
    """Edges that no tile divides, in all three dimensions."""
    kind, tile, _, precision, _ = form
    compiled = descriptors(*form)
    assert "tcgen05.mma" in compiled.ptx and "cp.async.bulk.tensor" in compiled.ptx
    m, n, k = 200, 136, 112
    rng = np.random.default_rng(1)
    a, b, d = normal(rng, (m, k), NUMPY[kind]), normal(rng, (n, k), NUMPY[kind]), np.zeros((m, n), np.float32)
    simulate(compiled, grid(m, n, tile), timing, a=a, b=b, d=d, K=k)
    # Three tf32 products leave out only low times low: 2**-20 of each.
    check_product(d, a, b.T, {"tf32": TF32_INPUTS, "tf32x3": 2.0**-19}.get(precision, 0.0))


@pytest.mark.sample(0.01, of="shape")
@pytest.mark.parametrize("shape", [(128, 128, 64), (1, 8, 8), (129, 136, 200), (256, 256, 256)], ids=str)
@all_timings
def test_descriptors_at_many_shapes(shape, timing):
    form = FORMS[1]
    m, n, k = shape
    rng = np.random.default_rng(2)
    a, b, d = normal(rng, (m, k), "float16"), normal(rng, (n, k), "float16"), np.zeros((m, n), np.float32)
    simulate(descriptors(*form), grid(m, n, form[1]), timing, a=a, b=b, d=d, K=k)
    check_product(d, a, b.T)


def test_eight_bit_integers_are_exact():
    m, n, k, tile = 200, 128, 208, (128, 128, 64)
    maps = {"a": "tensordesc<i8[128, 64]>", "b": "tensordesc<i8[128, 64]>", "d": "tensordesc<i32[128, 128]>"}
    compiled = build(kernels.integers, maps | {"K": "i32"}, {"BM": 128, "BN": 128, "BK": 64})
    rng = np.random.default_rng(3)
    a, b = (rng.integers(-128, 128, shape).astype(np.int8) for shape in ((m, k), (n, k)))
    d = np.zeros((m, n), np.int32)
    simulate(compiled, grid(m, n, tile), None, a=a, b=b, d=d, K=k)
    assert (d == a.astype(int) @ b.astype(int).T).all()


@functools.cache
def persistent(flatten: bool) -> Compiled:
    maps = {"a": "tensordesc<bf16[128, 64]>", "b": "tensordesc<bf16[128, 64]>", "d": "tensordesc<bf16[128, 64]>"}
    constants = {"BM": 128, "BN": 128, "BK": 64, "FLATTEN": flatten}
    return build(kernels.persistent, maps | {"M": "i32", "N": "i32", "K": "i32"}, constants, num_stages=3)


@pytest.mark.sample(0.01, of="shape")
@pytest.mark.parametrize("shape", [(260, 264, 136), (128, 128, 64), (100, 512, 24)], ids=str)
@pytest.mark.parametrize("flatten", [False, True], ids=["nested", "flat"])
@all_timings
def test_persistent_with_warp_specialisation(shape, flatten, timing):
    """Three programs; more, fewer and as many tiles."""
    m, n, k = shape
    rng = np.random.default_rng(4)
    a, b, d = normal(rng, (m, k), "bfloat16"), normal(rng, (n, k), "bfloat16"), np.zeros((m, n), ml_dtypes.bfloat16)
    simulate(persistent(flatten), (3,), timing, a=a, b=b, d=d, M=m, N=n, K=k)
    check_product(d, a, b.T)


@pytest.mark.sample(0.3)
@pytest.mark.parametrize(
    "form",
    [
        ("fp16", (128, 128, 64), False, "ieee", 4),
        ("bf16", (128, 64, 64), False, "ieee", 8),
        ("fp32", (64, 64, 32), False, "tf32", 4),
    ],
    ids=lambda form: "-".join(str(part) for part in form),
)
@pytest.mark.parametrize("timing", TIMINGS[1:3], ids=lambda o: o.timing)
def test_descriptors_on_hopper(form, timing):
    """The same source for sm_90a: wgmma with accumulators in registers."""
    kind, tile, _, precision, _ = form
    compiled = descriptors(*form, target=HOPPER)
    assert "wgmma.mma_async" in compiled.ptx
    m, n, k = 136, 136, 112
    rng = np.random.default_rng(8)
    a, b, d = normal(rng, (m, k), NUMPY[kind]), normal(rng, (n, k), NUMPY[kind]), np.zeros((m, n), np.float32)
    simulate(compiled, grid(m, n, tile), timing, a=a, b=b, d=d, K=k)
    check_product(d, a, b.T, TF32_INPUTS if precision == "tf32" else 0.0)


@pytest.mark.parametrize(
    ("kind", "tile"),
    some("small tiles", [("fp16", (16, 16, 32)), ("bf16", (32, 32, 16)), ("fp32", (32, 32, 16)), ("fp8e5", (32, 32, 32))], 0.5),
)
def test_small_tiles(kind, tile):
    """Too small for tcgen05: mma.sync, ldmatrix, cp.async."""
    m, n, k = 40, 48, 64
    signature = {"a": f"*{kind}", "b": f"*{kind}", "d": "*fp32", "M": "i32", "N": "i32", "K": "i32"}
    compiled = build(kernels.pointers, signature, dict(zip(("BM", "BN", "BK"), tile, strict=True)), num_warps=2)
    assert "mma.sync" in compiled.ptx
    rng = np.random.default_rng(9)
    a, b, d = normal(rng, (m, k), NUMPY[kind]), normal(rng, (k, n), NUMPY[kind]), np.zeros((m, n), np.float32)
    simulate(compiled, grid(m, n, tile), TIMINGS[1], a=a, b=b, d=d, M=m, N=n, K=k)
    check_product(d, a, b, TF32_INPUTS if kind == "fp32" else 0.0)


@pytest.mark.parametrize("kind", ["fp16", "bf16"])
@pytest.mark.parametrize("timing", TIMINGS[:3], ids=lambda o: o.timing)
def test_pointers(kind, timing):
    """Masked loads, through registers or cp.async, into shared memory for tcgen05.mma."""
    m, n, k, tile = 200, 100, 90, (128, 64, 32)
    signature = {"a": f"*{kind}", "b": f"*{kind}", "d": "*fp32", "M": "i32", "N": "i32", "K": "i32"}
    compiled = build(kernels.pointers, signature, dict(zip(("BM", "BN", "BK"), tile, strict=True)), num_stages=3)
    rng = np.random.default_rng(5)
    a, b, d = normal(rng, (m, k), NUMPY[kind]), normal(rng, (k, n), NUMPY[kind]), np.zeros((m, n), np.float32)
    simulate(compiled, grid(m, n, tile), timing, a=a, b=b, d=d, M=m, N=n, K=k)
    check_product(d, a, b)


@functools.cache
def attention(specialised: bool, causal: bool) -> Compiled:
    maps = {name: f"tensordesc<bf16[{rows},64]>" for name, rows in (("q", 128), ("k", 64), ("v", 64), ("o", 128))}
    constants = {"BM": 128, "BN": 64, "D": 64, "SPECIALISED": specialised, "CAUSAL": causal}
    return build(kernels.attention, maps | {"n": "i32", "scale": "fp32"}, constants)


@pytest.mark.sample(0.01, of="causal")
@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize("specialised", [False, True], ids=["one role", "roles"])
@pytest.mark.parametrize("timing", TIMINGS[1:3], ids=lambda o: o.timing)
def test_attention(specialised, causal, timing):
    n, depth = 128 if causal else 136, 64
    rng = np.random.default_rng(6)
    q, k, v = (normal(rng, (n, depth), "bfloat16") for _ in range(3))
    o = np.zeros((n, depth), ml_dtypes.bfloat16)
    scale = np.float32(depth**-0.5 * np.log2(np.e))
    simulate(attention(specialised, causal), (-(-n // 128),), timing, q=q, k=k, v=v, o=o, n=n, scale=float(scale))
    score = q.astype(np.float64) @ k.astype(np.float64).T * float(scale)
    score = np.where(np.tril(np.ones((n, n))) > 0, score, -np.inf) if causal else score
    weight = np.exp2(score - score.max(axis=1, keepdims=True))
    weight /= weight.sum(axis=1, keepdims=True)
    wide = v.astype(np.float64)
    # The weights are rounded to bfloat16 (2**-8) before the second product; the sum that divides is of those not rounded.
    check(o, weight @ wide, (2.0**-8 + n * STEP + 2.0**-16) * (weight @ np.abs(wide)) + 2.0**-8 * np.abs(weight @ wide))


E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])
TRITON = {"e2m1": "*u8", "e4m3": "*fp8e4nv", "e5m2": "*fp8e5"}


def operand(rng: np.random.Generator, kind: str, rows: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The array as stored, and its values."""
    if kind != "e2m1":
        stored = normal(rng, (rows, k), {"e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2"}[kind])
        return stored, stored.astype(np.float64)
    stored = rng.integers(0, 256, (rows, k // 2)).astype(np.uint8)
    return stored, E2M1[np.stack([stored & 15, stored >> 4], -1)].reshape(rows, k)


def scales(rng: np.random.Generator, rows: int, count: int, vector: int) -> tuple[np.ndarray, np.ndarray]:
    """Powers of two for blocks of 32 (MX), e4m3 for blocks of 16 (NV)."""
    if vector == 32:
        stored = rng.integers(122, 132, (rows, count)).astype(np.uint8)
        return stored, 2.0 ** (stored.astype(np.float64) - 127)
    stored = np.abs(rng.normal(size=(rows, count))).astype(ml_dtypes.float8_e4m3fn)
    return stored, stored.astype(np.float64)


SCALED = [
    ("e4m3", "e4m3", 32, (128, 128, 128), "mxf8f6f4"),
    ("e4m3", "e5m2", 32, (128, 64, 64), "mxf8f6f4"),
    ("e2m1", "e2m1", 32, (128, 128, 128), "mxf4"),
    ("e2m1", "e2m1", 16, (128, 128, 128), "mxf4nvf4"),
    ("e4m3", "e2m1", 32, (128, 128, 128), "mxf8f6f4"),
]


@pytest.mark.sample(0.3)
@pytest.mark.parametrize(
    ("left", "right", "vector", "tile", "kind"),
    some("block scaled", SCALED, 0.5),
)
@pytest.mark.parametrize("timing", TIMINGS[1:3], ids=lambda o: o.timing)
def test_block_scaled(left, right, vector, tile, kind, timing):
    compiled = scaled(left, right, vector, tile)
    assert f"kind::{kind}.block_scale" in compiled.ptx
    m, n, k = 128, 128, 256
    rng = np.random.default_rng(7)
    (a, a_wide), (b, b_wide) = operand(rng, left, m, k), operand(rng, right, n, k)
    (sa, sa_wide), (sb, sb_wide) = scales(rng, m, k // vector, vector), scales(rng, n, k // vector, vector)
    d = np.zeros((m, n), np.float32)
    simulate(compiled, (m // tile[0], n // tile[1]), timing, a=a, a_scale=sa, b=b, b_scale=sb, d=d, N=n, K=k)
    check_product(d, a_wide * np.repeat(sa_wide, vector, 1), (b_wide * np.repeat(sb_wide, vector, 1)).T)


@functools.cache
def scaled(left: str, right: str, vector: int, tile: tuple[int, int, int]) -> Compiled:
    scale = "*u8" if vector == 32 else "*fp8e4nv"
    signature = {"a": TRITON[left], "a_scale": scale, "b": TRITON[right], "b_scale": scale, "d": "*fp32", "N": "i32", "K": "i32"}
    constants = dict(zip(("BM", "BN", "BK"), tile, strict=True)) | {"A": left, "B": right, "VECTOR": vector}
    return build(kernels.scaled, signature, constants | {"PACK_A": 1 + (left == "e2m1"), "PACK_B": 1 + (right == "e2m1")})
