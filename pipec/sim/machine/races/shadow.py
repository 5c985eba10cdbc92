"""The last accesses to each place of a memory: the shadow on which race detection is based.

A place is some bytes (or 16 lanes by one column of tensor memory). For each, the shadow has a number for the set of accesses that wrote
it last, and one for those that have read it since. Sets are created once and shared, so that a tile is marked by one assignment. For
memory that threads store to, it also records what the last store replaced: where a race with that store is harmless, one with an earlier
access may not be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal

import numpy as np

from ...compiled import blocks as native
from ...compiled.pieces import Marks
from ...ptx.types import Addresses
from .ledger import Access, Cells, Ledger
from .signals import Signal

Memory = Literal["shared", "global", "tensor"]
Index = Addresses | slice  # one number per piece, or a range of places
_LOGGED_CELLS, _LOGGED_ENTRIES, _FIRST_ENTRIES = 1 << 22, 1 << 15, 1 << 9


class Shadow:
    """The shadow of `size` bytes, in places of `granule` bytes; refined once a smaller access occurs. Created at first use."""

    def __init__(self, kind: Memory, size: int, granule: int, place: Callable[[int], str]) -> None:
        self.kind, self.size, self.granule, self.place = kind, size, granule, place
        self.owner = ""  # the CTA whose memory it is
        self.origin = 0  # host address of the first byte of global memory
        self.writes = self.reads = self.replaced = np.zeros(0, np.int32)
        self.rows: dict[int, tuple[Cells, Cells]] = {}
        self.marked: dict[int, Marks] = {}
        self.block = np.zeros(native.SHADOW_WORDS, np.int64)  # the pointer table for machine code
        self.log: ReadLog | None = None
        self.was_logged = False  # whether a log of reads was dropped
        self.signals: dict[int, Signal] = {}  # by address
        self.filled_by: Callable[[int], int] = lambda address: -1  # the mbarrier that identifies an address's stage

    def of(self, size: int) -> tuple[Cells, Cells]:
        """(writers, readers) of pieces of `size` bytes, by piece number; a piece may be several places."""
        found = self.rows.get(size)
        return found if found is not None else self._made(size)

    def _made(self, size: int) -> tuple[Cells, Cells]:
        if not self.writes.size:
            self.granule = min(self.granule, size)
            count = -(-self.size // 128) * 128 // self.granule
            self.writes, self.reads = np.zeros(count, np.int32), np.zeros(count, np.int32)
            self.replaced = np.zeros(0 if self.kind == "tensor" else count, np.int32)
        # Rare: a byte access to memory that was marked in words.
        if size < self.granule:
            times = self.granule // size
            self.writes, self.reads, self.replaced = (
                np.repeat(cells, times) for cells in (self.writes, self.reads, self.replaced)
            )
            self.granule = size
            self.rows.clear()
            self.marked.clear()
        for place, cells in ((native.WRITERS, self.writes), (native.READERS, self.reads)):
            self.block[place // 8] = cells.ctypes.data
        if self.replaced.size:
            self.block[native.REPLACED // 8] = self.replaced.ctypes.data
        self.block[native.SHIFT // 8] = self.granule.bit_length() - 1
        each = size // self.granule
        shape = (-1, each) if each > 1 else (-1,)
        self.rows[size] = found = self.writes.reshape(shape), self.reads.reshape(shape)
        return found

    def marks(self, size: int) -> Marks:
        """The same, for whole-array operations."""
        found = self.marked.get(size)
        if found is None:
            found = self.marked[size] = Marks(*self.of(size))
        return found

    def replaced_by(self, size: int) -> Cells:
        """By pieces as in `of`: what the last store has replaced. Not kept for tensor memory."""
        writers, _ = self.of(size)
        return self.replaced.reshape(-1, *writers.shape[1:])

    def keep_log(self) -> None:
        """From now on reads are only logged, until the first write."""
        self.log = ReadLog(self.block)

    def end_log(self, ledger: Ledger) -> Iterator[tuple[Access, Addresses, int]]:
        """The logged reads, to be marked now: the access, the pieces, and their size."""
        log, self.log = self.log, None
        if log is not None:
            self.block[native.LOG // 8] = 0
            yield from log.entries
            yield from log.by_machine_code(ledger)

    def drop_log(self) -> None:
        """Without marking its reads."""
        self.was_logged = self.log is not None and bool(self.log.entries or self.log.count)
        self.log = None

    @property
    def was_read(self) -> bool:
        return self.was_logged or bool(self.reads.any())

    def read_since(self, offsets: Addresses) -> np.ndarray:
        """Whether each of these bytes has been read since it was last written."""
        _, readers = self.cells
        read: np.ndarray = readers[offsets // self.granule] != 0
        return read

    @property
    def cells(self) -> tuple[Cells, Cells]:
        return self.of(self.granule)

    def pieces(self, places: Addresses, size: int) -> Index:
        """The places of pieces of `size` bytes."""
        self.of(size)
        each = size // self.granule
        return places if each == 1 else (places[:, None] * each + np.arange(each)).reshape(-1)


class ReadLog:
    """Reads of memory that has not been written: they matter only after a write. Machine code writes its own into `rows`."""

    def __init__(self, block: np.ndarray) -> None:
        self.entries: list[tuple[Access, Addresses, int]] = []
        self.cells, self.block = 0, block
        self.rows = np.empty((0, native.LOG_WORDS), np.int64)
        block[native.LOG_COUNT // 8] = 0
        self._make_room(_FIRST_ENTRIES)

    def note(self, access: Access, index: Addresses, size: int) -> bool:
        """Adds an entry; returns whether there is room for more."""
        self.entries.append((access, index, size))
        self.cells += index.size
        if self.count == len(self.rows) < _LOGGED_ENTRIES:
            self._make_room(4 * self.count)
        return self.cells < _LOGGED_CELLS and len(self.entries) < _LOGGED_ENTRIES and self.count < _LOGGED_ENTRIES

    def _make_room(self, entries: int) -> None:
        rows = np.empty((entries, native.LOG_WORDS), np.int64)
        rows[: len(self.rows)] = self.rows
        self.rows = rows
        self.block[native.LOG // 8], self.block[native.LOG_LIMIT // 8] = rows.ctypes.data, entries

    @property
    def count(self) -> int:
        return int(self.block[native.LOG_COUNT // 8])

    @property
    def numbers(self) -> Cells:
        """The sets that it refers to."""
        return self.rows[: self.count, 0]

    def by_machine_code(self, ledger: Ledger) -> Iterator[tuple[Access, Addresses, int]]:
        for row in self.rows[: self.count]:
            size, offsets = int(row[1]), row[2:]
            yield ledger.members(int(row[0]))[-1], offsets[offsets >= 0] // size, size


def where(cells: Cells, index: Index, number: int, size: int) -> int:
    """The first byte of the first piece with this mark."""
    marks = cells[index]
    if marks.ndim > 1:
        row, column = np.argwhere(marks == number)[0]
        piece, inside = row, int(column) * (size // marks.shape[1])
    else:
        piece, inside = np.flatnonzero(marks == number)[0], 0
    first = int(piece) + index.start if isinstance(index, slice) else int(np.asarray(index).reshape(-1)[piece])
    return int(first * size + inside)


def places_of(cells: Cells, index: Index, number: int, size: int) -> list[int]:
    """The first bytes of all pieces with this mark."""
    marks = (cells[index] == number).reshape(-1, cells[0].size).any(axis=1)
    pieces = np.arange(index.start, index.stop) if isinstance(index, slice) else np.asarray(index).reshape(-1)
    return [int(piece) * size for piece in pieces[marks]]
