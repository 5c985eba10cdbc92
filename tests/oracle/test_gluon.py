"""Kernels written by hand in Gluon: mbarriers, TMA, tcgen05, pairs of CTAs, cluster launch control, scale factors."""

from __future__ import annotations

import functools
import re

import ml_dtypes
import numpy as np
import pytest
from samples import some
from triton.experimental.gluon import language as gl

from pipec.sim import SimulationError

from . import gluon_kernels as kernels
from .support import TIMINGS, Compiled, build, simulate
from .tolerance import TF32_INPUTS, check_product, normal

all_timings = pytest.mark.parametrize("timing", TIMINGS, ids=lambda o: f"{o.timing}{o.seed}")
Layout = gl.NVMMASharedLayout
TYPES = {
    "fp16": (gl.float16, "float16"),
    "bf16": (gl.bfloat16, "bfloat16"),
    "fp32": (gl.float32, "float32"),
    "fp8e4nv": (gl.float8e4nv, "float8_e4m3fn"),
    "fp8e5": (gl.float8e5, "float8_e5m2"),
}


def descriptor(kind: str, block: list[int], pair: list[list[int]] | None = None) -> str:
    layout = Layout.get_default_for(block, TYPES[kind][0], cga_layout=pair)
    return f"tensordesc<{kind}[{','.join(str(size) for size in block)}],{layout!r}>"


@functools.cache
def by_hand(kind: str, result: str, tile: tuple[int, int, int], along_n: bool, warps: int) -> Compiled:
    bm, bn, bk = tile
    maps = {
        "a": descriptor(kind, [bm, bk]),
        "b": descriptor(kind, [bk, bn] if along_n else [bn, bk]),
        "d": descriptor(result, [bm, bn]),
    }
    return build(kernels.by_hand, maps | {"K": "i32"}, {"BM": bm, "BN": bn, "BK": bk, "ALONG_N": along_n}, num_warps=warps)


ONE_STAGE = [
    ("fp16", "fp32", (128, 128, 64), False, 4),
    ("fp16", "fp16", (128, 64, 64), True, 4),
    ("fp16", "fp32", (128, 256, 32), True, 4),
    ("bf16", "fp32", (64, 32, 64), True, 4),
    ("bf16", "bf16", (128, 128, 64), False, 8),
    ("fp16", "fp32", (128, 64, 16), False, 4),
    ("fp8e4nv", "fp32", (128, 64, 128), False, 4),
    ("fp8e5", "fp32", (128, 64, 64), True, 4),
    ("fp32", "fp32", (128, 64, 32), False, 4),
]


