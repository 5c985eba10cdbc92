"""Tiles at `t % n` along one axis and `t // n` along another are different ones for different `t`, so their stores need no order."""

import random
from itertools import combinations

import ml_dtypes
import numpy as np
import pytest

import pipec
from pipec.driver import compile_source
from pipec.kir.global_memory.accesses import collect, may_meet
from pipec.source import Source

_PARTS = (
    "t % n",
    "t // n",
    "t % m",
    "t // m",
    "(t + 1) % n",
    "(2 * t + n) // m",
    "(2 * t + n) % m",
    "t",
    "n",
    "t * n % m",
    "t * n // m",
)
_ROWS, _COLUMNS = 8, 32


def may_meet_itself(row: str, column: str) -> bool:
    """Whether the compiler puts the store of one iteration in order with that of another."""
    lines = [
        "kernel k(y: tensor[f32, M, N], n: i32, m: i32):",
        "    grid(1)",
        "    role write(warps=1):",
        "        for t in range(n * m):",
        f"            store.direct(y[{row}, {column}], fill(1.0, f32, {_ROWS}, {_COLUMNS}))",
    ]
    state = compile_source(Source("k.pipe", "\n".join(lines) + "\n"), until="build")
    assert state.kernels is not None, [one.title for one in state.diagnostics]
    (access,) = (one for one in collect(state.kernels[0])[0].accesses if one.writes)
    (loop,) = state.kernels[0].roles[0].loops
    return may_meet(access, access, {loop.statement: loop.step})


def meets_itself(row: str, column: str) -> bool:
    """Whether two iterations store to the same element for some numbers."""
    for n, m in ((1, 1), (2, 3), (3, 2), (4, 4), (1, 5), (5, 1)):
        corners = [tuple(eval(text, {"t": t, "n": n, "m": m}) for text in (row, column)) for t in range(n * m)]
        for (i, j), (k, l) in combinations(corners, 2):
            if abs(i - k) < _ROWS and abs(j - l) < _COLUMNS:
                return True
    return False


@pytest.mark.parametrize(
    ("row", "column"),
    [("t % n * 8", "t // n * 32"), ("t // n * 16 + m", "64 + t % n * 32"), ("(t + 1) % n * -8", "(t + 1) // n * 32")],
)
def test_is_seen(row: str, column: str) -> None:
    assert not meets_itself(row, column)
    assert not may_meet_itself(row, column)


@pytest.mark.parametrize(
    ("row", "column"),
    [
        ("t % n * 4", "t // n * 32"),  # tiles that are larger than the distance
        ("t % n * 8", "t // m * 32"),  # of two different grids
        ("t % n * 8", "t % n * 32"),
        ("t % n * 8", "t // n * 32 - t % n * 32 + n"),  # the sum may have any value
        ("n % m * 8", "n // m * 32"),
    ],
)
def test_others_are_put_in_order(row: str, column: str) -> None:
    assert may_meet_itself(row, column)


def test_what_is_left_out_never_meets() -> None:
    draw, left_out, asked = random.Random(7), 0, set[tuple[str, str]]()
    while len(asked) < 150:
        texts = [
            f"({draw.choice(_PARTS)}) * {size * draw.choice((1, 1, 2, -1)) // draw.choice((1, 1, 1, 2))}"
            for size in (_ROWS, _COLUMNS)
        ]
        if draw.random() < 0.2:
            texts[draw.randrange(2)] += f" + ({draw.choice(_PARTS)}) * {draw.choice((8, 32))}"
        row, column = texts
        if (row, column) in asked:
            continue
        asked.add((row, column))
        if not may_meet_itself(row, column):
            left_out += 1
            assert not meets_itself(row, column), (row, column)
    assert left_out > 5


_GEMM = """kernel one(a: tensor[bf16, M, K], b: tensor[bf16, N, K], d: tensor[bf16, M, N]):
    rows  = ceildiv(M, 128)
    tiles = rows * ceildiv(N, 64)
    {grid}
    input  = InputTilePipeline(StandardTilePayload(a=tile[bf16, 128, 64], b=tile[bf16, 64, 64]), stages=4)
    output = OutputTilePipeline(tmem[f32, 128, 64], stages=2)
    role load(warps=1) produces input:
        for t in {walk}:
            for k in range(ceildiv(K, 64)):
                with input.produce() as s:
                    tma.load(s.a, a[{x} * 128, k * 64])
                    tma.load(s.b, b[{y} * 64, k * 64])
    role mma(warps=1) consumes input produces output:
        for t in {walk}:
            with output.produce() as acc:
                for k in range(ceildiv(K, 64)):
                    with input.consume() as s:
                        mma(acc, s.a, s.b)
    role epilogue(warps=4) consumes output:
        for t in {walk}:
            with output.consume() as acc:
                store(d[{x} * 128, {y} * 64], cast[bf16](acc))
"""
_SCHEDULED = "walked = TileScheduler(ceildiv(M, 128), ceildiv(N, 64), blocks=1)"


