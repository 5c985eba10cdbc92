"""Descriptors against worked values that a program built on CUTLASS's headers printed (hardware.md 3.2, 3.3 and 9)."""

import re
from operator import and_, or_, rshift

import pytest

from pipec.budgets import Meter
from pipec.isa.dtypes import DTYPES
from pipec.isa.scaling import operand_kinds
from pipec.kir.plan.memory import tile_layout
from pipec.lower.emit.llvm import Builder
from pipec.lower.emit.value import Value
from pipec.lower.tensor_cores.descriptors import (
    instruction_descriptor,
    operand_descriptor,
    scaled_instruction_descriptor,
    start_descriptor,
)
from pipec.sema import tree
from pipec.source import Source

BASE = 0x400  # where dynamic shared memory starts


def emitted(constant: int, address: int) -> int:
    """What the code computes that is emitted for an address known at run time."""
    builder = Builder(Meter("machine code"))
    found = start_descriptor(builder, Value("i32", "%address"), constant)
    values = {"%address": address}
    for line in builder.lines:
        name, operation, _, left, right = re.fullmatch(r"\s*(%\S+) = (\w+) (\w+) ([^,\s]+)(?:, (\S+)| to i64)", line).groups()
        terms = [values[word] if word in values else int(word) for word in (left, right or "0")]
        values[name] = {"lshr": rshift, "and": and_, "or": or_, "zext": or_}[operation](*terms)
    return values[found.name]


@pytest.mark.parametrize(
    ("accumulator", "a", "b", "m", "n", "transposed", "expected"),
    [
        ("f32", "bf16", "bf16", 128, 256, (False, False), 0x08400490),
        ("f32", "bf16", "bf16", 128, 128, (False, True), 0x08210490),
        ("f32", "bf16", "bf16", 128, 256, (True, True), 0x08418490),
        ("f32", "f16", "f16", 128, 256, (False, False), 0x08400010),
        ("f16", "f16", "f16", 128, 256, (False, False), 0x08400000),
        ("f32", "f16", "f16", 64, 64, (False, False), 0x04100010),
        ("f32", "tf32", "tf32", 128, 256, (False, False), 0x08400910),
        ("f32", "e4m3", "e4m3", 128, 256, (False, False), 0x08400010),
        ("f32", "e5m2", "e4m3", 128, 128, (False, False), 0x08200090),
        ("i32", "i8", "i8", 128, 256, (False, False), 0x084004A0),
        ("i32", "u8", "u8", 128, 256, (False, False), 0x08400020),
    ],
)
def test_instruction_descriptor(accumulator, a, b, m, n, transposed, expected):
    found = instruction_descriptor(
        DTYPES[accumulator], DTYPES[a], DTYPES[b], m, n, a_transposed=transposed[0], b_transposed=transposed[1]
    )
    assert found == expected, hex(found)


@pytest.mark.parametrize(
    ("dtype", "rows", "columns", "transposed", "high"),
    [
        ("bf16", 128, 64, False, 0x40004040),
        ("bf16", 128, 32, False, 0x80004020),
        ("bf16", 128, 16, False, 0xC0004010),
        ("bf16", 128, 8, False, 0x00004008),
        ("bf16", 64, 256, True, 0x40004040),
        ("tf32", 32, 128, True, 0x20004020),
    ],
)
def test_high_word(dtype, rows, columns, transposed, high):
    k_extent = rows if transposed else columns
    layout = tile_layout(rows, columns, DTYPES[dtype], atom_32b=dtype == "tf32" and transposed)
    row = operand_descriptor(layout, k_extent, DTYPES[dtype], transposed=transposed)
    assert row.constant >> 32 == high, hex(row.constant)


