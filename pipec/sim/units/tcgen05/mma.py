"""One whole tcgen05.mma: operands in, matrix product by the accumulation model, D out (PTX ISA 9.7.16.10)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pipec.record import record

from ..errors import UnitError
from ..matrix.sparsity import spread
from ..numbers import numerics as accumulation
from ..numbers.formats import Decomposed, decode, decompose, integers
from ..numbers.numerics import Numerics
from ..protocols import SharedMemory
from .columns import ColumnMask, column_mask
from .descriptors import KINDS, InstructionDescriptor, MmaKind, decode_instruction_descriptor, decode_matrix_descriptor
from .memory import LANES, TensorMemory, split_address
from .operands import read_operand, read_packed_fp4, unpack_little_endian
from .placement import DATA_PATHS, a_cells, d_cells, data_path_name, metadata_cells, scale_cells

PACKED_FP4_KINDS = frozenset({"mxf4", "mxf4nvf4"})
NUMERICS = ("exact", "fast")


@record
class Modifiers:
    """Everything about an instruction besides its operands' addresses."""

    accumulate: bool
    a_in_tmem: bool
    a_shifted: bool
    weight_stationary: bool
    scale_input_d: int
    numerics: Numerics
    metadata_address: int | None = None
    column_mask: ColumnMask | None = None


@record
class MmaOperands:
    """What one tcgen05.mma names: the fields of its encoding that say which places it reads and writes.

    a, b             64-bit shared-memory descriptors; with a_in_tmem, a is a tensor memory address
    scale_addresses  tensor memory addresses of the block scales of A and B; scale_vector 1, 2 or 4 (None: the kind's default)
    metadata_address  tensor memory address of the metadata of a sparse A; None: A is dense
    zero_columns     the zero-column mask descriptor of the weight-stationary form
    """

    kind: MmaKind
    idesc: int
    a: int
    b: int
    d_address: int
    accumulate: bool
    cta_group: int = 1
    a_in_tmem: bool = False
    scale_addresses: tuple[int, int] | None = None
    scale_vector: int | None = None
    metadata_address: int | None = None
    weight_stationary: bool = False
    zero_columns: int | None = None

    def descriptor(self) -> InstructionDescriptor:
        sparse = self.metadata_address is not None
        return decode_instruction_descriptor(
            self.idesc, self.kind, self.cta_group, self.scale_vector, self.weight_stationary, sparse
        )

    def column_mask(self, descriptor: InstructionDescriptor) -> ColumnMask | None:
        if self.zero_columns is None:
            return None
        return column_mask(self.zero_columns, descriptor.m, descriptor.n, descriptor.maximum_shift)


