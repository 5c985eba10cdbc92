"""Number formats of the tensor cores and of `cvt`: bit patterns, exact values, significands and exponents.

Sources: PTX ISA 5.2.3 (alternate formats), 9.7.9.21 (cvt), 9.7.16.10 (tcgen05 operands).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Literal, get_args

import numpy as np

from pipec.record import record

from ..errors import UnitError

# To nearest even, to nearest away from zero, towards zero, up, down.
Rounding = Literal["rn", "rna", "rz", "rp", "rm"]
ROUNDINGS: tuple[Rounding, ...] = get_args(Rounding)

# The fill value of a tensor map with NaN fill, by halves, which `fma.oob` treats as zero (measured; PTX ISA 9.7.4.4 distinguishes it from
# other NaNs by its bits).
OUT_OF_BOUNDS = 0x7FF7

# Exponents given to a zero: so low (resp. high) that a zero term never wins a maximum (resp. a minimum), even when two are added.
ZERO_EXPONENT = -8000
ZERO_LOWEST = 8000


@record
class Format:
    """A floating-point format.

    width       bits of the value, right-aligned in its container (tf32: the 32-bit f32 container)
    special     "ieee": infinities and NaN; "nan": one NaN pattern and no infinity; "finite": neither
    dropped     low container bits that carry no information (tf32: 13)
    nan         canonical NaN pattern written by conversions, None when the format has none
    """

    name: str
    width: int
    exponent_bits: int
    fraction_bits: int
    bias: int
    special: Literal["ieee", "nan", "finite"]
    nan: int | None = None
    signed: bool = True
    dropped: int = 0

    @property
    def minimum_exponent(self) -> int:
        """Exponent of the smallest normal number, which all subnormals share."""
        return -self.bias if self.name == "ue8m0" else 1 - self.bias

    @property
    def maximum_code(self) -> int:
        """Magnitude bits (without `dropped`) of the largest finite value."""
        top = (1 << (self.exponent_bits + self.fraction_bits)) - 1
        return {"finite": top, "nan": top - 1, "ieee": top - (1 << self.fraction_bits)}[self.special]

    @property
    def container(self) -> type:
        """numpy type of a bit pattern."""
        if self.width <= 8:
            return np.uint8
        return np.uint16 if self.width <= 16 else np.uint32 if self.width <= 32 else np.uint64


FORMATS = {
    row.name: row
    for row in (
        Format("f64", 64, 11, 52, 1023, "ieee", 0x7FFFFFFFFFFFFFFF),
        Format("f32", 32, 8, 23, 127, "ieee", 0x7FFFFFFF),
        Format("tf32", 32, 8, 10, 127, "ieee", 0x7FFFFFFF, dropped=13),
        Format("f16", 16, 5, 10, 15, "ieee", 0x7FFF),
        Format("bf16", 16, 8, 7, 127, "ieee", 0x7FFF),
        Format("e5m2", 8, 5, 2, 15, "ieee", 0x7F),
        Format("e4m3", 8, 4, 3, 7, "nan", 0x7F),
        Format("e3m2", 6, 3, 2, 3, "finite"),
        Format("e2m3", 6, 2, 3, 1, "finite"),
        Format("e2m1", 4, 2, 1, 1, "finite"),
        Format("ue8m0", 8, 8, 0, 127, "nan", 0xFF, signed=False),
        Format("ue4m3", 7, 4, 3, 7, "nan", 0x7F, signed=False),
    )
}


def format_of(name: str) -> Format:
    """The format called `name`; UnitError for a name this model does not know."""
    if name not in FORMATS:
        raise UnitError("unsupported", f"number format {name!r} is none of {sorted(FORMATS)}")
    return FORMATS[name]


@record
class Decomposed:
    """Numbers taken apart for the accumulation model; all arrays have one shape.

    value     float64, exact; infinities and NaN kept
    exponent  int16; value = significand * 2**exponent with 1 <= |significand| < 2, or below 1 for subnormals, which keep the
              format's least exponent.  ZERO_EXPONENT for zeros and non-finite values
    lowest    int16; exponent of the lowest set significand bit.  ZERO_LOWEST likewise
    digits    bits of a significand, at most
    """

    value: np.ndarray
    exponent: np.ndarray
    lowest: np.ndarray
    digits: int = 53

    @property
    def shape(self) -> tuple[int, ...]:
        return self.value.shape

    def column(self, index: int) -> Decomposed:
        """One column of a two-dimensional array of numbers."""
        return Decomposed(self.value[:, index], self.exponent[:, index], self.lowest[:, index])

    def negated(self) -> Decomposed:
        return Decomposed(-self.value, self.exponent, self.lowest, self.digits)


def decode(bits: np.ndarray, format_name: str) -> np.ndarray:
    """Exact float64 values of bit patterns (any unsigned dtype, any shape).  Bits above the format's width are ignored."""
    number_format = format_of(format_name)
    if number_format.width <= 16:
        values: np.ndarray = _tables(format_name)[0].take(_index(bits, number_format))
        return values
    if format_name == "f64":
        return np.asarray(bits, np.uint64).view(np.float64)
    words = np.ascontiguousarray(bits, np.uint32)
    keep = np.uint32(0xFFFFFFFF >> number_format.dropped << number_format.dropped)
    with np.errstate(invalid="ignore"):  # signalling NaN patterns are data here
        return (words & keep).view(np.float32).astype(np.float64)


