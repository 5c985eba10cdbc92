"""wmma.load, wmma.mma and wmma.store (PTX ISA 9.7.14.4): fragments in registers of a warp, matrices in memory."""

from __future__ import annotations

import re
from typing import Literal

import numpy as np

from ...errors import SimulationError
from ...machine.memory.spaces import Space
from ...machine.program import Execute
from ...machine.threads.cta import Warp
from ...ptx.types import LANE, LANES, TYPES, Addresses, Type
from ...units.errors import UnitError
from ...units.matrix.wmma import Fragment, Instruction, MatrixName, Shape, fragment, wmma
from ..decode import AddressReader, Decoder, instruction
from ..memory.loadstore import address_reader, space
from ..widths import Reader
from .mma import bit_operation
from .mma_doubles import ROUNDINGS, product_of_doubles

_SHAPE = re.compile(r"m(\d+)n(\d+)k(\d+)")
Layout = Literal["row", "col"]


def _shape(d: Decoder) -> Shape:
    d.ignore("sync", "aligned")
    found = next((found for found in map(_SHAPE.fullmatch, d.modifiers) if found), None)
    if found is None:
        d.fail("needs a shape", "malformed")
    d.flag(found[0])
    return Shape(int(found[1]), int(found[2]), int(found[3]))


def _fragment(d: Decoder, shape: Shape, which: MatrixName, format_name: str, count: int) -> Fragment:
    try:
        found = fragment(shape, which, format_name)
    except UnitError as error:
        d.fail(error.message)
    if found.registers != count:
        d.fail(f"needs {found.registers} registers for {which.upper()}, has {count}", "malformed")
    return found


class _Matrix:
    """The memory locations of a fragment's elements."""

    def __init__(self, d: Decoder, address: int, stride: int, layout: Layout, where: Space, held: Fragment) -> None:
        self.where, self.held, self.opcode = where, held, d.item.opcode
        self.address: AddressReader = address_reader(d, address, where)
        self.stride: Reader | None = d.source(stride, TYPES["u32"]) if len(d.operands) > stride else None
        flat = np.arange(held.registers * held.per_register)[:, None] * LANES + LANE
        row, column = np.divmod(flat % (held.rows * held.columns), held.columns)
        self.line, self.inner = (row, column) if layout == "row" else (column, row)
        self.length = held.columns if layout == "row" else held.rows

    def places(self, warp: Warp) -> Addresses:
        """Addresses [values, lanes] of all elements."""
        start, bits = self.address(warp), self.held.bits
        # In elements, several of which may share a byte.
        stride = self.stride(warp) if self.stride else np.full(LANES, self.length * 8 * self.held.element_bytes // bits)
        if (start != start[0]).any() or (stride != stride[0]).any():
            raise SimulationError("undefined", f"{self.opcode} with different addresses or strides in the lanes of a warp")
        if int(stride[0]) * bits % 8:
            raise SimulationError("misaligned", f"{self.opcode} with a stride of {int(stride[0])} elements of {bits} bits")
        places: Addresses = start[0] + self.line * (int(stride[0]) * bits // 8) + self.inner * self.held.element_bytes
        return places


def _register(format_name: str) -> Type:
    return TYPES["b64" if format_name == "f64" else "b32"]


def _parts(d: Decoder, *names: MatrixName) -> tuple[MatrixName, Layout, Shape, Space, str]:
    which = d.require(*names)
    layout: Layout = d.require("row", "col")
    shape, where = _shape(d), space(d)
    formats = d.formats()
    if len(formats) != 1:
        d.fail("needs exactly one type", "malformed")
    return which, layout, shape, where, formats[0]


@instruction("wmma.load")
def load(d: Decoder) -> Execute:
    which, layout, shape, where, name = _parts(d, "a", "b", "c")
    writers = [d.destination(item, _register(name)) for item in d.vector(0)]
    held = _fragment(d, shape, which, name, len(writers))
    if held.bits < 8 and layout != ("row" if which == "a" else "col"):
        d.fail(f"a matrix of {held.bits}-bit elements stands in memory along K")
    matrix, size = _Matrix(d, 1, 2, layout, where, held), held.element_bytes

    def execute(warp: Warp) -> None:
        # One load per element of a lane: neighbours in a fragment need not be neighbours in memory.
        values = [warp.cta.load(warp, where, lanes, size, warp.watched) for lanes in matrix.places(warp)]
        registers = np.ascontiguousarray(np.stack(values, axis=1)).view(held.register)
        for number, write in enumerate(writers):
            write(warp, np.ascontiguousarray(registers[:, number]))

    return execute


@instruction("wmma.store")
def store(d: Decoder) -> Execute:
    which, layout, shape, where, name = _parts(d, "d")
    readers = [d.source(item, _register(name)) for item in d.vector(1)]
    held = _fragment(d, shape, which, name, len(readers))
    matrix, size = _Matrix(d, 0, 2, layout, where, held), held.element_bytes

    def execute(warp: Warp) -> None:
        registers = np.stack([read(warp) for read in readers], axis=1)
        values = np.ascontiguousarray(registers).view(f"<u{size}")
        for number, lanes in enumerate(matrix.places(warp)):
            warp.cta.store(warp, where, lanes, np.ascontiguousarray(values[:, number]), size, warp.watched)

    return execute


@instruction("wmma.mma")
def multiply(d: Decoder) -> Execute:
    saturate = d.flag("satfinite")
    mode = d.choose(*ROUNDINGS) if "f64" in d.modifiers else None
    # For A and B; the fragments here are the same for both.
    d.require("row", "col")
    d.require("row", "col")
    shape = _shape(d)
    what = _decoded(d, shape, d.formats(), saturate)
    register = _register(what.a_format)
    operands = [[d.source(item, register) for item in d.vector(index)] for index in (1, 2, 3)]
    formats: tuple[tuple[MatrixName, str], ...] = (("a", what.a_format), ("b", what.b_format), ("c", what.c_format))
    held = [_fragment(d, shape, which, name, len(registers)) for (which, name), registers in zip(formats, operands, strict=True)]
    writers = [d.destination(item, register) for item in d.vector(0)]
    result_held = _fragment(d, shape, "d", what.d_format, len(writers))

    def execute(warp: Warp) -> None:
        a, b, c = (np.stack([read(warp) for read in readers], axis=1) for readers in operands)
        if what.a_format == "f64":
            left, right, old = (one.matrix(part).view(np.float64) for one, part in zip(held, (a, b, c), strict=True))
            result = result_held.lanes(product_of_doubles(left, right, old, mode or "rn").view(np.uint64))
        else:
            result = wmma(what, a, b, c, warp.cta.machine.options.numerics)
        for number, write in enumerate(writers):
            write(warp, np.ascontiguousarray(result[:, number]))

    return execute


def _decoded(d: Decoder, shape: Shape, names: list[str], saturate: bool) -> Instruction:
    """With halves the types of D and C; otherwise those of D, A, B and C."""
    if len(names) == 2:
        names = [names[0], "f16", "f16", names[1]]
    if len(names) != 4:
        d.fail("needs two types for halves, else four", "malformed")
    result, a, b, c = names
    try:
        return Instruction(shape, a, b, c, result, saturate, bit_operation(d, a)).validate()
    except UnitError as error:
        d.fail(error.message)