@pytest.mark.parametrize(
    "form",
    some("one stage", ONE_STAGE, 0.25),
    ids=lambda form: "-".join(str(part) for part in form),
)
@pytest.mark.parametrize("timing", TIMINGS[1:3], ids=lambda o: o.timing)
def test_one_stage(form, timing):
    """Every swizzle, both directions of B, 64 and 128 rows of tensor memory, edges that no tile divides."""
    kind, result, (bm, bn, _), along_n, _ = form
    m, n, k = 200, 144, 112
    rng = np.random.default_rng(8)
    a, b = normal(rng, (m, k), TYPES[kind][1]), normal(rng, (k, n) if along_n else (n, k), TYPES[kind][1])
    d = np.zeros((m, n), getattr(ml_dtypes, TYPES[result][1], TYPES[result][1]))
    simulate(by_hand(*form), (-(-m // bm), -(-n // bn)), timing, a=a, b=b, d=d, K=k)
    check_product(d, a, b if along_n else b.T, TF32_INPUTS if kind == "fp32" else 0.0)


@functools.cache
def roles() -> Compiled:
    maps = {"a": descriptor("fp16", [128, 64]), "b": descriptor("fp16", [64, 64]), "d": descriptor("fp16", [128, 64])}
    return build(kernels.roles, maps | {"M": "i32", "N": "i32", "K": "i32"}, {"BM": 128, "BN": 64, "BK": 64, "STAGES": 3})


@pytest.mark.sample(0.01, of="shape")
@pytest.mark.parametrize("shape", [(200, 200, 200), (128, 64, 64), (384, 128, 320)], ids=str)
@all_timings
def test_roles(shape, timing):
    m, n, k = shape
    rng = np.random.default_rng(9)
    a, b, d = normal(rng, (m, k), "float16"), normal(rng, (n, k), "float16"), np.zeros((m, n), np.float16)
    simulate(roles(), (2,), timing, a=a, b=b, d=d, M=m, N=n, K=k)
    check_product(d, a, b.T)


def test_a_wrong_byte_count_is_found():
    """The same PTX with one barrier told to expect 16 bytes more."""
    whole = roles()
    expected = re.search(r"mbarrier\.arrive\.expect_tx\S* _, \[\S+\], (\d+);", whole.ptx)
    assert expected
    damaged = whole.ptx.replace(expected[0], expected[0].replace(expected[1], str(int(expected[1]) + 16)), 1)
    broken = Compiled(whole.name, damaged, whole.metadata, whole.signature)
    a, b, d = np.ones((128, 64), np.float16), np.ones((64, 64), np.float16), np.zeros((128, 64), np.float16)
    with pytest.raises(SimulationError) as caught:
        simulate(broken, (1,), None, a=a, b=b, d=d, M=128, N=64, K=64)
    assert caught.value.kind in ("deadlock", "byte_mismatch")


@functools.cache
def two_ctas(kind: str, tile: tuple[int, int, int]) -> Compiled:
    bm, bn, bk = tile
    pair = [[1, 0]]
    maps = {"a": descriptor(kind, [bm, bk], pair), "b": descriptor(kind, [bn, bk], pair), "d": descriptor("fp32", [bm, bn], pair)}
    return build(kernels.two_ctas, maps | {"K": "i32"}, {"BM": bm, "BN": bn, "BK": bk}, num_ctas=2)


@pytest.mark.sample(0.01, of="shape")
@pytest.mark.parametrize(("kind", "tile"), [("fp16", (256, 128, 64)), ("bf16", (128, 64, 64))])
@pytest.mark.parametrize("shape", [(300, 200, 136), (256, 128, 64)], ids=str)
@all_timings
def test_two_ctas(kind, tile, shape, timing):
    compiled = two_ctas(kind, tile)
    assert "tcgen05.mma.cta_group::2" in compiled.ptx
    m, n, k = shape
    rng = np.random.default_rng(10)
    a, b, d = normal(rng, (m, k), TYPES[kind][1]), normal(rng, (n, k), TYPES[kind][1]), np.zeros((m, n), np.float32)
    simulate(compiled, (-(-m // tile[0]), -(-n // tile[1])), timing, a=a, b=b, d=d, K=k)
    check_product(d, a, b.T)


@functools.cache
def launch_control() -> Compiled:
    return build(kernels.launch_control, {"x": "*fp32", "y": "*fp32", "times": "*i32"}, {"SIZE": 512})


@pytest.mark.sample(0.01, of="blocks")
@pytest.mark.parametrize("blocks", [1, 9])
@all_timings
def test_launch_control(blocks, timing):
    x = np.random.default_rng(11).standard_normal(512 * blocks, np.float32)
    y, times = np.zeros_like(x), np.zeros(blocks, np.int32)
    simulate(launch_control(), (blocks,), timing, x=x, y=y, times=times)
    assert (y == 2 * x).all() and (times == 1).all()


@functools.cache
def scaled() -> Compiled:
    maps = {"a": descriptor("fp8e4nv", [128, 128]), "b": descriptor("fp8e5", [128, 128])}
    signature = maps | {"a_scale": "*u8", "b_scale": "*u8", "d": descriptor("fp32", [128, 128]), "K": "i32"}
    return build(kernels.scaled_by_hand, signature, {"A": "e4m3", "B": "e5m2", "BM": 128, "BN": 128, "BK": 128, "VECTOR": 32})


@pytest.mark.parametrize("timing", TIMINGS[1:3], ids=lambda o: o.timing)
def test_scales_through_registers(timing):
    m, n, k = 128, 256, 256
    rng = np.random.default_rng(12)
    a, b = normal(rng, (m, k), "float8_e4m3fn"), normal(rng, (n, k), "float8_e5m2")
    sa, sb = (rng.integers(122, 132, (rows, k // 32)).astype(np.uint8) for rows in (m, n))
    d = np.zeros((m, n), np.float32)
    simulate(scaled(), (m // 128, n // 128), timing, a=a, b=b, a_scale=sa, b_scale=sb, d=d, K=k)
    wide_a, wide_b = (x.astype(np.float64) * np.repeat(2.0 ** (s.astype(np.float64) - 127), 32, 1) for x, s in ((a, sa), (b, sb)))
    check_product(d, wide_a, wide_b.T)


@pytest.mark.sample(0.01, of="tile")
@pytest.mark.parametrize("tile", [(128, 64, 64), (128, 128, 32)])
@pytest.mark.parametrize("timing", TIMINGS[1:3], ids=lambda o: o.timing)
def test_an_operand_in_tensor_memory(tile, timing):
    m, n, k = tile
    signature = {"a": "*fp16", "b": descriptor("fp16", [n, k]), "d": descriptor("fp32", [m, n])}
    compiled = build(kernels.from_tensor_memory, signature, dict(zip(("BM", "BN", "BK"), tile, strict=True)))
    rng = np.random.default_rng(13)
    a, b, d = normal(rng, (m, k), "float16"), normal(rng, (n, k), "float16"), np.zeros((m, n), np.float32)
    simulate(compiled, (1,), timing, a=a, b=b, d=d)
    check_product(d, a, b.T)


@pytest.mark.sample(0.01, of="variant")
@pytest.mark.parametrize("rows", [64, 128])
@pytest.mark.parametrize("variant", ["16x64b", "16x128b", "16x256b"])
def test_shapes_of_tensor_memory_accesses(variant, rows):
    constants = {"M": rows, "N": 32, "VARIANT": variant}
    compiled = build(kernels.through_tensor_memory, {"x": "*fp32", "y": "*fp32"}, constants)
    assert f"tcgen05.st.sync.aligned.{variant}" in compiled.ptx and f"tcgen05.ld.sync.aligned.{variant}" in compiled.ptx
    x = np.random.default_rng(14).standard_normal((rows, 32), np.float32)
    y = np.zeros((2, rows, 32), np.float32)
    simulate(compiled, (1,), TIMINGS[1], x=x, y=y)
    assert (y[0] == 2 * x).all() and (y[1] == x + 1).all()


@pytest.mark.sample(0.4)
@pytest.mark.parametrize("swizzle", [32, 64, 128])
@pytest.mark.parametrize("timing", TIMINGS[1:3], ids=lambda o: o.timing)
def test_copies_to_tensor_memory(swizzle, timing):
    constants = {"M": 128, "N": 32, "SHARED": Layout(swizzle_byte_width=swizzle, element_bitwidth=32, rank=2)}
    compiled = build(kernels.copied_to_tensor_memory, {"x": "*fp32", "y": "*fp32"}, constants)
    assert "tcgen05.cp.cta_group::1" in compiled.ptx
    x, y = np.random.default_rng(15).standard_normal((128, 32), np.float32), np.zeros((128, 32), np.float32)
    simulate(compiled, (1,), timing, x=x, y=y)
    assert (y == x).all()


@pytest.mark.sample(0.01, of="ctas")
@pytest.mark.parametrize("ctas", [2, 4])
@all_timings
def test_multicast(ctas, timing):
    spread = [[0, 0]] if ctas == 2 else [[1, 0], [0, 0]]
    signature = {"a": descriptor("fp16", [64, 64], spread), "y": "*fp16"}
    compiled = build(kernels.multicast, signature, {"ROWS": 64, "COLUMNS": 64, "CTAS": spread}, num_ctas=ctas)
    assert ".multicast::cluster" in compiled.ptx
    a, y = normal(np.random.default_rng(16), (64, 64), "float16"), np.zeros((64, 64), np.float16)
    simulate(compiled, (1,), timing, a=a, y=y)
    assert (y == a).all()
