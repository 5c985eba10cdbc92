"""Structured sparsity of A (PTX ISA 9.7.15.6): where the elements that are kept stand, as measured on Hopper with selector 0.

Of each four elements (two of tf32) of a row of A half are stored. Four bits of metadata say where they stand: two positions of two
bits, increasing; for tf32 the pair 01 or 23 stands for the first or the second element. A lane of a warp holds 32 bits. 16-bit and
tf32 types: of each four lanes the two that the selector names, the first for the first half of K, its lower half for row l/4, its
upper for row l/4 + 8. 8-bit types: lanes 0 and 2 of each four hold the halves of K of row l/4, lanes 1 and 3 those of row l/4 + 8.
"""

from __future__ import annotations

import numpy as np

from ..errors import UnitError

_WARP_ROWS = 16
_TF32_POSITIONS = {0b0100: 0, 0b1110: 1}


def expand(stored: np.ndarray, metadata: np.ndarray, selector: int, element_bytes: int) -> np.ndarray:
    """Patterns [rows, K] with zeros between from `stored` [rows, K/2]; metadata uint32 [2 * rows lanes].

    UnitError "illegal" for a selector or for positions that PTX does not define.
    """
    if selector > (1 if element_bytes > 1 else 0):
        raise UnitError("illegal", f"sparsity selector {selector} for elements of {element_bytes} bytes")
    rows, half = stored.shape
    codes = _codes(metadata.reshape(rows // _WARP_ROWS, 8, 4).astype(np.uint32), selector, element_bytes).reshape(rows, -1)
    first, second = codes & 3, codes >> 2
    full = np.zeros((rows, 2 * half), stored.dtype)
    row = np.arange(rows)[:, None]
    group = np.arange(codes.shape[1])[None, :]
    if element_bytes == 4:
        if not np.isin(codes, list(_TF32_POSITIONS)).all():
            raise UnitError("illegal", "sparsity metadata of tf32 is 0b0100 or 0b1110 for each two elements")
        full[row, 2 * group + (codes == 0b1110)] = stored
        return full
    if (first >= second).any():
        raise UnitError("illegal", "sparsity metadata names positions that do not increase")
    full[row, 4 * group + first] = stored[:, 0::2]
    full[row, 4 * group + second] = stored[:, 1::2]
    return full


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