def decompose(bits: np.ndarray, format_name: str, negate: bool = False) -> Decomposed:
    """Values, exponents and lowest bit positions of bit patterns (see Decomposed)."""
    number_format = format_of(format_name)
    if number_format.width > 16:
        parts = _decompose_values(decode(bits, format_name), number_format)
    else:
        index = _index(bits, number_format)
        value, exponent, lowest = _tables(format_name)
        parts = Decomposed(value.take(index), exponent.take(index), lowest.take(index), number_format.fraction_bits + 1)
    return parts.negated() if negate else parts


def integers(patterns: np.ndarray, format_name: str) -> np.ndarray:
    """The float64 values of integer bytes, "s8" or "u8"; with fewer bits per element ("s4", "u4", "b1"), of all elements in each byte,
    the lowest bits first: the last axis grows."""
    match format_name:
        case "b1":
            patterns = np.unpackbits(patterns, axis=-1, bitorder="little")
        case "s4" | "u4":
            patterns = np.stack([patterns & 15, patterns >> 4], axis=-1).reshape(*patterns.shape[:-1], -1)
            if format_name == "s4":
                patterns = (patterns ^ 8) - 8  # wraps, as a signed byte does
    return (patterns.view(np.int8) if format_name[0] == "s" else patterns).astype(np.float64)


def _index(bits: np.ndarray, number_format: Format) -> np.ndarray:
    codes = np.asarray(bits)
    index = codes.astype(np.int64)
    return index if 8 * codes.itemsize == number_format.width else index & ((1 << number_format.width) - 1)


