"""How to call cuTensorMapEncodeTiled for a map: the driver's enumerators, used by the Python runtime and by generated C code (CUDA
driver API, CUtensorMapDataType and related enumerations)."""

from pipec.interface import TensorMapParameter
from pipec.vocabulary import Swizzle

# Our names of tensor-map element types -> the driver's.
_TYPES = {
    "u8": "UINT8", "u16": "UINT16", "u32": "UINT32", "s32": "INT32", "u64": "UINT64", "s64": "INT64",
    "f16": "FLOAT16", "bf16": "BFLOAT16", "f32": "FLOAT32", "f64": "FLOAT64", "tf32": "TFLOAT32",
    "b4x16": "16U4_ALIGN8B", "b4x16_p64": "16U4_ALIGN16B", "b6x16_p32": "16U6_ALIGN16B",
}  # fmt: skip

ELEMENT_STEP = 1  # in every dimension: boxes have no gaps
INTERLEAVE = "CU_TENSOR_MAP_INTERLEAVE_NONE"
PROMOTION = "CU_TENSOR_MAP_L2_PROMOTION_L2_128B"
FILL = "CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE"

TENSOR_MAP_ALIGNMENT = 16  # bytes, of the base and of every stride but the innermost
UNPACKING_ALIGNMENT = 32  # bytes, of maps that unpack 4- or 6-bit elements
UNPACKED_ELEMENTS = 128  # of a row: such maps read in units of it
UNPACKING_MAPS = ("b4x16_p64", "b6x16_p32")

# Maps whose elements differ from those of the array: packed ones, and words of scale factors.
_BITS = {"b4x16": 4, "b4x16_p64": 4, "b6x16_p32": 6, "u32": 32}
_LEAST = {"b4x16": 2, **dict.fromkeys(UNPACKING_MAPS, UNPACKED_ELEMENTS)}


def element_type(dtype: str) -> str:
    """The name of the CUtensorMapDataType."""
    return f"CU_TENSOR_MAP_DATA_TYPE_{_TYPES[dtype]}"


def swizzle_mode(swizzle: Swizzle) -> str:
    """The name of the CUtensorMapSwizzle."""
    return f"CU_TENSOR_MAP_SWIZZLE_{swizzle.upper()}"


def element_bits(parameter: TensorMapParameter) -> int | None:
    """Bits per element of the map; None: those of the array's elements."""
    return _BITS.get(parameter.dtype)


def least_row(parameter: TensorMapParameter) -> int:
    """The smallest row length of such a map, used for a tensor without elements, as no map has extent 0."""
    return _LEAST.get(parameter.dtype, 1)


def least_stride(parameter: TensorMapParameter) -> int:
    """The alignment of every stride of such a map, in bytes."""
    return UNPACKING_ALIGNMENT if parameter.dtype in UNPACKING_MAPS else TENSOR_MAP_ALIGNMENT
