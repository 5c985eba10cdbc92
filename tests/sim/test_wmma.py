"""wmma as nvcc emits it (tests/sim/ptx/wmma.cu) against products in float64, and its bad uses."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from pipec.sim import SimulationError, launch

TEXT = (Path(__file__).parent / "ptx" / "wmma.ptx").read_text()
HEAD = ".version 9.0\n.target sm_90a\n.address_size 64\n"
DEPTH = 48

F16, BF16, F32, S32 = np.float16, ml_dtypes.bfloat16, np.float32, np.int32
# kernel: M, N, element, accumulator, whether A and B are stored row by row
KERNELS = {
    "half_rows": (16, 16, F16, F32, True, True),
    "half_columns": (16, 16, F16, F32, False, False),
    "half_wide": (8, 32, F16, F32, True, False),
    "half_tall": (32, 8, F16, F32, False, True),
    "half_sums": (16, 16, F16, F16, True, False),
    "bfloat_square": (16, 16, BF16, F32, True, False),
    "bfloat_wide": (8, 32, BF16, F32, True, True),
    "bfloat_tall": (32, 8, BF16, F32, True, False),
    "tf32_square": (16, 16, F32, F32, True, False),
    "bytes_square": (16, 16, np.int8, S32, True, False),
    "bytes_wide": (8, 32, np.int8, S32, False, True),
    "unsigned_tall": (32, 8, np.uint8, S32, True, False),
}


@pytest.mark.parametrize("name", KERNELS)
def test_products(name):
    """Small integers, so that every sum is exact in every type."""
    m, n, element, accumulator, rows_a, rows_b = KERNELS[name]
    rng = np.random.default_rng(0)
    low = 0 if element is np.uint8 else -3
    a, b, c = (rng.integers(low, 4, shape) for shape in ((m, DEPTH), (DEPTH, n), (m, n)))
    d = np.zeros((m, n), accumulator)
    stored = [np.ascontiguousarray(part if rows else part.T).astype(element) for part, rows in ((a, rows_a), (b, rows_b))]
    scale = np.array(2, accumulator)[()]
    launch(TEXT, name, block=32, arguments=[*stored, c.astype(accumulator), d, DEPTH, scale])
    assert (d.astype(np.int64) == 2 * (a @ b + c)).all()


def test_random_halves_stay_within_the_rounding_of_the_hardware():
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((16, 256)).astype(F16), rng.standard_normal((256, 16)).astype(F16)
    d = np.zeros((16, 16), F32)
    launch(TEXT, "half_rows", block=32, arguments=[a, b, np.zeros((16, 16), F32), d, 256, F32(1)])
    assert np.abs(d - a.astype(np.float64) @ b.astype(np.float64)).max() < 1e-4


def test_four_warps_through_shared_memory():
    rng = np.random.default_rng(2)
    a, b = (rng.integers(-3, 4, (32, 64)) for _ in range(2))
    d = np.zeros((32, 32), F32)
    launch(TEXT, "through_shared", block=128, arguments=[a.astype(F16), b.astype(F16), d, 64])
    assert (d == a @ b.T).all()


def test_loads_of_a_tile_race_with_stores_to_it():
    """The second barrier of the loop keeps the next tile out while the last one is read."""
    body = TEXT.partition(".entry through_shared")
    barriers = body[2].split("bar.sync \t0;")
    broken = body[0] + body[1] + barriers[0] + "bar.sync \t0;" + "".join(barriers[1:])
    assert len(barriers) >= 3
    with pytest.raises(SimulationError, match=r"race: .*wmma\.load"):
        launch(broken, "through_shared", block=128, arguments=[*(np.ones((32, 64), F16),) * 2, np.zeros((32, 32), F32), 64])


EIGHT, FOUR = "{%r1,%r2,%r3,%r4,%r5,%r6,%r7,%r8}", "{%r1,%r2,%r3,%r4}"


@pytest.mark.parametrize(
    ("instruction", "message"),
    [
        (f"wmma.load.a.sync.aligned.row.m16n16k16.global.f16 {FOUR}, [%d1];", "needs 8 registers for A, has 4"),
        (f"wmma.load.a.sync.aligned.row.m16n16k8.global.f16 {EIGHT}, [%d1];", "m16n16k8 with f16 in A is not modelled"),
        ("wmma.load.a.sync.aligned.row.m8n8k8.global.f64 {%d2}, [%d1];", "is not modelled"),
        ("wmma.load.a.sync.aligned.row.m8n8k32.global.s8 {%r1}, [%d1];", "is not modelled"),
        ("wmma.load.a.sync.aligned.col.m8n8k32.global.s4 {%r1}, [%d1];", "stands in memory along K"),
        ("wmma.load.a.sync.aligned.row.m8n8k32.global.s4 {%r1}, [%d1], 33;", "stride of 33 elements of 4 bits"),
        (f"wmma.load.a.sync.aligned.m16n16k16.global.f16 {EIGHT}, [%d1];", "needs one of .row, .col"),
        (f"wmma.load.a.sync.aligned.row.m16n16k16.global.f16 {EIGHT}, [%d3];", "different addresses"),
        (f"wmma.load.a.sync.aligned.row.m16n16k16.global.f16 {EIGHT}, [%d1], %t;", "different addresses or strides"),
        (f"@%p1 wmma.load.a.sync.aligned.row.m16n16k16.global.f16 {EIGHT}, [%d1];", "only 16 of 32 live lanes"),
        (f"wmma.load.a.sync.aligned.row.m16n16k16.global.f16 {EIGHT}, [%d1], 4096;", "out_of_bounds"),
        (f"wmma.load.a.sync.aligned.row.m16n16k16.global.f16 {EIGHT}, [%d1+1];", "misaligned"),
        (f"wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32 {EIGHT}, {FOUR}, {EIGHT}, {EIGHT};", "needs 8 registers for A"),
        (
            f"wmma.mma.sync.aligned.row.col.m16n16k16.f32.bf16.f16.f32 {EIGHT}, {FOUR}, {FOUR}, {EIGHT};",
            "bf16, f16 and f32 to f32 is not modelled",
        ),
        (f"wmma.mma.sync.aligned.row.col.m16n16k16.f32 {EIGHT}, {EIGHT}, {EIGHT}, {EIGHT};", "two types"),
    ],
)
def test_bad_uses(instruction, message):
    text = f"""{HEAD}.entry k(.param .u64 p0) {{ .reg .pred %p<2>; .reg .b32 %t, %r<9>; .reg .b64 %d<4>;
    ld.param.u64 %d1, [p0]; mov.u32 %t, %tid.x; setp.lt.u32 %p1, %t, 16; mul.wide.u32 %d3, %t, 2; add.s64 %d3, %d3, %d1;
    {instruction} ret; }}"""
    with pytest.raises(SimulationError, match=message):
        launch(text, block=32, arguments=[np.ones(1024, F16)])
