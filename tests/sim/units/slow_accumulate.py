"""A scalar accumulation model on rational numbers, written from the rules alone and sharing nothing with the fast one."""

from fractions import Fraction

import numpy as np

# name -> (exponent bits, fraction bits, bias)
LAYOUT = {
    "f32": (8, 23, 127),
    "tf32": (8, 23, 127),
    "bf16": (8, 7, 127),
    "f16": (5, 10, 15),
    "e5m2": (5, 2, 15),
    "e4m3": (4, 3, 7),
    "e3m2": (3, 2, 3),
    "e2m3": (2, 3, 1),
    "e2m1": (2, 1, 1),
    "ue4m3": (4, 3, 7),
    "ue8m0": (8, 0, 127),
}


def split(bits, name):
    """(signed significand, exponent) of a finite pattern."""
    exponent_bits, fraction_bits, bias = LAYOUT[name]
    bits = int(bits)
    if name == "ue8m0":
        return Fraction(1), bits - 127
    if name == "tf32":
        bits &= ~0x1FFF
    fraction = Fraction(bits % (1 << fraction_bits), 1 << fraction_bits)
    field = bits >> fraction_bits & ((1 << exponent_bits) - 1)
    negative = name[0] != "u" and bits >> (exponent_bits + fraction_bits) & 1
    significand = fraction + (field > 0)
    return (-significand if negative else significand), max(field, 1) - bias


def truncate(value):
    return Fraction(abs(value).__floor__()) * (1 if value >= 0 else -1)


def truncated_sum(terms, fraction_bits):
    exponents = [exponent for significand, exponent in terms if significand]
    if not exponents:
        return Fraction(0)
    unit = Fraction(2) ** (max(exponents) - fraction_bits)
    return sum(truncate(significand * Fraction(2) ** exponent / unit) for significand, exponent in terms) * unit


def to_f32_bits(value, result_bits=23):
    """Truncate toward zero; overflow gives infinity and every zero is +0."""
    sign, value = (1 << 31 if value < 0 else 0), abs(value)
    if value >= Fraction(2) ** 128:
        return sign | 0x7F800000
    exponent = -126
    while value >= Fraction(2) ** (exponent + 1):
        exponent += 1
    steps = int(value / Fraction(2) ** (exponent - result_bits)) << (23 - result_bits)
    return (sign | ((exponent + 126) << 23) + steps) if steps else 0


def to_f16_bits(value):
    sign, value = (1 << 15 if value < 0 else 0), abs(value)
    exponent = -14
    while value >= Fraction(2) ** (exponent + 1):
        exponent += 1
    steps = round(value / Fraction(2) ** (exponent - 10))  # Python rounds rationals half to even
    code = ((exponent + 14) << 10) + steps
    return sign | min(code, 0x7C00) if code else 0


def element(a, b, c, a_name, b_name, fraction_bits=25, result_bits=23, scales=None, d_format="f32"):
    """Pattern of one D element; a, b, c are patterns (c None: no addend; c in f16 when d_format is f16)."""
    terms = [split(c, d_format if d_format == "f32" else "f16")] if c is not None else []
    if d_format == "f16" and c is not None:
        # An f16 addend enters as the f32 of the same value, i.e. normalised.
        terms = [split(np.array([c], np.uint16).view(np.float16).astype(np.float32).view(np.uint32)[0], "f32")]
    shift = sum(split(scale, "ue8m0")[1] for scale in scales or ())
    for left, right in zip(a, b, strict=True):
        (s1, e1), (s2, e2) = split(left, a_name), split(right, b_name)
        terms.append((s1 * s2, e1 + e2 + shift))
    total = truncated_sum(terms, fraction_bits)
    return to_f16_bits(total) if d_format == "f16" else to_f32_bits(total, result_bits)


def element_fp4(a, b, c, scales_a, scales_b, scale_name):
    """mxf4 / mxf4nvf4: groups of 16 summed exactly, scaled, aligned at 35 bits."""
    terms = [split(c, "f32")] if c is not None else []
    per_scale = len(a) // len(scales_a)
    for start in range(0, len(a), 16):
        total = Fraction(0)
        for left, right in zip(a[start : start + 16], b[start : start + 16], strict=True):
            (s1, e1), (s2, e2) = split(left, "e2m1"), split(right, "e2m1")
            total += s1 * s2 * Fraction(2) ** (e1 + e2)
        (s1, e1), (s2, e2) = split(scales_a[start // per_scale], scale_name), split(scales_b[start // per_scale], scale_name)
        terms.append((total * s1 * s2, e1 + e2))
    return to_f32_bits(truncated_sum(terms, 35))
