"""Divisions of numbers that are never negative are made without a sign; results stay those of Python, up to the largest numbers."""

import numpy as np
import pytest
from running import compiled, run

SOURCE = """
kernel k(x: tensor[i32, 4], y: tensor[i32, 4], found: tensor[i32, 128, 3]):
    grid(1)
    role work(warps=1):
        for i in range(4):
            left = max(load(x[i]), 0)
            right = max(load(y[i]), 1)
            store.direct(found[32 * i, 0], fill(left // right, i32, 32, 1))
            store.direct(found[32 * i, 1], fill(left % right, i32, 32, 1))
            store.direct(found[32 * i, 2], fill(ceildiv(left, right), i32, 32, 1))
"""
WALK = """
kernel k(found: tensor[i32, 96, 2], stop: i32):
    grid(3)
    role work(warps=1):
        turns = 0
        last = -1
        for t in range(block.x, stop, grid.x):
            turns = turns + 1
            last = t // grid.x * 100 + t % max(stop, 1)
        store.direct(found[32 * block.x, 0], fill(turns, i32, 32, 1))
        store.direct(found[32 * block.x, 1], fill(last, i32, 32, 1))
"""
LARGEST = 2**31 - 1


@pytest.mark.parametrize(
    "pairs",
    [
        [(0, 1), (1, LARGEST), (LARGEST, 1), (LARGEST, LARGEST)],
        [(LARGEST, 2), (LARGEST, LARGEST - 1), (LARGEST - 1, LARGEST), (7, 3)],
    ],
)
def test_the_largest_numbers(pairs: list[tuple[int, int]]) -> None:
    assert "div.u32" in compiled(SOURCE).ptx and "div.s32" not in compiled(SOURCE).ptx
    x, y = (np.array(column, np.int32) for column in zip(*pairs, strict=True))
    found = np.zeros((128, 3), np.int32)
    run(SOURCE, "k", x, y, found)
    assert found[::32].tolist() == [[left // right, left % right, -(-left // right)] for left, right in pairs]


@pytest.mark.parametrize("stop", [-(2**31), -1, 0, 1, 2, 3, 4, 10])
def test_a_strided_walk_has_as_many_turns_as_in_python(stop: int) -> None:
    assert "div.s32" not in compiled(WALK).ptx
    found = np.full((96, 2), 9, np.int32)
    run(WALK, "k", found, stop)
    for block in range(3):
        walked = range(block, stop, 3)
        assert found[32 * block].tolist() == [len(walked), walked[-1] // 3 * 100 + walked[-1] % stop if walked else -1]


STRIDED = """
kernel k(found: tensor[i32, 96, 2], stop: i32, blocks: i32):
    grid(blocks)
    role work(warps=1):
        turns = 0
        last = -1
        for t in range(block.x, stop, grid.x):
            turns = turns + 1
            last = t // grid.x * 100 + t % grid.x
        store.direct(found[32 * block.x, 0], fill(turns, i32, 32, 1))
        store.direct(found[32 * block.x, 1], fill(last, i32, 32, 1))
"""


@pytest.mark.parametrize("stop", [-(2**30), -1, 0, 1, 2, 3, 4, 10])
def test_a_walk_by_a_step_known_at_launch_stays_natural(stop: int) -> None:
    """Places and turns are divided without a sign."""
    ptx = compiled(STRIDED).ptx
    assert ("div.u32" in ptx or "rem.u32" in ptx) and "div.s32" not in ptx and "rem.s32" not in ptx
    found = np.full((96, 2), 9, np.int32)
    run(STRIDED, "k", found, stop, 3)
    for block in range(3):
        walked = range(block, stop, 3)
        assert found[32 * block].tolist() == [len(walked), walked[-1] // 3 * 100 + walked[-1] % 3 if walked else -1]


FEW = """
kernel k(x: tensor[i32, 4], y: tensor[i32, 4], found: tensor[i32, 128, 2]):
    grid(1)
    role work(warps=1):
        for i in range(4):
            left = max(load(x[i]), 0)
            right = min(max(load(y[i]), 0), 4)
            store.direct(found[32 * i, 0], fill(left // right, i32, 32, 1))
            store.direct(found[32 * i, 1], fill(left % right, i32, 32, 1))
"""


@pytest.mark.parametrize("left", [0, 1, 2, 3, 5, 11, 2**30 - 1, 2**30, LARGEST - 3, LARGEST - 2, LARGEST - 1, LARGEST])
def test_a_few_are_chosen_among(left: int) -> None:
    """No division is left; 0 counts as 1."""
    assert "div." not in compiled(FEW).ptx and "rem." not in compiled(FEW).ptx
    for rights in ((1, 2, 3, 4), (0, 4, 3, 9)):
        found = np.zeros((128, 2), np.int32)
        run(FEW, "k", np.full(4, left, np.int32), np.array(rights, np.int32), found)
        assert found[::32].tolist() == [list(divmod(left, min(max(right, 1), 4))) for right in rights]


ROUNDED_UP = """
kernel k(x: tensor[i32, 4], found: tensor[i32, 128, 2]):
    grid(1)
    role work(warps=1):
        for i in range(4):
            number = max(load(x[i]), 0)
            store.direct(found[32 * i, 0], fill(ceildiv(number, 256), i32, 32, 1))
            store.direct(found[32 * i, 1], fill(ceildiv(number, 176), i32, 32, 1))
"""


@pytest.mark.parametrize(
    "numbers", [(0, 1, 175, 176), (177, 255, 256, 257), (LARGEST - 256, LARGEST - 175, LARGEST - 1, LARGEST)]
)
def test_rounded_up_to_a_constant(numbers: tuple[int, ...]) -> None:
    """The sum that is divided may need the highest bit."""
    found = np.zeros((128, 2), np.int32)
    run(ROUNDED_UP, "k", np.array(numbers, np.int32), found)
    assert found[::32].tolist() == [[-(-number // 256), -(-number // 176)] for number in numbers]
