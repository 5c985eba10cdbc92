"""The descriptors of tcgen05.mma: element types and shapes (32 bits), and the layout of an operand in shared memory (64 bits).

Sources: PTX ISA 9.7.16.4.2 tables 42-44 and 9.7.16.4.1; worked values in hardware.md 3.2, 3.3 and 9.
"""

from pipec.isa.dtypes import DType
from pipec.isa.scaling import FACTOR_CODES, ScaledKind
from pipec.kir.plan.types import TileLayout
from pipec.lower.emit.llvm import Builder
from pipec.lower.emit.value import Value, integer
from pipec.record import record
from pipec.sema import tree

# The kind as an immediate of the intrinsic.
MMA_KINDS = {"f16": 0, "tf32": 1, "f8f6f4": 2, "i8": 3}
# Bytes of an operand's K extent per MMA, for every kind.
K_BYTES = 32

_ACCUMULATOR_CODES = {"f16": 0, "f32": 1, "i32": 2}
_SWIZZLE_CODES = {"none": 0, "128B_ATOM_32B": 1, "128B": 2, "64B": 4, "32B": 6}
_VERSION = 1  # bits 46-48 of every SM100 descriptor
_CORE_ROWS = 8  # rows of a core matrix; 4 if the swizzle atom is 32 bytes
_CORE_BYTES = 16
ADDRESS_FIELD = 0x3FFF  # the address in units of 16 bytes

# The source of tcgen05.cp.32x128b: 32 rows of 16 bytes, groups of 8 rows 128 bytes apart, no swizzle (hardware.md 3.7).
CHUNK_DESCRIPTOR = _CORE_ROWS * _CORE_BYTES >> 4 << 32 | _VERSION << 46


def instruction_descriptor(
    accumulator: DType, a: DType, b: DType, m: int, n: int, *, a_transposed: bool = False, b_transposed: bool = False
) -> int:
    """`transposed` means MN-major. Codes of the element types are in pipec.isa.dtypes."""
    assert a.mma_code is not None and b.mma_code is not None
    return (
        _ACCUMULATOR_CODES[accumulator.name] << 4
        | a.mma_code << 7
        | b.mma_code << 10
        | a_transposed << 15
        | b_transposed << 16
        | n >> 3 << 17
        | m >> 4 << 24
    )


def scaled_instruction_descriptor(mma: tree.Mma, kind: ScaledKind, place: int, group: int = 1) -> int:
    """The descriptor of a block-scaled MMA of `group` CTAs whose scale factors start at byte `place` of their words."""
    a, b, d = mma.a, mma.b, mma.accumulator.buffer
    assert mma.scale_a is not None
    return (
        place << 4
        | kind.codes[a.buffer.dtype.name] << 7
        | kind.codes[b.buffer.dtype.name] << 10
        | a.transposed << 15
        | b.transposed << 16
        | d.columns >> 3 << 17
        | FACTOR_CODES[mma.scale_a.buffer.dtype.name] << 23
        | d.rows * group >> 7 << 27
        | place << 29
    )


@record
class OperandDescriptor:
    """The constant part of a shared-memory descriptor, and the byte offsets of the MMAs along K."""

    constant: int  # everything but the start address
    steps: tuple[int, ...]


def operand_descriptor(
    layout: TileLayout,
    k_extent: int,
    dtype: DType,
    *,
    transposed: bool,
    version: int = _VERSION,
    packed: bool = False,
) -> OperandDescriptor:
    """For a tile of `k_extent` elements along K. `transposed`: stored as [K, MN], with panels along MN.

    Descriptors of wgmma are the same except for their `version`, 0 (hardware.md 8). Sub-byte elements occupy a byte, unless `packed`.
    """
    bits = dtype.bits if packed else 8 * dtype.bytes
    mmas = k_extent * bits // 8 // K_BYTES
    found = _mn_major(layout, mmas, K_BYTES * 8 // bits) if transposed else _k_major(layout, mmas)
    return OperandDescriptor(found.constant | version << 46, found.steps)


def _k_major(layout: TileLayout, mmas: int) -> OperandDescriptor:
    """Groups of 8 rows are contiguous. Without a swizzle a panel is one column of core matrices, and LBO leads to the next."""
    stride = _CORE_ROWS * layout.span_bytes
    # With a swizzle a row of a panel is as wide as the swizzle, and the MMA never steps beyond it: LBO is ignored (hardware.md 3.4).
    leading = layout.panel_bytes if layout.swizzle == "none" else 0
    steps = []
    for index in range(mmas):
        panel, inside = divmod(index * K_BYTES, layout.span_bytes)
        steps.append(panel * layout.panel_bytes + inside)
    return OperandDescriptor(_constant(layout, leading, stride), tuple(steps))


def _mn_major(layout: TileLayout, mmas: int, k_elements: int) -> OperandDescriptor:
    """Rows are K: one MMA reads `k_elements` rows of every panel. LBO and SBO swap roles without a swizzle (hardware.md 3.4)."""
    # hardware.md 3.4: with the 32-byte atom, rows come in groups of four.
    core_rows = 4 if layout.swizzle == "128B_ATOM_32B" else _CORE_ROWS
    k_stride = core_rows * layout.span_bytes
    if layout.swizzle == "none":
        constant = _constant(layout, k_stride, layout.panel_bytes)
    else:
        constant = _constant(layout, layout.panel_bytes, k_stride)
    return OperandDescriptor(constant, tuple(index * k_elements * layout.span_bytes for index in range(mmas)))


def _constant(layout: TileLayout, leading: int, stride: int) -> int:
    return (leading & 0x3FFFF) >> 4 << 16 | (stride & 0x3FFFF) >> 4 << 32 | _SWIZZLE_CODES[layout.swizzle] << 61


def start_descriptor(builder: Builder, address: Value, constant: int) -> Value:
    """The descriptor of an address known at run time."""
    start = builder.bits("and", builder.bits("lshr", address, 4), ADDRESS_FIELD)
    return builder.binary("or", builder.cast("zext", start, "i64"), integer(constant, "i64"))
