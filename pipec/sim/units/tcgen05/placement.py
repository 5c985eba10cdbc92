"""Which lane and column of tensor memory holds D[m][n], A[m] and the block scales (PTX ISA 9.7.16.10.5, .7)."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np

from pipec.record import record

from .cells import CellMap
from .descriptors import InstructionDescriptor

# 32 bytes of K per dense instruction are 8 columns of tensor memory.
A_COLUMNS = 8

LanePlacement = Callable[[np.ndarray, np.ndarray, int], tuple[np.ndarray, np.ndarray]]


def _one_row_per_lane(m: np.ndarray, n: np.ndarray, columns: int) -> tuple[np.ndarray, np.ndarray]:
    return m + 0 * n, n + 0 * m


def _half_of_n_per_half(m: np.ndarray, n: np.ndarray, columns: int) -> tuple[np.ndarray, np.ndarray]:
    half = columns // 2
    return m + n // half * 64, n % half + 0 * m


def _sixteen_rows_per_partition(m: np.ndarray, n: np.ndarray, columns: int) -> tuple[np.ndarray, np.ndarray]:
    return m // 16 * 32 + m % 16 + 0 * n, n + 0 * m


def _quarter_of_n_per_partition(m: np.ndarray, n: np.ndarray, columns: int) -> tuple[np.ndarray, np.ndarray]:
    quarter = columns // 4
    return m + n // quarter * 32, n % quarter + 0 * m


@record
class DataPath:
    """One data-path layout, for the rows of one CTA.

    place      (row within the CTA, column of D, N) -> (lane, column) relative to the D address
    lanes      first lanes that the D address may name
    a_copies   lane distances at which rows of A stand when it is in tensor memory: each is multiplied with its own part of N, and may
               hold something else
    """

    place: LanePlacement
    lanes: tuple[int, ...] = (0,)
    a_copies: tuple[int, ...] = (0,)


DATA_PATHS = {
    "A": DataPath(_one_row_per_lane),
    # Both halves of the lanes multiply 64 rows, each with its half of N. FlashMLA stores another half of K in the upper ones, and adds up
    # the two halves of N: two products by one instruction.
    "B": DataPath(_half_of_n_per_half, a_copies=(0, 64)),
    # As F, in each CTA.
    "C": DataPath(_sixteen_rows_per_partition, lanes=(0, 16)),
    "D": DataPath(_one_row_per_lane),
    "E": DataPath(_half_of_n_per_half, a_copies=(0, 64)),
    "F": DataPath(_sixteen_rows_per_partition, lanes=(0, 16)),
    "G": DataPath(_quarter_of_n_per_partition, a_copies=(0, 32, 64, 96)),
}

# (cta_group, M, weight stationary) -> data path of dense instructions.
_DATA_PATH_OF = {
    (2, 256, False): "A",
    (2, 128, False): "B",
    (1, 128, False): "D",
    (1, 128, True): "D",
    (1, 64, True): "E",
    (1, 64, False): "F",
    (1, 32, True): "G",
}


def data_path_name(descriptor: InstructionDescriptor, weight_stationary: bool) -> str:
    """Letter of the data-path layout of an already checked instruction descriptor."""
    shape = descriptor.cta_group, descriptor.m
    return "C" if descriptor.sparse and shape == (2, 128) else _DATA_PATH_OF[(*shape, weight_stationary)]


@lru_cache(maxsize=64)
def d_cells(name: str, rows: int, columns: int) -> CellMap:
    """Cells of D, [rows of one CTA, N], relative to the D address."""
    m = np.arange(rows, dtype=np.int64)[:, None]
    n = np.arange(columns, dtype=np.int64)[None, :]
    return CellMap.of(*DATA_PATHS[name].place(m, n, columns))


@lru_cache(maxsize=64)
def a_cells(name: str, rows: int) -> CellMap:
    """Cells [copies, rows, 8 columns] of A in tensor memory, relative to its address."""
    path = DATA_PATHS[name]
    lane, _ = path.place(np.arange(rows, dtype=np.int64)[:, None], np.zeros((1, 1), np.int64), 4)
    copies = np.array(path.a_copies, dtype=np.int64)[:, None, None]
    return CellMap.of(lane + copies, np.arange(A_COLUMNS, dtype=np.int64))


@lru_cache(maxsize=64)
def metadata_cells(rows: int, element_bytes: int) -> CellMap:
    """Cells of the metadata of a sparse A, relative to their address (SM100 notes 3.11).

    16 bits and more: [rows, halves of K], and each cell has 16 bits for its row, the lower ones where row / 8 is even. 8 bits:
    [rows, 2 columns], all 32 bits for the row.
    """
    row = np.arange(rows, dtype=np.int64)[:, None]
    # With 64 rows they are placed like those of D: 16 per partition of 32 lanes.
    group = row // 16 * (32 if rows == 64 else 16)
    part = np.arange(2, dtype=np.int64)[None, :]
    if element_bytes == 1:
        return CellMap.of(group + row % 16, part)
    return CellMap.of(group + row % 8 + 8 * part, np.zeros((1, 1), np.int64))


@lru_cache(maxsize=64)
def scale_cells(rows: int) -> CellMap:
    """Cells [4 partitions, rows] of the word with the scales of every row; all partitions hold the same."""
    row = np.arange(rows, dtype=np.int64)[None, :]
    partition = np.arange(4, dtype=np.int64)[:, None]
    return CellMap.of(row % 32 + 32 * partition, row // 32)
