"""Pieces of memory that an instruction touches: how far they reach, and the marks that stand there. As machine code where that is
possible, since each operation of NumPy on 32 lanes takes longer than all of this."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable

import numpy as np

from .blocks import BARRIER, WRITTEN
from .library import address_at, available
from .plain import Plain, i32, i64, machine_code

# Numbers that are told apart, at most.
_MOST = 64
_FEW = 128
_ALL_WRITTEN, _ANY_BARRIER = WRITTEN * 0x01010101, BARRIER * 0x01010101
_FOUND = np.zeros(2 * _MOST, np.int64)
_WORDS: memoryview[int] = _FOUND.data
_FOUND_ADDRESS = _FOUND.ctypes.data


def extent_of(addresses: int, count: int, found: int) -> int:
    """Of the addresses the lowest, the highest, and all bits that are set in any."""
    low, high, union = i64[addresses], i64[addresses], 0
    for lane in range(count):
        address = i64[addresses + 8 * lane]
        low, high, union = min(low, address), max(high, address), union | address
    i64[found], i64[found + 8], i64[found + 16] = low, high, union
    return 0


def _different(cells: int, index: int, count: int, each: int, found: int) -> int:
    """Writes down the different numbers in the cells of some pieces, `each` of them for every piece, and returns how many they are; -1:
    too many."""
    known, last = 0, -1
    for one in range(count):
        first = each * i64[index + 8 * one]
        for cell in range(first, first + each):
            number = i32[cells + 4 * cell]
            if number != last:
                last = number
                place = 0
                while place < known and i64[found + 8 * place] != number:
                    place = place + 1
                if place == known:
                    if known == _MOST:
                        return -1
                    i64[found + 8 * known] = number
                    known = known + 1
    return known


def standing_at(writers: int, readers: int, limit: int, index: int, count: int, each: int, found: int) -> int:
    """The different numbers of writers and behind them those of readers; how many writers there are, and 256 times how many readers.
    -1: there are too many, or a piece lies behind the `limit`."""
    for one in range(count):
        if i64[index + 8 * one] < 0 or i64[index + 8 * one] >= limit:
            return -1
    stored = _different(writers, index, count, each, found)
    if stored < 0:
        return -1
    loaded = _different(readers, index, count, each, found + 8 * stored)
    if loaded < 0:
        return -1
    return stored + 256 * loaded


def written_at(writers: int, readers: int, index: int, count: int, each: int, number: int) -> int:
    """`number` stands for who wrote some pieces, and nobody has read them since."""
    for one in range(count):
        first = each * i64[index + 8 * one]
        for cell in range(first, first + each):
            i32[writers + 4 * cell] = number
            i32[readers + 4 * cell] = 0
    return 0


def put_at(cells: int, index: int, count: int, each: int, number: int) -> int:
    """A number into all cells of some pieces."""
    for one in range(count):
        first = each * i64[index + 8 * one]
        for cell in range(first, first + each):
            i32[cells + 4 * cell] = number
    return 0


def moved(data: int, origins: int, memory: int, states: int, places: int, count: int, size: int) -> int:
    """Moves pieces of `size` bytes, a multiple of 4, from some offsets in the bytes at `data` to places in a memory, whose bytes are
    written then (zeros where an offset is negative); 1, with nothing done, where there are mbarriers."""
    seen = 0
    for one in range(count):
        state = states + i64[places + 8 * one]
        for word in range(0, size, 4):
            seen = seen | i32[state + word]
    if seen & _ANY_BARRIER:
        return 1
    for one in range(count):
        origin, place = i64[origins + 8 * one], i64[places + 8 * one]
        for word in range(0, size, 4):
            value = 0
            if origin >= 0:
                value = i32[data + origin + word]
            i32[memory + place + word] = value
            i32[states + place + word] = i32[states + place + word] | _ALL_WRITTEN
    return 0


@functools.cache
def _compiled(function: Plain, arguments: int) -> Callable[..., int] | None:
    if not available():
        return None
    prototype = ctypes.PYFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * arguments)
    return prototype(address_at(machine_code(function)))


def _address(array: np.ndarray) -> int:
    """Of an array that can be written, in the fastest way there is; raises TypeError for others."""
    return ctypes.addressof(ctypes.c_char.from_buffer(array))  # type: ignore[arg-type]  # an array is a buffer


def extent(addresses: np.ndarray) -> tuple[int, int, int]:
    """The lowest and the highest of some addresses, and all bits that are set in any."""
    call = _compiled(extent_of, 3)
    if call is not None and addresses.dtype == np.int64:
        try:
            call(_address(addresses), addresses.size, _FOUND_ADDRESS)
            return _WORDS[0], _WORDS[1], _WORDS[2]
        except (TypeError, ValueError):
            pass
    low, high = int(np.minimum.reduce(addresses, axis=None)), int(np.maximum.reduce(addresses, axis=None))
    return low, high, int(np.bitwise_or.reduce(addresses, axis=None))


def move(data: int, origins: np.ndarray, memory: int, states: int, places: np.ndarray, size: int) -> bool | None:
    """As `moved` does it: whether that was possible. None: there is no machine code."""
    call = _compiled(moved, 7)
    if call is None:
        return None
    return not call(data, _address(origins), memory, states, _address(places), places.size, size)


class Marks:
    """The cells of writers and readers of a memory, `each` of them for every piece."""

    def __init__(self, writers: np.ndarray, readers: np.ndarray) -> None:
        self.writers, self.readers, self.limit = writers, readers, len(writers)
        self.each = writers.shape[1] if writers.ndim > 1 else 1
        self.addresses = writers.ctypes.data, readers.ctypes.data
        self.standing_at, self.written_at, self.put_at = _compiled(standing_at, 7), _compiled(written_at, 6), _compiled(put_at, 5)

    def standing(self, index: np.ndarray | slice) -> tuple[set[int], set[int]]:
        """The different numbers of writers and of readers of some pieces."""
        if self.standing_at is not None and isinstance(index, np.ndarray) and index.dtype == np.int64:
            try:
                pieces = _address(index)
                found = self.standing_at(*self.addresses, self.limit, pieces, index.size, self.each, _FOUND_ADDRESS)
            except (TypeError, ValueError):
                found = -1
            if found >= 0:
                stored = found & 255
                return set(_WORDS[:stored]), set(_WORDS[stored : stored + (found >> 8)])
        return distinct(self.writers[index]), distinct(self.readers[index])

    def written(self, index: np.ndarray | slice, number: int) -> None:
        """`number` stands for who wrote these pieces, which are in the memory, and nobody has read them since."""
        if self.written_at is not None and isinstance(index, np.ndarray) and index.dtype == np.int64:
            try:
                self.written_at(*self.addresses, _address(index), index.size, self.each, number)
                return
            except (TypeError, ValueError):
                pass
        self.writers[index], self.readers[index] = number, 0

    def read(self, index: np.ndarray | slice, number: int) -> None:
        """`number` stands for who has read these pieces, which are in the memory."""
        if self.put_at is not None and isinstance(index, np.ndarray) and index.dtype == np.int64:
            try:
                self.put_at(self.addresses[1], _address(index), index.size, self.each, number)
                return
            except (TypeError, ValueError):
                pass
        self.readers[index] = number


def distinct(cells: np.ndarray) -> set[int]:
    """The numbers in `cells`; few as a rule."""
    # For few cells a set of Python is faster than two passes of NumPy.
    if cells.size <= _FEW:
        return set(cells.ravel().tolist())
    low, high = int(cells.min()), int(cells.max())
    if low == high:
        return {low}
    between = cells[(cells != low) & (cells != high)]
    return {low, high, *(np.unique(between).tolist() if between.size else ())}
