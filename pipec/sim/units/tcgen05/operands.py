"""Where each operand byte of an MMA lies in shared memory (PTX ISA 9.7.16.3.3 canonical layouts, 9.7.16.10.6 swizzles)."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from pipec.record import record

from ..errors import UnitError
from ..protocols import SharedMemory
from ..swizzle import SWIZZLES
from .descriptors import MatrixDescriptor

GRANULE = 16
# Sub-byte types of kinds f8f6f4 and mxf8f6f4: 16 elements sit packed in the first bytes of a 16-byte container.
CONTAINER = 16
CONTAINER_PAYLOAD = {"e2m1": 8, "e2m3": 12, "e3m2": 12}
_SUBBYTE_BITS = {"e2m1": 4, "e2m3": 6, "e3m2": 6}

Indices = npt.NDArray[np.int64]
OperandPlacement = Callable[[Indices, Indices, int, int], Indices]


@record
class CanonicalLayout:
    """Linear byte offset from the start address, before the swizzle.

    k_major   (row, K byte, leading offset, stride offset) -> offset; None when the layout has no K-major form
    mn_major  (row byte, K index, leading offset, stride offset) -> offset
    """

    k_major: OperandPlacement | None
    mn_major: OperandPlacement


def _k_major_none(row: Indices, k_byte: Indices, leading: int, stride: int) -> Indices:
    return row % 8 * 16 + row // 8 * stride + k_byte // 16 * leading + k_byte % 16


def _mn_major_none(row_byte: Indices, k: Indices, leading: int, stride: int) -> Indices:
    # Without a swizzle the two offsets swap roles: the stride offset steps along M/N.
    return row_byte % 16 + row_byte // 16 * stride + k % 8 * 16 + k // 8 * leading


def _k_major_swizzled(width: int) -> OperandPlacement:
    def place(row: Indices, k_byte: Indices, leading: int, stride: int) -> Indices:
        return row % 8 * width + row // 8 * stride + k_byte

    return place


def _mn_major_swizzled(width: int, rows_per_group: int = 8) -> OperandPlacement:
    def place(row_byte: Indices, k: Indices, leading: int, stride: int) -> Indices:
        return row_byte % width + row_byte // width * leading + k % rows_per_group * width + k // rows_per_group * stride

    return place


LAYOUTS = {
    "none": CanonicalLayout(_k_major_none, _mn_major_none),
    "32B": CanonicalLayout(_k_major_swizzled(32), _mn_major_swizzled(32)),
    "64B": CanonicalLayout(_k_major_swizzled(64), _mn_major_swizzled(64)),
    "128B": CanonicalLayout(_k_major_swizzled(128), _mn_major_swizzled(128)),
    "128B_ATOM_32B": CanonicalLayout(None, _mn_major_swizzled(128, rows_per_group=4)),
}


@lru_cache(maxsize=512)
def operand_offsets(descriptor: MatrixDescriptor, rows: int, k: int, element_bytes: int, mn_major: bool) -> np.ndarray:
    """Absolute shared byte addresses, int64 [rows, k * element_bytes], bytes of one element adjacent.

    rows counts M (or N), k elements of `element_bytes` bytes.  UnitError for a layout that the major-ness or the element
    size rules out, and for addresses beyond the 256 KB a descriptor can reach.
    """
    place = _placement(descriptor.layout, element_bytes, mn_major)
    row = np.arange(rows, dtype=np.int64)[:, None]
    column = np.arange(k * element_bytes, dtype=np.int64)[None, :]
    if mn_major:
        row_byte = row * element_bytes + column % element_bytes
        linear = place(row_byte, column // element_bytes, descriptor.leading_offset, descriptor.stride_offset)
    else:
        linear = place(row, column, descriptor.leading_offset, descriptor.stride_offset)
    offsets = SWIZZLES[descriptor.layout].apply(linear + descriptor.start, descriptor.base_offset)
    if offsets.max() >= 1 << 18:
        raise UnitError(
            "out_of_bounds", f"operand reaches shared address {offsets.max():#x}, descriptors end at {(1 << 18) - 1:#x}"
        )
    offsets.flags.writeable = False
    return offsets


@lru_cache(maxsize=512)
def operand_lines(descriptor: MatrixDescriptor, rows: int, k: int, element_bytes: int, mn_major: bool) -> np.ndarray:
    """The 16-byte granules of an operand, by number, int64 [lines, granules of each]: a line is a row of a K-major operand, or a step of
    K of an MN-major one."""
    offsets = operand_offsets(descriptor, rows, k, element_bytes, mn_major)
    if mn_major:
        return np.ascontiguousarray(offsets[:: max(1, GRANULE // element_bytes), ::element_bytes].T) // GRANULE
    return np.ascontiguousarray(offsets[:, ::GRANULE]) // GRANULE


def _placement(name: str, element_bytes: int, mn_major: bool) -> OperandPlacement:
    layout = LAYOUTS[name]
    if mn_major and (element_bytes == 4) != (name == "128B_ATOM_32B"):
        raise UnitError(
            "illegal", f"MN-major elements of {element_bytes} bytes with layout {name}: 4 bytes go with 128B_ATOM_32B only"
        )
    if mn_major:
        return layout.mn_major
    if layout.k_major is None:
        raise UnitError("illegal", f"layout {name} has no K-major form")
    return layout.k_major


def read_operand(
    memory: SharedMemory, descriptor: MatrixDescriptor, rows: int, k: int, element_bytes: int, mn_major: bool, format_name: str
) -> np.ndarray:
    """Bit patterns [rows, k] of an operand in shared memory (dtype uint8, uint16 or uint32, one element per entry).

    Sub-byte formats with 1-byte containers are unpacked from their padded 16-byte groups; the pads are not read.
    """
    if format_name in CONTAINER_PAYLOAD:
        return _read_subbyte(memory, descriptor, rows, k, mn_major, format_name)
    return read_elements(memory, descriptor, rows, k, element_bytes, mn_major)


def read_elements(
    memory: SharedMemory, descriptor: MatrixDescriptor, rows: int, k: int, element_bytes: int, mn_major: bool
) -> np.ndarray:
    """`read_operand` for elements of whole bytes."""
    storage = f"<u{element_bytes}"
    if (rows if mn_major else k) * element_bytes % GRANULE:
        offsets = operand_offsets(descriptor, rows, k, element_bytes, mn_major)
        return np.ascontiguousarray(memory.read(offsets)).view(storage)
    # Every swizzle keeps 16 bytes together: one access instead of 16.
    lines = memory.read_granules(operand_lines(descriptor, rows, k, element_bytes, mn_major)).view(storage)
    return np.ascontiguousarray(lines.T) if mn_major else lines


def read_packed_fp4(memory: SharedMemory, descriptor: MatrixDescriptor, rows: int, k: int) -> np.ndarray:
    """e2m1 patterns (uint8 [rows, k]) of kinds mxf4 and mxf4nvf4: two per byte, even element in the low nibble, K-major."""
    data = read_elements(memory, descriptor, rows, k // 2, 1, False)
    return unpack_little_endian(data, 4)


def unpack_little_endian(data: np.ndarray, bits: int) -> np.ndarray:
    """Split rows of bytes (uint8 [..., bytes]) into `bits`-wide fields, least significant first (uint8 [..., bytes*8/bits])."""
    if bits == 4:
        return np.stack((data & 15, data >> 4), axis=-1).reshape(*data.shape[:-1], -1)
    triples = data.reshape(*data.shape[:-1], -1, 3).astype(np.uint32)
    words = triples[..., 0] | triples[..., 1] << 8 | triples[..., 2] << 16
    fields = np.stack([words >> shift & 63 for shift in (0, 6, 12, 18)], axis=-1)
    return fields.reshape(*data.shape[:-1], -1).astype(np.uint8)


def _read_subbyte(
    memory: SharedMemory, descriptor: MatrixDescriptor, rows: int, k: int, mn_major: bool, format_name: str
) -> np.ndarray:
    payload, bits = CONTAINER_PAYLOAD[format_name], _SUBBYTE_BITS[format_name]
    contiguous = rows if mn_major else k
    if contiguous % CONTAINER:
        raise UnitError(
            "illegal", f"{contiguous} elements of {format_name} along the contiguous direction, no multiple of {CONTAINER}"
        )
    offsets = operand_offsets(descriptor, rows, k, 1, mn_major)
    lines = offsets.T if mn_major else offsets
    # [lines, containers, 16] -> data bytes only; swizzle atoms are at least 16 bytes, so a container never splits.
    groups = lines.reshape(lines.shape[0], -1, CONTAINER)[:, :, :payload]
    patterns = unpack_little_endian(memory.read(np.ascontiguousarray(groups)), bits).reshape(lines.shape)
    return np.ascontiguousarray(patterns.T) if mn_major else patterns
