"""Pieces of memory that an instruction touches: their extent, and the marks recorded for them. Machine code where possible, since each
NumPy operation on 32 lanes takes longer than all of this."""

from __future__ import annotations

import ctypes
import functools
from array import array
from collections.abc import Callable, Mapping

import numpy as np

from .blocks import BARRIER, WRITTEN
from .library import address_at, available
from .plain import Plain, i32, i64, machine_code

# Maximum number of distinct numbers.
_MOST = 512
_FEW = 128
_ALL_WRITTEN, _ANY_BARRIER = WRITTEN * 0x01010101, BARRIER * 0x01010101
_EACH_WRITTEN = WRITTEN * 0x0101010101010101
_FOUND = np.zeros(2 * _MOST, np.int64)
_WORDS: memoryview[int] = _FOUND.data
_FOUND_ADDRESS = _FOUND.ctypes.data


def extent_of(addresses: int, count: int, found: int) -> int:
    """The lowest and the highest address, and the OR of all addresses."""
    low, high, union = i64[addresses], i64[addresses], 0
    for lane in range(count):
        address = i64[addresses + 8 * lane]
        low, high, union = min(low, address), max(high, address), union | address
    i64[found], i64[found + 8], i64[found + 16] = low, high, union
    return 0


def _different(cells: int, index: int, count: int, each: int, found: int) -> int:
    """Writes the distinct numbers in the cells of some pieces, `each` cells per piece, and returns how many there are; -1: too many."""
    known, last, place = 0, -1, 0
    for one in range(count):
        first = each * i64[index + 8 * one]
        for cell in range(first, first + each):
            number = i32[cells + 4 * cell]
            if number != last:
                last = number
                # Starts at the position of the previous number, since the marks of several instructions recur in the same order.
                looked = 0
                while looked < known and i64[found + 8 * place] != number:
                    looked, place = looked + 1, place + 1
                    if place == known:
                        place = 0
                if looked == known:
                    if known == _MOST:
                        return -1
                    i64[found + 8 * known] = number
                    place, known = known, known + 1
    return known


def standing_at(writers: int, readers: int, limit: int, index: int, count: int, each: int, found: int) -> int:
    """The distinct numbers of writers, then those of readers; returns the number of writers plus 4096 times the number of readers. -1:
    there are too many, or a piece lies beyond `limit`."""
    for one in range(count):
        if i64[index + 8 * one] < 0 or i64[index + 8 * one] >= limit:
            return -1
    stored = _different(writers, index, count, each, found)
    if stored < 0:
        return -1
    loaded = _different(readers, index, count, each, found + 8 * stored)
    if loaded < 0:
        return -1
    return stored + 4096 * loaded


def written_at(writers: int, readers: int, index: int, count: int, each: int, number: int) -> int:
    """Records `number` as the writer of some pieces, with no readers since."""
    for one in range(count):
        first = each * i64[index + 8 * one]
        for cell in range(first, first + each):
            i32[writers + 4 * cell] = number
            i32[readers + 4 * cell] = 0
    return 0


def put_at(cells: int, index: int, count: int, each: int, number: int) -> int:
    """Writes a number into all cells of some pieces."""
    for one in range(count):
        first = each * i64[index + 8 * one]
        for cell in range(first, first + each):
            i32[cells + 4 * cell] = number
    return 0


def replaced_at(cells: int, index: int, count: int, each: int, olds: int, news: int, most: int) -> int:
    """In the cells of some pieces, replaces `olds` by `news`, at most `most` numbers each. Other numbers stay; they occur where a piece
    is listed twice."""
    last, new = -1, 0
    for one in range(count):
        first = each * i64[index + 8 * one]
        for cell in range(first, first + each):
            number = i32[cells + 4 * cell]
            if number != last:
                last, place = number, 0
                while place < most and i64[olds + 8 * place] != number:
                    place = place + 1
                new = number
                if place < most:
                    new = i64[news + 8 * place]
            i32[cells + 4 * cell] = new
    return 0


def moved(data: int, origins: int, memory: int, states: int, places: int, count: int, size: int) -> int:
    """Moves pieces of `size` bytes, a multiple of 4, from offsets in the bytes at `data` to places in a memory, whose bytes are marked
    as written (zeros where an offset is negative); returns 1 and changes nothing where there are mbarriers."""
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


def gathered(data: int, states: int, granules: int, count: int, into: int) -> int:
    """The bytes of some 16-byte granules, consecutively; returns 1 if any of them has not been written."""
    missed = 0
    for one in range(count):
        at, here = 16 * i64[granules + 8 * one], into + 16 * one
        i64[here], i64[here + 8] = i64[data + at], i64[data + at + 8]
        missed = missed | ~i64[states + at] | ~i64[states + at + 8]
    return (missed & _EACH_WRITTEN) != 0


@functools.cache
def compiled(function: Plain, arguments: int) -> Callable[..., int] | None:
    if not available():
        return None
    prototype = ctypes.PYFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * arguments)
    return prototype(address_at(machine_code(function)))


