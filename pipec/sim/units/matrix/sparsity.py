"""Structured sparsity of A (PTX ISA 9.7.15.6): the positions of the kept elements, as measured on Hopper with selector 0.

Of each four elements (two of tf32) in a row of A half are stored. Four bits of metadata give their positions: two 2-bit positions,
increasing; for tf32 the pair 01 or 23 stands for the first or the second element. A lane of a warp holds 32 bits. 16-bit and tf32 types:
of each four lanes the two that the selector names, the first for the first half of K, its lower half for row l/4, its upper for row l/4
+ 8. 8-bit types: lanes 0 and 2 of each four hold the halves of K of row l/4, lanes 1 and 3 those of row l/4 + 8.
"""

from __future__ import annotations

import numpy as np

from ..errors import UnitError

_WARP_ROWS = 16
_TF32_POSITIONS = {0b0100: 0, 0b1110: 1}


def expand(stored: np.ndarray, metadata: np.ndarray, selector: int, element_bytes: int) -> tuple[np.ndarray, np.ndarray]:
    """Bit patterns [rows, K] from `stored` [rows, K/2] with zeros in between, and the positions of the kept ones; metadata uint32 [2 *
    rows lanes].

    UnitError "illegal" for a selector or for positions that PTX does not define.
    """
    if selector > (1 if element_bytes > 1 else 0):
        raise UnitError("illegal", f"sparsity selector {selector} for elements of {element_bytes} bytes")
    rows = len(stored)
    codes = _codes(metadata.reshape(rows // _WARP_ROWS, 8, 4).astype(np.uint32), selector, element_bytes).reshape(rows, -1)
    return spread(stored, codes, element_bytes)


def spread(stored: np.ndarray, codes: np.ndarray, element_bytes: int) -> tuple[np.ndarray, np.ndarray]:
    """`expand` with the four bits [rows, groups] of each group of elements.

    UnitError "illegal" for positions that PTX does not define, unless both elements are zero.
    """
    rows, half = stored.shape
    first, second = codes & 3, codes >> 2
    full, kept = np.zeros((rows, 2 * half), stored.dtype), np.zeros((rows, 2 * half), bool)
    row = np.arange(rows)[:, None]
    group = np.arange(codes.shape[1])[None, :]
    if element_bytes == 4:
        if not np.isin(codes, list(_TF32_POSITIONS)).all():
            raise UnitError("illegal", "sparsity metadata of tf32 is 0b0100 or 0b1110 for each two elements")
        place = row, 2 * group + (codes == 0b1110)
        full[place], kept[place] = stored, True
        return full, kept
    # CUTLASS's compressor writes positions 0 and 0 for a group of zeros, whose place is of no consequence.
    if ((first >= second) & ((stored[:, ::2] != 0) | (stored[:, 1::2] != 0))).any():
        raise UnitError("illegal", "sparsity metadata names positions that do not increase")
    for number, inside in enumerate((first, second)):
        place = row, 4 * group + inside
        full[place], kept[place] = stored[:, number::2], True
    return full, kept


def _codes(words: np.ndarray, selector: int, element_bytes: int) -> np.ndarray:
    """[warps, 16 rows, groups along K] from words [warps, 8, 4 lanes]."""
    nibbles = words[..., None] >> (4 * np.arange(8, dtype=np.uint32)) & 15
    if element_bytes == 1:
        # [warps, 8, lane & 1: lower or upper rows, lane >> 1: half of K, 8]
        parts = nibbles.reshape(*nibbles.shape[:2], 2, 2, 8).transpose(0, 3, 1, 2, 4)
    else:
        chosen = nibbles[:, :, 2 * selector : 2 * selector + 2]
        # [warps, 8, half of K, lower or upper rows, 4]
        parts = chosen.reshape(*chosen.shape[:2], 2, 2, 4).transpose(0, 3, 1, 2, 4)
    return np.ascontiguousarray(parts).reshape(words.shape[0], _WARP_ROWS, -1).astype(np.int64)


def warp_codes(metadata: np.ndarray, selector: int, k: int, element_bytes: int) -> np.ndarray:
    """Codes [16 rows, groups along K] of mma.sp, metadata uint32 [32 lanes] (PTX ISA 9.7.14.6.1).

    With the larger K, lanes are as in a warp of wgmma. With the smaller K, half as many lanes hold metadata: one of each four, named by
    the selector, with 16 bits for each of its two rows; for 8-bit types two, one for each row. UnitError "illegal" for a selector that
    does not exist.
    """
    words = metadata.reshape(1, 8, 4).astype(np.uint32)
    if k * element_bytes == 64:
        return _codes(words, _checked(selector, 2 if element_bytes > 1 else 1), element_bytes).reshape(_WARP_ROWS, -1)
    nibbles = words[0, ..., None] >> (4 * np.arange(8, dtype=np.uint32)) & 15
    if element_bytes == 1:
        first = 2 * _checked(selector, 2)
        rows = nibbles[:, first : first + 2].transpose(1, 0, 2)
    else:
        rows = nibbles[:, _checked(selector, 4)].reshape(8, 2, 4).transpose(1, 0, 2)
    return np.ascontiguousarray(rows).reshape(_WARP_ROWS, -1).astype(np.int64)


def _checked(selector: int, count: int) -> int:
    if not 0 <= selector < count:
        raise UnitError("illegal", f"sparsity selector {selector}, must be 0..{count - 1}")
    return selector