def mma(
    operands: MmaOperands,
    tensor_memories: Sequence[TensorMemory],
    shared_memories: Sequence[SharedMemory],
    *,
    a_shifted: bool = False,
    disable_output_lane: Sequence[int] | None = None,
    scale_input_d: int = 0,
    numerics: Numerics = "exact",
) -> InstructionDescriptor:
    """Perform one tcgen05.mma at once and return its decoded instruction descriptor.

    *_memories       one per CTA of the group, even CTA first
    a_shifted        row i is multiplied as row i - 1, and the last one also as itself; tensor memory stays as it is
    disable_output_lane  4 (cta_group 2: 8) words of 32 lane bits; 1 leaves that lane's D unchanged
    scale_input_d    D is multiplied by 2**-s before the addition (kinds f16 and tf32)
    numerics         "exact" (the accumulation model) or "fast" (float64 product, rounded once)

    UnitError: bad descriptors or shapes ("illegal"), unallocated or unwritten cells ("out_of_bounds", "uninitialised"),
    features that the model lacks ("unsupported").
    """
    descriptor, d_address = operands.descriptor(), operands.d_address
    modifiers = Modifiers(
        operands.accumulate,
        operands.a_in_tmem,
        a_shifted,
        operands.weight_stationary,
        scale_input_d,
        numerics,
        operands.metadata_address,
        operands.column_mask(descriptor),
    )
    _check_modifiers(descriptor, modifiers, tensor_memories, shared_memories)
    if disable_output_lane is not None and operands.weight_stationary:
        raise UnitError("illegal", f"disable-output-lane ({len(disable_output_lane)} words) on tcgen05.mma.ws, which has none")
    enabled = _enabled_lanes(descriptor, disable_output_lane)
    # In a pair, each CTA has half of B's rows, and both multiply by all of them.
    b_patterns = np.concatenate([_read_b(descriptor, modifiers, operands.b, memory) for memory in shared_memories])
    # All operands are read before anything is written: D may occupy columns that another operand was read from, and overlaps are races,
    # reported elsewhere.
    results = []
    for rank in range(operands.cta_group):
        parts, kept = _read_a(descriptor, modifiers, operands.a, d_address, tensor_memories[rank], shared_memories[rank]), None
        if modifiers.metadata_address is not None:
            codes = _read_metadata(descriptor, modifiers.metadata_address, d_address, tensor_memories[rank])
            spread_a, kept = _spread(descriptor, parts[0], codes)
            parts = [spread_a]
        scales = _read_both_scales(descriptor, operands.scale_addresses, tensor_memories[rank])
        target = _Target(descriptor, modifiers, tensor_memories[rank], d_address, enabled[rank])
        old = target.read()
        olds = [None] * len(parts) if old is None else np.split(old, len(parts), axis=1)
        products = [
            _multiply(descriptor, modifiers, a_part, b_part, scales, old_part, kept)
            for a_part, b_part, old_part in zip(parts, np.split(b_patterns, len(parts)), olds, strict=True)
        ]
        results.append((target, np.concatenate(products, axis=1) if len(products) > 1 else products[0]))
    for target, patterns in results:
        target.write(patterns)
    return descriptor


def _check_modifiers(
    descriptor: InstructionDescriptor,
    modifiers: Modifiers,
    tensor_memories: Sequence[TensorMemory],
    shared_memories: Sequence[SharedMemory],
) -> None:
    group = descriptor.cta_group
    if len(tensor_memories) != group or len(shared_memories) != group:
        raise UnitError(
            "illegal", f"cta_group {group} needs {group} CTAs' memories, got {len(tensor_memories)} and {len(shared_memories)}"
        )
    if modifiers.numerics not in NUMERICS:
        raise UnitError("unsupported", f"numerics {modifiers.numerics!r} is none of {', '.join(NUMERICS)}")
    shift = modifiers.scale_input_d
    if not 0 <= shift <= 15:
        raise UnitError("illegal", f"scale-input-d {shift} is outside 0..15")
    if shift and descriptor.kind not in ("f16", "tf32"):
        raise UnitError("illegal", f"scale-input-d {shift} with kind {descriptor.kind}; only f16 and tf32 have it")
    if shift and modifiers.weight_stationary:
        raise UnitError("illegal", f"scale-input-d {shift} on tcgen05.mma.ws, which has none")
    if modifiers.a_in_tmem and descriptor.a_mn_major:
        raise UnitError("illegal", "A in tensor memory is K-major, but bit 15 (transpose A) of the instruction descriptor is 1")
    _check_shifted(descriptor, modifiers)
    if KINDS[descriptor.kind].block_scaled and group == 2 and descriptor.m != 256:
        raise UnitError("unsupported", f"block-scaled M = {descriptor.m} with cta_group 2 is not modelled, only 256")


def _check_shifted(descriptor: InstructionDescriptor, modifiers: Modifiers) -> None:
    if not modifiers.a_shifted:
        return
    if not modifiers.a_in_tmem or modifiers.weight_stationary or descriptor.m not in (128, 256):
        raise UnitError(
            "illegal", f".ashift with M = {descriptor.m}: A must be in tensor memory, with M = 128 or 256, without .ws"
        )
    if descriptor.m != 128 * descriptor.cta_group or modifiers.metadata_address is not None:
        raise UnitError("unsupported", ".ashift is not modelled for a sparse A, nor for the 64 rows of each CTA of a pair")


