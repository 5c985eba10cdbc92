"""MMA operands on the simulator: element types, majorness, tile shapes; integers, so that every sum is exact."""

import numpy as np
import pytest
from running import NUMPY, exact, run, values

pytestmark = pytest.mark.combinations(0.35)

SOURCE = """
kernel g(a: tensor[{a}, {a_shape}], b: tensor[{b}, {b_shape}], d: tensor[{out}, M, N]):
    grid(ceildiv(M, {bm}), ceildiv(N, {bn}))
    input  = InputTilePipeline(StandardTilePayload(a=tile[{a}, {a_tile}], b=tile[{b}, {b_tile}]), stages=2)
    output = OutputTilePipeline(tmem[{acc}, {bm}, {bn}], stages=1)
    role load(warps=1) produces input:
        for k in range(ceildiv(K, {bk})):
            with input.produce() as s:
                tma.load(s.a, a[{a_at}])
                tma.load(s.b, b[{b_at}])
    role mma(warps=1) consumes input produces output:
        with output.produce() as acc:
            for k in range(ceildiv(K, {bk})):
                with input.consume() as s:
                    mma(acc, s.a{a_view}, s.b{b_view})
    role epilogue(warps={warps}) consumes output:
        with output.consume() as acc:
            store(d[block.x * {bm}, block.y * {bn}], cast[{out}](acc))
"""


def gemm(a="bf16", b=None, acc="f32", out="f32", bm=128, bn=64, bk=64, a_t=False, b_t=False, warps=4, m=136, n=80, k=144):
    b = b or a
    if a_t and np.dtype(NUMPY[a]).itemsize == 1:
        m = 144  # rows of 8-bit elements come in multiples of 16
    source = SOURCE.format(
        a=a, b=b, acc=acc, out=out, bm=bm, bn=bn, bk=bk, warps=warps,
        a_shape="K, M" if a_t else "M, K", b_shape="K, N" if b_t else "N, K",
        a_tile=f"{bk}, {bm}" if a_t else f"{bm}, {bk}", b_tile=f"{bk}, {bn}" if b_t else f"{bn}, {bk}",
        a_at=f"k * {bk}, block.x * {bm}" if a_t else f"block.x * {bm}, k * {bk}",
        b_at=f"k * {bk}, block.y * {bn}" if b_t else f"block.y * {bn}, k * {bk}",
        a_view=".T" if a_t else "", b_view=".T" if b_t else "",
    )  # fmt: skip
    left, right = values((k, m) if a_t else (m, k), a, 1), values((k, n) if b_t else (n, k), b, 2)
    d = np.full((m, n), 77, NUMPY[out])
    run(source, "g", left, right, d)
    expected = (exact(left).T if a_t else exact(left)) @ (exact(right) if b_t else exact(right).T)
    np.testing.assert_array_equal(exact(d), exact(expected.astype(NUMPY[out])))


@pytest.mark.sample(0.5, of="dtype")
@pytest.mark.parametrize("a_t", [False, True])
@pytest.mark.parametrize("b_t", [False, True])
@pytest.mark.parametrize("dtype", ["bf16", "tf32", "e4m3", "i8"])
def test_majorness(dtype, a_t, b_t):
    accumulator = "i32" if dtype == "i8" else "f32"
    gemm(a=dtype, acc=accumulator, out=accumulator, a_t=a_t, b_t=b_t)


@pytest.mark.parametrize(
    ("a", "b", "acc", "out"),
    [
        ("f16", "f16", "f32", "f16"),
        ("f16", "f16", "f16", "f16"),
        ("e5m2", "e5m2", "f32", "f32"),
        ("e4m3", "e5m2", "f32", "bf16"),
        ("e4m3", "e4m3", "f16", "f32"),
        ("u8", "u8", "i32", "i32"),
        ("i8", "u8", "i32", "i32"),
    ],
)
def test_types(a, b, acc, out):
    gemm(a=a, b=b, acc=acc, out=out)


@pytest.mark.parametrize("bm", [64, 128])
@pytest.mark.parametrize("bn", [8, 24, 96, 256])
def test_accumulator_shapes(bm, bn):
    gemm(bm=bm, bn=bn, m=72, n=min(2 * bn, 264), k=64)


@pytest.mark.parametrize(("bm", "bn", "out"), [(128, 128, "bf16"), (64, 64, "f32"), (64, 8, "bf16"), (128, 16, "f32")])
def test_eight_epilogue_warps(bm, bn, out):
    gemm(bm=bm, bn=bn, out=out, warps=8, n=2 * bn, k=64)


@pytest.mark.parametrize("bk", [16, 48, 128, 192])
@pytest.mark.parametrize("transposed", [False, True])
def test_k_extents(bk, transposed):
    gemm(bk=bk, a_t=transposed, b_t=transposed, m=128, n=64, k=200)


@pytest.mark.parametrize(("bm", "bn"), [(64, 32), (64, 16), (128, 32)])
def test_narrow_mn_major_panels(bm, bn):
    gemm(bm=bm, bn=bn, a_t=True, b_t=True, n=2 * bn)
