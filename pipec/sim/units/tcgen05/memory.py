"""Tensor memory: 128 lanes x 512 columns of 32 bits, its allocator, and tcgen05.ld / st (PTX ISA 9.7.16.1, .7, .8)."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np

from ..errors import UnitError
from .cells import CellMap
from .fragments import fragment_map, fragment_shape

LANES = 128
COLUMNS = 512
ALLOCATION_UNIT = 32
WARP_LANES = 32


def split_address(address: int) -> tuple[int, int]:
    """(lane, column) of a tensor memory address: lane in the upper, column in the lower 16 bits."""
    return address >> 16 & 0xFFFF, address & 0xFFFF


def raised(error: UnitError) -> None:
    """The default reaction to reading unwritten memory."""
    raise error


class TensorMemory:
    """One CTA's tensor memory.  Cells are addressed by `lane * 512 + column`; only written cells may be read. Unwritten cells hold bytes
    of `filling`."""

    def __init__(self, unwritten: Callable[[UnitError], None] = raised, filling: int = 0) -> None:
        self.unwritten = unwritten
        self.cells = np.full(LANES * COLUMNS, filling * 0x01010101, dtype=np.uint32)
        self.written = np.zeros(LANES * COLUMNS, dtype=bool)
        self._grid = self.cells.reshape(LANES, COLUMNS)
        self._written_grid = self.written.reshape(LANES, COLUMNS)
        self.allocated = np.zeros(COLUMNS, dtype=bool)
        self.allocations: dict[int, int] = {}
        self._given_back: dict[int, int] = {}
        self.permit_relinquished = False
        self._last_allocation = COLUMNS

    def allocate(self, columns: int) -> int | None:
        """Base address of a new block of whole columns, or None when the instruction would block.

        Sizes are powers of two in 32..512 and must not grow from one allocation of the CTA to the next.
        """
        _check_column_count("alloc", columns)
        if self.permit_relinquished:
            raise UnitError("illegal", f"tcgen05.alloc of {columns} columns after relinquish_alloc_permit")
        if columns > self._last_allocation:
            raise UnitError(
                "illegal", f"tcgen05.alloc of {columns} columns after one of {self._last_allocation}: sizes must not grow"
            )
        # None is not an error: the instruction waits until another warp of the CTA deallocates columns.
        base = self._find_free(columns)
        if base is None:
            return None
        self._last_allocation = columns
        self.allocations[base] = columns
        self._set_allocated(base, columns, True)
        return base

    def deallocate(self, address: int, columns: int) -> None:
        """Free an allocation; address and size must be those of the alloc."""
        _check_column_count("dealloc", columns)
        if address not in self.allocations:
            known = ", ".join(f"{base:#x}" for base in self.allocations) or "nothing"
            raise UnitError("illegal", f"tcgen05.dealloc of address {address:#x}, but allocated is {known}")
        if self.allocations[address] != columns:
            raise UnitError(
                "illegal", f"tcgen05.dealloc of {columns} columns at {address:#x}, allocated were {self.allocations[address]}"
            )
        del self.allocations[address]
        self._given_back[address] = columns
        self._set_allocated(address, columns, False)

    def was_given_back(self, address: int, columns: int) -> bool:
        """Whether this was an allocation, of which nothing is allocated now."""
        return self._given_back.get(address) == columns and not self.allocated[address : address + columns].any()

    def relinquish(self) -> None:
        """No CTA-wide allocation is allowed afterwards."""
        self.permit_relinquished = True

    def leaks(self) -> dict[int, int]:
        """Base address -> columns of every allocation that was not freed."""
        return dict(self.allocations)

    def read(self, cells: CellMap, lane: int, column: int, what: str) -> np.ndarray:
        """uint32 cells of a map placed at (lane, column); every one must be allocated and written."""
        self._check(cells, lane, column, what)
        key = cells.select(lane, column)
        written = self._written_grid[key]
        if not written.all():
            index = np.nonzero(~written.reshape(-1))[0][0]
            bad_lane, bad_column = (int(part.reshape(-1)[index]) for part in (cells.lanes + lane, cells.columns + column))
            message = f"{what} reads lane {bad_lane} column {bad_column}, which was never written"
            self.unwritten(UnitError("uninitialised", message))
        return self._grid[key].copy()

    def write(self, cells: CellMap, lane: int, column: int, values: np.ndarray, what: str) -> None:
        """Write uint32 `values` to the cells of a map placed at (lane, column); every one must be allocated."""
        self._check(cells, lane, column, what)
        key = cells.select(lane, column)
        self._grid[key] = values
        self._written_grid[key] = True

    def write_cells(self, lanes: np.ndarray, columns: np.ndarray, values: np.ndarray, what: str) -> None:
        """Write uint32 `values` at the broadcast of absolute `lanes` and `columns`."""
        self.write(CellMap.of(lanes, columns), 0, 0, values, what)

    def shift(self, address: int) -> None:
        """tcgen05.shift: in 32 lanes by 8 columns, each row moves to the place of the previous one; the last one stays."""
        lane, column = split_address(address)
        if lane % WARP_LANES:
            raise UnitError("illegal", f"tcgen05.shift at lane {lane}, must be a multiple of {WARP_LANES}")
        self.write(SHIFTED, lane, column, self.read(SHIFTED, lane + 1, column, "tcgen05.shift"), "tcgen05.shift")

    def load(
        self, shape: str, count: int, address: int, warp_in_cta: int, pack16: bool = False, half_offset: int = 0
    ) -> np.ndarray:
        """tcgen05.ld: uint32 [32 threads, registers].  With `pack16` a register holds the low halves of two columns."""
        lane, column = warp_start(shape, count, address, warp_in_cta)
        what = f"tcgen05.ld.{shape}.x{count}"
        cells = _fragment_cells(shape, count, half_offset, pack16)
        if not pack16:
            return self.read(cells, lane, column, what)
        low = self.read(cells, lane, column, what) & np.uint32(0xFFFF)
        high = self.read(cells, lane, column + 1, what) & np.uint32(0xFFFF)
        return low | high << np.uint32(16)

    def store(
        self,
        shape: str,
        count: int,
        address: int,
        warp_in_cta: int,
        values: np.ndarray,
        unpack16: bool = False,
        half_offset: int = 0,
    ) -> None:
        """tcgen05.st of uint32 [32 threads, registers].  With `unpack16` the halves go to two columns' low halves."""
        lane, column = warp_start(shape, count, address, warp_in_cta)
        what = f"tcgen05.st.{shape}.x{count}"
        cells = _fragment_cells(shape, count, half_offset, unpack16)
        values = np.asarray(values, np.uint32)
        if values.shape != cells.lanes.shape:
            raise UnitError("illegal", f"{what} takes registers of shape {cells.lanes.shape}, got {values.shape}")
        if not unpack16:
            self.write(cells, lane, column, values, what)
            return
        # The upper halves are unspecified; zero is the natural reading.
        self.write(cells, lane, column, values & np.uint32(0xFFFF), what)
        self.write(cells, lane, column + 1, values >> np.uint32(16), what)

    def _check(self, cells: CellMap, lane: int, column: int, what: str) -> None:
        """All cells exist and lie in allocated columns."""
        for name, first, (low, high), limit in (
            ("lane", lane, cells.lane_range, LANES),
            ("column", column, cells.column_range, COLUMNS),
        ):
            if first + low < 0 or first + high >= limit:
                raise UnitError(
                    "out_of_bounds", f"{what} reaches {name} {first + low}..{first + high}, tensor memory has 0..{limit - 1}"
                )
        low, high = cells.column_range
        if self.allocated[column + low : column + high + 1].all():
            return
        columns = cells.columns + column
        foreign = columns[~self.allocated[columns]]
        if foreign.size:
            blocks = ", ".join(f"{base}..{base + size - 1}" for base, size in self.allocations.items()) or "none"
            raise UnitError("out_of_bounds", f"{what} reaches column {foreign.min()}, allocated columns are {blocks}")

    def _find_free(self, columns: int) -> int | None:
        for base in range(0, COLUMNS - columns + 1, ALLOCATION_UNIT):
            if not self.allocated[base : base + columns].any():
                return base
        return None

    def _set_allocated(self, base: int, columns: int, allocated: bool) -> None:
        self.allocated[base : base + columns] = allocated
        # Contents after an allocation are undefined.
        self._written_grid[:, base : base + columns] = False


