"""Block-scaled MMAs on the simulator: factors from plain matrices, laid out here by the formula; every format, shape and remainder."""

import ml_dtypes
import numpy as np
import pytest
from running import compiled, run

from pipec.isa.dtypes import DTYPES
from pipec.reference import packed_arrays

pytestmark = pytest.mark.combinations(0.35)

TYPES = {
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
    "e2m3": ml_dtypes.float6_e2m3fn,
    "e3m2": ml_dtypes.float6_e3m2fn,
    "e2m1": ml_dtypes.float4_e2m1fn,
}
SOURCE = """
kernel g(
    a: tensor[{a}, M, K], b: tensor[{b}, N, K], sfa: tensor[{sf}, MC, KC, 512], sfb: tensor[{sf}, NC, KC, 512], d: tensor[f32, M, N],
):
    grid(ceildiv(M, 128), ceildiv(N, {bn}))
    input = InputTilePipeline(
        BlockScaledTilePayload(
            a=tile[{a}, 128, {bk}], b=tile[{b}, {bn}, {bk}], sfa=tile[{sf}, 128, {blocks}], sfb=tile[{sf}, {rows}, {blocks}],
        ),
        stages={stages},
        k_group_size={group},
    )
    output = OutputTilePipeline(tmem[f32, 128, {bn}], stages=1)
    role load(warps=1) produces input:
        for k in range(ceildiv(K, {bk} * {group})):
            with input.produce() as s:
                for j in range({group}):
                    tma.load(s.a[j], a[block.x * 128, (k * {group} + j) * {bk}])
                    tma.load(s.b[j], b[block.y * {bn}, (k * {group} + j) * {bk}])
                    tma.load(s.sfa[j], sfa[block.x, (k * {group} + j) * {chunks}, 0])
                    tma.load(s.sfb[j], sfb[block.y * {bn} // 128, (k * {group} + j) * {chunks}, 0])
    role mma(warps=1) consumes input produces output:
        with output.produce() as acc:
            for k in range(ceildiv(K, {bk} * {group})):
                with input.consume() as s:
                    for j in range({group}):
                        mma(acc, s.a[j], s.b[j], s.sfa[j], s.sfb[j]{row})
    role epilogue(warps=4) consumes output:
        with output.consume() as acc:
            store(d[block.x * 128, block.y * {bn}], acc)
"""
DENSE = """
kernel g(a: tensor[{a}, M, K], b: tensor[{b}, N, K], d: tensor[f32, M, N]):
    grid(ceildiv(M, 128), ceildiv(N, 64))
    input  = InputTilePipeline(StandardTilePayload(a=tile[{a}, 128, 128], b=tile[{b}, 64, 128]), stages=2)
    output = OutputTilePipeline(tmem[f32, 128, 64], stages=1)
    role load(warps=1) produces input:
        for k in range(ceildiv(K, 128)):
            with input.produce() as s:
                tma.load(s.a, a[block.x * 128, k * 128])
                tma.load(s.b, b[block.y * 64, k * 128])
    role mma(warps=1) consumes input produces output:
        with output.produce() as acc:
            for k in range(ceildiv(K, 128)):
                with input.consume() as s:
                    mma(acc, s.a, s.b)
    role epilogue(warps=4) consumes output:
        with output.consume() as acc:
            store(d[block.x * 128, block.y * 64], acc)
"""


