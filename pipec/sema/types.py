"""The types of expressions: scalars, register tiles, and references to tile buffers."""

from pipec.isa.dtypes import DTYPES, DType
from pipec.record import record

# A scalar's type is its element type.
ScalarType = DType

BOOL, I32, U32, I64, F32 = (DTYPES[name] for name in ("bool", "i32", "u32", "i64", "f32"))


@record
class TileType:
    """A tile of values distributed over the threads of a role.

    `rows` x `columns` elements. A per-row vector has columns == 1, a per-column vector rows == 1: both broadcast.
    """

    dtype: DType
    rows: int
    columns: int

    def __str__(self) -> str:
        return f"tile[{self.dtype}, {self.rows}, {self.columns}]"


ValueType = ScalarType | TileType


def dtype_of(value_type: ValueType) -> DType:
    return value_type.dtype if isinstance(value_type, TileType) else value_type


def with_dtype(value_type: ValueType, dtype: DType) -> ValueType:
    """The same shape with another element type."""
    if isinstance(value_type, TileType):
        return TileType(dtype, value_type.rows, value_type.columns)
    return dtype
