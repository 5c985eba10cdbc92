"""Tensor copies: swizzle vectors, out-of-bounds rules, clipping and reductions as measured."""

import dataclasses

import ml_dtypes
import numpy as np
import pytest
from unit_memories import FlatGlobal, raises

from pipec.sim.units.copies import tma
from pipec.sim.units.copies.reductions import reduce_elements
from pipec.sim.units.copies.tensormap import TensorMap
from pipec.sim.units.swizzle import SWIZZLES

BASE = 0x10000


def bf16_map(dims=(100, 20), box=(64, 8), pitch=256, **options):
    return TensorMap("bf16", dims, (pitch,), box, address=BASE, **options).validate()


def numbered(size):
    memory = FlatGlobal(size, BASE)
    memory.data[:] = np.random.default_rng(0).integers(0, 256, size)
    return memory


@pytest.mark.parametrize(
    ("swizzle", "row", "byte", "linear", "physical"),
    [
        ("128B", 1, 0, 0x480, 0x490),
        ("128B", 7, 0, 0x780, 0x7F0),
        ("128B", 9, 16, 0x890, 0x880),
        ("128B", 3, 64, 0x5C0, 0x5F0),
        ("64B", 2, 0, 0x480, 0x490),
        ("64B", 3, 16, 0x4D0, 0x4C0),
        ("32B", 4, 0, 0x480, 0x490),
        ("128B_ATOM_32B", 1, 0, 0x480, 0x4A0),
        ("128B_ATOM_32B", 2, 0, 0x500, 0x540),
        ("128B_ATOM_32B", 3, 0, 0x580, 0x5E0),
        ("128B_ATOM_64B", 1, 0, 0x480, 0x4C0),
        ("128B_ATOM_64B", 2, 0, 0x500, 0x500),
        ("128B_ATOM_32B_FLIP_8B", 2, 0, 0x500, 0x540),
    ],
)
def test_swizzle_vectors(swizzle, row, byte, linear, physical):
    width = SWIZZLES[swizzle].width
    offsets = tma.smem_offsets(TensorMap("u8", (256, 64), (256,), (width, 16), swizzle=swizzle), 0x400)
    assert 0x400 + row * width + byte == linear
    assert offsets[row * width + byte] == physical


def test_pattern_hangs_on_the_absolute_address():
    tensor_map = bf16_map(swizzle="128B")
    assert tma.smem_offsets(tensor_map, 0x400)[0] == 0x400
    assert tma.smem_offsets(tensor_map, 0x480)[0] == 0x490


def test_narrow_box_keeps_the_swizzle_width_as_pitch():
    tensor_map = bf16_map(box=(8, 8), swizzle="64B")
    offsets = tma.smem_offsets(tensor_map, 0x400)
    assert offsets.size == 8 * 16 == tma.transaction_bytes(tensor_map)
    linear = 0x400 + np.arange(8)[:, None] * 64 + np.arange(16)
    assert np.array_equal(offsets, SWIZZLES["64B"].apply(linear).reshape(-1))
    dense = bf16_map(box=(24, 8))
    assert np.array_equal(tma.smem_offsets(dense, 0x400), 0x400 + np.arange(8 * 48))


@pytest.mark.parametrize("address", [0x410, 0x440, 0x401])
def test_shared_alignment(address):
    with raises("misaligned", f"{address:#x}", "128"):
        tma.smem_offsets(bf16_map(), address)


@pytest.mark.parametrize(
    "coords", [(0, 0), (8, 3), (-8, -2), (64, 15), (96, 18), (104, 0), (0, 1000), (2**31 - 8, -(2**31)), (-80, 2)]
)
def test_load_fills_exactly_the_outside(coords):
    memory = numbered(20 * 256)
    tensor_map = bf16_map()
    rows = memory.data.reshape(20, 256).view("<u2")
    expected = np.zeros((8, 64), "<u2")
    for j in range(8):
        for i in range(64):
            x, y = coords[0] + i, coords[1] + j
            if 0 <= x < 100 and 0 <= y < 20:
                expected[j, i] = rows[y, x]
    assert np.array_equal(tma.load(tensor_map, coords, memory), expected.view(np.uint8).reshape(-1))
    filled = tma.load(dataclasses.replace(tensor_map, fill="nan"), coords, memory).view("<u2").reshape(8, 64)
    outside = [[not (0 <= coords[0] + i < 100 and 0 <= coords[1] + j < 20) for i in range(64)] for j in range(8)]
    assert (filled[np.array(outside)] == 0x7FF7).all()


