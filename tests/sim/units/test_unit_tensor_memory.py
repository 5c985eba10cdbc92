"""Allocation rules of tensor memory and the register maps of tcgen05.ld / st."""

import numpy as np
import pytest
from unit_memories import raises

from pipec.sim.units.tcgen05.fragments import FRAGMENTS, fragment_map
from pipec.sim.units.tcgen05.memory import TensorMemory


def filled():
    """All 512 columns allocated; every cell holds lane * 512 + column."""
    memory = TensorMemory()
    memory.allocate(512)
    memory.write_cells(np.arange(128)[:, None], np.arange(512), np.arange(128 * 512).reshape(128, 512), "fill")
    return memory


def test_allocation():
    memory = TensorMemory()
    assert memory.allocate(256) == 0
    assert memory.allocate(128) == 256
    assert memory.allocate(128) == 384
    assert memory.allocate(32) is None
    memory.deallocate(256, 128)
    assert memory.allocate(64) == 256
    assert memory.leaks() == {0: 256, 384: 128, 256: 64}


def test_allocation_misuse():
    memory = TensorMemory()
    for columns in (16, 48, 1024, 0):
        with raises("illegal", str(columns), "32..512"):
            memory.allocate(columns)
    memory.allocate(64)
    with raises("illegal", "128 columns", "one of 64", "must not grow"):
        memory.allocate(128)
    with raises("illegal", "64 columns", "32"):
        memory.allocate(32)
        memory.deallocate(64, 64)
    with raises("illegal", "0x20", "0x0"):
        memory.deallocate(32, 32)
    memory.relinquish()
    with raises("illegal", "relinquish"):
        memory.allocate(32)
    for address, columns in memory.leaks().items():
        memory.deallocate(address, columns)
    assert memory.leaks() == {}


@pytest.mark.parametrize(
    ("shape", "thread", "register", "cell"),
    [
        ("16x64b", 1, 0, (8, 0)),
        ("16x64b", 2, 0, (0, 1)),
        ("16x64b", 3, 0, (8, 1)),
        ("16x64b", 4, 0, (1, 0)),
        ("16x128b", 5, 0, (1, 1)),
        ("16x128b", 5, 1, (9, 1)),
        ("16x256b", 5, 0, (1, 2)),
        ("16x256b", 5, 1, (1, 3)),
        ("16x256b", 5, 2, (9, 2)),
        ("16x256b", 5, 3, (9, 3)),
        ("32x32b", 17, 0, (17, 0)),
    ],
)
def test_fragment_values(shape, thread, register, cell):
    lane, column = fragment_map(shape, 2)
    assert (lane[thread, register], column[thread, register]) == cell


@pytest.mark.parametrize(
    ("shape", "lanes", "columns"), [("32x32b", 32, 1), ("16x64b", 16, 2), ("16x128b", 16, 4), ("16x256b", 16, 8)]
)
@pytest.mark.parametrize("count", [1, 2, 16])
def test_each_shape_covers_its_rectangle_once(shape, lanes, columns, count):
    lane, column = fragment_map(shape, count)
    cells = set(zip(lane.reshape(-1).tolist(), column.reshape(-1).tolist(), strict=True))
    assert cells == {(i, j) for i in range(lanes) for j in range(columns * count)}
    assert lane.size == len(cells)


def test_split_halves_shape():
    lane, column = fragment_map("16x32bx2", 4, 64)
    assert (lane[3, 2], column[3, 2]) == (3, 2)
    assert (lane[19, 2], column[19, 2]) == (3, 66)


@pytest.mark.parametrize("warp", [0, 1, 6, 7])
@pytest.mark.parametrize("shape", FRAGMENTS)
def test_load_and_store_agree_with_the_map(shape, warp):
    memory = filled()
    first = 32 * (warp % 4)
    address = (first + (16 if shape != "32x32b" else 0)) << 16 | 40
    lane, column = fragment_map(shape, 4, 100)
    got = memory.load(shape, 4, address, warp, half_offset=100)
    assert got.dtype == np.uint32
    assert np.array_equal(got, ((address >> 16) + lane) * 512 + 40 + column)
    memory.store(shape, 4, address, warp, got + np.uint32(1), half_offset=100)
    assert np.array_equal(memory.load(shape, 4, address, warp, half_offset=100), got + 1)


def test_packed_halves():
    memory = filled()
    got = memory.load("32x32b", 4, 64, 0, pack16=True)
    lane, pair = np.arange(32)[:, None], np.arange(4)
    low = (lane * 512 + 64 + 2 * pair) & 0xFFFF
    assert np.array_equal(got, low | ((lane * 512 + 65 + 2 * pair) & 0xFFFF) << 16)
    memory.store("32x32b", 4, 64, 0, got, unpack16=True)
    assert np.array_equal(memory.load("32x32b", 8, 64, 0), (lane * 512 + 64 + np.arange(8)) & 0xFFFF)


def test_lane_rule():
    memory = filled()
    with raises("illegal", "warp 5", "lane 0", "start only at 32"):
        memory.load("32x32b", 1, 0, 5)
    with raises("illegal", "lane 16", "only at 0"):
        memory.load("32x32b", 1, 16 << 16, 0)
    with raises("illegal", "lane 8", "0 or 16"):
        memory.load("16x64b", 1, 8 << 16, 4)


def test_access_rules():
    memory = TensorMemory()
    memory.allocate(64)
    with raises("uninitialised", "lane 0 column 0"):
        memory.load("32x32b", 1, 0, 0)
    with raises("out_of_bounds", "column 64", "0..63"):
        memory.store("32x32b", 32, 48, 0, np.zeros((32, 32)))
    with raises("out_of_bounds", "500..515", "0..511"):
        memory.load("32x32b", 16, 500, 0)
    with raises("illegal", "3"):
        memory.load("32x32b", 3, 0, 0)
    with raises("illegal", "x64", "1..32"):
        memory.load("16x256b", 64, 0, 0)
    with raises("illegal", "8x8"):
        memory.load("8x8", 1, 0, 0)
    with raises("illegal", "(32, 4)", "(32, 2)"):
        memory.store("32x32b", 4, 0, 0, np.zeros((32, 2)))


def test_contents_do_not_survive_a_deallocation():
    memory = filled()
    memory.deallocate(0, 512)
    memory.allocate(512)
    with raises("uninitialised", "lane 0 column 0"):
        memory.load("32x32b", 1, 0, 0)