def test_k_major_stages_of_the_worked_gemm():
    """Stage s of A at 0x400 + s * 0xC000, four steps of 2 along K (hardware.md 9)."""
    row = operand_descriptor(tile_layout(128, 64, DTYPES["bf16"]), 64, DTYPES["bf16"], transposed=False)
    words = [emitted(row.constant, BASE + step) for step in row.steps]
    assert words == [0x4000404000000040, 0x4000404000000042, 0x4000404000000044, 0x4000404000000046]
    assert emitted(row.constant, BASE + 0xC000) & 0xFFFFFFFF == 0x0C40


def test_mn_major_panels_of_the_worked_gemm():
    """64 k-rows of 128 bytes, so panels are 8192 bytes apart and a step along K is 2048 bytes (hardware.md 3.3 and 9)."""
    row = operand_descriptor(tile_layout(64, 256, DTYPES["bf16"]), 64, DTYPES["bf16"], transposed=True)
    assert emitted(row.constant, BASE) == 0x4000404002000040
    assert [step >> 4 for step in row.steps] == [0, 0x80, 0x100, 0x180]


def test_k_steps_cross_into_the_next_panel():
    """A K = 128 tile of 128 rows has its second panel 0x4000 bytes further (hardware.md 9)."""
    row = operand_descriptor(tile_layout(128, 128, DTYPES["bf16"]), 128, DTYPES["bf16"], transposed=False)
    assert row.steps == (0, 32, 64, 96, 0x4000, 0x4020, 0x4040, 0x4060)


@pytest.mark.parametrize(
    ("kind", "operand", "factor", "place", "expected"),
    [
        ("mxf8f6f4", "e4m3", "ue8m0", 0, 0x08C00000),
        ("mxf8f6f4", "e4m3", "ue8m0", 1, 0x28C00010),
        ("mxf8f6f4", "e4m3", "ue8m0", 2, 0x48C00020),
        ("mxf8f6f4", "e4m3", "ue8m0", 3, 0x68C00030),
        ("mxf4", "e2m1", "ue8m0", 0, 0x08C00480),
        ("mxf4", "e2m1", "ue8m0", 2, 0x48C004A0),
        ("mxf4nvf4", "e2m1", "ue4m3", 0, 0x08400480),
    ],
)
def test_scaled_instruction_descriptor(kind, operand, factor, place, expected):
    span = Source("k.pipe", "x").span(1, 1, 1, 2)
    pipeline = tree.Pipeline("input", "InputTilePipeline", 1, span)
    handle = tree.Handle("s", pipeline, "consumer", "scoped", span)
    tiles = [
        ("d", "f32", 128, 256),
        ("a", operand, 128, 256),
        ("b", operand, 256, 256),
        ("sfa", factor, 128, 8),
        ("sfb", factor, 256, 8),
    ]
    d, a, b, sfa, sfb = (
        tree.BufferRef(tree.Buffer(name, "shared", DTYPES[dtype], rows, columns, 1, pipeline, span), handle, False, span)
        for name, dtype, rows, columns in tiles
    )
    mma = tree.Mma(d, a, b, None, span, sfa, sfb)
    row = next(row for row in operand_kinds(DTYPES[operand], DTYPES[operand]) if row.name == kind)
    found = scaled_instruction_descriptor(mma, row, place)
    assert found == expected, hex(found)


@pytest.mark.parametrize(
    ("rows", "columns", "dtype", "panels", "swizzle"),
    [
        (1, 128, "f32", 1, "none"),
        (1, 256, "f32", 1, "none"),
        (1, 512, "bf16", 8, "128B"),  # more elements than a box has
        (1, 96, "f32", 3, "128B"),  # no power of two
        (2, 128, "f32", 4, "128B"),
    ],
)
def test_a_row_alone_in_its_tile_is_one_copy(rows: int, columns: int, dtype: str, panels: int, swizzle: str) -> None:
    layout = tile_layout(rows, columns, DTYPES[dtype])
    assert (layout.panels, layout.swizzle) == (panels, swizzle)
    assert layout.panels * layout.span_bytes == columns * DTYPES[dtype].bytes
