"""The accumulation model: measured landmarks, and random samples against the slow rational model."""

import numpy as np
import pytest
import slow_accumulate as slow

from pipec.sim.units.numbers import numerics
from pipec.sim.units.numbers.formats import FORMATS, decode, decompose, encode


def one(a, b, c, name="bf16", model=numerics.TCGEN05, **options):
    """Pattern of one D element from lists of numbers."""
    left, right = (decompose(encode(np.array([values], np.float64), name), name) for values in (a, b))
    addend = None if c is None else np.array([[c]], np.float32)
    return int(numerics.accumulate(left, right, addend, model, **options)[0, 0])


def padded(*values):
    return list(values) + [0.0] * (16 - len(values))


LANDMARKS = [
    ([1.5] * 16, [2.0] * 16, 1.0, 0x42440000),  # 49
    (padded(1, 2**-12), padded(1, 2**-12), 0.0, 0x3F800000),
    (padded(1, *[2.0**-13] * 2), padded(1, *[2.0**-12] * 2), 0.0, 0x3F800000),
    (padded(1, *[2.0**-13] * 4), padded(1, *[2.0**-12] * 4), 0.0, 0x3F800001),
    (padded(1, *[2.0**-13] * 8), padded(1, *[2.0**-13] * 8), 0.0, 0x3F800000),
    ([1] + [2.0**-13] * 15, [1] + [2.0**-12] * 15, None, 0x3F800003),
    ([1] + [2.0**-13] * 15, [1] + [2.0**-13] * 15, None, 0x3F800000),
    (padded(1, 2.0**-13), padded(1, -(2.0**-12)), None, 0x3F7FFFFF),
    (padded(1, 2.0**-13), padded(1, -(2.0**-13)), None, 0x3F800000),
    # The exponent of the sum has no floor, and a zero addend adds none.
    ([2.0**-76] * 16, [2.0**-77] * 16, None, 0x00000001),
    ([2.0**-76] * 16, [2.0**-77] * 16, 0.0, 0x00000001),
    ([2.0**-76] * 16, [2.0**-77] * 16, -0.0, 0x00000001),
    # A subnormal addend counts as 2**-126: 2**-152 is cut off, 2**-151 stays.
    (padded(*[2.0**-76] * 8), padded(*[2.0**-76] * 8), 2.0**-149, 0x00000001),
    (padded(*[2.0**-75] * 4), padded(*[2.0**-76] * 4), 2.0**-149, 0x00000002),
    # Overflow of the final sum gives infinity, no sooner.
    (padded(2.0**52), padded(2.0**52), 3.4028234663852886e38, 0x7F800000),
    (padded(2.0**51), padded(2.0**52), 3.4028234663852886e38, 0x7F7FFFFF),
    (padded(2.0**64, 2.0**64), padded(2.0**64, -(2.0**64)), None, 0),
    (padded(2.0**64, 2.0**64), padded(2.0**64, -(2.0**64)), 3.4028234663852886e38, 0x7F7FFFFF),
    # Every zero is +0.
    ([-0.0] * 16, [1.0] * 16, -0.0, 0),
    (padded(-(2.0**-75)), padded(2.0**-75), None, 0),
    # A subnormal factor keeps the format's least exponent: 2**-133 * 2**127 = 2**-6 hides 2**-25 behind exponent 1.
    (padded(2.0**-133, *[2.0**-13] * 4), padded(2.0**127, *[2.0**-12] * 4), None, 0x3C800000),
]


@pytest.mark.parametrize(("a", "b", "c", "expected"), LANDMARKS)
def test_landmarks(a, b, c, expected):
    assert f"{one(a, b, c):#x}" == f"{expected:#x}"


def test_hopper_fp8_landmarks():
    options = {"name": "e5m2", "model": numerics.WGMMA_FP8}
    assert one([1.0, 2.0**-7], [1.0, 2.0**-7], 0.0, **options) == 0x3F800000
    assert one([1.0, 2.0**-6], [1.0, 2.0**-7], None, **options) == 0x3F800400
    assert one([0.0], [0.0], np.uint32(0x3F7FFFFF).view(np.float32), **options) == 0x3F7FFC00


@pytest.mark.parametrize(
    ("a", "b", "c", "expected"),
    [
        ([np.nan, 1], [1, 1], 0.0, 0x7FFFFFFF),
        ([np.inf, 1], [0, 1], 0.0, 0x7FFFFFFF),
        ([np.inf, np.inf], [1, -1], 0.0, 0x7FFFFFFF),
        ([np.inf, 3e38], [1, -3e38], 0.0, 0x7F800000),
        ([np.inf, 1], [-2, 1], 0.0, 0xFF800000),
        ([1, 1], [1, 1], -np.inf, 0xFF800000),
        ([np.inf, 1], [1, 1], -np.inf, 0x7FFFFFFF),
        ([1, 1], [1, 1], np.nan, 0x7FFFFFFF),
    ],
)
def test_infinities_and_nan(a, b, c, expected):
    assert one(a, b, c) == expected
    assert one(a, b, c, numerics="fast") == expected


