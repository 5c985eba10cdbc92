"""Stores that combine with what stands in global memory: every type and operation of both paths, assembled and against NumPy."""

import ml_dtypes
import numpy as np
import pytest

import pipec
from pipec.isa.reductions import ALLOWED
from pipec.runtime import LaunchOptions
from pipec.sim import Options

NUMPY = {
    "i32": np.int32,
    "u32": np.uint32,
    "i64": np.int64,
    "u64": np.uint64,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f32": np.float32,
    "f64": np.float64,
}
COMBINE = {"add": np.add, "min": np.minimum, "max": np.maximum}
BLOCKS = 3
CASES = [
    (path, reduce, dtype)
    for path, operations in ALLOWED.items()
    for reduce, dtypes in operations.items()
    for dtype in dtypes
]  # fmt: skip

# Each block in z reduces its own part of x into y.
SOURCE = """
kernel k(x: tensor[T, B, M, N], y: tensor[T, M, N]):
    grid(ceildiv(M, 128), ceildiv(N, 16), B)
    ring = InputTilePipeline(TilePayload(x=tile[T, 128, 16]), stages=1)
    role load(warps=1) produces ring:
        with ring.produce() as s:
            tma.load(s.x, x[block.z, block.x * 128, block.y * 16])
    role reduce(warps=4) consumes ring:
        with ring.consume() as s:
            STORE
"""
STORES = {
    "tma": 'store(y[block.x * 128, block.y * 16], s.x, reduce="OP")',
    "direct": 'store.direct(y[block.x * 128, block.y * 16], s.x, reduce="OP")',
    "tile": 'with elect():\n                tma.store(y[block.x * 128, block.y * 16], s.x, reduce="OP")',
}


def check(
    store: str,
    reduce: str,
    dtype: str,
    shape: tuple[int, int],
    timing: str = "random",
    device: str = "sim",
    arch: str = "sm_100a",
) -> None:
    source = SOURCE.replace("STORE", STORES[store]).replace("OP", reduce).replace("[T,", f"[{dtype},")
    generator = np.random.default_rng(1)
    low = 0 if dtype.startswith("u") else -9
    x, y = (generator.integers(low, 10, size).astype(NUMPY[dtype]) for size in ((BLOCKS, *shape), shape))
    expected = y.astype(np.int64)
    for part in x.astype(np.int64):
        expected = COMBINE[reduce](expected, part)
    program = pipec.compile(source, arch=arch)
    assert program.cubin()
    options = LaunchOptions(simulation=Options(timing=timing, seed=5))
    program["k"](x, y, device=device, options=options)
    assert np.array_equal(y.astype(np.int64), expected)


@pytest.mark.sample(0.4, of="dtype")
@pytest.mark.parametrize(("path", "reduce", "dtype"), CASES, ids=str)
def test_reduction(path: str, reduce: str, dtype: str) -> None:
    check(path, reduce, dtype, (136, 32))


@pytest.mark.parametrize("dtype", ["f32", "bf16", "i32"])
def test_a_tile_in_shared_memory(dtype: str) -> None:
    check("tile", "add", dtype, (136, 32), "late")


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_rows_that_are_not_aligned(dtype: str) -> None:
    """A width that is no multiple of the tile: the last tile's elements go one by one, and none beyond the edge."""
    check("direct", "add", dtype, (130, 24), "order")


def test_what_is_only_added_to_counts_at_the_launch() -> None:
    added, overwritten = (
        pipec.compile(SOURCE.replace("STORE", store).replace("[T,", "[f32,").replace("16), B)", "16))").replace("block.z", "0"))[
            "k"
        ].interface.arguments[1]
        for store in (STORES["tma"].replace("OP", "add"), "store(y[block.x * 128, block.y * 16], s.x)")
    )
    assert added.accumulated and not overwritten.accumulated