def test_load_three_dimensions_and_element_strides():
    memory = numbered(4096)
    tensor_map = TensorMap("u8", (32, 6, 5), (64, 512), (16, 5, 4), (2, 2, 3), address=BASE).validate()
    assert tensor_map.box_shape == (16, 3, 2)
    expected = [
        memory.data[z * 512 + y * 64 + 16 : z * 512 + y * 64 + 32] if y < 6 and z < 5 else np.zeros(16, np.uint8)
        for z in (2, 5)
        for y in (3, 5, 7)
    ]
    assert np.array_equal(tma.load(tensor_map, (16, 3, 2), memory), np.concatenate(expected))


def test_zero_stride_broadcasts():
    memory = numbered(256)
    tensor_map = TensorMap("u8", (16, 8), (0,), (16, 4), address=BASE).validate()
    assert np.array_equal(tma.load(tensor_map, (0, 0), memory), np.tile(memory.data[:16], 4))


@pytest.mark.parametrize(
    ("dtype", "good", "bad"),
    [("bf16", (0, 8, -8, 104), (1, 2, 4, -1, -4, 100)), ("f32", (4, -4), (1, 2, 6)), ("u8", (16,), (8,)), ("f64", (2,), (1,))],
)
def test_coordinate_zero_is_a_multiple_of_16_bytes(dtype, good, bad):
    tensor_map = TensorMap(dtype, (256, 8), (2048,), (16, 1), address=BASE).validate()
    for x in good:
        tma.check_coordinates(tensor_map, (x, 0))
    for x in bad:
        with raises("misaligned", f"is {x}:", "16 bytes"):
            tma.check_coordinates(tensor_map, (x, 0))


def test_coordinate_misuse():
    with raises("illegal", "3 coordinates", "rank 2"):
        tma.check_coordinates(bf16_map(), (0, 0, 0))
    with raises("illegal", "2147483648"):
        tma.check_coordinates(bf16_map(), (0, 1 << 31))
    with raises("out_of_bounds", "-8"):
        tma.store(bf16_map(), (-8, 0), np.zeros(1024, np.uint8), FlatGlobal(5120, BASE))
    with raises("illegal", "1024 bytes", "got 10"):
        tma.store(bf16_map(), (0, 0), np.zeros(10, np.uint8), FlatGlobal(5120, BASE))


@pytest.mark.parametrize(
    ("dtype", "dim", "start", "written"),
    [
        ("bf16", 97, 64, 104),
        ("bf16", 103, 64, 104),
        ("bf16", 105, 64, 112),
        ("bf16", 3, 0, 8),
        ("f32", 97, 96, 100),
        ("u8", 77, 0, 80),
    ],
)
def test_store_clips_dimension_zero_at_16_bytes(dtype, dim, start, written):
    size = {"bf16": 2, "f32": 4, "u8": 1}[dtype]
    memory = FlatGlobal(4 * 512, BASE)
    tensor_map = TensorMap(dtype, (dim, 2), (512,), (64 if size < 4 else 32, 4), address=BASE).validate()
    if dtype == "u8":
        tensor_map = dataclasses.replace(tensor_map, box=(128, 4))
    tma.store(tensor_map, (start, 0), np.ones(tensor_map.box_bytes, np.uint8), memory)
    touched = memory.touched.reshape(4, 512)
    assert not touched[2:].any()
    for row in touched[:2]:
        assert np.array_equal(np.nonzero(row)[0], np.arange(start * size, written * size))
    assert tma.bytes_past_the_edge(tensor_map, (start, 0)) == (written - dim) * size


