"""Loops in steps that are known at launch alone take their steps without dividing, as many as in Python, up to the largest numbers."""

import numpy as np
import pytest
from running import compiled, run

from pipec.driver import compile_source
from pipec.runtime import ArgumentError
from pipec.source import Source

SOURCE = """
kernel k(found: tensor[i32, 96, 2], start: i32, stop: i32, blocks: i32):
    grid(blocks)
    role work(warps=1):
        turns = 0
        last = -1
        for t in range({start}, stop, grid.x):
            turns = turns + 1
            last = t
        store.direct(found[32 * block.x, 0], fill(turns, i32, 32, 1))
        store.direct(found[32 * block.x, 1], fill(last, i32, 32, 1))
"""
LEAST, LARGEST = -(2**31), 2**31 - 1


def check(source: str, start: int, stop: int) -> None:
    found = np.full((96, 2), 9, np.int32)
    run(source, "k", found, start, stop, 3)
    walked = range(start, stop, 3)
    assert found[::32].tolist() == [[len(walked), walked[-1] if walked else -1]] * 3


@pytest.mark.parametrize(
    ("start", "stop"),
    [*((0, stop) for stop in (LEAST, -1, 0, 1, 3, 4, 10)), *((LARGEST - back, LARGEST) for back in range(8)), (LARGEST, -1)],
)
def test_as_many_turns_as_in_python(start: int, stop: int) -> None:
    """The sum behind the last turn may need the highest bit."""
    source = SOURCE.format(start="max(start, 0)")
    assert "nctaid" in compiled(source).ptx and "div." not in compiled(source).ptx
    check(source, start, stop)


@pytest.mark.parametrize(("start", "stop"), [(-7, 8), (LEAST, LEAST + 10), (3, -4), (LARGEST - 4, LARGEST)])
def test_what_may_be_negative_is_counted(start: int, stop: int) -> None:
    source = SOURCE.format(start="start")
    assert "div." in compiled(source).ptx
    check(source, start, stop)


ROLES = """
kernel k(x: tensor[f32, M, 32], y: tensor[f32, M, 32]):
    grid(min(M, 3))
    ring = InputTilePipeline(TilePayload(x=tile[f32, 1, 32]), stages=2)
    role load(warps=1) produces ring:
        for {loop}:
            with ring.produce() as s:
                tma.load(s.x, x[{row}, 0])
    role compute(warps=4) consumes ring:
        for t in range(block.x, M, grid.x):
            with ring.consume() as s:
                store(y[t, 0], s.x)
"""


@pytest.mark.parametrize(
    ("loop", "row", "divides"),
    [
        ("t in range(block.x, M, grid.x)", "t", False),
        ("i in range(ceildiv(M - block.x, grid.x))", "block.x + i * grid.x", True),
    ],
)
def test_all_roles_count_if_one_does(loop: str, row: str, divides: bool) -> None:
    """The checker can then tell that they do as many turns."""
    source = ROLES.format(loop=loop, row=row)
    assert ("div." in compiled(source).ptx) is divides
    for rows in (1, 2, 7):
        x = np.arange(rows * 32, dtype=np.float32).reshape(rows, 32)
        y = np.zeros_like(x)
        run(source, "k", x, y)
        assert np.array_equal(x, y)


STEPS = """
kernel k(found: tensor[i32, 96, 2], n: i32, parts: i32):
    {given}
    grid(3)
    role work(warps=1):
        turns = 0
        last = -1
        for t in range(block.x, n, {step}):
            turns = turns + 1
            last = t
        store.direct(found[32 * block.x, 0], fill(turns, i32, 32, 1))
        store.direct(found[32 * block.x, 1], fill(last, i32, 32, 1))
"""


@pytest.mark.parametrize(
    ("given", "step", "least"),
    [
        ("assume(parts > 0)", "parts", 1),
        ("assume(parts >= 3 and n > 0)", "min(parts, grid.x * 2)", 3),
        ("pass", "max(1, parts)", -2),
    ],
)
@pytest.mark.parametrize("parts", [-2, 1, 3, 5, 7])
@pytest.mark.parametrize("n", [1, 2, 11, 100])
def test_a_parameter_that_is_positive_is_a_step(given: str, step: str, least: int, parts: int, n: int) -> None:
    if parts < least:
        return
    found = np.full((96, 2), 9, np.int32)
    run(STEPS.format(given=given, step=step), "k", found, n, parts)
    walked = [range(first, n, min(parts, 6) if "min" in step else max(1, parts)) for first in range(3)]
    assert found[::32].tolist() == [[len(one), one[-1] if one else -1] for one in walked]


@pytest.mark.parametrize(("n", "step"), [(LARGEST, LARGEST), (LARGEST, 1 << 30), (-5, 7), (LEAST, 1)])
def test_large_steps_of_a_parameter(n: int, step: int) -> None:
    found = np.full((96, 2), 9, np.int32)
    run(STEPS.format(given="assume(parts > 0)", step="parts"), "k", found, n, step)
    walked = [range(first, n, step) for first in range(3)]
    assert found[::32].tolist() == [[len(one), one[-1] if one else -1] for one in walked]


@pytest.mark.parametrize(
    ("given", "step"),
    [
        ("pass", "parts"),
        ("assume(parts >= 0)", "parts"),
        ("assume(parts != 0)", "parts"),
        ("assume(n > 0)", "parts"),
        ("assume(parts > 0)", "parts * parts"),  # which wraps to 0 at 65536
        ("assume(parts > 0)", "parts + 1"),
        ("pass", "min(1, parts)"),
        ("pass", "max(0, parts)"),
        ("assume(parts > 0)", "max(1, load(found[0, 0]))"),  # may change on the way
        ("pass", "max(1, turns)"),
    ],
)
def test_what_may_not_be_positive_or_may_change_is_no_step(given: str, step: str) -> None:
    codes = [one.code for one in compile_source(Source("k.pipe", STEPS.format(given=given, step=step))).diagnostics]
    assert codes == ["E0208"]


MULTIPLES = """
kernel k(found: tensor[i32, N, 32], n: i32):
    grid(N, 2)
    role work(warps=1):
        turns = 0
        for t in range(block.x, n, {step}):
            turns = turns + 1
        if block.y == 0:
            store.direct(found[block.x, 0], fill(turns, i32, 1, 32))
"""


@pytest.mark.parametrize(
    ("step", "blocks"),
    [("grid.x * 1073741824", 1), ("grid.x + grid.x * 536870911", 3), ("2 * grid.x * grid.y * 134217728", 3)],
)
def test_a_multiple_of_the_blocks_that_wraps_is_refused(step: str, blocks: int) -> None:
    """It would be a step of 0 or less, to which every block takes the same turns for ever."""
    source = MULTIPLES.format(step=step)
    found = np.full((blocks, 32), 9, np.int32)
    run(source, "k", found, 5)
    assert found[:, 0].tolist() == [1] * blocks
    with pytest.raises(ArgumentError, match="grid"):
        run(source, "k", np.full((blocks + 1, 32), 9, np.int32), 5)


def test_a_multiple_of_the_blocks_that_fits_in_any_launch_asks_nothing() -> None:
    assert "grid.x <=" not in compiled(MULTIPLES.format(step="grid.x * 4").replace("grid(N, 2)", "grid(min(N, 132))")).ptx
