"""Worked instruction and matrix descriptors, the shape table, and rejected bit patterns."""

import pytest
from unit_memories import raises

from pipec.sim.units.tcgen05.descriptors import MatrixDescriptor, decode_instruction_descriptor, decode_matrix_descriptor

# (word, kind, cta_group, scale_vec) -> (M, N, A, B, D, A MN-major, B MN-major, SFA id, SFB id, scale format)
WORKED = [
    (0x08400490, "f16", 1, None, (128, 256, "bf16", "bf16", "f32", 0, 0, 0, 0, None)),
    (0x10400490, "f16", 2, None, (256, 256, "bf16", "bf16", "f32", 0, 0, 0, 0, None)),
    (0x08210490, "f16", 1, None, (128, 128, "bf16", "bf16", "f32", 0, 1, 0, 0, None)),
    (0x08418490, "f16", 1, None, (128, 256, "bf16", "bf16", "f32", 1, 1, 0, 0, None)),
    (0x08410490, "f16", 1, None, (128, 256, "bf16", "bf16", "f32", 0, 1, 0, 0, None)),
    (0x08400010, "f16", 1, None, (128, 256, "f16", "f16", "f32", 0, 0, 0, 0, None)),
    (0x08400000, "f16", 1, None, (128, 256, "f16", "f16", "f16", 0, 0, 0, 0, None)),
    (0x04100010, "f16", 1, None, (64, 64, "f16", "f16", "f32", 0, 0, 0, 0, None)),
    (0x08400910, "tf32", 1, None, (128, 256, "tf32", "tf32", "f32", 0, 0, 0, 0, None)),
    (0x08400010, "f8f6f4", 1, None, (128, 256, "e4m3", "e4m3", "f32", 0, 0, 0, 0, None)),
    (0x08200090, "f8f6f4", 1, None, (128, 128, "e5m2", "e4m3", "f32", 0, 0, 0, 0, None)),
    (0x084004A0, "i8", 1, None, (128, 256, "s8", "s8", "s32", 0, 0, 0, 0, None)),
    (0x08400020, "i8", 1, None, (128, 256, "u8", "u8", "s32", 0, 0, 0, 0, None)),
    (0x08C00000, "mxf8f6f4", 1, 1, (128, 256, "e4m3", "e4m3", "f32", 0, 0, 0, 0, "ue8m0")),
    (0x28C00010, "mxf8f6f4", 1, None, (128, 256, "e4m3", "e4m3", "f32", 0, 0, 1, 1, "ue8m0")),
    (0x48C00020, "mxf8f6f4", 1, 1, (128, 256, "e4m3", "e4m3", "f32", 0, 0, 2, 2, "ue8m0")),
    (0x68C00030, "mxf8f6f4", 1, 1, (128, 256, "e4m3", "e4m3", "f32", 0, 0, 3, 3, "ue8m0")),
    (0x30C00010, "mxf8f6f4", 2, 1, (256, 256, "e4m3", "e4m3", "f32", 0, 0, 1, 1, "ue8m0")),
    (0x08C00480, "mxf4", 1, None, (128, 256, "e2m1", "e2m1", "f32", 0, 0, 0, 0, "ue8m0")),
    (0x48C004A0, "mxf4", 1, 2, (128, 256, "e2m1", "e2m1", "f32", 0, 0, 2, 2, "ue8m0")),
    (0x08400480, "mxf4nvf4", 1, 4, (128, 256, "e2m1", "e2m1", "f32", 0, 0, 0, 0, "ue4m3")),
    (0x10400480, "mxf4nvf4", 2, 4, (256, 256, "e2m1", "e2m1", "f32", 0, 0, 0, 0, "ue4m3")),
]