@cache
def _tables(format_name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(value, exponent, lowest) of every pattern of a format of at most 16 bits."""
    number_format = FORMATS[format_name]
    codes = np.arange(1 << number_format.width, dtype=np.int64)
    value = _decode_fields(codes, number_format)
    parts = _decompose_values(value, number_format)
    for table in (value, parts.exponent, parts.lowest):
        table.flags.writeable = False
    return value, parts.exponent, parts.lowest


def _decode_fields(codes: np.ndarray, number_format: Format) -> np.ndarray:
    magnitude_bits = number_format.exponent_bits + number_format.fraction_bits
    magnitude = codes & ((1 << magnitude_bits) - 1)
    fraction = magnitude & ((1 << number_format.fraction_bits) - 1)
    field = magnitude >> number_format.fraction_bits
    if number_format.name == "ue8m0":
        value = np.ldexp(1.0, field - number_format.bias)
    else:
        significand = fraction + np.where(field > 0, 1 << number_format.fraction_bits, 0)
        value = np.ldexp(significand.astype(np.float64), np.maximum(field, 1) - number_format.bias - number_format.fraction_bits)
    beyond = magnitude > number_format.maximum_code
    is_infinity = beyond & (fraction == 0) & (number_format.special == "ieee")
    value = np.where(beyond, np.where(is_infinity, np.inf, np.nan), value)
    negative = (codes >> magnitude_bits & 1 == 1) & number_format.signed
    return np.where(negative, -value, value)


def _decompose_values(value: np.ndarray, number_format: Format) -> Decomposed:
    usable = np.isfinite(value) & (value != 0)
    fraction, exponent = np.frexp(np.where(usable, value, 1.0))
    exponent = np.maximum(exponent - 1, number_format.minimum_exponent)
    # 2^24 times the frexp fraction is an integer for every format up to f32 (24 significant bits).
    integer = np.ldexp(np.abs(fraction), 24).astype(np.int64)
    lowest_set = integer & -integer
    trailing = np.frexp(lowest_set.astype(np.float64))[1] - 1
    lowest = np.frexp(np.where(usable, value, 1.0))[1] - 24 + trailing
    return Decomposed(
        value,
        np.where(usable, exponent, ZERO_EXPONENT).astype(np.int16),
        np.where(usable, lowest, ZERO_LOWEST).astype(np.int16),
    )


def _round_nearest_away(quotient: np.ndarray, negative: np.ndarray) -> np.ndarray:
    below: np.ndarray = np.floor(quotient)
    return np.where(quotient - below >= 0.5, below + 1, below)


# Each takes a non-negative quotient (in units of the last place) and the sign, and returns the rounded integer.
_ROUNDINGS: dict[Rounding, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "rn": lambda quotient, negative: np.rint(quotient),
    "rna": _round_nearest_away,
    "rz": lambda quotient, negative: np.floor(quotient),
    "rp": lambda quotient, negative: np.where(negative, np.floor(quotient), np.ceil(quotient)),
    "rm": lambda quotient, negative: np.where(negative, np.ceil(quotient), np.floor(quotient)),
}


def encode(
    values: np.ndarray, format_name: str, rounding: Rounding = "rn", satfinite: bool = False, relu: bool = False
) -> np.ndarray:
    """Bit patterns (unsigned array of the format's container) of float32/float64 `values`, rounded once.

    rounding   rn (ties to even), rna (ties away from zero), rz, rp, rm
    satfinite  out-of-range values and infinities become the largest finite value.  Formats without infinity: e2m1, e2m3 and
               e3m2 always saturate and turn NaN into +maximum; e4m3 gives NaN when satfinite is off
    relu       negative results become +0 (NaN stays the canonical NaN)
    ue8m0 takes the magnitude, clamps to 2**-127..2**127 and knows the roundings rz and rp (PTX ISA 9.7.9.21).
    """
    number_format = format_of(format_name)
    if rounding not in _ROUNDINGS:
        raise UnitError("unsupported", f"rounding {rounding!r} is none of {sorted(_ROUNDINGS)}")
    if format_name == "f64":
        raise UnitError("unsupported", "encode covers formats of at most 32 bits, f64 has 64")
    with np.errstate(invalid="ignore"):
        wide = np.asarray(values).astype(np.float64)
    code = _encode_magnitude(wide, number_format, rounding, satfinite)
    if number_format.signed:
        code = code | (np.signbit(wide).astype(np.int64) << (number_format.exponent_bits + number_format.fraction_bits))
    if relu and number_format.signed:
        code = np.where(np.signbit(wide), 0, code)
    code = code << number_format.dropped
    is_nan = np.isnan(wide)
    if is_nan.any():
        # Formats without a NaN take the positive maximum.
        replacement = number_format.maximum_code if number_format.nan is None else number_format.nan
        code = np.where(is_nan, replacement, code)
    return code.astype(number_format.container)


def _encode_magnitude(wide: np.ndarray, number_format: Format, rounding: Rounding, satfinite: bool) -> np.ndarray:
    """Exponent and fraction bits (int64) of |wide|; NaN lanes get anything."""
    finite = np.isfinite(wide)
    magnitude = np.abs(np.where(finite, wide, 0.0))
    negative = np.signbit(wide)
    exponent = np.maximum(np.frexp(magnitude)[1].astype(np.int64) - 1, number_format.minimum_exponent)
    exponent = np.where(magnitude == 0, number_format.minimum_exponent, exponent)
    quotient = np.ldexp(magnitude, number_format.fraction_bits - exponent)
    steps = _ROUNDINGS[rounding](quotient, negative & number_format.signed).astype(np.int64)
    if number_format.name == "ue8m0":
        # No zero and no subnormals: code 0 already is 2^-127, so a significand of 1 adds nothing to the exponent field.
        code = np.maximum(exponent + number_format.bias + steps - 1, 0)
    else:
        # A significand that rounds up to the next power of two carries into the exponent field by itself.
        code = ((exponent - number_format.minimum_exponent) << number_format.fraction_bits) + steps
    maximum = number_format.maximum_code
    saturates = satfinite or number_format.special == "finite" or number_format.name == "ue8m0"
    overflow = maximum if saturates else maximum + 1
    toward_zero = (rounding == "rz") | ((rounding == "rp") & negative) | ((rounding == "rm") & ~negative)
    code = np.where(code > maximum, np.where(toward_zero, maximum, overflow), code)
    return np.where(finite, code, overflow)
