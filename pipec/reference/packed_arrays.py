"""Arrays of elements without a NumPy type: 4- and 6-bit floats packed into bytes, and scale factors in chunks.

Packed arrays are uint8; the elements of a row are contiguous, least significant bits first: two e2m1 or four 6-bit elements in one or
three bytes. Scale factors of 128 rows and 4 blocks are one chunk of 512 bytes, as in cuBLAS and CUTLASS.
"""

from typing import Any

import ml_dtypes
import numpy as np

from pipec.isa.dtypes import DTYPES
from pipec.isa.scaling import CHUNK_BYTES, CHUNK_ROWS, CHUNK_SCALES, ROWS_PER_COLUMN

# The type of one element in a byte of its own.
_TYPES = {
    "e2m1": ml_dtypes.float4_e2m1fn,
    "e2m3": ml_dtypes.float6_e2m3fn,
    "e3m2": ml_dtypes.float6_e3m2fn,
    "ue8m0": ml_dtypes.float8_e8m0fnu,
    "ue4m3": ml_dtypes.float8_e4m3fn,
}


def pack(values: np.ndarray, dtype: str) -> np.ndarray:
    """uint8 [..., K * bits / 8] from numbers [..., K], rounded to `dtype` ("e2m1", "e2m3" or "e3m2")."""
    bits = DTYPES[dtype].bits
    codes = np.asarray(values, np.float32).astype(_TYPES[dtype]).view(np.uint8)
    fields = np.unpackbits(codes[..., None], axis=-1, bitorder="little")[..., :bits]
    return np.packbits(fields.reshape(*codes.shape[:-1], -1), axis=-1, bitorder="little")


def unpack(packed: np.ndarray, dtype: str) -> np.ndarray:
    """float64 [..., K] from uint8 [..., K * bits / 8]."""
    bits = DTYPES[dtype].bits
    fields = np.unpackbits(np.ascontiguousarray(packed), axis=-1, bitorder="little")
    fields = fields.reshape(*packed.shape[:-1], -1, bits)
    codes = np.packbits(fields, axis=-1, bitorder="little")[..., 0]
    numbers: np.ndarray = codes.view(_TYPES[dtype]).astype(np.float64)
    return numbers


def values_of(array: Any, dtype: str) -> np.ndarray:
    """The values of a kernel argument as float64."""
    kind = DTYPES[dtype]
    if kind.is_packed:
        return unpack(array, dtype)
    if kind.is_scale:
        factors: np.ndarray = np.abs(np.ascontiguousarray(array).view(_TYPES[dtype]).astype(np.float64))  # ue4m3 has no sign
        return factors
    # ml_dtypes arrays convert through float32, which represents all of their values.
    values: np.ndarray = array.astype(np.float64)
    return values


def chunked(factors: np.ndarray) -> np.ndarray:
    """Chunks [row_chunks, k_chunks, 512] from factors [rows, blocks] of one-byte elements; padding is zero bytes."""
    rows, blocks = factors.shape
    row_chunks, k_chunks = -(-rows // CHUNK_ROWS), -(-blocks // CHUNK_SCALES)
    padded = np.zeros((row_chunks * CHUNK_ROWS, k_chunks * CHUNK_SCALES), np.uint8)
    padded[:rows, :blocks] = np.ascontiguousarray(factors).view(np.uint8)
    groups = padded.reshape(row_chunks, CHUNK_ROWS // ROWS_PER_COLUMN, ROWS_PER_COLUMN, k_chunks, CHUNK_SCALES)
    return groups.transpose(0, 3, 2, 1, 4).reshape(row_chunks, k_chunks, CHUNK_BYTES).view(factors.dtype)


def unchunked(chunks: np.ndarray) -> np.ndarray:
    """Factors [..., row_chunks * 128, k_chunks * 4] from chunks [..., row_chunks, k_chunks, 512]."""
    *outer, row_chunks, k_chunks, _ = chunks.shape
    groups = chunks.reshape(*outer, row_chunks, k_chunks, ROWS_PER_COLUMN, CHUNK_ROWS // ROWS_PER_COLUMN, CHUNK_SCALES)
    rows = np.moveaxis(groups, -4, -2).swapaxes(-4, -3)
    return rows.reshape(*outer, row_chunks * CHUNK_ROWS, k_chunks * CHUNK_SCALES)


def scaled(operand: np.ndarray, chunks: np.ndarray, block: int) -> np.ndarray:
    """Each element of `operand` [..., rows, K] times the factor of its row and block of K."""
    rows, depth = operand.shape[-2:]
    factors: np.ndarray = np.repeat(unchunked(chunks), block, axis=-1)[..., :rows, :depth]
    return np.asarray(operand * factors)