@pytest.mark.parametrize(("word", "kind", "group", "vector", "fields"), WORKED)
def test_worked_instruction_descriptors(word, kind, group, vector, fields):
    got = decode_instruction_descriptor(word, kind, group, vector)
    assert fields == (
        got.m,
        got.n,
        got.a_format,
        got.b_format,
        got.d_format,
        got.a_mn_major,
        got.b_mn_major,
        got.scale_a_id,
        got.scale_b_id,
        got.scale_format,
    )
    assert got.k == {"f16": 16, "tf32": 8, "mxf4": 64, "mxf4nvf4": 64}.get(kind, 32)
    assert not (got.negate_a or got.negate_b or got.saturate or got.sparse)


def shape_word(m, n, low=0x490):
    return low | n >> 3 << 17 | m >> 4 << 24


ACCEPTED = [
    ("f16", 1, 64, 8, 0x490),
    ("f16", 1, 128, 248, 0x490),
    ("f16", 2, 128, 16, 0x490),
    ("tf32", 2, 256, 240, 0x910),
    ("i8", 1, 64, 24, 0x4A0),
    ("i8", 1, 128, 48, 0x4A0),
    ("i8", 2, 256, 96, 0x4A0),
    ("mxf8f6f4", 1, 128, 8, 1 << 23),
    ("mxf4", 2, 128, 16, 1 << 23 | 0x480),
]
REFUSED = [
    ("f16", 1, 256, 64, 0x490, ("M = 256", "64, 128")),
    ("f16", 2, 64, 64, 0x490, ("M = 64", "128, 256")),
    ("f16", 1, 96, 64, 0x490, ("M = 96",)),
    ("f16", 1, 128, 264, 0x490, ("N = 264", "256")),
    ("f16", 1, 128, 0, 0x490, ("N = 0",)),
    ("f16", 2, 256, 24, 0x490, ("N = 24", "16, 32, 48")),
    ("i8", 1, 128, 40, 0x4A0, ("N = 40",)),
    ("i8", 2, 256, 48, 0x4A0, ("N = 48", "32, 64")),
    ("mxf8f6f4", 1, 256, 64, 1 << 23, ("M = 256", "128")),
    ("f8f6f4", 1, 128, 24, 0x10010, ("N = 24", "16")),
]


@pytest.mark.parametrize(("kind", "group", "m", "n", "low"), ACCEPTED)
def test_shape_table_accepts(kind, group, m, n, low):
    got = decode_instruction_descriptor(shape_word(m, n, low), kind, group)
    assert (got.m, got.n) == (m, n)


@pytest.mark.parametrize(("kind", "group", "m", "n", "low", "fragments"), REFUSED)
def test_shape_table_refuses(kind, group, m, n, low, fragments):
    with raises("illegal", *fragments):
        decode_instruction_descriptor(shape_word(m, n, low), kind, group)


BAD = [
    (0x08400490 | 1 << 6, "f16", None, "illegal", ("bits 6-6",)),
    (0x08400490 | 1 << 23, "f16", None, "illegal", ("bits 23-23",)),
    (0x08400490 | 1 << 29, "f16", None, "illegal", ("bits 29-29",)),
    (0x08400490 | 1 << 30, "f16", None, "illegal", ("bits 30-31",)),
    (0x08400490 | 1 << 3, "f16", None, "illegal", ("bits 3-3",)),
    (0x08400490 | 1, "f16", None, "illegal", ("bits 0-1",)),
    (0x08400490 | 4, "f16", None, "illegal", ("sparse bit",)),
    (0x084004A0 | 1 << 13, "i8", None, "illegal", ("bits 13-14",)),
    (0x08400480, "f16", None, "illegal", ("f16 result", "bf16")),
    (0x08400110, "f16", None, "illegal", ("type code 2 of A",)),
    (0x08400910, "f8f6f4", None, "illegal", ("type code 2 of A",)),
    (0x084004B0, "f16", None, "illegal", ("type code 3 of D",)),
    (0x08400490, "f16", 1, "illegal", ("f16", "1X")),
    (0x08C00000, "mxf8f6f4", 2, "illegal", ("1X", "got 2")),
    (0x08400480, "mxf4nvf4", None, "illegal", ("2X, 4X", "None")),
    (0x08400000, "mxf8f6f4", 1, "illegal", ("ue4m3", "ue8m0")),
    (0x08400480, "mxf4nvf4", 2, "illegal", ("ue4m3", "2X")),
    (0x28C00490, "mxf4", 2, "illegal", ("id 1", "2X")),
    (0x88C00480, "mxf4", 2, "unsupported", ("96", "64")),
    (0x08C08480, "mxf4", 2, "illegal", ("bits 15-16",)),
    (0x08400490, "f4", None, "unsupported", ("f4",)),
    (1 << 32, "f16", None, "illegal", ("32 bits",)),
]


