"""Tiles that are loaded some rows at a time, each part from a place of its own: `tma.load(rows(s.x, first, count), x[...])`."""

import ml_dtypes
import numpy as np
import pytest
from running import NUMPY, run

import pipec

COPIED = """
kernel gather(x: tensor[{dtype}, P, {count}, D], page: tensor[i32, N], y: tensor[{dtype}, M, D]):
    grid(ceildiv(M, {rows}), ceildiv(D, {columns}))
    ring = InputTilePipeline(TilePayload(t=tile[{dtype}, {rows}, {columns}]), stages=2)

    role load(warps={warps}) produces ring:
        s = ring.acquire_producer()
        {elected}
            for j in range({rows} // {count}):
                number = load(page[block.x * ({rows} // {count}) + j])
                tma.load(rows(s.t, j * {count}, {count}), x[number, 0, block.y * {columns}])
        s.release()

    role pass_on(warps=4) consumes ring:
        with ring.consume() as s:
            store.direct(y[block.x * {rows}, block.y * {columns}], s.t)
"""


@pytest.mark.parametrize(
    ("dtype", "rows", "columns", "count"),
    [
        ("bf16", 64, 64, 16), ("bf16", 64, 128, 16), ("f32", 32, 64, 8), ("i8", 128, 16, 32), ("bf16", 96, 32, 24),
        ("f32", 64, 4, 8), ("u8", 512, 64, 256), ("bf16", 64, 64, 64), ("i32", 16, 24, 8),
    ],
)  # fmt: skip
@pytest.mark.parametrize("warps", [1, 4])
@pytest.mark.parametrize("timing", ["order", "late"])
def test_parts_of_a_tile_come_from_anywhere(dtype: str, rows: int, columns: int, count: int, warps: int, timing: str) -> None:
    """Of every swizzle, of tiles of one panel and of several; pages may repeat, and those outside of the tensor are zeros."""
    elected = "if True:" if warps == 1 else "with elect():"
    source = COPIED.format(dtype=dtype, rows=rows, columns=columns, count=count, warps=warps, elected=elected)
    generator = np.random.default_rng(rows + columns)
    x = generator.integers(1, 100, (7, count, 2 * columns)).astype(NUMPY[dtype])
    page = generator.integers(-1, 8, 2 * rows // count).astype(np.int32)
    y = np.zeros((2 * rows, 2 * columns), NUMPY[dtype])
    run(source, "gather", x, page, y, timing=timing)
    around = np.zeros((9, count, 2 * columns), x.dtype)
    around[1:8] = x
    assert np.array_equal(y, around[page + 1].reshape(y.shape))


PRODUCT = """
kernel product(a: tensor[bf16, P, 16, K], b: tensor[bf16, Q, 16, {b}], first: tensor[i32, R], second: tensor[i32, S], d: tensor[f32, M, N]):
    grid(1)
    input = InputTilePipeline(StandardTilePayload(a=tile[bf16, 128, 64], b=tile[bf16, {tile}]), stages=2{group})

    role copy(warps=1) produces input:
        for k in range(ceildiv(K, 64{steps})):
            with input.produce() as s:
{loads}
"""
HOPPER = """
    role compute(warps=8) consumes input:
        acc = accumulator(f32, 128, 64)
        for k in range(ceildiv(K, 64)):
            with input.consume() as s:
                mma(acc, s.a, s.b{turned})
        store(d[0, 0], acc)
"""
BLACKWELL = """
    output = OutputTilePipeline(tmem[f32, 128, 64], stages=1)

    role multiply(warps=1) consumes input produces output:
        with output.produce() as acc:
            for k in range(ceildiv(K, 64{steps})):
                with input.consume() as s:
{products}

    role epilogue(warps=4) consumes output:
        with output.consume() as acc:
            store(d[0, 0], acc)
"""


@pytest.mark.parametrize("arch", ["sm_90a", "sm_100a"])
@pytest.mark.parametrize("turned", [False, True])
def test_operands_consist_of_pages(arch: str, turned: bool) -> None:
    """Operand A by pages of rows, and B by pages of its rows or, stored with K outermost, of K."""
    loads = """                for j in range(8):
                    tma.load(rows(s.a, j * 16, 16), a[load(first[j]), 0, k * 64])
                for j in range(4):
                    tma.load(rows(s.b, j * 16, 16), b[load(second[{at}]), 0, {column}])
""".format(at="k * 4 + j" if turned else "j", column="0" if turned else "k * 64")
    shape = {"b": "N" if turned else "K", "tile": "64, 64", "group": "", "steps": ""}
    products = "                    mma(acc, s.a, s.b{turned})"
    body = HOPPER if arch == "sm_90a" else BLACKWELL.replace("{products}", products)
    source = (PRODUCT + body).format(loads=loads, turned=".T" if turned else "", **shape)
    generator = np.random.default_rng(3)
    a = generator.integers(-3, 4, (9, 16, 128)).astype(ml_dtypes.bfloat16)
    b = generator.integers(-3, 4, (9, 16, 64 if turned else 128)).astype(ml_dtypes.bfloat16)
    first, second = (generator.integers(0, 9, 8).astype(np.int32) for _ in range(2))
    d = np.zeros((128, 64), np.float32)
    pipec.compile(source, arch=arch)["product"](a, b, first, second, d, device="sim")
    left = a[first].reshape(128, 128).astype(np.float32)
    right = b[second].reshape(128, 64) if turned else b[second[:4]].reshape(64, 128).T
    assert np.array_equal(d, left @ right.astype(np.float32))


def test_tiles_of_a_group_consist_of_pages() -> None:
    """Each tile of a K group is loaded in parts, and one barrier counts the bytes of all."""
    loads = """                for g in range(2):
                    for j in range(8):
                        tma.load(rows(s.a[g], j * 16, 16), a[load(first[j]), 0, (2 * k + g) * 64])
                    for j in range(4):
                        tma.load(rows(s.b[g], j * 16, 16), b[load(second[j]), 0, (2 * k + g) * 64])
"""
    products = "                    for g in range(2):\n                        mma(acc, s.a[g], s.b[g])"
    shape = {"b": "K", "tile": "64, 64", "group": ", k_group_size=2", "steps": " * 2"}
    source = (
        (PRODUCT + BLACKWELL.replace("{products}", products)).format(loads=loads, **shape).replace("stages=2, k", "stages=4, k")
    )
    generator = np.random.default_rng(4)
    a, b = (generator.integers(-3, 4, (9, 16, 320)).astype(ml_dtypes.bfloat16) for _ in "ab")
    first, second = (generator.integers(0, 9, count).astype(np.int32) for count in (8, 4))
    d = np.zeros((128, 64), np.float32)
    pipec.compile(source, arch="sm_100a")["product"](a, b, first, second, d, device="sim")
    left, right = (one[at].reshape(-1, 320).astype(np.float32) for one, at in ((a, first), (b, second)))
    assert np.array_equal(d, left @ right.T)


BRANCHES = """
kernel gather(x: tensor[bf16, P, 64, D], half: tensor[bf16, H, 32, D], few: tensor[bf16, F, 16, D], kind: tensor[i32, B],
              y: tensor[bf16, M, D]):
    grid(B)
    ring = InputTilePipeline(TilePayload(t=tile[bf16, 64, 64]), stages=1)

    role load(warps=1) produces ring:
        with ring.produce() as s:
            if load(kind[block.x]) == 0:
                tma.load(s.t, x[block.x, 0, 0])
            elif load(kind[block.x]) == 1:
                for i in range(2):
                    tma.load(rows(s.t, i * 32, 32), half[block.x + i, 0, 0])
            else:
                tma.load(rows(s.t, 48, 16), few[block.x, 0, 0])
                tma.load(rows(s.t, 0, 32), half[block.x, 0, 0])
                tma.load(rows(s.t, 32, 16), few[block.x + 1, 0, 0])

    role pass_on(warps=4) consumes ring:
        with ring.consume() as s:
            store.direct(y[block.x * 64, 0], s.t)
"""


def test_branches_load_a_tile_in_different_parts() -> None:
    """Every path brings all rows once, which is what the barrier counts."""
    generator = np.random.default_rng(5)
    x, half, few = (generator.integers(1, 100, (4, rows, 64)).astype(ml_dtypes.bfloat16) for rows in (64, 32, 16))
    kind = np.array([1, 0, 2], np.int32)
    y = np.zeros((192, 64), ml_dtypes.bfloat16)
    run(BRANCHES, "gather", x, half, few, kind, y)
    assert np.array_equal(y, np.concatenate([half[0], half[1], x[1], half[2], few[3], few[2]]))