def test_special_values_touch_only_their_rows_and_columns():
    a, b = np.ones((3, 16)), np.ones((4, 16))
    a[1, 5], b[2, 7] = np.inf, np.nan
    left, right = (decompose(encode(part, "bf16"), "bf16") for part in (a, b))
    got = numerics.accumulate(left, right, None).view(np.float32)
    expected = np.full((3, 4), 16.0)
    expected[1], expected[:, 2] = np.inf, np.nan
    assert np.array_equal(got, expected, equal_nan=True)


def test_f16_results():
    def half(a, b, c):
        return one(padded(a), padded(b), c, name="f16", d_format="f16")

    assert half(1, 1, 2.0**-11) == 0x3C00  # tie to even
    assert half(1, 1, 3 * 2.0**-11) == 0x3C02
    assert half(1, 16, 65504.0) == 0x7C00
    assert half(1, 15, 65504.0) == 0x7BFF
    assert half(-0.0, 1, None) == 0
    assert half(np.nan, 1, None) == 0x7FFF
    assert half(np.inf, -1, None) == 0xFC00


def random_patterns(rng, name, shape, spread):
    """Finite patterns; `spread` picks narrow or wide exponents or anything the format has."""
    row = FORMATS[name]
    if spread == "any":
        bits = rng.integers(0, 1 << row.width, shape, dtype=np.uint64).astype(np.uint32)
        return np.where(np.isfinite(decode(bits, name)), bits, 0)
    scale = 2.0 ** rng.integers(-12, 12, shape) if spread == "wide" else 1.0
    return encode(rng.normal(size=shape) * scale * (rng.random(shape) > 0.1), name, satfinite=True)


KINDS = [
    ("bf16", "bf16", 16),
    ("f16", "f16", 16),
    ("tf32", "tf32", 8),
    ("e4m3", "e5m2", 32),
    ("e2m3", "e3m2", 32),
    ("e2m1", "e4m3", 32),
]
MODELS = [(numerics.TCGEN05, 25, 23), (numerics.WGMMA_FP8, 13, 13)]


@pytest.mark.parametrize("spread", ["narrow", "wide", "any"])
@pytest.mark.parametrize(("a_name", "b_name", "k"), KINDS)
def test_against_the_rational_model(a_name, b_name, k, spread):
    rng = np.random.default_rng([k, len(spread), ord(a_name[1])])
    a, b = random_patterns(rng, a_name, (4, k), spread), random_patterns(rng, b_name, (5, k), spread)
    c = random_patterns(rng, "f32", (4, 5), spread).astype(np.uint32)
    for model, fraction_bits, result_bits in MODELS:
        for addend in (c, None):
            got = numerics.accumulate(
                decompose(a, a_name), decompose(b, b_name), None if addend is None else c.view(np.float32), model
            )
            for m in range(4):
                for n in range(5):
                    value = None if addend is None else c[m, n]
                    assert got[m, n] == slow.element(a[m], b[n], value, a_name, b_name, fraction_bits, result_bits)


@pytest.mark.parametrize("spread", ["narrow", "any"])
def test_f16_result_against_the_rational_model(spread):
    rng = np.random.default_rng(11)
    a, b = (random_patterns(rng, "f16", (rows, 16), spread) for rows in (4, 5))
    c = random_patterns(rng, "f16", (4, 5), spread).astype(np.uint16)
    got = numerics.accumulate(decompose(a, "f16"), decompose(b, "f16"), decode(c, "f16"), d_format="f16")
    for m in range(4):
        for n in range(5):
            assert got[m, n] == slow.element(a[m], b[n], c[m, n], "f16", "f16", d_format="f16")


@pytest.mark.parametrize("spread", ["narrow", "any"])
def test_block_scaled_fp8(spread):
    rng = np.random.default_rng(12)
    a, b = random_patterns(rng, "e4m3", (4, 32), spread), random_patterns(rng, "e5m2", (5, 32), spread)
    low, high = (120, 135) if spread == "narrow" else (0, 255)
    scale_a, scale_b = rng.integers(low, high, (4, 1)), rng.integers(low, high, (5, 1))
    c = random_patterns(rng, "f32", (4, 5), "narrow").astype(np.uint32)
    got = numerics.accumulate(
        decompose(a, "e4m3"),
        decompose(b, "e5m2"),
        c.view(np.float32),
        scale_a=decompose(scale_a, "ue8m0"),
        scale_b=decompose(scale_b, "ue8m0"),
    )
    for m in range(4):
        for n in range(5):
            scales = (scale_a[m, 0], scale_b[n, 0])
            assert got[m, n] == slow.element(a[m], b[n], c[m, n], "e4m3", "e5m2", scales=scales)


