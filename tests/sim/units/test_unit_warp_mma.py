"""mma.sync: fragments against NumPy products, and the order of 8-bit sums. (The bits are compared with an H200 in tests/silicon.)"""

import numpy as np
import pytest

from pipec.sim.units.errors import UnitError
from pipec.sim.units.matrix.mma import Instruction, mma


def registers(random: np.random.Generator, count: int, values: np.ndarray) -> np.ndarray:
    """[32 lanes, count] registers of elements drawn from `values`."""
    return random.choice(values, (32, 4 * count // values.itemsize)).view(np.uint32)


@pytest.mark.parametrize("k", [8, 16])
def test_ones_count_the_products(k: int) -> None:
    what = Instruction(k, "f32", "f16", "f16").validate()
    ones = np.full((32, 8), 0x3C003C00, np.uint32)
    a, b, d = what.registers
    result = mma(what, ones[:, :a], ones[:, :b], np.zeros((32, d), np.uint32))
    assert (result.view(np.float32) == k).all()


def test_rows_and_columns() -> None:
    """A lane holds rows l/4 and l/4 + 8, columns 2 (l%4) and the next; B's column is l/4."""
    random = np.random.default_rng(0)
    a, b = registers(random, 4, np.arange(4, dtype=np.uint8)), registers(random, 2, np.arange(4, dtype=np.uint8))
    got = mma(Instruction(32, "s32", "u8", "u8"), a, b, np.zeros((32, 4), np.uint32)).view(np.int32)
    left, right = np.zeros((16, 32), int), np.zeros((8, 32), int)
    for lane in range(32):
        for byte in range(16):
            left[lane // 4 + byte // 4 % 2 * 8, lane % 4 * 4 + byte % 4 + byte // 8 * 16] = a.view(np.uint8)[lane, byte]
        for byte in range(8):
            right[lane // 4, lane % 4 * 4 + byte % 4 + byte // 4 * 16] = b.view(np.uint8)[lane, byte]
    wanted = left @ right.T
    for lane in range(32):
        for value in range(4):
            assert got[lane, value] == wanted[lane // 4 + value // 2 * 8, lane % 4 * 2 + value % 2]


def test_eight_bit_floats_add_c_last() -> None:
    """C = 2**24 loses none of 32 products of 1 that are summed before it, which adding them one by one would."""
    what = Instruction(32, "f32", "e4m3", "e4m3")
    ones = np.full((32, 4), 0x38383838, np.uint32)
    c = np.full((32, 4), 2.0**24, np.float32).view(np.uint32)
    assert (mma(what, ones, ones[:, :2], c).view(np.float32) == 2.0**24 + 32).all()


@pytest.mark.parametrize(
    "form", [(4, "f32", "f16", "f16"), (16, "f16", "bf16", "bf16"), (16, "f32", "f16", "bf16"), (8, "f64", "f64", "f64")]
)
def test_unknown_forms(form: tuple) -> None:
    with pytest.raises(UnitError, match="not modelled"):
        Instruction(*form).validate()
