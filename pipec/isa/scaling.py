"""Block-scaled MMAs (PTX ISA 9.7.16.10.7): the valid combinations of operand types, scale types and block lengths.

One scale factor applies to `block` elements of a row along K. In memory the factors of 128 rows and 4 blocks are one chunk of 512 bytes:
the factor of row r and block k is at byte r % 32 * 16 + r // 32 * 4 + k (hardware.md 3.7), and tcgen05.cp.32x128b.warpx4 distributes the
chunk over 4 columns of tensor memory.
"""

from pipec.isa.dtypes import DTYPES, DType
from pipec.record import record

CHUNK_ROWS = 128
CHUNK_SCALES = 4
CHUNK_BYTES = 512
CHUNK_COLUMNS = 4  # of tensor memory
ROWS_PER_COLUMN = 32


@record
class ScaledKind:
    """An MMA of `depth` elements of K takes `scales` factors per row; `codes` are the operand types' codes in its descriptor."""

    name: str
    instruction: str  # a row of pipec.isa.instructions
    operands: tuple[str, ...]
    block: int
    factors: tuple[str, ...]
    depth: int
    scales: int
    codes: dict[str, int]


_NARROW = {row.name: row.mma_code for row in DTYPES.values() if row.mma_kind == "f8f6f4" and row.mma_code is not None}
_FP4 = {"e2m1": 1}

_ROWS = (
    ScaledKind("mxf4", "tcgen05.mma.mxf4", ("e2m1",), 32, ("ue8m0",), 64, 2, _FP4),
    ScaledKind("mxf4nvf4", "tcgen05.mma.mxf4nvf4", ("e2m1",), 16, ("ue4m3", "ue8m0"), 64, 4, _FP4),
    ScaledKind("mxf8f6f4", "tcgen05.mma.mxf8f6f4", tuple(_NARROW), 32, ("ue8m0",), 32, 1, _NARROW),
)
# The bit of the descriptor for the type of the factors.
FACTOR_CODES = {"ue4m3": 0, "ue8m0": 1}


def operand_kinds(a: DType, b: DType) -> tuple[ScaledKind, ...]:
    """The kinds that multiply these types. Two e2m1 operands have kinds of their own, with packed operands."""
    fp4 = a.name == b.name == "e2m1"
    return tuple(row for row in _ROWS if {a.name, b.name} <= set(row.operands) and (row.depth == 64) == fp4)


def scaled_kind(a: DType, b: DType, factor: DType, block: int) -> ScaledKind | None:
    return next((row for row in operand_kinds(a, b) if row.block == block and factor.name in row.factors), None)