@pytest.mark.parametrize(("word", "kind", "vector", "error", "fragments"), BAD)
def test_bad_instruction_descriptors(word, kind, vector, error, fragments):
    with raises(error, *fragments):
        decode_instruction_descriptor(word, kind, 1, vector)


def test_weight_stationary_shapes():
    got = decode_instruction_descriptor(shape_word(32, 64), "f16", 1, weight_stationary=True)
    assert (got.m, got.n) == (32, 64)
    with raises("illegal", "N = 32", "64, 128, 256"):
        decode_instruction_descriptor(shape_word(32, 32), "f16", 1, weight_stationary=True)
    with raises("illegal", "cta_group 2"):
        decode_instruction_descriptor(shape_word(128, 64), "f16", 2, weight_stationary=True)
    with raises("unsupported", "sparse"):
        decode_instruction_descriptor(shape_word(64, 64) | 4, "f16", 1, weight_stationary=True, sparse=True)
    assert decode_instruction_descriptor(shape_word(128, 64) | 4, "f16", 1, sparse=True).k == 32


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        (0x4000404000000040, MatrixDescriptor(0x400, 0, 1024, "128B")),
        (0x4000404000010040, MatrixDescriptor(0x400, 16, 1024, "128B")),
        (0x4000404002000040, MatrixDescriptor(0x400, 8192, 1024, "128B")),
        (0x4000404000000446, MatrixDescriptor(0x4460, 0, 1024, "128B")),
        (0x8000402000000040, MatrixDescriptor(0x400, 0, 512, "64B")),
        (0xC000401000000040, MatrixDescriptor(0x400, 0, 256, "32B")),
        (0x0000400800800040, MatrixDescriptor(0x400, 2048, 128, "none")),
        (0x2000408000200040, MatrixDescriptor(0x400, 512, 2048, "128B_ATOM_32B")),
        (0x4000404000003FFF, MatrixDescriptor(0x3FFF0, 0, 1024, "128B")),
    ],
)
def test_worked_matrix_descriptors(word, expected):
    assert decode_matrix_descriptor(word) == expected


@pytest.mark.parametrize(
    ("word", "kind", "fragment"),
    [
        (0x4000404000000040 | 1 << 14, "illegal", "bits 14-15"),
        (0x4000404000000040 | 1 << 31, "illegal", "bits 30-31"),
        (0x4000404000000040 | 1 << 57, "illegal", "bits 53-60"),
        (0x4000004000000040, "illegal", "bits 46-48 are 0"),
        (0x4000404000000040 | 1 << 48, "illegal", "bits 46-48 are 5"),
        (0x6000404000000040, "illegal", "layout 3"),
        (0xA000404000000040, "illegal", "layout 5"),
        (0xE000404000000040, "illegal", "layout 7"),
        (0x4000404000000040 | 3 << 49, "unsupported", "base offset 3"),
        (0x4000404000000040 | 1 << 52, "unsupported", "bit 52"),
        (1 << 64, "illegal", "64 bits"),
    ],
)
def test_bad_matrix_descriptors(word, kind, fragment):
    with raises(kind, fragment):
        decode_matrix_descriptor(word)
