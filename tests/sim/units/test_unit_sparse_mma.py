"""Sparse A: tcgen05.mma.sp with metadata in tensor memory, mma.sp in registers, and column masks of tcgen05.mma.ws, against dense
products of the same numbers."""

import numpy as np
import pytest
from test_unit_block_scaling import copy_scales
from test_unit_mma import A_START, B_START, cells, descriptor, tensor_memory, word
from unit_memories import FlatShared, mma, raises

from pipec.sim.units.errors import UnitError
from pipec.sim.units.matrix.mma import Instruction
from pipec.sim.units.matrix.mma import mma as warp_mma
from pipec.sim.units.numbers import numerics
from pipec.sim.units.numbers.formats import decode, decompose, encode
from pipec.sim.units.swizzle import SWIZZLES
from pipec.sim.units.tcgen05.columns import column_mask

PAIRS = [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]


def sparse_matrix(rng, rows, k, name):
    """(stored patterns [rows, K/2], codes [rows, groups], dense patterns [rows, K])"""
    size = {"f16": 2, "bf16": 2, "tf32": 4}.get(name, 1)
    stored = encode(rng.integers(-4, 5, (rows, k // 2)), name) if name not in ("s8", "u8") else rng.integers(0, 9, (rows, k // 2))
    stored = stored.astype(f"u{size}")
    dense, codes = np.zeros((rows, k), stored.dtype), np.zeros((rows, k // (2 if size == 4 else 4)), int)
    for row in range(rows):
        for group in range(codes.shape[1]):
            if size == 4:
                which = rng.integers(2)
                codes[row, group] = (0b0100, 0b1110)[which]
                dense[row, 2 * group + which] = stored[row, group]
            else:
                first, second = PAIRS[rng.integers(6)]
                codes[row, group] = first | second << 2
                dense[row, 4 * group + first], dense[row, 4 * group + second] = stored[row, 2 * group : 2 * group + 2]
    return stored, codes, dense


def metadata_words(codes, size):
    """{(lane, column): word} for 128 rows, by the formulas of the documents, bit for bit."""
    words = {}
    for m, row in enumerate(codes):
        for group, code in enumerate(row):
            bit = 4 * group
            if size == 1:
                key, shift = (m, bit // 32), bit % 32
            else:
                key, shift = (m % 8 + 8 * (bit // 16) + 16 * (m // 16), 0), bit % 16 + 16 * (m // 8 % 2)
            words[key] = words.get(key, 0) | int(code) << shift
    return words


def put(memory, start, patterns, width):
    """K-major rows of `width` bytes with the swizzle of that width."""
    data = np.ascontiguousarray(patterns).view(np.uint8).reshape(-1)
    memory.write(SWIZZLES[f"{width}B"].apply(start + np.arange(data.size)), data)


def b_descriptor(start):
    """64 bytes of K per row, 64-byte swizzle."""
    return 4 << 61 | 1 << 46 | (512 >> 4) << 32 | start >> 4


@pytest.mark.parametrize(
    ("kind", "name", "k", "selector"),
    [
        ("f16", "bf16", 32, 0),
        ("f16", "bf16", 32, 1),
        ("tf32", "tf32", 16, 0),
        ("tf32", "tf32", 16, 1),
        ("f8f6f4", "e4m3", 64, 0),
        ("i8", "u8", 64, 0),
    ],
)
@pytest.mark.parametrize("rows", [128, 64])
def test_sparse_products(kind, name, k, selector, rows):
    size = 64 // k
    rng = np.random.default_rng(0)
    stored, codes, dense = sparse_matrix(rng, rows, k, name)
    b = rng.integers(0, 9, (32, k)).astype(np.uint8) if name == "u8" else encode(rng.integers(-4, 5, (32, k)), name)
    shared, memory = FlatShared(), tensor_memory()
    put(shared, A_START, stored, 32)
    put(shared, B_START, b, 64)
    for (lane, column), bits in metadata_words(codes, size).items():
        lane = lane if rows == 128 else lane // 16 * 32 + lane % 16
        memory.write_cells(np.array([lane]), np.array([64 + column + selector]), np.array([bits], np.uint32), "test")
    idesc = word(rows, 32, name, d=2 if kind == "i8" else 1) | 4 | selector
    operands = descriptor(A_START), b_descriptor(B_START)
    mma(kind, idesc, *operands, [memory], [shared], 0, False, metadata_address=64)
    if kind == "i8":
        expected = (dense.astype(np.int64) @ b.astype(np.int64).T).astype(np.uint32)
    else:
        expected = numerics.accumulate(decompose(dense, name), decompose(b, name), None)
    lanes = np.arange(rows) if rows == 128 else np.arange(rows) // 16 * 32 + np.arange(rows) % 16
    assert np.array_equal(cells(memory, lanes[:, None], np.arange(32)), expected)


@pytest.mark.parametrize(
    ("kind", "vector", "scale_name"), [("mxf4", 2, "ue8m0"), ("mxf4nvf4", 4, "ue4m3"), ("mxf4nvf4", 2, "ue8m0")]
)
def test_sparse_pairs_with_scales(kind, vector, scale_name):
    """Of each eight elements two pairs are kept; the scales divide the whole row of 128 into 2 or 4 (PTX ISA 9.7.16.10.7.1)."""
    rng = np.random.default_rng(vector)
    stored, dense = rng.integers(0, 16, (128, 64)).astype(np.uint8), np.zeros((128, 128), np.uint8)
    codes = np.zeros((128, 16), int)
    for row in range(128):
        for group in range(16):
            pairs = PAIRS[rng.integers(6)]
            codes[row, group] = pairs[0] | pairs[1] << 2
            for number, pair in enumerate(pairs):
                place = 8 * group + 2 * pair
                dense[row, place : place + 2] = stored[row, 4 * group + 2 * number : 4 * group + 2 * number + 2]
    b = rng.integers(0, 16, (32, 128)).astype(np.uint8)
    shared, memory = FlatShared(), tensor_memory()
    put(shared, A_START, stored[:, 0::2] | stored[:, 1::2] << 4, 32)
    put(shared, B_START, b[:, 0::2] | b[:, 1::2] << 4, 64)
    for (lane, column), bits in metadata_words(codes, 1).items():
        memory.write_cells(np.array([lane]), np.array([64 + column]), np.array([bits], np.uint32), "test")
    low, high = (124, 131) if scale_name == "ue8m0" else (0x30, 0x40)
    scale_a, scale_b = rng.integers(low, high, (128, 4)), rng.integers(low, high, (32, 4))
    copy_scales(shared, memory, scale_a, 256)
    copy_scales(shared, memory, scale_b, 260)
    idesc = (scale_name == "ue8m0") << 23 | 1 << 7 | 1 << 10 | 32 >> 3 << 17 | 1 << 27 | 4
    operands = descriptor(A_START), b_descriptor(B_START)
    scales = {"scale_addresses": (256, 260), "scale_vector": vector}
    mma(kind, idesc, *operands, [memory], [shared], 0, False, metadata_address=64, **scales)
    left, right = (
        decode(patterns, "e2m1") * np.repeat(decode(given[:, :vector], scale_name), 128 // vector, axis=1)
        for patterns, given in ((dense, scale_a), (b, scale_b))
    )
    assert np.array_equal(
        cells(memory, np.arange(128)[:, None], np.arange(32)).view(np.float32), (left @ right.T).astype(np.float32)
    )


def test_what_is_left_out_is_not_looked_at():
    """An infinity in B counts only where A has an element, be it zero."""
    stored, codes = np.zeros((128, 16), np.uint16), np.full((128, 8), 0b0100)
    b = np.zeros((32, 32), np.uint16)
    b[3, 2], b[5, 1] = 0x7F80, 0x7F80
    shared, memory = FlatShared(), tensor_memory()
    put(shared, A_START, stored, 32)
    put(shared, B_START, b, 64)
    for (lane, column), bits in metadata_words(codes, 2).items():
        memory.write_cells(np.array([lane]), np.array([64 + column]), np.array([bits], np.uint32), "test")
    idesc = word(128, 32, "bf16") | 4
    mma("f16", idesc, descriptor(A_START), b_descriptor(B_START), [memory], [shared], 0, False, metadata_address=64)
    got = cells(memory, np.arange(128)[:, None], np.arange(32))
    assert not got[:, 3].any() and (got[:, 5] == 0x7FFFFFFF).all() and not got[:, 6].any()


def test_bad_metadata():
    shared, memory = FlatShared(), tensor_memory()
    put(shared, A_START, np.ones((128, 16), np.uint16), 32)
    put(shared, B_START, np.zeros((32, 32), np.uint16), 64)

    def run(idesc, address):
        operands = descriptor(A_START), b_descriptor(B_START)
        mma("f16", idesc, *operands, [memory], [shared], 0, False, metadata_address=address)

    idesc = word(128, 32, "bf16") | 4
    with raises("uninitialised", "metadata"):
        run(idesc, 64)
    memory.write_cells(np.arange(128)[:, None], np.array([64]), np.zeros((128, 1), np.uint32), "test")
    with raises("illegal", "do not increase"):
        run(idesc, 64)
    with raises("illegal", "lane 16"):
        run(idesc, 16 << 16 | 64)
    with raises("unsupported", "selector 2"):
        run(idesc | 2, 64)


def fragment(matrix, size):
    """Registers of operand A (16 rows) or B (8 columns), as mma.sync has them."""
    rows, k = matrix.shape
    per = 4 // size
    registers = np.zeros((32, rows * k * size // 128, per), matrix.dtype)
    for lane in range(32):
        for register in range(registers.shape[1]):
            for part in range(per):
                if rows == 16:
                    row, column = lane // 4 + register % 2 * 8, lane % 4 * per + part + register // 2 * 4 * per
                else:
                    row, column = lane // 4, lane % 4 * per + part + register * 4 * per
                registers[lane, register, part] = matrix[row, column]
    return registers.reshape(32, -1).view(np.uint32)


@pytest.mark.parametrize(
    ("name", "k"), [("f16", 16), ("bf16", 32), ("tf32", 8), ("tf32", 16), ("s8", 32), ("u8", 64), ("e4m3", 64)]
)
def test_mma_sp(name, k):
    size = {"f16": 2, "bf16": 2, "tf32": 4}.get(name, 1)
    rng = np.random.default_rng(k)
    stored, codes, dense = sparse_matrix(rng, 16, k, name)
    b = rng.integers(0, 9, (8, k)).astype(np.uint8) if size == 1 and name != "e4m3" else encode(rng.integers(-3, 4, (8, k)), name)
    selector = 0 if k * size == 64 and size == 1 else 1
    metadata = np.zeros((8, 4), np.uint64)
    for row, line in enumerate(codes):
        for group, code in enumerate(line):
            half, place = divmod(4 * group, 16 if size > 1 else 32)
            if size > 1:
                lane, shift = (2 * selector + half if k * size == 64 else selector), place + row // 8 * 16
            else:
                lane, shift = 2 * half + row // 8 + (2 * selector if k == 32 else 0), place
            metadata[row % 8, lane] |= np.uint64(int(code) << shift)
    what = Instruction(k, "s32" if size == 1 and name != "e4m3" else "f32", name, name, sparse=True).validate()
    words = metadata.astype(np.uint32).reshape(32)
    got = warp_mma(
        what, fragment(stored, size), fragment(b, size), np.zeros((32, 4), np.uint32), metadata=words, selector=selector
    )
    if what.d_format == "s32":
        signed = np.int8 if name == "s8" else np.uint8
        expected = dense.view(signed).astype(np.int64) @ b.view(signed).astype(np.int64).T
        got = got.view(np.int32)
    else:
        expected, got = decompose(dense, name).value @ decompose(b, name).value.T, got.view(np.float32)
    for lane in range(32):
        for value in range(4):
            assert got[lane, value] == expected[lane // 4 + value // 2 * 8, lane % 4 * 2 + value % 2]


@pytest.mark.parametrize(("k", "name", "selector"), [(32, "f16", 2), (16, "f16", 4), (64, "s8", 1), (16, "tf32", -1)])
def test_selectors_of_mma_sp(k, name, selector):
    what = Instruction(k, "s32" if name == "s8" else "f32", name, name, sparse=True).validate()
    a, b, d = (np.zeros((32, count), np.uint32) for count in what.registers)
    with pytest.raises(UnitError, match=f"selector {selector}"):
        warp_mma(what, a, b, d, metadata=np.zeros(32, np.uint32), selector=selector)


def bits(text):
    """The lowest bit stands last."""
    return [character == "1" for character in reversed(text.replace(" ", ""))]


@pytest.mark.parametrize(
    ("m", "counts", "firsts", "masks"),
    [
        (128, (0, 0, 0, 0), 0, ("111 0000 111 0000",)),
        (64, (0, 0, 0, 0), 1, ("111 0000 111 0000 111", "0000 111 0000 111 0000")),
        (32, (0, 1, 2, 1), 3, ("0000 111 0000 111", "0000 111 0000 11", "111 0000 111 00", "111 0000 111 000")),
    ],
)
def test_masks_are_those_of_the_documents(m, counts, firsts, masks):
    """PTX ISA 9.7.16.4.3, examples 2 to 4: skip span 2, use span 3."""
    word_ = sum(count << 8 * number for number, count in enumerate(counts)) | firsts << 32 | 1 << 39 | 2 << 40 | 3 << 48
    found = column_mask(word_, m, 128, 3)
    width = 128 // len(masks)
    for number, text in enumerate(masks):
        wanted = bits(text)
        assert found.zero[number * width : number * width + len(wanted)].tolist() == wanted
    assert not column_mask(word_ & ~(1 << 39), m, 128, 3).zero.any()


@pytest.mark.parametrize(("word_", "words"), [(1 << 36, "reserved"), (1 << 62, "reserved"), (33 << 56, "shifts by 33")])
def test_bad_masks(word_, words):
    with raises("illegal", words):
        column_mask(word_, 128, 128, 3)
    with raises("illegal", "at most 8"):
        column_mask(9 << 56, 128, 128, 1)


def test_masked_and_shifted_columns():
    rng = np.random.default_rng(1)
    a, b = encode(rng.integers(-4, 5, (128, 16)), "bf16"), encode(rng.integers(-4, 5, (72, 16)), "bf16")
    b[8] = 0x7FC0  # not a number, in column 0 of the product, which is zeroed
    shared, memory = FlatShared(), tensor_memory()
    put(shared, A_START, a, 32)
    put(shared, B_START, b, 32)
    mask = 1 << 32 | 1 << 39 | 0 << 40 | 1 << 48 | 8 << 56  # one zeroed, two used, from column 8 on
    mma(
        "f16",
        word(128, 64, "bf16") | 1 << 30,
        descriptor(A_START),
        descriptor(B_START),
        [memory],
        [shared],
        0,
        False,
        weight_stationary=True,
        zero_columns=mask,
    )
    expected = decompose(a, "bf16").value @ np.nan_to_num(decompose(b[8:], "bf16").value).T
    expected[:, ::3] = 0
    assert np.array_equal(cells(memory, np.arange(128)[:, None], np.arange(64)).view(np.float32), expected)