def test_store_then_load_is_the_identity():
    memory = FlatGlobal(5120, BASE)
    tensor_map = bf16_map(dims=(96, 20))
    data = np.random.default_rng(2).integers(0, 256, tensor_map.box_bytes).astype(np.uint8)
    tma.store(tensor_map, (32, 4), data, memory)
    assert np.array_equal(tma.load(tensor_map, (32, 4), memory), data)
    assert memory.touched.sum() == data.size


def test_gather_and_scatter_rows():
    memory = numbered(5120)
    tensor_map = bf16_map(box=(64, 1))
    rows = (3, 19, -1, 7)
    data = tma.load_gather4(tensor_map, 32, rows, memory).reshape(4, 128)
    for row, got in zip(rows, data, strict=True):
        expected = memory.data[row * 256 + 64 : row * 256 + 192].copy() if row >= 0 else np.zeros(128, np.uint8)
        assert np.array_equal(got[: 68 * 2], expected[: 68 * 2])
    assert tma.smem_offsets(tensor_map, 0x400, rows=4).size == 512 == tma.transaction_bytes(tensor_map, rows=4)
    target = FlatGlobal(5120, BASE)
    tma.store_scatter4(tensor_map, 32, (3, 19, 25, 7), data.reshape(-1), target)
    assert np.nonzero(target.touched.reshape(20, 256).any(axis=1))[0].tolist() == [3, 7, 19]
    with raises("illegal", "1 row", "got 8"):
        tma.load_gather4(bf16_map(), 0, rows, memory)
    with raises("illegal", "4 row", "got 2"):
        tma.load_gather4(tensor_map, 0, (1, 2), memory)
    with raises("out_of_bounds", "-1"):
        tma.store_scatter4(tensor_map, 0, rows, data.reshape(-1), target)


def test_tf32_loads_round_to_nearest_even():
    words = [0x3F801000, 0x3F803000, 0x7F7FFFFF, 0x7F800001, 0x7FC00001, 1, 0x007FFFFF, 0x7F800000]
    rounded = [0x3F800000, 0x3F804000, 0x7F800000, 0x7FFFE000, 0x7FFFE000, 0, 0x00800000, 0x7F800000]
    memory = FlatGlobal(32, BASE)
    memory.data[:] = np.array(words, "<u4").view(np.uint8)
    tensor_map = TensorMap("tf32", (8,), (), (8,), address=BASE).validate()
    assert tma.load(tensor_map, (0,), memory).view("<u4").tolist() == rounded
    plain = dataclasses.replace(tensor_map, dtype="f32_ftz")
    assert tma.load(plain, (0,), memory).view("<u4").tolist() == words


def test_padded_fp4_skips_its_pads():
    memory = numbered(4096)
    tensor_map = TensorMap("b4x16_p64", (256, 8), (128,), (128, 8), swizzle="128B", address=BASE).validate()
    data = tma.load(tensor_map, (128, 0), memory)
    assert data.size == tma.transaction_bytes(tensor_map) == 8 * 64
    assert np.array_equal(data.reshape(8, 64), memory.data[:1024].reshape(8, 128)[:, 64:])
    offsets = tma.smem_offsets(tensor_map, 0x400)
    assert np.array_equal(np.unique(offsets % 16), np.arange(8))
    assert offsets.max() < 0x800 and np.unique(offsets).size == offsets.size
    with raises("misaligned", "64", "128"):
        tma.load(tensor_map, (64, 0), memory)
    with raises("unsupported", "b4x16_p64"):
        tma.store(tensor_map, (128, 0), data, memory)


def reduce_words(dtype, op, old, source, storage):
    result = reduce_elements(dtype, op, np.array(old, storage).view(np.uint8), np.array(source, storage).view(np.uint8))
    return result.view(storage).tolist()


