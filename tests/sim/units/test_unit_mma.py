"""Whole tcgen05.mma and tcgen05.cp instructions: operands, placement of D, scales, modifiers and rejected uses."""

import numpy as np
import pytest
from unit_memories import FlatShared, mma, raises

from pipec.sim.units.numbers import numerics
from pipec.sim.units.numbers.formats import decode, decompose, encode
from pipec.sim.units.swizzle import SWIZZLES
from pipec.sim.units.tcgen05.cells import CellMap
from pipec.sim.units.tcgen05.copy import copy
from pipec.sim.units.tcgen05.memory import TensorMemory

A_START, B_START = 0x400, 0x8400
SW32 = 0xC000401000000000
CODES = {"f16": 0, "bf16": 1, "tf32": 2, "e4m3": 0, "e5m2": 1, "e2m3": 3, "e3m2": 4, "e2m1": 5, "u8": 0, "s8": 1}


def word(m, n, a_name, b_name=None, d=1, **bits):
    b_name = b_name or a_name
    return (
        d << 4
        | CODES[a_name] << 7
        | CODES[b_name] << 10
        | bits.get("negate_a", 0) << 13
        | bits.get("negate_b", 0) << 14
        | bits.get("saturate", 0) << 3
        | n >> 3 << 17
        | m >> 4 << 24
    )


def descriptor(start):
    return SW32 | start >> 4


def place(memory, start, patterns):
    """K-major rows of 32 bytes with the 32-byte swizzle."""
    data = np.ascontiguousarray(patterns).view(np.uint8).reshape(-1)
    memory.write(SWIZZLES["32B"].apply(start + np.arange(data.size)), data)


def tensor_memory(columns=512):
    memory = TensorMemory()
    memory.allocate(columns)
    return memory


def setup(rng, name, rows_a, rows_b, k, ctas=1):
    """Random operands spread over the CTAs; returns (A patterns, B patterns, shared memories)."""
    a, b = (encode(rng.normal(size=(rows, k)), name, satfinite=True) for rows in (rows_a * ctas, rows_b * ctas))
    memories = []
    for rank in range(ctas):
        memory = FlatShared()
        place(memory, A_START, a[rank * rows_a : (rank + 1) * rows_a])
        place(memory, B_START, b[rank * rows_b : (rank + 1) * rows_b])
        memories.append(memory)
    return a, b, memories


def run(kind, idesc, tensors, shared, d_address=0, accumulate=False, **options):
    return mma(
        kind, idesc, descriptor(A_START), descriptor(B_START), tensors, shared, d_address, accumulate, len(tensors), **options
    )


def cells(memory, lanes, columns):
    return memory.read(CellMap.of(lanes, columns), 0, 0, "test")


@pytest.mark.parametrize(
    ("kind", "name", "k"), [("f16", "bf16", 16), ("f16", "f16", 16), ("tf32", "tf32", 8), ("f8f6f4", "e4m3", 32)]
)
@pytest.mark.parametrize("n", [8, 72, 256])
def test_full_rows_land_on_their_lanes(kind, name, k, n):
    rng = np.random.default_rng(0)
    a, b, shared = setup(rng, name, 128, n, k)
    memory = tensor_memory()
    run(kind, word(128, n, name), [memory], shared, d_address=5)
    first = numerics.accumulate(decompose(a, name), decompose(b, name), None)
    lanes, columns = np.arange(128)[:, None], 5 + np.arange(n)
    assert np.array_equal(cells(memory, lanes, columns), first)
    run(kind, word(128, n, name), [memory], shared, d_address=5, accumulate=True)
    second = numerics.accumulate(decompose(a, name), decompose(b, name), first.view(np.float32))
    assert np.array_equal(cells(memory, lanes, columns), second)
    # Nothing else was touched.
    assert memory.written.sum() == 128 * n


@pytest.mark.parametrize("offset", [0, 16])
def test_sixty_four_rows_use_half_of_each_partition(offset):
    a, b, shared = setup(np.random.default_rng(1), "bf16", 64, 32, 16)
    memory = tensor_memory(32)
    run("f16", word(64, 32, "bf16"), [memory], shared, d_address=offset << 16)
    expected = numerics.accumulate(decompose(a, "bf16"), decompose(b, "bf16"), None)
    for warp in range(4):
        got = memory.load("16x256b", 4, (32 * warp + offset) << 16, warp).reshape(32, 4, 2, 2)
        for thread in (0, 5, 31):
            for i in range(4):
                for h in range(2):
                    row, column = 16 * warp + thread // 4 + 8 * h, 8 * i + 2 * (thread % 4)
                    assert got[thread, i, h].tolist() == expected[row, column : column + 2].tolist()


