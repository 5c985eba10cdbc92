"""Marks of pieces of memory, as machine code and as NumPy has them."""

from __future__ import annotations

import numpy as np
import pytest

from pipec.sim.compiled import pieces

RNG = np.random.default_rng(5)


def _cells(numbers: int, each: int) -> np.ndarray:
    shape = (200, each) if each > 1 else (200,)
    return RNG.integers(0, numbers, shape, np.int32)


@pytest.mark.parametrize("each", [1, 2, 4])
@pytest.mark.parametrize("numbers", [1, 3, 60, 1000])  # of 1000 there are more than machine code tells apart
def test_marks_of_writers_and_readers(numbers: int, each: int) -> None:
    writers, readers = _cells(numbers, each), _cells(numbers, each)
    marks = pieces.Marks(writers, readers)
    for index in (RNG.integers(0, 200, 32), RNG.permutation(200), np.zeros(0, np.int64), np.arange(200)[::2], slice(3, 90)):
        expected = set(writers[index].ravel().tolist()), set(readers[index].ravel().tolist())
        assert marks.standing(index) == expected
        after = writers.copy(), readers.copy()
        after[0][index], after[1][index] = 7, 0
        marks.written(index, 7)
        assert np.array_equal(writers, after[0]) and np.array_equal(readers, after[1])
        after[1][index] = 9
        marks.read(index, 9)
        assert np.array_equal(writers, after[0]) and np.array_equal(readers, after[1])


@pytest.mark.parametrize("each", [1, 2, 4])
@pytest.mark.parametrize("numbers", [2, 3, 60, 1000])
def test_readers_are_replaced_one_by_one(numbers: int, each: int) -> None:
    writers, readers = _cells(numbers, each), _cells(numbers, each)
    marks, before, new = pieces.Marks(writers, readers), writers.copy(), RNG.permutation(numbers) + 2000
    for index in (RNG.integers(0, 200, 64), RNG.permutation(200)[:70], np.arange(200)[::2], slice(3, 90)):
        # What was replaced before stands for itself.
        made = {int(one): int(new[one]) if one < numbers else int(one) for one in np.unique(readers[index])}
        expected = readers.copy()
        expected[index] = np.vectorize(made.__getitem__, otypes=[np.int32])(readers[index])
        marks.read_after(index, made)
        assert np.array_equal(readers, expected) and np.array_equal(writers, before)


@pytest.mark.parametrize("wrong", [200, -201, 1 << 40])
def test_pieces_behind_the_memory_are_no_pieces(wrong: int) -> None:
    marks = pieces.Marks(_cells(3, 4), _cells(3, 4))
    with pytest.raises(IndexError):
        marks.standing(np.array([0, wrong]))


def test_granules_are_gathered_if_all_of_them_are_written() -> None:
    data, states = RNG.integers(0, 256, 4096).astype(np.uint8), np.full(4096, pieces.WRITTEN, np.uint8)
    granules = RNG.integers(0, 256, (40, 3))
    addresses = data.ctypes.data, states.ctypes.data
    found = pieces.gather(*addresses, granules)
    assert found is not None and np.array_equal(found, data.reshape(-1, 16)[granules].reshape(40, 48))
    states[16 * int(granules[7, 2]) + 9] = pieces.BARRIER
    assert pieces.gather(*addresses, granules) is None


@pytest.mark.parametrize("size", [4, 8, 16])
def test_pieces_are_moved_unless_there_is_a_barrier(size: int) -> None:
    data, memory, states = (RNG.integers(0, 256, 4096).astype(np.uint8) for _ in range(3))
    states &= pieces.WRITTEN
    origins, places = (size * RNG.permutation(4096 // size)[:32] for _ in range(2))
    origins[3] = -1
    expected, told = memory.copy(), states.copy()
    for origin, place in zip(origins, places, strict=True):
        expected[place : place + size] = data[origin : origin + size] if origin >= 0 else 0
        told[place : place + size] |= pieces.WRITTEN
    addresses = memory.ctypes.data, states.ctypes.data
    states[places[7] + size - 1] |= pieces.BARRIER
    before = memory.copy()
    assert pieces.move(data.ctypes.data, origins, *addresses, places, size) is False and np.array_equal(memory, before)
    states[places[7] + size - 1] &= ~np.uint8(pieces.BARRIER)
    assert pieces.move(data.ctypes.data, origins, *addresses, places, size) is True
    assert np.array_equal(memory, expected) and np.array_equal(states, told)


def test_extents() -> None:
    for addresses in (
        RNG.integers(0, 1 << 45, 32),
        RNG.integers(-5, 5, 32),
        np.arange(64)[::-3],
        np.broadcast_to(np.int64(9), 32),
    ):
        assert pieces.extent(addresses) == (addresses.min(), addresses.max(), np.bitwise_or.reduce(addresses))
