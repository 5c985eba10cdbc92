"""Encode rules of tensor maps and the private 128-byte format."""

import dataclasses

import pytest
from unit_memories import raises

from pipec.sim.units.copies.mapbits import MAP_BYTES
from pipec.sim.units.copies.tensormap import DTYPE_NAMES, TensorMap, replaced

BF16 = TensorMap("bf16", (512, 256), (1024,), (64, 128), swizzle="128B", address=0x1000)
FP4 = TensorMap("b4x16_p64", (256, 64), (128,), (128, 32), swizzle="128B", address=0x1000)


def test_round_trip():
    five = TensorMap(
        "f32", (1 << 32, 2, 3, 4, 5), (16, 32, 48, (1 << 40) - 16), (4, 1, 2, 3, 4), (1, 2, 3, 4, 8), fill="nan", address=1 << 47
    )
    for tensor_map in (BF16, FP4, five, TensorMap("u8", (64,), (), (16,))):
        data = tensor_map.encode()
        assert len(data) == 128
        assert TensorMap.decode(data) == tensor_map


def test_sizes():
    assert BF16.box_bytes == 16384
    assert FP4.box_bytes == 64 * 32
    assert dataclasses.replace(BF16, box=(64, 16), element_strides=(1, 3)).box_bytes == 6 * 128
    # Dimension 0 ignores its element stride (measured).
    assert dataclasses.replace(BF16, element_strides=(2, 1)).box_bytes == 16384


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
def test_every_type_encodes(dtype):
    inner = 128 if dtype in ("b4x16_p64", "b6x16_p32") else 32
    tensor_map = TensorMap(dtype, (256, 8), (1024,), (inner, 8))
    assert TensorMap.decode(tensor_map.encode()) == tensor_map


BAD = [
    (BF16, {"address": 0x1008}, "misaligned", ("0x1008", "16-byte")),
    (FP4, {"address": 0x1010}, "misaligned", ("0x1010", "32-byte")),
    (BF16, {"strides": (1032,)}, "misaligned", ("1032", "16 bytes")),
    (BF16, {"strides": (1 << 40,)}, "illegal", ("1099511627776",)),
    (FP4, {"strides": (144,)}, "misaligned", ("144", "32 bytes")),
    (BF16, {"dims": (0, 256)}, "illegal", ("size 0", "dimension 0")),
    (BF16, {"dims": (512, (1 << 32) + 1)}, "illegal", ("4294967297", "4294967296")),
    (FP4, {"dims": (200, 64)}, "misaligned", ("200", "128")),
    (BF16, {"box": (64, 257)}, "illegal", ("257", "1..256")),
    (BF16, {"box": (64, 0)}, "illegal", ("extent 0",)),
    (BF16, {"box": (60, 128)}, "misaligned", ("120 bytes", "16")),
    (BF16, {"box": (128, 128)}, "illegal", ("256 bytes", "128 bytes")),
    (BF16, {"box": (256, 256), "dims": (512, 512), "swizzle": "none", "dtype": "u32"}, "out_of_bounds", ("262144", "233472")),
    (FP4, {"box": (64, 32)}, "illegal", ("128 elements", "got 64")),
    (FP4, {"swizzle": "64B"}, "illegal", ("64B",)),
    (FP4, {"fill": "nan"}, "illegal", ("b4x16_p64",)),
    (BF16, {"fill": "nan", "dtype": "u16"}, "illegal", ("u16",)),
    (BF16, {"element_strides": (1, 9)}, "illegal", ("9", "1..8")),
    (BF16, {"element_strides": (0, 1)}, "illegal", ("stride 0", "1..8")),
    (BF16, {"interleave": "16B"}, "illegal", ("rank 3", "got 2")),
    (BF16, {"strides": ()}, "illegal", ("1 strides", "got 0")),
    (BF16, {"box": (64,)}, "illegal", ("2 box", "got 1")),
    (BF16, {"strides": (1024.0,)}, "illegal", ("strides has 1024.0", "no integer")),
    (BF16, {"dtype": "f8"}, "illegal", ("f8",)),
    (BF16, {"swizzle": "96B"}, "illegal", ("96B",)),
    (TensorMap("u8", (), (), ()), {}, "illegal", ("rank 0",)),
]


@pytest.mark.parametrize(("base", "change", "kind", "fragments"), BAD)
def test_encode_rules(base, change, kind, fragments):
    with raises(kind, *fragments):
        dataclasses.replace(base, **change).validate()


def test_accepted_corner_cases():
    for change in ({"dims": (8, 1)}, {"strides": (0,)}, {"box": (8, 256)}, {"dims": (1 << 32, 1 << 32)}):
        dataclasses.replace(BF16, **change).validate()


def test_decode_refuses_other_bytes():
    data = bytearray(BF16.encode())
    with raises("illegal", "127", "128"):
        TensorMap.decode(data[:127])
    with raises("illegal", "no tensor map"):
        TensorMap.decode(bytes(128))
    data[40] ^= 1
    with raises("illegal", "checksum"):
        TensorMap.decode(data)


def test_a_map_can_be_built_from_zeros_by_replacing_fields():
    data = bytes(MAP_BYTES)
    for field, ordinal, value in (
        ("rank", 0, 1), ("elemtype", 0, 10), ("global_address", 0, 0x1000), ("global_dim", 0, 512), ("global_dim", 1, 256),
        ("global_stride", 0, 1024), ("box_dim", 0, 64), ("box_dim", 1, 128), ("swizzle_mode", 0, 3), ("fill_mode", 0, 0),
        ("interleave_layout", 0, 0), ("element_stride", 0, 1), ("element_stride", 1, 1),
    ):  # fmt: skip
        data = replaced(data, field, ordinal, value)
    built = TensorMap.decode(data)
    assert built == dataclasses.replace(BF16, element_strides=(1, 1))
    assert TensorMap.decode(replaced(data, "swizzle_atomicity", 0, 1)).swizzle == "128B_ATOM_32B"


@pytest.mark.parametrize(
    ("field", "ordinal", "value", "words"),
    [
        ("elemtype", 0, 16, "elemtype 16"),
        ("swizzle_mode", 0, 4, "swizzle_mode 4"),
        ("box_dim", 5, 8, "no element 5"),
        ("box_dim", 0, 1 << 20, "cannot be"),
        ("fill_mode", 0, 2, "fill_mode 2"),
    ],
)
def test_fields_that_cannot_be_replaced(field: str, ordinal: int, value: int, words: str):
    with raises("illegal", words):
        replaced(BF16.encode(), field, ordinal, value)


def test_replacing_in_what_is_no_map():
    with raises("illegal", "no tiled tensor map"):
        replaced(bytes(range(128)), "rank", 0, 1)