def _enabled_lanes(descriptor: InstructionDescriptor, words: Sequence[int] | None) -> list[np.ndarray | None]:
    """Per CTA: bool [128], or None when every lane is written."""
    group = descriptor.cta_group
    if words is None:
        return [None] * group
    if KINDS[descriptor.kind].block_scaled:
        raise UnitError("illegal", f"disable-output-lane ({len(words)} words) with block-scaled kind {descriptor.kind}")
    if len(words) != 4 * group:
        raise UnitError("illegal", f"disable-output-lane takes {4 * group} words for cta_group {group}, got {len(words)}")
    raw = np.array([word & 0xFFFFFFFF for word in words], dtype="<u4").view(np.uint8)
    disabled = np.unpackbits(raw, bitorder="little").astype(bool)
    return [~disabled[rank * LANES : (rank + 1) * LANES] for rank in range(group)]


def _read_b(descriptor: InstructionDescriptor, modifiers: Modifiers, b: int, memory: SharedMemory) -> np.ndarray:
    mask = modifiers.column_mask
    # A shift reads columns further on, so more rows of B are read than used.
    rows = descriptor.n // descriptor.cta_group + (mask.shift if mask else 0)
    patterns = _read_from_smem(descriptor, b, memory, rows, descriptor.k, descriptor.b_mn_major, descriptor.b_format)
    if mask is None:
        return patterns
    return np.where(mask.zero[:, None], patterns.dtype.type(0), patterns[mask.shift :])


def _read_from_smem(
    descriptor: InstructionDescriptor, matrix: int, memory: SharedMemory, rows: int, k: int, mn_major: bool, format_name: str
) -> np.ndarray:
    """Patterns [rows, K] of one CTA."""
    layout = decode_matrix_descriptor(matrix)
    if descriptor.kind in PACKED_FP4_KINDS:  # always K-major
        return read_packed_fp4(memory, layout, rows, k)
    element_bytes = KINDS[descriptor.kind].element_bytes
    return read_operand(memory, layout, rows, k, element_bytes, mn_major, format_name)


# For f16 and tf32 the selector names a column; the other two of the four values are documented only in figures.
_SELECTORS = {4: (0, 1), 2: (0, 1), 1: (0,)}