@pytest.mark.parametrize(("scale_name", "blocks"), [("ue8m0", 2), ("ue8m0", 4), ("ue4m3", 4)])
@pytest.mark.parametrize("spread", ["narrow", "any"])
def test_fp4_against_the_rational_model(scale_name, blocks, spread):
    rng = np.random.default_rng(13)
    a, b = rng.integers(0, 16, (4, 64)), rng.integers(0, 16, (5, 64))
    low, high = {"ue8m0": (118, 137), "ue4m3": (0, 127)}[scale_name] if spread == "narrow" else (0, 127)
    scale_a, scale_b = rng.integers(low, high, (4, blocks)), rng.integers(low, high, (5, blocks))
    c = random_patterns(rng, "f32", (4, 5), "narrow").astype(np.uint32)
    got = numerics.accumulate_fp4(
        decode(a, "e2m1"), decode(b, "e2m1"), c.view(np.float32), decompose(scale_a, scale_name), decompose(scale_b, scale_name)
    )
    for m in range(4):
        for n in range(5):
            assert got[m, n] == slow.element_fp4(a[m], b[n], c[m, n], scale_a[m], scale_b[n], scale_name)


def test_fp4_worked_value_and_nan_scale():
    sixes = np.full((1, 64), 6.0)
    ones, halves = (decompose(encode(np.full((1, 4), value), "e4m3"), "ue4m3") for value in (1.0, 0.5))
    got = numerics.accumulate_fp4(sixes, sixes, np.zeros((1, 1), np.float32), ones, halves)
    assert got.view(np.float32)[0, 0] == 64 * 36 * 0.5
    spoilt = decompose(np.array([[0x38, 0x38, 0x7F, 0x38]]), "ue4m3")
    assert numerics.accumulate_fp4(sixes, sixes, None, ones, spoilt)[0, 0] == 0x7FFFFFFF


def test_nan_scale_of_fp8():
    zeros = decompose(np.zeros((1, 32), np.uint8), "e4m3")
    nan, unit = (decompose(np.array([[code]]), "ue8m0") for code in (255, 127))
    assert numerics.accumulate(zeros, zeros, None, scale_a=nan, scale_b=unit)[0, 0] == 0x7FFFFFFF
    assert numerics.accumulate(zeros, zeros, None, scale_a=unit, scale_b=unit)[0, 0] == 0


def test_integers_wrap_or_saturate():
    a, b = np.full((1, 32), 127.0), np.full((2, 32), 127.0)
    b[1] = -128.0
    c = np.array([[2**31 - 5, -(2**31) + 5]], np.int64)
    product = np.array([[32 * 127 * 127, -32 * 127 * 128]], np.int64)
    wrapped = numerics.accumulate_integer(a, b, c, saturate=False)
    assert np.array_equal(wrapped, (c + product).astype(np.uint32).view(np.int32))
    assert numerics.accumulate_integer(a, b, c, saturate=True).tolist() == [[2**31 - 1, -(2**31)]]
    assert numerics.accumulate_integer(a, b, None, saturate=False).tolist() == product.tolist()


def test_fast_is_close():
    rng = np.random.default_rng(14)
    left, right = (decompose(encode(rng.normal(size=(rows, 16)), "bf16"), "bf16") for rows in (32, 64))
    c = rng.normal(size=(32, 64)).astype(np.float32)
    exact, fast = (numerics.accumulate(left, right, c, numerics=name).view(np.float32) for name in ("exact", "fast"))
    reference = left.value @ right.value.T + c
    assert np.array_equal(fast, reference.astype(np.float32))
    assert np.abs(exact - reference).max() < 1e-5


@pytest.mark.parametrize("dense_fraction", [0, 1 << 20])  # never all elements, and as soon as one needs it
def test_large_products_agree_with_small_ones(dense_fraction, monkeypatch):
    """The truncating paths work in chunks of D elements; cut up differently, the results must not change."""
    monkeypatch.setattr(numerics, "_DENSE_FRACTION", dense_fraction)
    rng = np.random.default_rng(15)
    a, b = (random_patterns(rng, "bf16", (rows, 16), "wide") for rows in (128, 256))
    c = random_patterns(rng, "f32", (128, 256), "wide").astype(np.uint32).view(np.float32)
    left, right = decompose(a, "bf16"), decompose(b, "bf16")
    whole = numerics.accumulate(left, right, c)
    for row in range(0, 128, 5):
        part = numerics.accumulate(decompose(a[row : row + 1], "bf16"), right, c[row : row + 1])
        assert np.array_equal(whole[row], part[0])
    for m, n in rng.integers(0, 128, (60, 2)):
        assert whole[m, n] == slow.element(a[m], b[n], c.view(np.uint32)[m, n], "bf16", "bf16")