def test_reductions():
    assert reduce_words("u32", "inc", [5, 4, 3], [4, 4, 4], "<u4") == [0, 0, 4]
    assert reduce_words("u32", "dec", [0, 9, 3], [4, 4, 4], "<u4") == [4, 4, 2]
    assert reduce_words("s32", "min", [-5, 3], [2, -9], "<i4") == [-5, -9]
    assert reduce_words("u64", "add", [2**64 - 1], [2], "<u8") == [1]
    assert reduce_words("u16", "xor", [0xFF00], [0x0FF0], "<u2") == [0xF0F0]
    assert reduce_words("f32", "add", [1.5, np.nan], [2.25, 1], "<f4")[0] == 3.75
    assert reduce_words("f32", "add", [0x7FC00001], [0x3F800000], "<u4") == [0x7FFFFFFF]
    assert reduce_words("f32", "add", [1], [1], "<u4") == [2]
    assert reduce_words("f32_ftz", "add", [1], [1], "<u4") == [0]
    # A NaN loses against a number, and -0 < +0.
    assert reduce_words("bf16", "max", [0x7FC0, 0x8000, 0x7FC0], [0x3F80, 0x0000, 0x7FFF], "<u2") == [0x3F80, 0x0000, 0x7FFF]
    assert reduce_words("f16", "min", [0x0000, 0x3C00], [0x8000, 0x7E00], "<u2") == [0x8000, 0x3C00]
    with raises("illegal", "inc", "f32"):
        reduce_words("f32", "inc", [1], [1], "<u4")
    with raises("illegal", "mul", "no type"):
        reduce_words("f32", "mul", [1], [1], "<u4")


@pytest.mark.parametrize(("dtype", "reference"), [("f16", np.float16), ("bf16", ml_dtypes.bfloat16)])
def test_half_addition_rounds_once(dtype, reference):
    rng = np.random.default_rng(5)
    old, source = (rng.integers(0, 0x7B00 if dtype == "f16" else 0x7F00, 2000).astype("<u2") for _ in range(2))
    source ^= (rng.integers(0, 2, 2000) << 15).astype("<u2")
    with np.errstate(over="ignore"):
        exact = old.view(reference).astype(np.float64) + source.view(reference).astype(np.float64)
        expected = exact.astype(reference).view("<u2")
    assert reduce_words(dtype, "add", old, source, "<u2") == expected.tolist()


def test_reduce_combines_in_place():
    memory = FlatGlobal(5120, BASE)
    memory.data.view("<f4")[:] = 1.0
    tensor_map = TensorMap("f32", (30, 4), (256,), (32, 4), address=BASE).validate()
    tma.reduce(tensor_map, (0, 1), "add", np.full(128, 2.0, "<f4").view(np.uint8), memory)
    grid = memory.data.view("<f4").reshape(20, 64)
    assert (grid[1:4, :32] == 3).all() and grid.sum() == 20 * 64 + 2 * 3 * 32


def test_interleaved_loads_move_one_slice_of_channels():
    """Dimensions W, H, slices of 8 channels, images; dimension 0 steps by a slice of 16 bytes."""
    memory = FlatGlobal(2 * 3 * 5 * 20 * 16, BASE)
    tensor = np.arange(memory.data.size // 2, dtype=np.uint16).reshape(2, 3, 5, 20, 8)
    memory.data[:] = tensor.view(np.uint8).reshape(-1)
    tensor_map = TensorMap("u16", (20, 5, 3, 2), (320, 1600, 4800), (8, 3, 16, 2), interleave="16B", address=BASE).validate()
    got = tma.load(tensor_map, (2, 1, 1, 0), memory).view(np.uint16).reshape(2, 3, 8, 8)
    assert np.array_equal(got, tensor[:, 1, 1:4, 2:10])
    assert tensor_map.box_bytes == 2 * 3 * 8 * 16
    with raises("unsupported", "16B"):
        tma.store(tensor_map, (0, 0, 0, 0), got.view(np.uint8).reshape(-1), memory)
