"""Number formats against ml_dtypes, exhaustively where the format is small, and the conversion rules of cvt."""

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from unit_memories import raises

from pipec.sim.units.numbers.formats import FORMATS, ZERO_EXPONENT, decode, decompose, encode

REFERENCE = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
    "e2m3": ml_dtypes.float6_e2m3fn,
    "e3m2": ml_dtypes.float6_e3m2fn,
    "e2m1": ml_dtypes.float4_e2m1fn,
    "ue8m0": ml_dtypes.float8_e8m0fnu,
}


def all_codes(name):
    row = FORMATS[name]
    return np.arange(1 << row.width).astype(row.container)


def samples(rng, size=4000):
    values = rng.normal(size=size) * 2.0 ** rng.integers(-30, 20, size)
    return np.concatenate([values, [0.0, -0.0, 1e-45, -1e-45, 3e38, -3e38]]).astype(np.float32)


@pytest.mark.parametrize("name", REFERENCE)
def test_decode_matches_reference(name):
    codes = all_codes(name)
    with np.errstate(invalid="ignore"):
        expected = codes.view(REFERENCE[name]).astype(np.float64)
    got = decode(codes, name)
    assert np.array_equal(expected, got, equal_nan=True)
    assert np.array_equal(np.signbit(expected)[~np.isnan(expected)], np.signbit(got)[~np.isnan(got)])


@pytest.mark.parametrize("name", [name for name in REFERENCE if name != "ue8m0"])
def test_encode_inverts_decode(name):
    codes = all_codes(name)
    values = decode(codes, name)
    keep = ~np.isnan(values)
    assert np.array_equal(encode(values[keep], name), codes[keep])


@pytest.mark.parametrize("name", ["f16", "bf16", "e5m2", "e2m3", "e3m2", "e2m1"])
def test_round_to_nearest_matches_reference(name):
    values = samples(np.random.default_rng(1))
    if name in ("e2m3", "e3m2", "e2m1"):  # the reference does not define what exceeds the range
        values = values[np.abs(values) <= decode(np.array([FORMATS[name].maximum_code]), name)[0]]
    with np.errstate(over="ignore"):
        expected = values.astype(REFERENCE[name]).view(FORMATS[name].container)
    assert np.array_equal(encode(values, name), expected)


def test_round_to_nearest_e4m3_saturates():
    values = samples(np.random.default_rng(2))
    expected = np.clip(values, -448, 448).astype(REFERENCE["e4m3"]).view(np.uint8)
    assert np.array_equal(encode(values, "e4m3", satfinite=True), expected)


@pytest.mark.parametrize("name", ["f16", "bf16", "tf32", "e4m3", "e5m2", "e2m1", "e3m2"])
@pytest.mark.parametrize("rounding", ["rn", "rna", "rz", "rp", "rm"])
def test_rounding_against_neighbours(name, rounding):
    """Brute force: the result is the neighbour that the rounding asks for, by exact rational distance."""
    row = FORMATS[name]
    rng = np.random.default_rng(3)
    codes = rng.integers(0, row.maximum_code, 300).astype(np.int64)
    low, high = (decode(codes + step << row.dropped, name) for step in (0, 1))
    weight = rng.choice([0.25, 0.5, 0.75], 300)
    middle = low + (high - low) * weight
    for sign in (1, -1):
        got = decode(encode(sign * middle, name, rounding), name)
        for index, value in enumerate(got):
            below, above = Fraction(low[index]), Fraction(high[index])
            nearer = below if weight[index] < 0.5 else above
            even = below if codes[index] % 2 == 0 else above
            want = {
                "rz": below,
                "rn": even if weight[index] == 0.5 else nearer,
                "rna": above if weight[index] == 0.5 else nearer,
                "rp": above if sign > 0 else below,
                "rm": below if sign > 0 else above,
            }[rounding]
            assert Fraction(value) == sign * want


def test_special_values():
    values = np.array([np.nan, np.inf, -np.inf, 1e30, -1e30], np.float32)

    def codes(name, **options):
        return [int(code) for code in encode(values, name, **options)]

    assert codes("f16") == [0x7FFF, 0x7C00, 0xFC00, 0x7C00, 0xFC00]
    assert codes("f16", satfinite=True) == [0x7FFF, 0x7BFF, 0xFBFF, 0x7BFF, 0xFBFF]
    assert codes("f16", rounding="rz") == [0x7FFF, 0x7C00, 0xFC00, 0x7BFF, 0xFBFF]
    assert codes("e4m3", satfinite=True) == [0x7F, 0x7E, 0xFE, 0x7E, 0xFE]
    assert codes("e5m2", satfinite=True) == [0x7F, 0x7B, 0xFB, 0x7B, 0xFB]
    # Formats without NaN: NaN becomes the positive maximum.
    assert codes("e2m1", satfinite=True) == [7, 7, 15, 7, 15]
    assert codes("e2m3", satfinite=True) == [0x1F, 0x1F, 0x3F, 0x1F, 0x3F]
    assert codes("e3m2", satfinite=True) == [0x1F, 0x1F, 0x3F, 0x1F, 0x3F]


def test_relu():
    values = np.array([-1.0, -0.0, 1.0, np.nan, -np.inf])
    assert [int(code) for code in encode(values, "bf16", relu=True)] == [0, 0, 0x3F80, 0x7FFF, 0]
    assert [int(code) for code in encode(values, "e4m3", satfinite=True, relu=True)] == [0, 0, 0x38, 0x7F, 0]


def test_scale_format():
    values = np.array([1.0, 1.5, 2.0, 2.0**-127, 2.0**-140, 0.0, 3e38, np.inf, np.nan])
    assert [int(code) for code in encode(values, "ue8m0", "rz")] == [127, 127, 128, 0, 0, 0, 254, 254, 255]
    assert [int(code) for code in encode(values, "ue8m0", "rp")] == [127, 128, 128, 0, 0, 0, 254, 254, 255]
    assert decode(np.array([0x7F, 0x7E, 0x08, 0x01, 0xFE]), "ue4m3").tolist()[1:] == [448.0, 2.0**-6, 2.0**-9, 448.0]


def test_tf32_drops_its_low_bits():
    bits = np.array([0x3F801FFF, 0x7F800001, 0x3F802000], np.uint32)
    assert decode(bits, "tf32").tolist() == [1.0, np.inf, 1.0 + 2.0**-10]


@pytest.mark.parametrize("name", ["f16", "bf16", "tf32", "f32", "e4m3", "e5m2", "e2m3", "e2m1", "ue4m3", "ue8m0"])
def test_decomposition(name):
    row = FORMATS[name]
    rng = np.random.default_rng(4)
    codes = rng.integers(0, 1 << row.width, 400).astype(np.uint64)
    parts = decompose(codes.astype(np.uint32), name)
    for value, exponent, lowest in zip(parts.value, parts.exponent, parts.lowest, strict=True):
        if not np.isfinite(value) or value == 0:
            assert exponent == ZERO_EXPONENT
            continue
        significand = abs(Fraction(value)) / Fraction(2) ** int(exponent)
        assert significand < 2 and (significand >= 1 or exponent == row.minimum_exponent)
        odd = Fraction(value) / Fraction(2) ** int(lowest)
        assert odd.denominator == 1 and odd.numerator % 2 == 1


def test_unknown_names():
    with raises("unsupported", "e6m1"):
        decode(np.zeros(1, np.uint8), "e6m1")
    with raises("unsupported", "rx"):
        encode(np.zeros(1), "f16", "rx")