def _read_metadata(descriptor: InstructionDescriptor, address: int, d_address: int, memory: TensorMemory) -> np.ndarray:
    """The four metadata bits of each group of elements [rows of one CTA, groups along K]."""
    size, selector = KINDS[descriptor.kind].element_bytes, descriptor.sparsity_selector
    if selector not in _SELECTORS[size]:
        raise UnitError("unsupported", f"sparsity selector {selector} with kind {descriptor.kind} is not modelled")
    lane, column = split_address(address)
    rows = descriptor.m // descriptor.cta_group
    if lane != (split_address(d_address)[0] if rows == 64 else 0):
        raise UnitError(
            "illegal", f"sparsity metadata start at lane {lane}, D at lane {split_address(d_address)[0]}: they must agree"
        )
    words = memory.read(metadata_cells(rows, size), lane, column + selector, "tcgen05.mma metadata")
    if size > 1:
        upper = (np.arange(rows, dtype=np.uint32) // 8 % 2 * 16)[:, None]
        words = words >> upper & np.uint32(0xFFFF)
    nibbles = words[:, :, None] >> (4 * np.arange(8 if size == 1 else 4, dtype=np.uint32)) & np.uint32(15)
    return nibbles.reshape(rows, -1).astype(np.int64)


def _spread(descriptor: InstructionDescriptor, stored: np.ndarray, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """`sparsity.spread`, except that of eight 4-bit elements two pairs are kept (PTX ISA 9.7.16.10.8.1)."""
    if descriptor.kind not in PACKED_FP4_KINDS:
        return spread(stored, codes, KINDS[descriptor.kind].element_bytes)
    # A pair is a unit of two bytes here, one for each element.
    pairs, kept = spread(np.ascontiguousarray(stored).view(np.uint16), codes, 1)
    return pairs.view(np.uint8), np.repeat(kept, 2, axis=1)


def _read_a(
    descriptor: InstructionDescriptor,
    modifiers: Modifiers,
    a: int,
    d_address: int,
    tensor_memory: TensorMemory,
    shared_memory: SharedMemory,
) -> list[np.ndarray]:
    """A, as one or as several that are multiplied with as many parts of N."""
    if not modifiers.a_in_tmem:
        rows = descriptor.m // descriptor.cta_group
        whole = _read_from_smem(
            descriptor, a, shared_memory, rows, descriptor.stored_k, descriptor.a_mn_major, descriptor.a_format
        )
        return [whole]
    lane, column = split_address(a)
    d_lane = split_address(d_address)[0]
    if lane != d_lane:
        raise UnitError("illegal", f"A in tensor memory starts at lane {lane}, D at lane {d_lane}: they must agree")
    name = data_path_name(descriptor, modifiers.weight_stationary)
    cells = a_cells(name, descriptor.m // descriptor.cta_group)
    # Layouts that spread D over both halves of the lanes need A in each of them.
    copies = tensor_memory.read(cells, lane, column, "tcgen05.mma A")
    equal = all(np.array_equal(copy, copies[0]) for copy in copies[1:])
    if modifiers.a_shifted:
        copies = np.concatenate([copies[:, 1:], copies[:, -1:]], axis=1)
    return [_unpack_tmem_a(descriptor, np.ascontiguousarray(copy)) for copy in (copies[:1] if equal else copies)]


def _unpack_tmem_a(descriptor: InstructionDescriptor, words: np.ndarray) -> np.ndarray:
    """uint32 [rows, 8] -> patterns [rows, K]; narrow f8f6f4 types take one byte each, e2m1 in its bits 5:2."""
    data = words.astype("<u4", copy=False).view(np.uint8)
    if descriptor.kind in PACKED_FP4_KINDS:
        return unpack_little_endian(data, 4)
    if descriptor.a_format == "e2m1":
        return data >> 2 & 15
    return data.view(f"<u{KINDS[descriptor.kind].element_bytes}")


def _read_both_scales(
    descriptor: InstructionDescriptor, addresses: tuple[int, int] | None, tensor_memory: TensorMemory
) -> tuple[Decomposed, Decomposed] | None:
    """Scales of this CTA's rows [M per CTA, blocks] and of all columns [N, blocks]; each CTA holds those of every column."""
    if not KINDS[descriptor.kind].block_scaled:
        return None
    if addresses is None:
        raise UnitError("illegal", f"kind {descriptor.kind} needs two scale addresses, and got none")
    of_a, of_b = addresses
    rows = descriptor.m // descriptor.cta_group
    return (
        _read_scales(descriptor, tensor_memory, of_a, rows, descriptor.scale_a_id, "A"),
        _read_scales(descriptor, tensor_memory, of_b, descriptor.n, descriptor.scale_b_id, "B"),
    )


def _read_scales(
    descriptor: InstructionDescriptor, tensor_memory: TensorMemory, address: int, rows: int, scale_id: int, which: str
) -> Decomposed:
    lane, column = split_address(address)
    if lane:
        raise UnitError("illegal", f"scale address {address:#x} of {which} names lane {lane}, must be lane 0")
    words = tensor_memory.read(scale_cells(rows), 0, column, f"tcgen05.mma scales of {which}")
    first_byte = 8 * np.arange(scale_id, scale_id + descriptor.scale_vector, dtype=np.uint32)
    # A column holds four scales, one per byte; the id selects the byte at which this MMA begins.
    scales = words[:, :, None] >> first_byte & np.uint32(0xFF)
    # Each quarter of the lanes reads its own scales, which software has to copy there (tcgen05.cp .warpx4).
    if (scales != scales[0]).any():
        partition, row = np.argwhere((scales != scales[0]).any(axis=2))[0]
        raise UnitError(
            "illegal", f"scale of row {row} of {which} in lane partition {partition} differs from the one in partition 0"
        )
    return decompose(scales[0], descriptor.scale_format or "ue8m0")


class _Target:
    """The D cells of one CTA."""

    def __init__(
        self,
        descriptor: InstructionDescriptor,
        modifiers: Modifiers,
        memory: TensorMemory,
        d_address: int,
        enabled: np.ndarray | None,
    ):
        name = data_path_name(descriptor, modifiers.weight_stationary)
        lane, column = split_address(d_address)
        if lane not in DATA_PATHS[name].lanes:
            allowed = " or ".join(map(str, DATA_PATHS[name].lanes))
            raise UnitError("illegal", f"D address {d_address:#x} names lane {lane}; layout {name} needs {allowed}")
        self.lane, self.column = lane, column
        self.shape = (descriptor.m // descriptor.cta_group, descriptor.n)
        self.cells = d_cells(name, *self.shape)
        self.enabled = None if enabled is None else enabled[self.cells.lanes + lane]
        if self.enabled is not None:
            # A disabled lane is neither read nor written: it need not have been written before.
            self.cells = self.cells.where(self.enabled)
        self.format = descriptor.d_format
        self.memory = memory
        self.modifiers = modifiers

    def read(self) -> np.ndarray | None:
        """Old D as numbers [rows, N] (float32, float64 or int64; 0 in disabled lanes), or None for D = A*B."""
        if not self.modifiers.accumulate:
            return None
        what = "tcgen05.mma with enable-input-d"
        cells = self.memory.read(self.cells, self.lane, self.column, what)
        if self.enabled is not None:
            enabled_cells, cells = cells, np.zeros(self.shape, np.uint32)
            cells[self.enabled] = enabled_cells
        if self.format == "s32":
            return cells.view(np.int32).astype(np.int64)
        values = cells.view(np.float32) if self.format == "f32" else decode(cells & np.uint32(0xFFFF), "f16")
        if self.modifiers.scale_input_d:
            with np.errstate(invalid="ignore"):
                return values.astype(np.float64) * 2.0**-self.modifiers.scale_input_d
        return values

    def write(self, patterns: np.ndarray) -> None:
        """Store result patterns [rows, N]; an f16 result takes the low half of its column."""
        cells = patterns.astype(np.uint32, copy=False)
        if self.enabled is not None:
            cells = cells[self.enabled]
        self.memory.write(self.cells, self.lane, self.column, cells, "tcgen05.mma D")


def _multiply(
    descriptor: InstructionDescriptor,
    modifiers: Modifiers,
    a: np.ndarray,
    b: np.ndarray,
    scales: tuple[Decomposed, Decomposed] | None,
    c: np.ndarray | None,
    kept: np.ndarray | None,
) -> np.ndarray:
    """Result patterns (uint32 or uint16) [rows, N]."""
    if descriptor.kind == "i8":
        numbers = integers(a, descriptor.a_format), integers(b, descriptor.b_format)
        return accumulation.accumulate_integer(*numbers, c, descriptor.saturate).view(np.uint32)
    left = decompose(a, descriptor.a_format, descriptor.negate_a)
    right = decompose(b, descriptor.b_format, descriptor.negate_b)
    if scales is None:
        return accumulation.accumulate(left, right, c, d_format=descriptor.d_format, numerics=modifiers.numerics, kept=kept)
    if descriptor.kind in PACKED_FP4_KINDS:
        return accumulation.accumulate_fp4(
            left.value, right.value, c, *scales, numerics=modifiers.numerics, sparse=descriptor.sparse
        )
    scale_a, scale_b = scales
    return accumulation.accumulate(left, right, c, scale_a=scale_a, scale_b=scale_b, numerics=modifiers.numerics, kept=kept)
