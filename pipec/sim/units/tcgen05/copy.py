"""tcgen05.cp: shared memory to tensor memory (PTX ISA 9.7.16.9)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pipec.record import record

from ..errors import UnitError
from ..protocols import SharedMemory
from .descriptors import decode_matrix_descriptor
from .memory import TensorMemory, split_address
from .operands import operand_offsets, unpack_little_endian


@record
class CopyShape:
    """`rows` of `row_bytes` each; row r goes to every lane in `lanes[r]` (relative to the address)."""

    rows: int
    row_bytes: int
    lanes: tuple[tuple[int, ...], ...]
    any_start_lane: bool = False


def _lanes(rows: int, place: Callable[[int], tuple[int, ...]]) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(place(row)) for row in range(rows))


# (shape, multicast qualifier) -> rows and lanes.
COPY_SHAPES = {
    ("128x256b", None): CopyShape(128, 32, _lanes(128, lambda row: (row,))),
    ("128x128b", None): CopyShape(128, 16, _lanes(128, lambda row: (row,))),
    # One row per 32-lane partition; the figure is missing from the available texts, this is the layout that libraries use.
    ("4x256b", None): CopyShape(4, 32, _lanes(4, lambda row: (32 * row,)), any_start_lane=True),
    ("64x128b", "warpx2::02_13"): CopyShape(64, 16, _lanes(64, lambda row: (row, row + 64))),
    ("64x128b", "warpx2::01_23"): CopyShape(64, 16, _lanes(64, lambda row: (row + row // 32 * 32, row + row // 32 * 32 + 32))),
    ("32x128b", "warpx4"): CopyShape(32, 16, _lanes(32, lambda row: (row, row + 32, row + 64, row + 96))),
}


@record
class Decompression:
    """16 elements of `bits` bits in the first `payload` of 16 source bytes become 16 bytes, shifted left by `shift`."""

    bits: int
    payload: int
    shift: int


# The position inside the byte is that of MMA containers: 6-bit values in bits 5:0, e2m1 in bits 5:2.
DECOMPRESSIONS = {"b6x16_p32": Decompression(6, 12, 0), "b4x16_p64": Decompression(4, 8, 2)}


def copy(
    shape: str,
    multicast: str | None,
    address: int,
    descriptor: int,
    shared_memory: SharedMemory,
    tensor_memory: TensorMemory,
    decompress: str | None = None,
) -> None:
    """Perform one tcgen05.cp for one CTA; cta_group::2 does the same in both CTAs, each with its own memories.

    shape      "128x256b", "128x128b", "4x256b", "64x128b", "32x128b"; multicast as in COPY_SHAPES
    decompress "b6x16_p32" or "b4x16_p64": the source element type of .b8x16.<type>
    """
    if (shape, multicast) not in COPY_SHAPES:
        known = ", ".join(".".join(filter(None, key)) for key in COPY_SHAPES)
        raise UnitError("illegal", f"tcgen05.cp shape {shape} with multicast {multicast} is none of {known}")
    row = COPY_SHAPES[shape, multicast]
    lane, column = split_address(address)
    if lane and not (row.any_start_lane and lane < 32):
        raise UnitError(
            "illegal", f"tcgen05.cp.{shape} to lane {lane}, must start at lane {'0..31' if row.any_start_lane else 0}"
        )
    offsets = operand_offsets(decode_matrix_descriptor(descriptor), row.rows, row.row_bytes, 1, False)
    data = _read(shared_memory, offsets, decompress)
    words = np.ascontiguousarray(data).view("<u4")
    lanes = np.array(row.lanes, dtype=np.int64).T + lane
    columns = column + np.arange(words.shape[1], dtype=np.int64)
    tensor_memory.write_cells(lanes[:, :, None], columns, words, f"tcgen05.cp.{shape}")


def _read(shared_memory: SharedMemory, offsets: np.ndarray, decompress: str | None) -> np.ndarray:
    if decompress is None:
        return shared_memory.read(offsets)
    if decompress not in DECOMPRESSIONS:
        raise UnitError("illegal", f"tcgen05.cp source format {decompress!r} is none of {', '.join(DECOMPRESSIONS)}")
    rule = DECOMPRESSIONS[decompress]
    groups = offsets.reshape(offsets.shape[0], -1, 16)[:, :, : rule.payload]
    packed = shared_memory.read(np.ascontiguousarray(groups))
    return (unpack_little_endian(packed, rule.bits) << np.uint8(rule.shift)).reshape(offsets.shape)
