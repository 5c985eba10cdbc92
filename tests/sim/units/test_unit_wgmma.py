"""Hopper's warpgroup MMA: descriptors, fragments, measured landmarks."""

import numpy as np
import pytest
import slow_accumulate as slow
from unit_memories import FlatShared, raises

from pipec.sim.units.matrix.wgmma import Instruction, a_fragment, d_fragment, decode_descriptor, wgmma
from pipec.sim.units.numbers.formats import encode
from pipec.sim.units.swizzle import SWIZZLES
from pipec.sim.units.tcgen05.descriptors import MatrixDescriptor
from pipec.sim.units.tcgen05.operands import operand_offsets

SW32 = 0xC000001000000000
A_START, B_START = 0x400, 0x1400


def place(memory, start, patterns):
    data = np.ascontiguousarray(patterns).view(np.uint8).reshape(-1)
    memory.write(SWIZZLES["32B"].apply(start + np.arange(data.size)), data)


def test_descriptor():
    assert decode_descriptor(0x4000004000000040) == MatrixDescriptor(0x400, 0, 1024, "128B")
    assert decode_descriptor(0xC000001000000040 | 5 << 49).base_offset == 5
    for bit in (14, 31, 46, 61):
        with raises("illegal", "must be 0"):
            decode_descriptor(0x4000004000000040 | 1 << bit)


def test_base_offset_moves_the_phase_of_the_pattern():
    start = 0x400 + 3 * 128
    shifted = operand_offsets(MatrixDescriptor(start, 0, 1024, "128B", base_offset=3), 8, 16, 2, False)
    linear = start + np.arange(8)[:, None] * 128 + np.arange(32)
    assert np.array_equal(shifted, linear ^ ((((linear >> 7) - 3) & 7) << 4))
    assert shifted[0, 0] == start


@pytest.mark.parametrize(
    ("name", "b_name", "d_format", "k"),
    [
        ("bf16", "bf16", "f32", 16),
        ("f16", "f16", "f16", 16),
        ("tf32", "tf32", "f32", 8),
        ("e4m3", "e5m2", "f32", 32),
        ("e5m2", "e5m2", "f16", 32),
    ],
)
@pytest.mark.parametrize("from_registers", [False, True])
def test_against_the_rational_model(name, b_name, d_format, k, from_registers):
    rng = np.random.default_rng(k)
    a, b = encode(rng.normal(size=(64, k)), name), encode(rng.normal(size=(16, k)), b_name)
    memory = FlatShared()
    place(memory, A_START, a)
    place(memory, B_START, b)
    c = encode(rng.normal(size=(64, 16)), d_format)
    row, column = d_fragment(16)
    registers = np.ascontiguousarray(c[row, column]).view(np.uint32)
    source = SW32 | A_START >> 4
    if from_registers:
        rows, ks = a_fragment(a.itemsize)
        source = np.ascontiguousarray(a[rows, ks]).view(np.uint32)
    got = wgmma(Instruction(16, d_format, name, b_name), source, SW32 | B_START >> 4, memory, registers)
    patterns = np.zeros((64, 16), c.dtype)
    patterns[row, column] = got.view(c.dtype)
    bits = 13 if name[0] == "e" else 25
    for m in range(0, 64, 13):
        for n in range(0, 16, 3):
            expected = slow.element(a[m], b[n], c[m, n], name, b_name, bits, 13 if bits == 13 else 23, d_format=d_format)
            assert patterns[m, n] == expected


def test_fragment_values():
    row, column = d_fragment(32)
    assert (row[37, 7], column[37, 7]) == (16 + 1 + 8, 8 + 2 + 1)
    row, k = a_fragment(1)
    assert (row[5, 4], k[5, 4]) == (9, 4) and (row[5, 8], k[5, 8]) == (1, 20)


def test_integers_saturate():
    memory = FlatShared()
    place(memory, A_START, np.full((64, 32), 1, np.uint8))
    place(memory, B_START, np.eye(8, 32, dtype=np.uint8))
    old = np.full((128, 4), 0x7FFFFFFF, np.uint32)
    for saturate, expected in ((False, 0x80000000), (True, 0x7FFFFFFF)):
        instruction = Instruction(8, "s32", "s8", "s8", saturate=saturate)
        assert (wgmma(instruction, SW32 | A_START >> 4, SW32 | B_START >> 4, memory, old) == expected).all()


@pytest.mark.parametrize(
    ("fields", "fragments"),
    [
        ((12, "f32", "bf16", "bf16"), ("N = 12",)),
        ((40, "s32", "s8", "u8"), ("N = 40",)),
        ((8, "f16", "bf16", "bf16"), ("bf16", "f16")),
        ((8, "f32", "bf16", "f16"), ("bf16 and f16",)),
        ((8, "f32", "e2m1", "e2m1"), ("e2m1",)),
        ((8, "f32", "tf32", "tf32", False, False, False, True), ("32 bits",)),
        ((8, "s32", "s8", "s8", True), ("no negation",)),
    ],
)
def test_bad_instructions(fields, fragments):
    with raises("illegal", *fragments):
        Instruction(*fields).validate()