def pointer_to(array: np.ndarray) -> int:
    """The address of a writable array, in the fastest way; raises TypeError for read-only ones."""
    return ctypes.addressof(ctypes.c_char.from_buffer(array))  # type: ignore[arg-type]  # an array is a buffer


def extent(addresses: np.ndarray) -> tuple[int, int, int]:
    """The lowest and the highest address, and the OR of all addresses."""
    call = compiled(extent_of, 3)
    if call is not None and addresses.dtype == np.int64:
        try:
            call(pointer_to(addresses), addresses.size, _FOUND_ADDRESS)
            return _WORDS[0], _WORDS[1], _WORDS[2]
        except (TypeError, ValueError):
            pass
    low, high = int(np.minimum.reduce(addresses, axis=None)), int(np.maximum.reduce(addresses, axis=None))
    return low, high, int(np.bitwise_or.reduce(addresses, axis=None))


def move(data: int, origins: np.ndarray, memory: int, states: int, places: np.ndarray, size: int) -> bool | None:
    """Calls `moved`; returns whether it succeeded. None: there is no machine code."""
    call = compiled(moved, 7)
    if call is None:
        return None
    return not call(data, pointer_to(origins), memory, states, pointer_to(places), places.size, size)


def gather(data: int, states: int, granules: np.ndarray) -> np.ndarray | None:
    """The bytes of lines of 16-byte granules, which must be inside the memory, [lines, bytes]; None if some have not been written, or
    there is no machine code."""
    call = compiled(gathered, 5)
    if call is None or granules.dtype != np.int64:
        return None
    found = np.empty((len(granules), 16 * granules.shape[1]), np.uint8)
    try:
        missed = call(data, states, pointer_to(granules), granules.size, pointer_to(found))
    except (TypeError, ValueError):
        return None
    return None if missed else found


class Marks:
    """The writer and reader cells of a memory, `each` of them per piece."""

    def __init__(self, writers: np.ndarray, readers: np.ndarray) -> None:
        self.writers, self.readers, self.limit = writers, readers, len(writers)
        self.each = writers.shape[1] if writers.ndim > 1 else 1
        self.addresses = writers.ctypes.data, readers.ctypes.data
        self.standing_at, self.written_at, self.put_at = compiled(standing_at, 7), compiled(written_at, 6), compiled(put_at, 5)
        self.replaced_at = compiled(replaced_at, 7)

    def standing(self, index: np.ndarray | slice) -> tuple[set[int], set[int]]:
        """The distinct numbers of writers and of readers of some pieces."""
        if self.standing_at is not None and isinstance(index, np.ndarray) and index.dtype == np.int64:
            try:
                pieces = pointer_to(index)
                found = self.standing_at(*self.addresses, self.limit, pieces, index.size, self.each, _FOUND_ADDRESS)
            except (TypeError, ValueError):
                found = -1
            if found >= 0:
                stored = found & 4095
                return set(_WORDS[:stored]), set(_WORDS[stored : stored + (found >> 12)])
        return distinct(self.writers[index]), distinct(self.readers[index])

    def written(self, index: np.ndarray | slice, number: int) -> None:
        """Records `number` as the writer of these pieces, which must be inside the memory, with no readers since."""
        if self.written_at is not None and isinstance(index, np.ndarray) and index.dtype == np.int64:
            try:
                self.written_at(*self.addresses, pointer_to(index), index.size, self.each, number)
                return
            except (TypeError, ValueError):
                pass
        self.writers[index], self.readers[index] = number, 0

    def read(self, index: np.ndarray | slice, number: int) -> None:
        """Records `number` as the readers of these pieces, which must be inside the memory."""
        if self.put_at is not None and isinstance(index, np.ndarray) and index.dtype == np.int64:
            try:
                self.put_at(self.addresses[1], pointer_to(index), index.size, self.each, number)
                return
            except (TypeError, ValueError):
                pass
        self.readers[index] = number

    def read_after(self, index: np.ndarray | slice, made: Mapping[int, int]) -> None:
        """Replaces the reader set of each of these pieces by the one that `made` maps it to."""
        if self.replaced_at is not None and isinstance(index, np.ndarray) and index.dtype == np.int64 and len(made) <= _MOST:
            try:
                pieces = pointer_to(index)
                _WORDS[: len(made)] = array("q", made)
                _WORDS[_MOST : _MOST + len(made)] = array("q", made.values())
                news = _FOUND_ADDRESS + 8 * _MOST
                self.replaced_at(self.addresses[1], pieces, index.size, self.each, _FOUND_ADDRESS, news, len(made))
                return
            except (TypeError, ValueError):
                pass
        old = self.readers[index]
        marks = old.copy()
        for one, new in made.items():
            marks[old == one] = new
        self.readers[index] = marks


def distinct(cells: np.ndarray) -> set[int]:
    """The distinct numbers in `cells`; usually few."""
    # For few cells a Python set is faster than two NumPy passes.
    if cells.size <= _FEW:
        return set(cells.ravel().tolist())
    low, high = int(cells.min()), int(cells.max())
    if low == high:
        return {low}
    between = cells[(cells != low) & (cells != high)]
    return {low, high, *(np.unique(between).tolist() if between.size else ())}
