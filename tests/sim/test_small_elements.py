"""mma.sync, mma.sp and wmma of elements below 8 bits, of m8n8 shapes, of f64 and of the rarer 8-bit forms, against NumPy.

Where a lane holds which element is written out here once more from the tables of the PTX ISA (9.7.14.5.1-14, 9.7.14.6.2).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import ml_dtypes
import numpy as np
import pytest

from pipec.diag.message import Sink
from pipec.ptx.assemble import assemble
from pipec.sim import SimulationError, launch

HEAD = ".version 9.0\n.target sm_90a\n.address_size 64\n"
Places = Callable[[int, int], tuple[int, int]]  # lane, number of its element -> row, column
LOW, HIGH = -(1 << 31), (1 << 31) - 1


@dataclass(frozen=True)
class Form:
    """`per`: elements of A and B in a register."""

    name: str
    rows: int
    k: int
    a: str
    b: str
    more: str = ""
    d: str = "s32"

    @property
    def per(self) -> int:
        return {"s4": 8, "u4": 8, "b1": 32}.get(self.a, 4)

    def text(self) -> str:
        return f"mma.sync.aligned.m{self.rows}n8k{self.k}.row.col{self.name}.{self.d}.{self.a}.{self.b}.{self.d}{self.more}"


FORMS = [
    *(Form(name, 8, 16, a, b) for name, a, b in (("", "s8", "u8"), (".satfinite", "u8", "s8"))),
    *(Form(name, *shape, a, b)
      for shape in ((8, 32), (16, 32), (16, 64)) for name, a, b in (("", "s4", "s4"), ("", "u4", "s4"), (".satfinite", "s4", "u4"))),
    *(Form("", *shape, "b1", "b1", f".{operation}.popc") for shape in ((8, 128), (16, 128), (16, 256)) for operation in ("xor", "and")),
    *(Form("", 16, k, a, b, d=d) for k, d in ((16, "f32"), (16, "f16"), (32, "f16")) for a, b in (("e4m3", "e4m3"), ("e5m2", "e4m3"))),
]  # fmt: skip


def _place_of_a(form: Form) -> Places:
    def place(lane: int, number: int) -> tuple[int, int]:
        group, inside = divmod(lane, 4)
        register, part = divmod(number, form.per)
        upper = form.rows == 16 and register % 2
        half = 4 * form.per * (register // 2)
        return group + 8 * upper, inside * form.per + part + half

    return place


def _place_of_b(form: Form) -> Places:
    def place(lane: int, number: int) -> tuple[int, int]:
        register, part = divmod(number, form.per)
        return lane % 4 * form.per + part + 4 * form.per * register, lane // 4

    return place


def _place_of_d(lane: int, number: int) -> tuple[int, int]:
    return lane // 4 + 8 * (number // 2), lane % 4 * 2 + number % 2


def _lanes(matrix: np.ndarray, place: Places, bits: int) -> np.ndarray:
    """Registers [32, count] of the patterns of a matrix, elements of `bits` from the lowest ones on."""
    each = 32 // bits
    out = np.zeros((32, matrix.size // 32 // each), np.uint32)
    for lane in range(32):
        for number in range(matrix.size // 32):
            pattern = int(matrix[place(lane, number)]) & ((1 << bits) - 1)
            out[lane, number // each] |= np.uint32(pattern << bits * (number % each))
    return out


def _kernel(instruction: str, counts: tuple[int, int, int], more: str = "") -> str:
    """Each lane has its registers of A, B and C, one after another, in its part of the array; D comes back in place of C."""
    total, first = sum(counts), [0, counts[0], counts[0] + counts[1]]
    loads = " ".join(f"ld.global.b32 %r{number}, [%d1+{4 * number}];" for number in range(total))
    a, b, c = (
        "{" + ", ".join(f"%r{start + number}" for number in range(count)) + "}"
        for start, count in zip(first, counts, strict=True)
    )
    stores = " ".join(f"st.global.b32 [%d1+{4 * number}], %r{number};" for number in range(first[2], total))
    return f"""{HEAD}.visible .entry k(.param .u64 p) .reqntid 32 {{ .reg .b32 %t, %m, %r<{total}>; .reg .b64 %d<3>;
    ld.param.u64 %d1, [p]; mov.u32 %t, %tid.x; mad.wide.u32 %d1, %t, {4 * total + 4}, %d1; {loads}
    ld.global.b32 %m, [%d1+{4 * total}];
    {instruction} {c}, {a}, {b}, {c}{more}; {stores} ret; }}"""


def _multiplied(instruction: str, a: np.ndarray, b: np.ndarray, c: np.ndarray, metadata: np.ndarray | None = None) -> np.ndarray:
    """D as a matrix; registers of A and B, the matrix C."""
    each = 4 // c.itemsize
    registers_c = _lanes(c.view(f"u{c.itemsize}"), _place_of_d, 8 * c.itemsize)
    words = np.zeros((32, 1), np.uint32) if metadata is None else metadata
    data = np.ascontiguousarray(np.hstack([a, b, registers_c, words]))
    text = _kernel(instruction, (a.shape[1], b.shape[1], registers_c.shape[1]), ", %m, 0" if metadata is not None else "")
    assert assemble(text, "sm_90a", Sink(), tool="ptxas") is not None
    launch(text, arguments=[data])
    found = np.ascontiguousarray(data[:, a.shape[1] + b.shape[1] : -1]).view(c.dtype)
    out = np.empty_like(c)
    for lane in range(32):
        for number in range(each * registers_c.shape[1]):
            out[_place_of_d(lane, number)] = found[lane, number]
    return out


def _drawn(random: np.random.Generator, kind: str, shape: tuple[int, int]) -> tuple[np.ndarray, np.ndarray, int]:
    """Patterns, the numbers that they mean, and how many bits each has."""
    ranges = {"s8": (-128, 128), "u8": (0, 256), "s4": (-8, 8), "u4": (0, 16), "b1": (0, 2)}
    if kind in ranges:
        values = random.integers(*ranges[kind], shape)
        return values, values, {"b1": 1}.get(kind, int(kind[1:]))
    values = random.integers(-4, 5, shape).astype({"e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2}[kind])
    return values.view(np.uint8), values.astype(np.float64), 8


@pytest.mark.parametrize("form", FORMS, ids=Form.text)
def test_product(form: Form) -> None:
    random = np.random.default_rng(form.k)
    a, left, bits = _drawn(random, form.a, (form.rows, form.k))
    b, right, _ = _drawn(random, form.b, (form.k, 8))
    kind = {"s32": np.int32, "f32": np.float32, "f16": np.float16}[form.d]
    c = random.integers(-50, 50, (form.rows, 8)).astype(kind)
    if form.d == "s32":
        c[0, :4] = LOW, HIGH, LOW + 1, HIGH - 1
    if form.a == "b1":
        combined = left[:, :, None] ^ right[None] if "xor" in form.more else left[:, :, None] & right[None]
        expected = combined.sum(axis=1) + c.astype(np.int64)
    else:
        expected = left @ right + c.astype(np.int64)
    if "satfinite" in form.name:
        expected = np.clip(expected, LOW, HIGH)
    found = _multiplied(form.text(), _lanes(a, _place_of_a(form), bits), _lanes(b, _place_of_b(form), bits), c)
    assert (found == expected.astype(kind)).all()


@pytest.mark.parametrize("k", [64, 128])
@pytest.mark.parametrize("types", ["s4.s4", "u4.s4"])
def test_sparse_by_pairs(k: int, types: str) -> None:
    """Of each eight elements of A two pairs are kept; the metadata say which, as for bytes (PTX ISA 9.7.14.6.1)."""
    random = np.random.default_rng(k)
    first, second = types.split(".")
    stored, kept, _ = _drawn(random, first, (16, k // 2))
    b, right, _ = _drawn(random, second, (k, 8))
    whole, words = np.zeros((16, k), np.int64), np.zeros((32, 1), np.uint32)
    for row in range(16):
        for group in range(k // 8):
            low, high = sorted(random.choice(4, 2, replace=False))
            for number, pair in enumerate((low, high)):
                whole[row, 8 * group + 2 * pair : 8 * group + 2 * pair + 2] = kept[
                    row, 4 * group + 2 * number : 4 * group + 2 * number + 2
                ]
            # Of each four lanes, 0 and 1 have the first 64 elements of rows l/4 and l/4 + 8, 2 and 3 the others.
            lane = 4 * (row % 8) + row // 8 + 2 * (group // 8)
            words[lane, 0] |= np.uint32((low | high << 2) << 4 * (group % 8))
    form, packed = Form("", 16, k // 2, first, second), Form("", 16, k, first, second)
    c = random.integers(-50, 50, (16, 8)).astype(np.int32)
    instruction = packed.text().replace("mma.sync", "mma.sp::ordered_metadata.sync")
    lanes_b = _lanes(b, _place_of_b(packed), 4)
    found = _multiplied(instruction, _lanes(stored, _place_of_a(form), 4), lanes_b, c, words)
    assert (found == whole @ right + c).all()


WMMA = """{head}.visible .entry k(.param .u64 a, .param .u64 b, .param .u64 c) .reqntid 32 {{
.reg .b32 %r<8>; .reg .f64 %e<8>; .reg .b64 %d<4>; ld.param.u64 %d1, [a]; ld.param.u64 %d2, [b]; ld.param.u64 %d3, [c];
wmma.load.a.sync.aligned.row.{shape}.global.{a} {{{one}1}}, [%d1], {ka}; wmma.load.b.sync.aligned.col.{shape}.global.{a} {{{one}2}}, [%d2];
wmma.load.c.sync.aligned.row.{shape}.global.{d} {{{one}3, {one}4}}, [%d3], 8;
wmma.mma{bits}.sync.aligned.row.col.{shape}.{d}.{a}.{a}.{d} {{{one}5, {one}6}}, {{{one}1}}, {{{one}2}}, {{{one}3, {one}4}};
wmma.store.d.sync.aligned.col.{shape}.global.{d} [%d3], {{{one}5, {one}6}}; ret; }}"""


@pytest.mark.parametrize(
    ("kind", "k", "bits"), [("f64", 4, ""), ("s4", 32, ""), ("u4", 32, ""), ("b1", 128, ".xor.popc"), ("b1", 128, ".and.popc")]
)
@pytest.mark.parametrize("gap", [0, 32])
def test_wmma(kind: str, k: int, bits: str, gap: int) -> None:
    """Rows of A lie `gap` bytes apart, B is dense, D is stored by columns."""
    random = np.random.default_rng(k)
    if kind == "f64":
        a, b, c = random.standard_normal((8, k)), random.standard_normal((8, k)), random.standard_normal((8, 8))
        left, right, expected = a, b, a @ b.T + c
        size, element = 64, "%e"
    else:
        a, left, size = _drawn(random, kind, (8, k))
        b, right, _ = _drawn(random, kind, (8, k))
        c = random.integers(-50, 50, (8, 8)).astype(np.int32)
        counted = {"": left[:, None] * right, ".xor.popc": left[:, None] ^ right, ".and.popc": left[:, None] & right}[bits]
        expected, element = counted.sum(axis=2) + c, "%r"
    rows = [_packed(one, size) for one in (a, b)]
    padded = np.zeros((8, rows[0].shape[1] + gap), np.uint8)
    padded[:, : rows[0].shape[1]] = rows[0]
    text = WMMA.format(
        head=HEAD,
        shape=f"m8n8k{k}",
        a=kind,
        d="f64" if kind == "f64" else "s32",
        one=element,
        bits=bits,
        ka=8 * padded.shape[1] // size,
    )
    assert assemble(text, "sm_90a", Sink(), tool="ptxas") is not None
    launch(text, arguments=[padded, rows[1], c])
    assert (c.T == expected).all() if kind != "f64" else np.abs(c.T - expected).max() < 1e-14


def _packed(matrix: np.ndarray, bits: int) -> np.ndarray:
    """Rows of bytes."""
    if bits == 64:
        return np.ascontiguousarray(matrix).view(np.uint8)
    places = (matrix[:, :, None] >> np.arange(bits)) & 1
    return np.packbits(places.reshape(len(matrix), -1).astype(np.uint8), axis=1, bitorder="little")


@pytest.mark.parametrize(
    "instruction",
    [
        "mma.sync.aligned.m8n8k64.row.col.s32.s4.s4.s32 {%r0,%r1}, {%r2}, {%r3}, {%r0,%r1};",
        "mma.sync.aligned.m16n8k32.row.col.s32.s4.s8.s32 {%r0,%r1,%r2,%r3}, {%r4,%r5}, {%r6}, {%r0,%r1,%r2,%r3};",
        "mma.sync.aligned.m8n8k128.row.col.s32.b1.b1.s32.or.popc {%r0,%r1}, {%r2}, {%r3}, {%r0,%r1};",
        "wmma.mma.sync.aligned.row.col.m8n8k128.s32.b1.b1.s32 {%r0,%r1}, {%r2}, {%r3}, {%r0,%r1};",
    ],
)
def test_missing_things(instruction: str) -> None:
    with pytest.raises(SimulationError):
        launch(f"{HEAD}.entry k() {{ .reg .b32 %r<8>; {instruction} ret; }}", block=32)
