"""The accumulation model of the tensor cores: what one MMA instruction adds up, and how it rounds.

PTX leaves this open; the model follows published bitwise studies of the hardware and own measurements on Hopper.  Per element
of D and per instruction, all K products and the old D form one sum:

1. a product keeps the exponent ea + eb (its significand may reach 4: it is not renormalised);
2. E is the largest exponent of the non-zero terms, without any floor;
3. each term is truncated toward zero to F fraction bits below 2**E, and the truncated terms are added exactly;
4. the sum is truncated to f32 (overflow gives infinity, every zero is +0), or rounded to nearest even for an f16 D.

Sums of truncated terms are integers below 2**53 in units of 2**(E-F), so float64 arithmetic is exact throughout.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from pipec.record import record

from ...compiled.products import multiplies, truncated_product
from .formats import ZERO_EXPONENT, Decomposed

Numerics = Literal["exact", "fast"]

F32_NAN = 0x7FFFFFFF
F16_NAN = 0x7FFF


@record
class AccumulateModel:
    """`fraction_bits` is F above; `result_bits` are the fraction bits that an f32 result keeps (23 = all)."""

    name: str
    fraction_bits: int
    result_bits: int = 23


TCGEN05 = AccumulateModel("tcgen05", fraction_bits=25)
TCGEN05_FP4 = AccumulateModel("tcgen05 fp4", fraction_bits=35)
WGMMA = AccumulateModel("wgmma", fraction_bits=25)
WGMMA_FP8 = AccumulateModel("wgmma fp8", fraction_bits=13, result_bits=13)
FP4_GROUP = 16


def accumulate(
    a: Decomposed,
    b: Decomposed,
    c: np.ndarray | None,
    model: AccumulateModel = TCGEN05,
    d_format: str = "f32",
    scale_a: Decomposed | None = None,
    scale_b: Decomposed | None = None,
    numerics: Numerics = "exact",
    kept: np.ndarray | None = None,
) -> np.ndarray:
    """One floating-point MMA: uint32 (f32) or uint16 (f16) patterns [M, N] of A times B transposed plus C.

    a [M, K], b [N, K]; c float64/float32 values [M, N] or None; scale_a [M, 1], scale_b [N, 1] (ue8m0, mxf8f6f4 only). kept: bool [M, K]
    of a sparse A, false where B is ignored. numerics "exact" is the model above, "fast" a float64 product rounded once to nearest even.
    """
    if scale_a is not None and scale_b is not None:
        a, b = _apply_scale(a, scale_a), _apply_scale(b, scale_b)
    special = _special_values(a, b, c, kept)
    if special is not None:
        a, b, c = _finite_part(a), _finite_part(b), None if c is None else np.where(np.isfinite(c), c, 0.0)
    if numerics == "fast":
        total = _product(a.value, b.value)
        bits = round_result(total if c is None else total + c, d_format, None)
    elif d_format == "f32" and multiplies(b.shape[0]) and a.value.size:
        mask = 0xFFFFFFFF << (23 - model.result_bits) & 0xFFFFFFFF
        bits = truncated_product(a.value, b.value, a.exponent, b.exponent, c, model.fraction_bits, mask, a.digits + b.digits)
    else:
        bits = round_result(_truncated_sum(a, b, c, model.fraction_bits), d_format, model.result_bits)
    return bits if special is None else _insert_special(bits, special, d_format)


def accumulate_fp4(
    a: np.ndarray,
    b: np.ndarray,
    c: np.ndarray | None,
    scale_a: Decomposed,
    scale_b: Decomposed,
    numerics: Numerics = "exact",
    sparse: bool = False,
) -> np.ndarray:
    """One mxf4 / mxf4nvf4 MMA: uint32 patterns of f32 [M, N].

    a [M, K], b [N, K]: float64 e2m1 values; scale_a [M, blocks], scale_b [N, blocks].  Products of each 16 elements are summed exactly,
    multiplied by both scale significands, and then aligned at F = 35 under the exponent of the scales. For a `sparse` A (expanded with
    zeros), a group is the 16 kept elements of 32.
    """
    length = 2 * FP4_GROUP if sparse else FP4_GROUP
    groups = a.shape[1] // length
    blocks = scale_a.shape[1]
    terms, exponents = [], []
    for group in range(groups):
        span = slice(group * length, (group + 1) * length)
        block = group * blocks // groups
        left, right = scale_a.column(block), scale_b.column(block)
        with np.errstate(invalid="ignore"):
            product = _product(a[:, span], b[:, span]) * (left.value[:, None] * right.value[None, :])
        terms.append(product)
        exponents.append(np.where(product != 0, np.add.outer(left.exponent, right.exponent), ZERO_EXPONENT))
    if c is not None:
        terms.append(np.asarray(c, np.float64))
        exponents.append(_f32_exponents(c))
    with np.errstate(invalid="ignore"):
        plain = sum(terms)
    special = None if np.isfinite(plain).all() else plain
    if special is not None:
        terms = [np.where(np.isfinite(term), term, 0.0) for term in terms]
    if numerics == "fast":
        bits = round_result(sum(terms), "f32", None)
    else:
        bits = round_result(_align_and_add(terms, exponents, TCGEN05_FP4.fraction_bits), "f32", 23)
    return bits if special is None else _insert_special(bits, special, "f32")


def accumulate_integer(a: np.ndarray, b: np.ndarray, c: np.ndarray | None, saturate: bool) -> np.ndarray:
    """Kind i8: int32 [M, N] of integer-valued float64 a [M, K] times b [N, K] transposed plus int32 c; wraps or saturates."""
    total = _product(a, b).astype(np.int64)
    if c is not None:
        total = total + c
    if saturate:
        total = np.clip(total, -(1 << 31), (1 << 31) - 1)
    return total.astype(np.uint64).astype(np.uint32).view(np.int32)


# Above this many multiplications OpenBLAS starts threads; where other processes keep the cores busy, its thread synchronisation takes a
# thousand times as long as the product.
_ONE_THREAD = 1 << 18


def _product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a [M, K] times b [N, K] transposed, in float64."""
    rows, depth = a.shape
    columns = b.shape[0]
    height = max(1, _ONE_THREAD // max(1, columns * depth))
    if rows <= height:
        product: np.ndarray = a @ b.T
        return product
    out = np.empty((rows, columns))
    for start in range(0, rows, height):
        np.matmul(a[start : start + height], b.T, out=out[start : start + height])
    return out


def _apply_scale(parts: Decomposed, scale: Decomposed) -> Decomposed:
    """Multiply by powers of two (one per row), shifting the exponents; a NaN scale makes the row NaN."""
    shift = np.where(np.isnan(scale.value), 0, scale.exponent).astype(np.int16)
    is_zero = parts.exponent == ZERO_EXPONENT
    return Decomposed(
        parts.value * scale.value,
        np.where(is_zero, parts.exponent, parts.exponent + shift),
        np.where(is_zero, parts.lowest, parts.lowest + shift),
    )


def _special_values(a: Decomposed, b: Decomposed, c: np.ndarray | None, kept: np.ndarray | None) -> np.ndarray | None:
    """The results of IEEE arithmetic where infinities or NaN are involved (finite elsewhere), or None when there are none."""
    clean = np.isfinite(a.value).all() and np.isfinite(b.value).all() and (c is None or np.isfinite(c).all())
    if clean:
        return None
    # Finite operands shrink to their signs, so that only genuine infinities and NaN can leave the finite range.
    left, right = (np.where(np.isfinite(part.value), np.sign(part.value), part.value) for part in (a, b))
    total = np.zeros((left.shape[0], right.shape[0])) if c is None else np.where(np.isfinite(c), 0.0, c)
    with np.errstate(invalid="ignore"):
        for k in range(left.shape[1]):
            product = np.multiply.outer(left[:, k], right[:, k])
            total = total + (product if kept is None else np.where(kept[:, k, None], product, 0.0))
    return total


def _insert_special(bits: np.ndarray, special: np.ndarray, d_format: str) -> np.ndarray:
    infinity, sign, nan = (0x7C00, 0x8000, F16_NAN) if d_format == "f16" else (0x7F800000, 0x80000000, F32_NAN)
    patterns = np.where(np.isnan(special), nan, np.where(special < 0, infinity | sign, infinity))
    return np.where(np.isfinite(special), bits, patterns.astype(bits.dtype))


def _finite_part(parts: Decomposed) -> Decomposed:
    """Non-finite entries as zeros; their exponents already are those of zeros."""
    return Decomposed(np.where(np.isfinite(parts.value), parts.value, 0.0), parts.exponent, parts.lowest)


def _truncated_sum(a: Decomposed, b: Decomposed, c: np.ndarray | None, fraction_bits: int) -> np.ndarray:
    """Steps 1 to 3 of the model, float64 [M, N], exact.

    Truncation only matters where some term has bits below 2**(E-F).  The plain matrix product is exact for all other elements, and with
    small integers (or any data of narrow range) that is all of them.
    """
    if _nothing_to_truncate(a, b, c, fraction_bits):
        total = _product(a.value, b.value)
        return total if c is None else total + c
    largest = _outer_extreme(a.exponent, b.exponent, np.maximum)
    lowest = _outer_extreme(a.lowest, b.lowest, np.minimum)
    if c is None:
        truncated_c = None
    else:
        np.maximum(largest, _f32_exponents(c), out=largest)
        truncated_c = _truncate(np.asarray(c, np.float64), largest, fraction_bits)
    inexact = np.nonzero((lowest < largest - np.int16(fraction_bits)).reshape(-1))[0]
    if inexact.size * _DENSE_FRACTION > largest.size:
        total = _truncated_everywhere(a, b, largest, fraction_bits)
    else:
        total = _product(a.value, b.value)
        total.reshape(-1)[inexact] = _truncated_products(a, b, largest.reshape(-1)[inexact], inexact, fraction_bits)
    return total if truncated_c is None else total + truncated_c


def _nothing_to_truncate(a: Decomposed, b: Decomposed, c: np.ndarray | None, fraction_bits: int) -> bool:
    """A cheap sufficient condition over whole operands."""
    largest = int(a.exponent.max()) + int(b.exponent.max())
    lowest = int(a.lowest.min()) + int(b.lowest.min())
    if c is not None:
        magnitude = np.abs(c).max()
        if magnitude:
            largest = max(largest, int(np.frexp(magnitude)[1]) - 1, -126)
    if lowest < largest - fraction_bits:
        return False
    if c is None or not magnitude:
        return True
    unit = np.ldexp(1.0, fraction_bits - largest)
    scaled = np.asarray(c, np.float64) * unit
    return bool((np.trunc(scaled) == scaled).all())


def _outer_extreme(left: np.ndarray, right: np.ndarray, combine: np.ufunc) -> np.ndarray:
    """combine over k of left[m, k] + right[n, k], int16 [M, N]."""
    transposed = np.ascontiguousarray(right.T)
    best: np.ndarray = np.add.outer(left[:, 0], transposed[0])
    current = np.empty_like(best)
    for k in range(1, left.shape[1]):
        np.add(left[:, k, None], transposed[k][None, :], out=current)
        combine(best, current, out=best)
    return best


def _f32_exponents(values: np.ndarray) -> np.ndarray:
    """int16 exponents of f32 values; subnormals count as -126, zeros as ZERO_EXPONENT."""
    values = np.asarray(values)
    exponent = np.maximum(np.frexp(values)[1] - 1, -126).astype(np.int16)
    return np.where(values == 0, np.int16(ZERO_EXPONENT), exponent)


def _power_of_two(exponent: np.ndarray) -> np.ndarray:
    """2.0**exponent, float64, for integer exponents in -1000..1000."""
    biased: np.ndarray = np.clip(exponent, -1000, 1000).astype(np.int64) + 1023
    return (biased << 52).view(np.float64)


def _truncate(values: np.ndarray, largest: np.ndarray, fraction_bits: int) -> np.ndarray:
    """Values truncated toward zero to multiples of 2**(largest - fraction_bits)."""
    shift = np.where(largest < -1000, 0, largest.astype(np.int32) - fraction_bits)
    truncated: np.ndarray = np.trunc(values * _power_of_two(-shift)) * _power_of_two(shift)
    return truncated


# If more than one in this many elements needs truncation, truncating the products of all elements is cheaper than selecting the few.
_DENSE_FRACTION = 4
# D elements per slab: four float64 arrays of that size stay within the second-level cache.
_SLAB = 8192


def _truncated_everywhere(a: Decomposed, b: Decomposed, largest: np.ndarray, fraction_bits: int) -> np.ndarray:
    """Sums of the truncated products of all D elements, float64 [M, N], exact; one slab of rows and one k at a time."""
    rows, columns = largest.shape
    height = max(1, _SLAB // columns)
    transposed = np.ascontiguousarray(b.value.T)
    result = np.zeros((rows, columns))
    for start in range(0, rows, height):
        part = slice(start, start + height)
        shift = np.where(largest[part] < -1000, 0, largest[part].astype(np.int32) - fraction_bits)
        scale = _power_of_two(-shift)
        terms = np.empty_like(scale)
        for k in range(a.shape[1]):
            np.multiply(scale, a.value[part, k, None], out=terms)
            terms *= transposed[k]
            np.trunc(terms, out=terms)
            result[part] += terms
        result[part] *= _power_of_two(shift)
    return result


# Elements per chunk of the truncating path: a few float64 arrays of chunk x K stay within the second-level cache.
_CHUNK = 2048


def _truncated_products(
    a: Decomposed, b: Decomposed, largest: np.ndarray, elements: np.ndarray, fraction_bits: int
) -> np.ndarray:
    """Sums of the truncated products of the given flat D elements (float64, exact)."""
    columns = b.shape[0]
    result = np.empty(elements.size)
    for start in range(0, elements.size, _CHUNK):
        part = slice(start, start + _CHUNK)
        row, column = np.divmod(elements[part], columns)
        shift = largest[part].astype(np.int32) - fraction_bits
        terms = a.value[row]
        terms *= b.value[column]
        terms *= _power_of_two(-shift)[:, None]
        np.trunc(terms, out=terms)
        result[part] = terms.sum(axis=1) * _power_of_two(shift)
    return result


def _align_and_add(terms: list[np.ndarray], exponents: list[np.ndarray], fraction_bits: int) -> np.ndarray:
    largest = exponents[0]
    for exponent in exponents[1:]:
        largest = np.maximum(largest, exponent)
    total = np.zeros(largest.shape)
    for term in terms:
        total += _truncate(term, largest, fraction_bits)
    return total


def round_result(total: np.ndarray, d_format: str, result_bits: int | None) -> np.ndarray:
    """Patterns of exact float64 sums: f16 to nearest even, f32 truncated to `result_bits`, or to nearest when that is None."""
    total = total + 0.0  # every zero result is +0
    if d_format == "f16":
        with np.errstate(over="ignore"):
            halves = total.astype(np.float16)
        return np.where(halves == 0, np.float16(0), halves).view(np.uint16)
    with np.errstate(over="ignore"):
        rounded = total.astype(np.float32)
    bits = rounded.view(np.uint32)
    if result_bits is not None:
        # The magnitude of a pattern orders like the number, so one less is the next value toward zero.
        too_large = np.abs(rounded.astype(np.float64)) > np.abs(total)
        too_large &= np.abs(total) < 2.0**128
        bits = bits - too_large
        bits &= np.uint32(0xFFFFFFFF << (23 - result_bits) & 0xFFFFFFFF)
    return np.where(bits == 0x80000000, np.uint32(0), bits)