@pytest.mark.parametrize(
    ("grid", "walk", "x", "y"),
    [
        ("grid(1)", "range(block.x, tiles, grid.x)", "(t % rows)", "(t // rows)"),
        ("grid(1)", "range(tiles)", "(t % rows)", "(t // rows)"),
        (_SCHEDULED, "walked", "t.x", "t.y"),
    ],
)
def test_one_block_waits_for_no_store_before_the_next(grid: str, walk: str, x: str, y: str) -> None:
    program = pipec.compile(_GEMM.format(grid=grid, walk=walk, x=x, y=y))
    assert "cp.async.bulk.wait_group \t0" not in program.ptx
    draw = np.random.default_rng(3)
    a, b = (draw.integers(-2, 3, (size, 128)).astype(ml_dtypes.bfloat16) for size in (200, 136))
    d = np.zeros((200, 136), ml_dtypes.bfloat16)
    program["one"](a, b, d, device="sim")
    assert np.array_equal(d.astype(np.float32), a.astype(np.float32) @ b.astype(np.float32).T)


_IN_PLACE = """kernel scaled(x: tensor[f32, M, N], n: i32):
    across = ceildiv(N, 32)
    tiles = ceildiv(M, 8) * across
    grid(min(tiles, 3))
    ring = InputTilePipeline(TilePayload(v=tile[f32, 8, 32]), stages=2)
    role load(warps=1) produces ring:
        for {loop}:
            t = {number}
            with ring.produce() as s:
                tma.load(s.v, x[t // across * 8, t % across * 32])
    role work(warps=1) consumes ring:
        for {loop}:
            t = {number}
            with ring.consume() as s:
                store(x[{row} * 8, {column} * 32], s.v * 2.0)
"""


@pytest.mark.parametrize(
    ("loop", "number"),
    [("i in range(block.x, tiles, grid.x)", "i"), ("i in range(block.x, tiles, 3)", "i"), ("i in range(tiles)", "i")],
)
def test_roles_work_in_place_on_tiles_by_their_numbers(loop: str, number: str) -> None:
    """The later tiles of the role that loads are others than those that the other role has stored by then."""
    text = _IN_PLACE.format(loop=loop, number=number, row="(t // across)", column="(t % across)")
    program = pipec.compile(text if "grid.x" in loop else text.replace("min(tiles, 3)", "3" if "block.x" in loop else "1"))
    for shape in ((20, 72), (8, 32), (64, 160)):
        x = np.random.default_rng(5).standard_normal(shape, np.float32)
        twice = 2 * x
        program["scaled"](x, 0, device="sim")
        assert np.array_equal(x, twice)


@pytest.mark.parametrize(
    ("loop", "number", "row", "column"),
    [
        ("i in range(block.x, tiles, grid.x)", "i", "((t + 1) // across)", "((t + 1) % across)"),  # the tile that is loaded next
        ("i in range(block.x, tiles, grid.x)", "i", "(t // across)", "(t // across)"),
        ("i in range(block.x, tiles, grid.x)", "i // 2", "(t // across)", "(t % across)"),
        ("i in range(block.x, tiles, grid.x)", "i * n", "(t // across)", "(t % across)"),
        ("i in range(block.x, tiles, grid.x)", "i * 65536", "(t // across)", "(t % across)"),  # comes round after 65,536 tiles
        ("i in range(n)", "block.x + i * grid.x", "(t // across)", "(t % across)"),  # comes round if n is large enough
    ],
)
def test_roles_whose_tiles_may_be_loaded_again_are_refused(loop: str, number: str, row: str, column: str) -> None:
    text = _IN_PLACE.format(loop=loop, number=number, row=row, column=column)
    assert "E0614" in [one.code for one in compile_source(Source("k.pipe", text)).diagnostics]
