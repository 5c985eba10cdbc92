"""Stores of a tile's first rows, and single elements of tensors as scalars."""

import ml_dtypes
import numpy as np
import pytest

import pipec
from pipec.driver import Options, compile_source
from pipec.runtime import LaunchOptions
from pipec.sim import Options as Simulation
from pipec.source import Source

pytestmark = pytest.mark.combinations(0.35)

TILE = """
kernel k(x: tensor[T, M, 64], y: tensor[T, M, 64], counts: tensor[i32, B]):
    grid(ceildiv(M, 128))
    ring = InputTilePipeline(TilePayload(x=tile[T, 128, 64]), stages=1)
    role load(warps=1) produces ring:
        with ring.produce() as s:
            tma.load(s.x, x[block.x * 128, 0])
    role compute(warps=WARPS) consumes ring:
        with ring.consume() as s:
            STORE(y[block.x * 128, 0], s.x, rows=load(counts[block.x]))
"""
MMA = """
kernel k(a: tensor[bf16, M, 64], b: tensor[bf16, 64, 64], y: tensor[f32, M, 64], counts: tensor[i32, B]):
    grid(ceildiv(M, 128))
    ring = InputTilePipeline(StandardTilePayload(a=tile[bf16, 128, 64], b=tile[bf16, 64, 64]), stages=1)
    role load(warps=1) produces ring:
        with ring.produce() as s:
            tma.load(s.a, a[block.x * 128, 0])
            tma.load(s.b, b[0, 0])
    role compute(warps=8) consumes ring:
        acc = accumulator(f32, 128, 64)
        with ring.consume() as s:
            mma(acc, s.a, s.b)
        STORE(y[block.x * 128, 0], acc, rows=load(counts[block.x]))
"""
COUNTS = np.array([128, 0, 1, 77, -3, 500], np.int32)
M = 5 * 128 + 40
STORED = np.concatenate([np.arange(128) < count for count in COUNTS])[:M]


@pytest.mark.parametrize("timing", ["late", "random"])
@pytest.mark.parametrize("warps", [4, 3, 8])
@pytest.mark.parametrize("store", ["store", "store.direct"])
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_only_the_first_rows_are_stored(dtype: str, store: str, warps: int, timing: str) -> None:
    check_rows(dtype, store, warps, timing)


def check_rows(dtype: str, store: str, warps: int, timing: str, device: str = "sim", arch: str = "sm_100a") -> None:
    source = TILE.replace("[T,", f"[{dtype},").replace("STORE", store).replace("WARPS", str(warps))
    generator = np.random.default_rng(0)
    kind = {"f32": np.float32, "bf16": ml_dtypes.bfloat16}[dtype]
    x, y = generator.integers(-9, 9, (M, 64)).astype(kind), np.full((M, 64), 100, kind)
    program = pipec.compile(source, arch=arch)
    assert program.cubin()
    program["k"](x, y, COUNTS, device=device, options=LaunchOptions(simulation=Simulation(timing=timing, seed=1)))
    assert np.array_equal(y, np.where(STORED[:, None], x, kind(100)))


@pytest.mark.parametrize("store", ["store", "store.direct"])
def test_rows_of_an_accumulator_in_registers(store: str) -> None:
    generator = np.random.default_rng(0)
    a, b = (generator.integers(-3, 4, (rows, 64)).astype(ml_dtypes.bfloat16) for rows in (M, 64))
    y = np.full((M, 64), 100, np.float32)
    program = pipec.compile(MMA.replace("STORE", store), arch="sm_90a")
    assert program.cubin()
    program["k"](a, b, y, COUNTS, device="sim")
    assert np.array_equal(y, np.where(STORED[:, None], a.astype(np.float32) @ b.astype(np.float32).T, np.float32(100)))


ELEMENT = """
kernel k(v: tensor[T, N], w: tensor[T, 3, N], x: tensor[f32, 128, 32], y: tensor[f32, 128, 32]):
    grid(1)
    ring = InputTilePipeline(TilePayload(x=tile[f32, 128, 32]), stages=1)
    role load(warps=1) produces ring:
        with ring.produce() as s:
            tma.load(s.x, x[0, 0])
    role compute(warps=4) consumes ring:
        with ring.consume() as s:
            n = load(v[1])
            store(y[0, 0], s.x + cast[f32](n) + cast[f32](load(w[2, 0])) * 16.0 + cast[f32](load(v[N])) + cast[f32](load(w[-1, 1])))
"""
NUMPY = {"i8": np.int8, "u16": np.uint16, "i32": np.int32, "i64": np.int64, "f16": np.float16, "bf16": ml_dtypes.bfloat16,
         "f32": np.float32, "f64": np.float64, "e4m3": ml_dtypes.float8_e4m3fn}  # fmt: skip


@pytest.mark.parametrize("dtype", NUMPY)
def test_an_element_reads_as_a_scalar(dtype: str) -> None:
    """Zero outside the tensor."""
    v, w = np.array([9, 5, 9], NUMPY[dtype]), np.arange(9).reshape(3, 3).astype(NUMPY[dtype])
    x, y = np.ones((128, 32), np.float32), np.zeros((128, 32), np.float32)
    pipec.compile(ELEMENT.replace("[T,", f"[{dtype},"))["k"](v, w, x, y, device="sim")
    assert (y == 1 + 5 + 16 * 6).all()


def test_rows_are_the_same_in_all_threads() -> None:
    wrong = (
        TILE.replace("[T,", "[f32,")
        .replace("STORE", "store")
        .replace("WARPS", "4")
        .replace("counts[block.x]", "counts[lane_id()]")
    )
    state = compile_source(Source("k.pipe", wrong), Options())
    assert [diagnostic.code for diagnostic in state.diagnostics] == ["E0420"]