def test_pair_with_256_rows():
    a, b, shared = setup(np.random.default_rng(2), "bf16", 128, 32, 16, ctas=2)
    tensors = [tensor_memory(), tensor_memory()]
    run("f16", word(256, 64, "bf16"), tensors, shared)
    expected = numerics.accumulate(decompose(a, "bf16"), decompose(b, "bf16"), None)
    for rank in range(2):
        got = cells(tensors[rank], np.arange(128)[:, None], np.arange(64))
        assert np.array_equal(got, expected[128 * rank : 128 * rank + 128])


def test_pair_with_128_rows_splits_n_over_the_lanes():
    a, b, shared = setup(np.random.default_rng(3), "bf16", 64, 32, 16, ctas=2)
    tensors = [tensor_memory(), tensor_memory()]
    run("f16", word(128, 64, "bf16"), tensors, shared)
    expected = numerics.accumulate(decompose(a, "bf16"), decompose(b, "bf16"), None)
    for rank in range(2):
        got = cells(tensors[rank], np.arange(128)[:, None], np.arange(32))
        rows = expected[64 * rank : 64 * rank + 64]
        assert np.array_equal(got, np.concatenate([rows[:, :32], rows[:, 32:]]))


def test_weight_stationary_placements():
    for m in (32, 64, 128):
        a, b, shared = setup(np.random.default_rng(m), "bf16", m, 64, 16)
        memory = tensor_memory()
        run("f16", word(m, 64, "bf16"), [memory], shared, weight_stationary=True)
        expected = numerics.accumulate(decompose(a, "bf16"), decompose(b, "bf16"), None)
        parts = 128 // m
        stacked = np.concatenate(np.split(expected, parts, axis=1))
        assert np.array_equal(cells(memory, np.arange(128)[:, None], np.arange(64 // parts)), stacked)


def test_f16_result_uses_the_low_half():
    a, b, shared = setup(np.random.default_rng(4), "f16", 128, 16, 16)
    memory = tensor_memory()
    for accumulate in (False, True):
        run("f16", word(128, 16, "f16", d=0), [memory], shared, accumulate=accumulate)
    left, right = decompose(a, "f16"), decompose(b, "f16")
    first = numerics.accumulate(left, right, None, d_format="f16")
    second = numerics.accumulate(left, right, decode(first, "f16"), d_format="f16")
    got = memory.load("32x32b", 8, 64 << 16, 2, pack16=True)
    assert np.array_equal(got & 0xFFFF, second[64:96, 0::2])
    assert np.array_equal(got >> 16, second[64:96, 1::2])


def test_integers():
    rng = np.random.default_rng(5)
    a, b = rng.integers(-128, 128, (128, 32)).astype(np.int8), rng.integers(0, 256, (16, 32)).astype(np.uint8)
    shared = FlatShared()
    place(shared, A_START, a)
    place(shared, B_START, b)
    memory = tensor_memory()
    for accumulate in (False, True):
        run("i8", word(128, 16, "s8", "u8", d=2), [memory], [shared], accumulate=accumulate)
    expected = 2 * (a.astype(np.int64) @ b.astype(np.int64).T)
    assert np.array_equal(cells(memory, np.arange(128)[:, None], np.arange(16)).view(np.int32), expected)


def test_negation_scale_input_and_disabled_lanes():
    a, b, shared = setup(np.random.default_rng(6), "bf16", 128, 16, 16)
    memory = tensor_memory()
    lanes, columns = np.arange(128)[:, None], np.arange(16)
    run("f16", word(128, 16, "bf16", negate_a=1), [memory], shared)
    plain = numerics.accumulate(decompose(a, "bf16"), decompose(b, "bf16"), None)
    assert np.array_equal(cells(memory, lanes, columns), plain ^ 0x80000000)
    mask = [0xFFFFFFFE, 0, 0, 0x80000000]
    run("f16", word(128, 16, "bf16"), [memory], shared, accumulate=True, scale_input_d=1, disable_output_lane=mask)
    halved = -plain.view(np.float32).astype(np.float64) / 2
    expected = numerics.accumulate(decompose(a, "bf16"), decompose(b, "bf16"), halved)
    expected[1:32], expected[127] = plain[1:32] ^ 0x80000000, plain[127] ^ 0x80000000
    assert np.array_equal(cells(memory, lanes, columns), expected)


def test_disabled_lanes_need_no_contents():
    _, _, shared = setup(np.random.default_rng(7), "bf16", 128, 16, 16)
    memory = tensor_memory()
    run("f16", word(128, 16, "bf16"), [memory], shared, disable_output_lane=[0xFFFFFFFF, 0, 0, 0])
    assert not memory.written.reshape(128, 512)[:32].any()
    run("f16", word(128, 16, "bf16"), [memory], shared, accumulate=True, disable_output_lane=[0xFFFFFFFF, 0, 0, 0])
    with raises("uninitialised", "lane 0 column 0"):
        run("f16", word(128, 16, "bf16"), [memory], shared, accumulate=True)


@pytest.mark.parametrize(
    ("kind", "name", "k"), [("f16", "bf16", 16), ("tf32", "tf32", 8), ("f8f6f4", "e5m2", 32), ("f8f6f4", "e2m1", 32)]
)
def test_a_in_tensor_memory(kind, name, k):
    rng = np.random.default_rng(8)
    a, b = (
        encode(rng.normal(size=(128, k)), name, satfinite=True),
        encode(rng.normal(size=(16, k)), "e5m2" if kind == "f8f6f4" else name),
    )
    shared, memory = FlatShared(), tensor_memory()
    place(shared, B_START, b)
    held = a << 2 if name == "e2m1" else a  # e2m1 sits in bits 5:2 of its byte
    memory.write_cells(np.arange(128)[:, None], 100 + np.arange(8), np.ascontiguousarray(held).view("<u4"), "test")
    b_name = "e5m2" if kind == "f8f6f4" else name
    mma(kind, word(128, 16, name, b_name), 100, descriptor(B_START), [memory], [shared], 0, False, a_in_tmem=True)
    expected = numerics.accumulate(decompose(a, name), decompose(b, b_name), None)
    assert np.array_equal(cells(memory, np.arange(128)[:, None], np.arange(16)), expected)


def test_shifted_rows_of_a():
    """.ashift: each row counts as the previous one, in each CTA by itself; the last one stays."""
    for ctas in (1, 2):
        a, b, shared = setup(np.random.default_rng(ctas), "bf16", 128, 32, 16, ctas=ctas)
        tensors = [tensor_memory() for _ in range(ctas)]
        for rank, memory in enumerate(tensors):
            held = a[128 * rank : 128 * rank + 128].view("<u4")
            memory.write_cells(np.arange(128)[:, None], 64 + np.arange(8), held, "test")
        options = {"cta_group": ctas, "a_in_tmem": True, "a_shifted": True}
        mma("f16", word(128 * ctas, 32 * ctas, "bf16"), 64, descriptor(B_START), tensors, shared, 0, False, **options)
        whole = numerics.accumulate(decompose(a, "bf16"), decompose(b, "bf16"), None).reshape(ctas, 128, 32 * ctas)
        for memory, rows in zip(tensors, whole, strict=True):
            got = cells(memory, np.arange(128)[:, None], np.arange(32 * ctas))
            assert np.array_equal(got[:127], rows[1:]) and np.array_equal(got[127], rows[127])
    single = [tensors[0]], shared[:1], 0, False
    with raises("illegal", "M = 64"):
        mma("f16", word(64, 32, "bf16"), 64, descriptor(B_START), *single, a_in_tmem=True, a_shifted=True)
    with raises("illegal", "A must be in tensor memory"):
        mma("f16", word(128, 32, "bf16"), descriptor(B_START), descriptor(B_START), *single, a_shifted=True)
    with raises("unsupported", "64 rows of each CTA"):
        mma("f16", word(128, 32, "bf16"), 64, descriptor(B_START), tensors, shared, 0, False, **options)


def test_a_in_tensor_memory_of_weight_stationary_mma():
    """A stands once for each part of N, and each part is multiplied with its own."""
    for m in (32, 64, 128):
        rng, parts = np.random.default_rng(m), 128 // m
        a, b, shared = setup(rng, "bf16", m, 64, 16)
        others = [a, *(encode(rng.normal(size=a.shape), "bf16") for _ in range(parts - 1))]
        for held in ([a] * parts, others):
            memory = tensor_memory()
            words = np.concatenate(held).view("<u4")
            memory.write_cells(np.arange(128)[:, None], 100 + np.arange(8), words, "test")
            options = {"a_in_tmem": True, "weight_stationary": True}
            mma("f16", word(m, 64, "bf16"), 100, descriptor(B_START), [memory], shared, 0, False, **options)
            expected = [
                numerics.accumulate(decompose(one, "bf16"), decompose(part, "bf16"), None)
                for one, part in zip(held, np.split(b, parts), strict=True)
            ]
            got = cells(memory, np.arange(128)[:, None], np.arange(64 // parts))
            assert np.array_equal(got, np.concatenate(expected))


def test_a_in_tensor_memory_of_a_pair_with_128_rows():
    """Each half of the lanes multiplies what it holds with its half of N: the same 64 rows, or another part of K."""
    a, b, shared = setup(np.random.default_rng(7), "bf16", 64, 32, 16, ctas=2)
    other = encode(np.random.default_rng(8).normal(size=a.shape), "bf16")
    for halves in ((a, a), (a, other)):
        tensors = [tensor_memory(), tensor_memory()]
        for rank, memory in enumerate(tensors):
            held = np.concatenate([half[64 * rank : 64 * rank + 64] for half in halves]).view("<u4")
            memory.write_cells(np.arange(128)[:, None], 64 + np.arange(8), held, "test")
        options = {"cta_group": 2, "a_in_tmem": True}
        mma("f16", word(128, 64, "bf16"), 64, descriptor(B_START), tensors, shared, 0, False, **options)
        sums = [
            numerics.accumulate(decompose(half, "bf16"), decompose(part, "bf16"), None)
            for half, part in zip(halves, np.split(b, 2), strict=True)
        ]
        for rank, memory in enumerate(tensors):
            expected = np.concatenate([one[64 * rank : 64 * rank + 64] for one in sums])
            assert np.array_equal(cells(memory, np.arange(128)[:, None], np.arange(32)), expected)


def test_a_in_tensor_memory_rules():
    a, b, shared = setup(np.random.default_rng(9), "bf16", 64, 32, 16, ctas=2)
    tensors = [tensor_memory(), tensor_memory()]
    options = {"cta_group": 2, "a_in_tmem": True}
    for rank in range(2):
        rows = a[64 * rank : 64 * rank + 64].view("<u4")
        tensors[rank].write_cells(np.arange(64)[:, None], 64 + np.arange(8), rows, "test")
    with raises("uninitialised", "tcgen05.mma A", "lane 64"):
        mma("f16", word(128, 64, "bf16"), 64, descriptor(B_START), tensors, shared, 0, False, **options)
    for rank in range(2):
        rows = a[64 * rank : 64 * rank + 64].view("<u4")
        tensors[rank].write_cells(64 + np.arange(64)[:, None], 64 + np.arange(8), rows, "test")
    mma("f16", word(128, 64, "bf16"), 64, descriptor(B_START), tensors, shared, 0, False, **options)
    expected = numerics.accumulate(decompose(a, "bf16"), decompose(b, "bf16"), None)
    assert np.array_equal(cells(tensors[1], np.arange(64)[:, None], np.arange(32)), expected[64:, :32])
    with raises("illegal", "lane 16", "lane 0"):
        mma("f16", word(128, 64, "bf16"), 16 << 16, descriptor(B_START), tensors, shared, 0, False, **options)
    with raises("illegal", "bit 15"):
        mma("f16", word(128, 64, "bf16") | 1 << 15, 64, descriptor(B_START), tensors, shared, 0, False, **options)


def test_misuse():
    _, _, shared = setup(np.random.default_rng(10), "bf16", 128, 64, 16)
    memory = tensor_memory(32)
    good = word(128, 64, "bf16")
    with raises("out_of_bounds", "column 32", "0..31"):
        run("f16", good, [memory], shared)
    with raises("illegal", "lane 16", "needs 0"):
        run("f16", good, [tensor_memory()], shared, d_address=16 << 16)
    with raises("illegal", "16", "0..15"):
        run("f16", good, [tensor_memory()], shared, scale_input_d=16)
    with raises("illegal", "scale-input-d 1", "f8f6f4"):
        run("f8f6f4", word(128, 64, "e4m3"), [tensor_memory()], shared, scale_input_d=1)
    with raises("illegal", "4 words", "got 8"):
        run("f16", good, [tensor_memory()], shared, disable_output_lane=[0] * 8)
    stationary = {"weight_stationary": True}
    with raises("illegal", "scale-input-d 1", ".ws"):
        run("f16", good, [tensor_memory()], shared, scale_input_d=1, **stationary)
    with raises("illegal", "4 words", ".ws"):
        run("f16", good, [tensor_memory()], shared, disable_output_lane=[0] * 4, **stationary)
    with raises("illegal", "needs 2", "got 1"):
        mma("f16", word(256, 64, "bf16"), descriptor(A_START), descriptor(B_START), [memory], shared, 0, False, 2)
    with raises("unsupported", "sloppy"):
        run("f16", good, [tensor_memory()], shared, numerics="sloppy")
    with raises("uninitialised", "shared"):
        run("f16", word(128, 256, "bf16"), [tensor_memory()], [FlatShared()])


@pytest.mark.parametrize(
    ("shape", "multicast", "rows", "row_bytes", "targets"),
    [
        ("128x256b", None, 128, 32, lambda r: [r]),
        ("128x128b", None, 128, 16, lambda r: [r]),
        ("4x256b", None, 4, 32, lambda r: [32 * r]),
        ("64x128b", "warpx2::02_13", 64, 16, lambda r: [r, 64 + r]),
        ("64x128b", "warpx2::01_23", 64, 16, lambda r: [r, 32 + r] if r < 32 else [32 + r, 64 + r]),
        ("32x128b", "warpx4", 32, 16, lambda r: [r, 32 + r, 64 + r, 96 + r]),
    ],
)
def test_copy_shapes(shape, multicast, rows, row_bytes, targets):
    data = np.random.default_rng(40).integers(0, 256, (rows, row_bytes)).astype(np.uint8)
    shared, memory = FlatShared(), tensor_memory(32)
    for r in range(rows):
        for part in range(row_bytes // 16):
            start = 0x1000 + r % 8 * 16 + r // 8 * 128 + 4096 * part
            shared.write(start + np.arange(16), data[r, 16 * part : 16 * part + 16])
    copy(shape, multicast, 4, 0x0000400801000100, shared, memory)
    expected = {(lane, 4 + c): value for r in range(rows) for lane in targets(r) for c, value in enumerate(data[r].view("<u4"))}
    touched = {divmod(int(i), 512) for i in np.nonzero(memory.written)[0]}
    assert touched == expected.keys()
    assert all(memory.cells[lane * 512 + column] == value for (lane, column), value in expected.items())


def test_copy_with_decompression():
    shared, memory = FlatShared(), tensor_memory(32)
    for r in range(128):
        for part in range(2):
            start = 0x1000 + r % 8 * 16 + r // 8 * 128 + 4096 * part
            shared.write(start + np.arange(8), np.arange(8, dtype=np.uint8) * 0x21 & 0xFF)
    copy("128x256b", None, 0, 0x0000400801000100, shared, memory, decompress="b4x16_p64")
    got = cells(memory, np.arange(128)[:, None], np.arange(8)).view(np.uint8)
    nibbles = [nibble for byte in (np.arange(8) * 0x21 & 0xFF) for nibble in (byte & 15, byte >> 4)]
    assert (got.reshape(128, 2, 16) == np.array(nibbles) << 2).all()
    with raises("illegal", "b2"):
        copy("128x256b", None, 0, 0x0000400801000100, shared, memory, decompress="b2")
    with raises("illegal", "lane 3"):
        copy("128x256b", None, 3 << 16, 0x0000400801000100, shared, memory)
    with raises("illegal", "64x128b", "None"):
        copy("64x128b", None, 0, 0x0000400801000100, shared, memory)