def elements(shape, dtype, seed):
    """(array as the kernel takes it, float64 values); small numbers, so that sums in float32 are exact."""
    values = np.random.default_rng(seed).choice([-2.0, -1.5, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.0, 3.0], shape)
    stored = values.astype(TYPES[dtype])
    bits = DTYPES[dtype].bits
    if bits == 8:
        return stored, values
    codes = stored.view(np.uint8).astype(np.int64)
    packed = np.zeros((shape[0], shape[1] * bits // 8), np.int64)
    for bit in range(bits):
        where = np.arange(shape[1]) * bits + bit
        np.add.at(packed, (slice(None), where // 8), (codes >> bit & 1) << where % 8)
    return packed.astype(np.uint8), values


def factors(rows, blocks, dtype, seed):
    """(chunks as the kernel takes them, float64 matrix); what pads a chunk is not zero, so that reading it would show."""
    generator = np.random.default_rng(seed)
    if dtype == "ue8m0":
        matrix = np.exp2(generator.integers(-2, 3, (rows, blocks))).astype(ml_dtypes.float8_e8m0fnu)
    else:
        matrix = generator.choice([0.25, 0.5, 0.75, 1.0, 1.5, 2.0], (rows, blocks)).astype(ml_dtypes.float8_e4m3fn)
    chunks = np.full((-(-rows // 128), -(-blocks // 4), 512), 0x44, np.uint8)
    for row in range(rows):
        for block in range(blocks):
            place = row % 32 * 16 + row % 128 // 32 * 4 + block % 4
            chunks[row // 128, block // 4, place] = matrix.view(np.uint8)[row, block]
    return chunks.view(matrix.dtype), matrix.astype(np.float64)


def scaled_gemm(a="e4m3", b=None, sf="ue8m0", vector=32, bn=128, bk=128, stages=2, group=1, m=136, n=136, k=256, timing="order"):
    b = b or a
    blocks = bk // vector
    source = SOURCE.format(
        a=a,
        b=b,
        sf=sf,
        bn=bn,
        bk=bk,
        stages=stages,
        group=group,
        blocks=blocks,
        chunks=blocks // 4,
        rows=-(-bn // 128) * 128,
        row=f", sfb_row=block.y * {bn} % 128" if bn % 64 == 0 else "",
    )
    left, a_values = elements((m, k), a, 1)
    right, b_values = elements((n, k), b, 2)
    sfa, a_factors = factors(m, -(-k // vector), sf, 3)
    sfb, b_factors = factors(n, -(-k // vector), sf, 4)
    d = np.full((m, n), 77, np.float32)
    run(source, "g", left, right, sfa, sfb, d, timing=timing)
    a_scaled = a_values * np.repeat(a_factors, vector, axis=1)[:, :k]
    b_scaled = b_values * np.repeat(b_factors, vector, axis=1)[:, :k]
    np.testing.assert_array_equal(d, a_scaled @ b_scaled.T)
    return compiled(source)


@pytest.mark.sample(0.5, of="a")
@pytest.mark.parametrize("a", ["e4m3", "e5m2", "e2m3", "e3m2", "e2m1"])
@pytest.mark.parametrize("b", ["e4m3", "e3m2"])
def test_mxfp8_in_any_mix(a, b):
    scaled_gemm(a, b)


@pytest.mark.parametrize(("sf", "vector", "bk"), [("ue8m0", 32, 256), ("ue4m3", 16, 256), ("ue8m0", 16, 128), ("ue4m3", 16, 64)])
def test_fp4(sf, vector, bk):
    scaled_gemm("e2m1", sf=sf, vector=vector, bk=bk, k=544)


@pytest.mark.parametrize("bn", [8, 64, 192, 256])
def test_columns(bn):
    """Tiles of `b` that start inside a chunk, that reach over two, and that pad one."""
    scaled_gemm(bn=bn, n=bn if bn == 8 else 2 * bn + 8, m=128)


@pytest.mark.parametrize("bk", [128, 256, 384])
def test_several_chunks_along_k(bk):
    scaled_gemm(bk=bk, k=400, bn=192, n=200, stages=1)


@pytest.mark.parametrize("k", [16, 128, 144, 1040])
def test_depths(k):
    scaled_gemm(k=k, stages=3, m=128, n=64, bn=64)


@pytest.mark.parametrize("timing", ["late", "random"])
def test_copies_wait_for_the_mmas_before_them(timing):
    scaled_gemm("e2m1", sf="ue4m3", vector=16, k=1024, bk=128, timing=timing)


BESIDE = """
    beside = OutputTilePipeline(tmem[f32, 128, 128], stages=1)
    role too(warps=1) consumes input produces beside:
        with beside.produce() as acc:
            for k in range(ceildiv(K, 128)):
                with input.consume() as s:
                    mma(acc, s.a[0], s.b[0], s.sfa[0], s.sfb[0])
    role epilogue(warps=4) consumes output, beside:
        with output.consume() as acc, beside.consume() as other:
            store(d[block.x * 128, block.y * 128], acc - other)
"""


@pytest.mark.parametrize("timing", ["late", "random"])
def test_roles_that_multiply_the_same_stages_have_their_own_columns(timing):
    shape = {
        "a": "e4m3",
        "b": "e4m3",
        "sf": "ue8m0",
        "bn": 128,
        "bk": 128,
        "stages": 2,
        "group": 1,
        "blocks": 4,
        "chunks": 1,
        "rows": 128,
    }
    source = SOURCE.format(**shape, row="").split("    role epilogue")[0] + BESIDE.removeprefix("\n")
    (left, _), (right, _) = elements((128, 512), "e4m3", 1), elements((128, 512), "e4m3", 2)
    (sfa, _), (sfb, _) = factors(128, 16, "ue8m0", 3), factors(128, 16, "ue8m0", 4)
    d = np.full((128, 128), 77, np.float32)
    run(source, "g", left, right, sfa, sfb, d, timing=timing)
    assert not d.any()


def test_groups_share_their_columns():
    program = scaled_gemm(group=2, stages=4, k=400)
    assert program.report["g"].tensor_columns == 256  # 128 of the accumulator, 4 and 4 of the factors


@pytest.mark.parametrize(("a", "b"), [("e2m1", "e2m1"), ("e2m3", "e5m2"), ("e4m3", "e3m2")])
def test_narrow_operands_without_factors(a, b):
    left, a_values = elements((136, 256), a, 1)
    right, b_values = elements((72, 256), b, 2)
    d = np.full((136, 72), 77, np.float32)
    run(DENSE.format(a=a, b=b), "g", left, right, d)
    np.testing.assert_array_equal(d, a_values @ b_values.T)


def test_the_packages_layout_functions():
    chunks, matrix = factors(200, 9, "ue4m3", 5)
    same = packed_arrays.chunked(matrix.astype(ml_dtypes.float8_e4m3fn))
    np.testing.assert_array_equal(packed_arrays.unchunked(same).astype(np.float64)[:200, :9], matrix)
    np.testing.assert_array_equal(packed_arrays.unchunked(chunks).astype(np.float64)[:200, :9], matrix)
    for dtype in ("e2m1", "e2m3", "e3m2"):
        packed, values = elements((3, 64), dtype, 6)
        np.testing.assert_array_equal(packed_arrays.pack(values, dtype), packed)
        np.testing.assert_array_equal(packed_arrays.unpack(packed, dtype), values)
