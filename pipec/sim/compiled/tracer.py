"""What an instruction computes, recorded as LLVM IR while its meaning runs.

A meaning is Python over NumPy arrays of 32 lanes. Run once with `Traced` values in their place, it records the operations that it
requests; they have NumPy's types and results, bit for bit. A meaning that inspects values, or requests an operation without a rule here,
is not traced: NotTraced.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from . import LANES, access, blocks, operations  # noqa: F401 - `operations` tells `traced` of NumPy's functions
from .code import Code, NotTraced, element_type, literal, vector_type
from .plain import machine_code
from .runner import IMMEDIATE, PC, PLACE
from .traced import Elements, Offset, Traced, lanes_of

# ---- registers


class RegisterRow:
    """A register of the traced instruction."""

    def __init__(self, code: Code, slot: int, dtype: np.dtype[Any]) -> None:
        self.code, self.slot, self.dtype = code, slot, dtype

    def copy(self) -> Traced:
        stored = np.dtype(np.uint8) if self.dtype == np.bool_ else self.dtype
        place = self.code.place(self.slot)
        name = self.code.emit(f"load {vector_type(stored, LANES)}, ptr {place}, align 32")
        return Traced(self.code, name, stored).astype(self.dtype)

    def view(self, dtype: Any) -> Traced:
        return self.copy().view(dtype)

    def astype(self, dtype: Any, **_: Any) -> Traced:
        return self.copy().astype(dtype)

    def __invert__(self) -> Traced:
        inverted: Traced = ~self.copy()
        return inverted

    def __setitem__(self, where: Any, value: Any) -> None:
        """All active lanes."""
        if where is not Ellipsis:
            raise NotTraced("a part of a register")
        code, stored = self.code, np.dtype(np.uint8) if self.dtype == np.bool_ else self.dtype
        lanes = lanes_of(code, value, self.dtype, (LANES,)).astype(stored)
        place = code.place(self.slot)
        old = code.emit(f"load {lanes.kind}, ptr {place}, align 32")
        new = code.emit(f"select <{LANES} x i1> {code.active()}, {lanes.kind} {lanes.name}, {lanes.kind} {old}")
        code.lines.append(f"  store {lanes.kind} {new}, ptr {place}, align 32")


class Rows:
    """The registers of the traced warp; `dtypes` by slot."""

    def __init__(self, code: Code, dtypes: Sequence[np.dtype[Any]]) -> None:
        self.code, self.dtypes = code, dtypes

    def __getitem__(self, slot: int) -> RegisterRow:
        if self.dtypes[slot].shape:
            raise NotTraced("a register of 128 bits")
        return RegisterRow(self.code, slot, self.dtypes[slot])


# ---- memory


_MATRIX_ROWS, _HALVES = 8, 64  # of a matrix of ldmatrix
_KINDS = {"global": blocks.GLOBAL, "shared": blocks.SHARED, "generic": blocks.GENERIC}


class TracedParameters:
    """Launch parameters: all lanes load the same value."""

    def __init__(self, code: Code) -> None:
        self.code = code

    def fixed(self, offset: Offset, size: int) -> Traced:
        code, dtype = self.code, np.dtype(f"u{size}")
        at = code.emit(f"add i64 {code.constant(IMMEDIATE, 64)}, {offset.more}")
        bytes_ = code.emit(f"load i64, ptr {code.word(blocks.PARAMETER_BYTES)}, align 8")
        code.go_on_if(code.emit(f"icmp sle i64 {code.emit(f'add i64 {at}, {size}')}, {bytes_}"))
        code.go_on_if(code.emit(f"icmp eq i64 {code.emit(f'and i64 {at}, {size - 1}')}, 0"))
        start = code.emit(f"load ptr, ptr {code.word(blocks.PARAMETERS)}, align 8")
        place = code.emit(f"getelementptr i8, ptr {start}, i64 {at}")
        found = code.emit(f"load {element_type(dtype)}, ptr {place}, align 1")
        return Traced(code, code.splat(found, element_type(dtype)), dtype)


class TracedCta:
    """Its memory, as far as `access.access` supports it."""

    def __init__(self, code: Code) -> None:
        self.code = code
        self.machine = SimpleNamespace(progress=0, parameters=TracedParameters(code))  # stores count progress themselves

    def _access(self, space: str, addresses: Any, dtype: np.dtype[Any], values: Sequence[Traced], count: int) -> str:
        """Stores the values, or loads; returns where the elements are then."""
        code, size, pointers = self.code, dtype.itemsize, np.dtype(np.int64)
        if space not in _KINDS:
            raise NotTraced(f"{space} memory")
        where = code.emit(f"alloca [{LANES} x i64], align 64")
        lanes = lanes_of(code, addresses, pointers, (LANES,))
        code.lines.append(f"  store {lanes.kind} {lanes.name}, ptr {where}, align 64")
        buffer = code.emit(f"alloca [{count * LANES * size} x i8], align 64")
        for number, one in enumerate(values):
            at = code.emit(f"getelementptr i8, ptr {buffer}, i64 {number * LANES * size}")
            code.lines.append(f"  store {vector_type(dtype, LANES)} {one.name}, ptr {at}, align 32")
        name = machine_code(access.access)
        code.intrinsics.add(f"declare i64 @{name}({', '.join(['i64'] * 9)})")
        state, mask, there, here = (code.emit(f"ptrtoint ptr {one} to i64") for one in ("%state", "%mask", where, buffer))
        pc, place = code.constant(PC, 32), code.constant(PLACE, 32)
        kind = 2 * _KINDS[space] + bool(values)
        given = ", ".join(f"i64 {one}" for one in (state, pc, place, there, mask, here, size, count, kind))
        code.go_on_if(code.emit(f"icmp eq i64 {code.emit(f'call i64 @{name}({given})')}, 0"))
        return buffer

    def load_words(self, space: str, addresses: Any, dtype: np.dtype[Any], count: int, by: object) -> Elements:
        code = self.code
        buffer = self._access(space, addresses, dtype, (), count)
        columns = []
        for number in range(count):
            at = code.emit(f"getelementptr i8, ptr {buffer}, i64 {number * LANES * dtype.itemsize}")
            columns.append(Traced(code, code.emit(f"load {vector_type(dtype, LANES)}, ptr {at}, align 32"), dtype))
        return Elements(columns)

    def _rows(self, addresses: Any, buffer: str, count: int, writes: bool) -> None:
        """The rows of `count` matrices, to or from `buffer`."""
        code, pointers = self.code, np.dtype(np.int64)
        _go_on_if_all(code, code.active())
        where = code.emit(f"alloca [{LANES} x i64], align 64")
        lanes = lanes_of(code, addresses, pointers, (LANES,))
        code.lines.append(f"  store {lanes.kind} {lanes.name}, ptr {where}, align 64")
        chosen = code.emit(f"alloca [{LANES} x i8], align 32")
        active = literal([lane < _MATRIX_ROWS * count for lane in range(LANES)], np.dtype(np.uint8))
        code.lines.append(f"  store <{LANES} x i8> {active}, ptr {chosen}, align 32")
        name = machine_code(access.rows)
        code.intrinsics.add(f"declare i64 @{name}({', '.join(['i64'] * 8)})")
        state, mask, there, here = (code.emit(f"ptrtoint ptr {one} to i64") for one in ("%state", chosen, where, buffer))
        keeps = _MATRIX_ROWS * count == LANES
        given = (state, code.constant(PC, 32), code.constant(PLACE, 32), there, mask, here, int(keeps), int(writes))
        called = code.emit(f"call i64 @{name}({', '.join(f'i64 {one}' for one in given)})")
        code.go_on_if(code.emit(f"icmp eq i64 {called}, 0"))

    def _matrix_buffer(self, count: int) -> tuple[str, list[str]]:
        """Space for `count` matrices, and the start of each."""
        code, size = self.code, 2 * _HALVES
        buffer = code.emit(f"alloca [{count * size} x i8], align 64")
        return buffer, [code.emit(f"getelementptr i8, ptr {buffer}, i64 {size * number}") for number in range(count)]

    def load_matrices(self, addresses: Any, count: int, places: np.ndarray, by: object) -> list[Traced]:
        code, (buffer, matrices) = self.code, self._matrix_buffer(count)
        self._rows(addresses, buffer, count, False)
        found = []
        for at in matrices:
            halves = code.emit(f"load <{_HALVES} x i16>, ptr {at}, align 64")
            words = code.emit(f"bitcast <{_HALVES} x i16> {_reordered(code, halves, places)} to <{LANES} x i32>")
            found.append(Traced(code, words, np.dtype(np.uint32)))
        return found

    def store_matrices(self, addresses: Any, words: Sequence[Traced], places: np.ndarray, by: object) -> None:
        code, (buffer, matrices) = self.code, self._matrix_buffer(len(words))
        for at, one in zip(matrices, words, strict=True):
            halves = code.emit(f"bitcast <{LANES} x i32> {one.name} to <{_HALVES} x i16>")
            code.lines.append(f"  store <{_HALVES} x i16> {_reordered(code, halves, np.argsort(places))}, ptr {at}, align 64")
        self._rows(addresses, buffer, len(words), True)

    def holds(self, *_: object) -> bool:
        """Whether the stored value is there already: asked where machine code refuses and the meaning runs in NumPy."""
        raise NotTraced("a look at memory")

    def store_words(self, space: str, addresses: Any, elements: Any, by: object, same: object) -> bool:
        columns = elements.columns if isinstance(elements, Elements) else [elements.reshape(LANES)]
        self._access(space, addresses, columns[0].dtype, columns, len(columns))
        return True


class TracedFragment:
    """The lanes that execute together."""

    def __init__(self, code: Code) -> None:
        self.code = code

    @property
    def full(self) -> bool:
        """Requires all lanes; otherwise the meaning runs in NumPy."""
        return _go_on_if_all(self.code, self.code.active())


def _reordered(code: Code, halves: str, places: np.ndarray) -> str:
    """The elements of a matrix at these positions."""
    kind, order = f"<{_HALVES} x i16>", literal(list(places), np.dtype(np.int32))
    return code.emit(f"shufflevector {kind} {halves}, {kind} poison, <{_HALVES} x i32> {order}")


def _go_on_if_all(code: Code, lanes: str) -> bool:
    name = f"llvm.vector.reduce.and.v{LANES}i1"
    code.intrinsics.add(f"declare i1 @{name}(<{LANES} x i1>)")
    code.go_on_if(code.emit(f"call i1 @{name}(<{LANES} x i1> {lanes})"))
    return True


class TracedThread:
    """What a warp remembers is written by machine code when it accesses memory."""

    def note(self, lanes: object) -> None:
        pass


class TracedWarp:
    """Stand-in for a warp: it has registers, and memory for ordinary loads and stores."""

    mask = None
    polls = 0

    def __init__(self, code: Code, dtypes: Sequence[np.dtype[Any]]) -> None:
        self.code = code
        self.registers = Rows(code, dtypes)
        self.cta = TracedCta(code)
        self.watched = TracedThread()
        self.fragment = TracedFragment(code)

    @property
    def active(self) -> Traced:
        return Traced(self.code, self.code.active(), np.dtype(np.bool_))

    def everybody(self, lanes: Traced) -> bool:
        return _go_on_if_all(self.code, lanes.astype(np.bool_).name)

    def meets(self, ordering: bool) -> None:
        code, place = self.code, self.code.word(blocks.MEET)
        more = "1" if ordering else code.emit(f"load i64, ptr {code.word(blocks.PRACTICE)}, align 8")
        found = code.emit(f"add i64 {code.emit(f'load i64, ptr {place}, align 8')}, {more}")
        code.lines.append(f"  store i64 {found}, ptr {place}, align 8")


def trace(execute: Callable[[Any], Any], dtypes: Sequence[np.dtype[Any]]) -> Code | None:
    """The code of an instruction whose registers have these types; None where its meaning cannot be traced."""
    code = Code()
    try:
        outcome = execute(TracedWarp(code, dtypes))
    except (NotTraced, AttributeError, TypeError, ValueError, struct.error, np.exceptions.DTypePromotionError):
        return None
    return code if outcome is None else None