# The rows that tcgen05.shift writes: shape .31x256b (PTX ISA 9.7.16.2.3).
SHIFTED = CellMap.of(np.arange(WARP_LANES - 1, dtype=np.int64)[:, None], np.arange(8, dtype=np.int64)[None, :])


@lru_cache(maxsize=256)
def _fragment_cells(shape: str, count: int, half_offset: int, every_second: bool) -> CellMap:
    """Cells of a register fragment; packed 16-bit forms use every second column (and again the one after it)."""
    lanes, columns = fragment_map(shape, count, half_offset)
    return CellMap.of(lanes, columns * 2 if every_second else columns)


def warp_start(shape: str, count: int, address: int, warp_in_cta: int) -> tuple[int, int]:
    """(lane, column) of an address that this warp may use: warp w owns lanes 32*(w % 4) and the 31 after."""
    row = fragment_shape(shape, count)
    lane, column = split_address(address)
    # A warp is wired to a quarter of the lanes, by its number in its warpgroup.
    first = warp_in_cta % 4 * WARP_LANES
    allowed = (first,) if row.lanes == WARP_LANES else (first, first + 16)
    if lane not in allowed:
        expected = " or ".join(map(str, allowed))
        raise UnitError(
            "illegal", f"warp {warp_in_cta} accesses tensor memory lane {lane} with shape {shape}, may start only at {expected}"
        )
    return lane, column


def _check_column_count(operation: str, columns: int) -> None:
    if not ALLOCATION_UNIT <= columns <= COLUMNS or columns & (columns - 1):
        raise UnitError(
            "illegal", f"tcgen05.{operation} of {columns} columns: must be a power of two in {ALLOCATION_UNIT}..{COLUMNS}"
        )
