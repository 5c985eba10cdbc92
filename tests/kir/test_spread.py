"""Which thread has which element: every element of a tile belongs to exactly one thread and one of its values."""

import numpy as np
import pytest
from samples import some

from pipec.isa.dtypes import DTYPES
from pipec.kir.plan.memory import tile_layout
from pipec.kir.plan.roles import fragment_map, row_map_of, with_split
from pipec.kir.plan.striping import Stripes, striped_map, threads_of_row
from pipec.kir.plan.types import RowMap
from pipec.kir.spread import Share, Threads, direct_share, elements, panel_share, striped_share
from pipec.record import replace
from pipec.sema.types import TileType

WIDTHS = (*range(1, 65), 72, 80, 96, 100, 127, 128, 192, 255, 256)
_TYPES = ("i8", "bf16", "f32", "f64")


class AllThreads:
    """Arithmetic with the numbers of all threads of a role at once."""

    def constant(self, value: int) -> np.ndarray:
        return np.array(value)

    def add(self, left: np.ndarray, right: np.ndarray | int) -> np.ndarray:
        return left + right

    def multiply(self, left: np.ndarray, right: np.ndarray | int) -> np.ndarray:
        return left * right

    def bits(self, operation: str, left: np.ndarray, right: int) -> np.ndarray:
        return _OPERATIONS[operation](left, np.array(right))

    def binary(self, operation: str, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        return _OPERATIONS[operation](left, right)

    def compare(self, predicate: str, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        return _OPERATIONS[predicate](left, right)

    def select(self, condition: np.ndarray, when_true: np.ndarray, when_false: np.ndarray) -> np.ndarray:
        return np.where(condition, when_true, when_false)


_OPERATIONS = {
    "and": np.bitwise_and, "shl": np.left_shift, "lshr": np.right_shift, "urem": np.remainder, "udiv": np.floor_divide,
    "ult": np.less, "eq": np.equal,
}  # fmt: skip


def test_rows_are_shared_out() -> None:
    for warps in some("warps that share rows", (1, 2, 3, 4, 5, 8, 11, 12, 16), 0.4):
        for rows in (1, 40, 64, 200):
            _covers_all_ways(row_map_of(rows, 32 * warps, half_warps=False), warps, rows)


def test_neighbouring_threads_share_rows() -> None:
    for warps in some("warps side by side", (1, 2, 3, 4, 5, 8, 12, 16), 0.5):
        for rows in (1, 2, 3, 4, 7, 8, 16, 40, 64):
            if threads_of_row(rows, 32 * warps) == 1:
                continue
            for vector in (1, 2, 4, 8, 16):
                stripes = Stripes(vector, threads_of_row(rows, 32 * warps))
                row_map = striped_map(rows, 32 * warps, stripes, in_registers=False)
                for width in (vector, 3 * vector, 32 * vector, 40 * vector, 96 * vector):
                    _covers(row_map, warps, TileType(DTYPES["f32"], rows, width), striped_share(row_map, width))


def test_threads_have_a_row_of_each_block() -> None:
    """Of tiles with more rows than the threads have at a time, as many to a row as share its vectors."""
    for warps, rows, sharing in ((4, 64, 8), (8, 128, 8), (4, 128, 16), (1, 64, 32), (2, 48, 4)):
        row_map = striped_map(rows, 32 * warps, Stripes(4, sharing), in_registers=False)
        assert row_map.blocks == rows * sharing // (32 * warps)
        for width in (4 * sharing, 12 * sharing, 4 * sharing + 4):
            _covers(row_map, warps, TileType(DTYPES["f32"], rows, width), striped_share(row_map, width))


def test_threads_keep_equal_parts_of_a_row() -> None:
    """As many registers as the vectors of the thread that has most."""
    for columns, registers in ((1, 1), (8, 8), (512, 8), (520, 16), (1024, 16)):
        assert striped_map(4, 256, Stripes(8, 64), in_registers=True).columns_of_thread(columns) == registers


def test_lanes_of_a_warp_lie_side_by_side() -> None:
    """Each stripe of a row is one run of memory, which the lanes have in their order."""
    number = np.arange(256)
    threads = Threads(number, number // 32, number % 32, 8)
    for rows in (1, 2, 8, 32):
        row_map = striped_map(rows, 256, Stripes(4, threads_of_row(rows, 256)), in_registers=False)
        tile = TileType(DTYPES["f32"], rows, 4096)
        first = next(elements(AllThreads(), row_map, threads, tile, striped_share(row_map, 4096)))
        row, column = np.broadcast_arrays(first.row, first.column)
        assert (row == number // (256 // rows)).all() and (column == 4 * (number % (256 // rows))).all()


@pytest.mark.parametrize("warps", [4, 8, 12, 16, 20, 24, 32])
def test_half_warps_share_the_rows_of_an_accumulator(warps: int) -> None:
    _covers_all_ways(row_map_of(64, 32 * warps, half_warps=True), warps, 64)


@pytest.mark.parametrize("warps", [4, 8, 12, 16])
def test_warpgroups_share_what_wgmma_adds_up(warps: int) -> None:
    for share in (1, 2, 3):
        rows = 16 * warps * share
        row_map = fragment_map(rows, warps, in_registers=False)
        for width in WIDTHS:
            _covers(row_map, warps, TileType(DTYPES["f32"], rows, width), None)


@pytest.mark.parametrize("warps", [4, 8, 12])
def test_the_halves_of_a_folded_accumulator(warps: int) -> None:
    row_map = RowMap(64, 1, 1, False, warps > 4, folded=True)
    for width in range(16, 257, 16):
        for dtype in _TYPES:
            tile = TileType(DTYPES[dtype], 64, width)
            panel = tile_layout(64, width // 2, tile.dtype).span_bytes // tile.dtype.bytes
            for share in (direct_share(row_map, tile), panel_share(row_map, tile, panel)):
                _covers(row_map, warps, tile, share)


@pytest.mark.parametrize("half_warps", [False, True])
def test_kept_tiles(half_warps: bool) -> None:
    for warps in (4, 8, 12) if half_warps else range(1, 13):
        row_map = row_map_of(64, 32 * warps, half_warps=half_warps)
        row_map = replace(with_split(row_map, 2 if half_warps else 1), in_registers=True)
        for width in range(2, 65, 2) if half_warps else range(2, 65):
            tile = TileType(DTYPES["f32"], 64, width)
            for share in (direct_share(row_map, tile), panel_share(row_map, tile, width)):
                _covers(row_map, warps, tile, share)


def _covers_all_ways(row_map: RowMap, warps: int, rows: int) -> None:
    """By direct stores, and panel by panel where a row is a multiple of 16 bytes."""
    for width in (*range(1, 21), 24, 33, 48, 60, 64, 96, 100, 127, 256):
        for dtype in _TYPES if width < 20 else ("f32",):
            tile = TileType(DTYPES[dtype], rows, width)
            _covers(row_map, warps, tile, direct_share(row_map, tile) if width > 1 else None)
            if width * tile.dtype.bytes % 16 == 0:
                panel = tile_layout(row_map.block_rows, width, tile.dtype).span_bytes // tile.dtype.bytes
                _covers(row_map, warps, tile, panel_share(row_map, tile, panel))


def _covers(row_map: RowMap, warps: int, tile: TileType, share: Share | None) -> None:
    times = np.zeros((tile.rows, tile.columns), int)
    number = np.arange(32 * warps)
    threads = Threads(number, number // 32, number % 32, warps)
    for one in elements(AllThreads(), row_map, threads, tile, share):
        rows, columns = np.broadcast_arrays(one.row, one.column)
        stored = np.broadcast_to(True if one.stored is None else one.stored, number.shape)
        np.add.at(times, (np.broadcast_to(rows, number.shape)[stored], np.broadcast_to(columns, number.shape)[stored]), 1)
    assert (times == 1).all(), (row_map, warps, tile, share, np.argwhere(times != 1)[:3])
