"""What an instruction computes, written down as LLVM IR while its meaning runs.

A meaning is Python over NumPy arrays of 32 lanes. Run once with `Traced` values in their place, it leaves the operations that it
asked for; they have NumPy's types and results, bit for bit. A meaning that looks at values, or asks for an operation that has no row
here, is not traced: NotTraced.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from . import LANES
from .library import converts_halves

Scalar = int | float | bool | np.generic


class NotTraced(Exception):
    """The meaning does what is not known here."""


class Code:
    """The lines of one function. `events` are the slots of the registers that it reads and writes, in this order; each access has
    a place of its own, so that the function serves whatever registers an instruction names."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.events: list[int] = []
        self.intrinsics: set[str] = set()
        self.count = 0
        self.mask: str | None = None

    def emit(self, text: str) -> str:
        self.count += 1
        self.lines.append(f"  %v{self.count} = {text}")
        return f"%v{self.count}"

    def call(self, name: str, type_: str, *arguments: str) -> str:
        declared = ", ".join(type_ for _ in arguments)
        self.intrinsics.add(f"declare {type_} @{name}({declared})")
        return self.emit(f"call {type_} @{name}({', '.join(f'{type_} {one}' for one in arguments)})")

    def place(self, slot: int) -> str:
        """A pointer to the row of the next access, which is one of `slot`."""
        number = len(self.events)
        self.events.append(slot)
        at = self.emit(f"getelementptr i32, ptr %operands, i64 {number}")
        wide = self.emit(f"zext i32 {self.emit(f'load i32, ptr {at}, align 4')} to i64")
        return self.emit(f"getelementptr i8, ptr %file, i64 {wide}")

    def active(self) -> str:
        if self.mask is None:
            bytes_ = self.emit(f"load <{LANES} x i8>, ptr %mask, align 1")
            self.mask = self.emit(f"icmp ne <{LANES} x i8> {bytes_}, zeroinitializer")
        return self.mask

    def text(self, name: str) -> str:
        body = "\n".join([f"define i32 @{name}(ptr %file, ptr %mask, ptr %operands) {{", *self.lines, "  ret i32 0", "}"])
        return "\n".join([*sorted(self.intrinsics), body, ""])


def _element(dtype: np.dtype[Any]) -> str:
    if dtype == np.bool_:
        return "i1"
    if dtype.kind in "iu":
        return f"i{8 * dtype.itemsize}"
    found = {"f2": "half", "f4": "float", "f8": "double"}.get(dtype.str[1:])
    if found is None:
        raise NotTraced(f"lanes of {dtype}")
    return found


def _vector(dtype: np.dtype[Any], count: int) -> str:
    return f"<{count} x {_element(dtype)}>"


def _literal(values: Sequence[Scalar], dtype: np.dtype[Any]) -> str:
    """A constant vector: floating-point numbers by their bits."""
    element = _element(dtype)
    if dtype.kind == "f":
        whole = np.dtype(f"u{dtype.itemsize}")
        bits = [int(one) for one in np.array(values, dtype).view(whole)]
        inner = ", ".join(f"{_element(whole)} {one}" for one in bits)
        return f"bitcast ({_vector(whole, len(bits))} <{inner}> to {_vector(dtype, len(bits))})"
    return f"<{', '.join(f'{element} {int(one)}' for one in np.array(values, dtype))}>"


class Traced(np.lib.mixins.NDArrayOperatorsMixin):
    """Lanes whose values are not known yet. `shape` is the array's."""

    def __init__(self, code: Code, name: str, dtype: np.dtype[Any], shape: tuple[int, ...] = (LANES,)) -> None:
        self.code, self.name, self.dtype, self.shape = code, name, dtype, shape

    @property
    def size(self) -> int:
        return int(np.prod(self.shape))

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def kind(self) -> str:
        return _vector(self.dtype, self.size)

    def __bool__(self) -> NoReturn:
        raise NotTraced("a look at values")

    __iter__ = __len__ = __int__ = __float__ = __index__ = __getitem__ = __array__ = __bool__

    def made(self, name: str, dtype: Any, shape: tuple[int, ...] | None = None) -> Traced:
        return Traced(self.code, name, np.dtype(dtype), shape or self.shape)

    def copy(self) -> Traced:
        return self

    def view(self, dtype: Any) -> Traced:
        dtype = np.dtype(dtype)
        if dtype == self.dtype:
            return self
        if np.bool_ in (dtype, self.dtype) or len(self.shape) > 1:
            raise NotTraced("a view of predicates")
        count = self.size * self.dtype.itemsize // dtype.itemsize
        return self.made(self.code.emit(f"bitcast {self.kind} {self.name} to {_vector(dtype, count)}"), dtype, (count,))

    def reshape(self, *shape: Any) -> Traced:
        whole = shape[0] if len(shape) == 1 and isinstance(shape[0], tuple) else shape
        return self.made(self.name, self.dtype, np.empty(self.shape, np.uint8).reshape(whole).shape)

    def astype(self, dtype: Any, **_: Any) -> Traced:
        dtype = np.dtype(dtype)
        if dtype == self.dtype:
            return self
        if dtype == np.bool_:
            zero = _literal([0] * self.size, self.dtype)
            compared = "fcmp une" if self.dtype.kind == "f" else "icmp ne"
            return self.made(self.code.emit(f"{compared} {self.kind} {self.name}, {zero}"), dtype)
        return self.made(_converted(self, dtype), dtype)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        row = _OPERATIONS.get(ufunc)
        if method != "__call__" or options or row is None:
            raise NotTraced(f"{ufunc.__name__} {method}")
        weak = [type(one) if type(one) in (int, float) else _dtype_of(one) for one in inputs]
        *wanted, result = ufunc.resolve_dtypes((*weak, None))
        shape = np.broadcast_shapes(*(one.shape for one in inputs if isinstance(one, Traced)))
        operands = [_lanes(self.code, one, dtype, shape) for one, dtype in zip(inputs, wanted, strict=True)]
        return self.made(row(self.code, *operands), result, shape)

    def __array_function__(self, function: Any, types: Any, inputs: Any, options: Any) -> Any:
        row = _FUNCTIONS.get(function)
        if row is None or options:
            raise NotTraced(function.__name__)
        return row(self.code, *inputs)


def _dtype_of(value: Any) -> np.dtype[Any]:
    if isinstance(value, (Traced, np.ndarray, np.generic)):
        return value.dtype
    if isinstance(value, bool):
        return np.dtype(bool)
    raise NotTraced(f"an operand that is a {type(value).__name__}")


def _lanes(code: Code, value: Any, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Traced:
    """An operand as lanes of a type."""
    if isinstance(value, Traced):
        if value.shape != shape:
            raise NotTraced("lanes of several shapes")
        return value.astype(dtype)
    values = np.broadcast_to(np.asarray(value).astype(dtype), shape).reshape(-1)
    return Traced(code, _literal(list(values), dtype), dtype, shape)


def _converted(value: Traced, dtype: np.dtype[Any]) -> str:
    """A number as one of another type, as NumPy's astype gives it."""
    old, target = value.dtype, _vector(dtype, value.size)
    if 2 in (old.itemsize * (old.kind == "f"), dtype.itemsize * (dtype.kind == "f")) and not converts_halves():
        raise NotTraced("f16 without instructions for it")
    if {old.kind, dtype.kind} == {"f"} and {2, 8} == {old.itemsize, dtype.itemsize}:
        if dtype.itemsize == 2:
            raise NotTraced("f64 to f16")
        value = value.astype(np.float32)
        old = value.dtype
    match old.kind, dtype.kind:
        case "b", "i" | "u":
            operation = "zext"
        case "i" | "u", "i" | "u":
            if old.itemsize == dtype.itemsize:
                return value.name
            operation = "trunc" if old.itemsize > dtype.itemsize else "sext" if old.kind == "i" else "zext"
        case "f", "f":
            operation = "fptrunc" if old.itemsize > dtype.itemsize else "fpext"
        case "b" | "i" | "u", "f" if dtype.itemsize > 2:
            operation = "sitofp" if old.kind == "i" else "uitofp"
        case "f", "i" | "u" if old.itemsize > 2:
            # What does not fit is no number in NumPy either: whoever asks takes another value for such lanes.
            operation = "fptosi" if dtype.kind == "i" else "fptoui"
        case _:
            raise NotTraced(f"{old} to {dtype}")
    return value.code.emit(f"{operation} {value.kind} {value.name} to {target}")


# ---- operations

Row = Callable[..., str]


def _plain(integer: str, floating: str | None = None, unsigned: str | None = None) -> Row:
    def row(code: Code, a: Traced, b: Traced) -> str:
        if a.dtype.kind != "f":
            chosen = unsigned if unsigned and a.dtype.kind in "ub" else integer
            return code.emit(f"{chosen} {a.kind} {a.name}, {b.name}")
        if floating is None:
            raise NotTraced(f"{integer} of floating-point numbers")
        return _with_first_nan(code, a, code.emit(f"{floating} {a.kind} {a.name}, {b.name}"))

    return row


def _with_first_nan(code: Code, a: Traced, result: str) -> str:
    """Of two NaN the first is passed on, quiet, whatever order LLVM gives the operands."""
    bits = np.dtype(f"u{a.dtype.itemsize}")
    quiet = 1 << {2: 9, 4: 22, 8: 51}[a.dtype.itemsize]
    whole = _vector(bits, a.size)
    nan = code.emit(f"fcmp uno {a.kind} {a.name}, {a.name}")
    pattern = code.emit(f"bitcast {a.kind} {a.name} to {whole}")
    told = code.emit(f"or {whole} {pattern}, {_literal([quiet] * a.size, bits)}")
    back = code.emit(f"bitcast {whole} {told} to {a.kind}")
    return code.emit(f"select <{a.size} x i1> {nan}, {a.kind} {back}, {a.kind} {result}")


def _compare(integer: str, floating: str) -> Row:
    def row(code: Code, a: Traced, b: Traced) -> str:
        if a.dtype.kind == "f":
            return code.emit(f"fcmp {floating} {a.kind} {a.name}, {b.name}")
        signed = integer if integer in ("eq", "ne") else ("s" if a.dtype.kind == "i" else "u") + integer
        return code.emit(f"icmp {signed} {a.kind} {a.name}, {b.name}")

    return row


def _shift(operation: str) -> Row:
    """Amounts of the width and more shift everything out."""

    def row(code: Code, a: Traced, b: Traced) -> str:
        bits = 8 * a.dtype.itemsize
        fits = code.emit(f"icmp ult {a.kind} {b.name}, {_literal([bits] * a.size, a.dtype)}")
        choose = f"select <{a.size} x i1> {fits}, {a.kind}"
        if operation == "shr" and a.dtype.kind == "i":
            amount = code.emit(f"{choose} {b.name}, {a.kind} {_literal([bits - 1] * a.size, a.dtype)}")
            return code.emit(f"ashr {a.kind} {a.name}, {amount}")
        amount = code.emit(f"{choose} {b.name}, {a.kind} zeroinitializer")
        moved = code.emit(f"{'shl' if operation == 'shl' else 'lshr'} {a.kind} {a.name}, {amount}")
        return code.emit(f"{choose} {moved}, {a.kind} zeroinitializer")

    return row


def _extreme(relation: str) -> Row:
    def row(code: Code, a: Traced, b: Traced) -> str:
        if a.dtype.kind not in "iu":
            raise NotTraced("the extreme of floating-point numbers")
        first = code.emit(f"icmp {'s' if a.dtype.kind == 'i' else 'u'}{relation} {a.kind} {a.name}, {b.name}")
        return code.emit(f"select <{a.size} x i1> {first}, {a.kind} {a.name}, {a.kind} {b.name}")

    return row


def _quotient(code: Code, a: Traced, b: Traced) -> str:
    if a.dtype.kind != "u":
        raise NotTraced("a signed quotient")
    none = code.emit(f"icmp eq {a.kind} {b.name}, zeroinitializer")
    choose = f"select <{a.size} x i1> {none}, {a.kind}"
    safe = code.emit(f"{choose} {_literal([1] * a.size, a.dtype)}, {a.kind} {b.name}")
    found = code.emit(f"udiv {a.kind} {a.name}, {safe}")
    return code.emit(f"{choose} zeroinitializer, {a.kind} {found}")


def _invert(code: Code, a: Traced) -> str:
    return code.emit(f"xor {a.kind} {a.name}, {_literal([1 if a.dtype == np.bool_ else -1] * a.size, _signed(a.dtype))}")


def _signed(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return dtype if dtype == np.bool_ else np.dtype(f"i{dtype.itemsize}")


def _negative(code: Code, a: Traced) -> str:
    if a.dtype.kind == "f":
        return code.emit(f"fneg {a.kind} {a.name}")
    return code.emit(f"sub {a.kind} zeroinitializer, {a.name}")


def _absolute(code: Code, a: Traced) -> str:
    if a.dtype.kind == "f":
        return _intrinsic("fabs")(code, a)
    if a.dtype.kind == "u":
        return a.name
    below = code.emit(f"icmp slt {a.kind} {a.name}, zeroinitializer")
    return code.emit(f"select <{a.size} x i1> {below}, {a.kind} {_negative(code, a)}, {a.kind} {a.name}")


def _intrinsic(name: str) -> Row:
    def row(code: Code, *operands: Traced) -> str:
        first = operands[0]
        if first.dtype.itemsize < 4:
            raise NotTraced(f"{name} of {first.dtype}")
        suffix = f"v{first.size}f{8 * first.dtype.itemsize}"
        return code.call(f"llvm.{name}.{suffix}", first.kind, *(one.name for one in operands))

    return row


def _count_ones(code: Code, a: Traced) -> str:
    if a.dtype.kind != "u":
        raise NotTraced("the bits of a signed number")
    found = code.call(f"llvm.ctpop.v{a.size}i{8 * a.dtype.itemsize}", a.kind, a.name)
    return a.made(found, a.dtype).astype(np.uint8).name


def _sign_bit(code: Code, a: Traced) -> str:
    bits = np.dtype(f"i{a.dtype.itemsize}")
    whole = _vector(bits, a.size)
    return code.emit(f"icmp slt {whole} {code.emit(f'bitcast {a.kind} {a.name} to {whole}')}, zeroinitializer")


def _is_nan(code: Code, a: Traced) -> str:
    return code.emit(f"fcmp uno {a.kind} {a.name}, {a.name}")


def _against_infinity(relation: str) -> Row:
    def row(code: Code, a: Traced) -> str:
        limit = _literal([np.inf] * a.size, a.dtype)
        return code.emit(f"fcmp {relation} {a.kind} {_absolute(code, a)}, {limit}")

    return row


_OPERATIONS: dict[np.ufunc, Row] = {
    np.add: _plain("add", "fadd"),
    np.subtract: _plain("sub", "fsub"),
    np.multiply: _plain("mul", "fmul"),
    np.divide: _plain("sdiv", "fdiv"),
    np.floor_divide: _quotient,
    np.bitwise_and: _plain("and"),
    np.bitwise_or: _plain("or"),
    np.bitwise_xor: _plain("xor"),
    np.logical_and: _plain("and"),
    np.logical_or: _plain("or"),
    np.logical_xor: _plain("xor"),
    np.left_shift: _shift("shl"),
    np.right_shift: _shift("shr"),
    np.invert: _invert,
    np.negative: _negative,
    np.absolute: _absolute,
    np.equal: _compare("eq", "oeq"),
    np.not_equal: _compare("ne", "une"),
    np.less: _compare("lt", "olt"),
    np.less_equal: _compare("le", "ole"),
    np.greater: _compare("gt", "ogt"),
    np.greater_equal: _compare("ge", "oge"),
    np.minimum: _extreme("lt"),
    np.maximum: _extreme("gt"),
    np.copysign: _intrinsic("copysign"),
    np.sqrt: _intrinsic("sqrt"),
    np.rint: _intrinsic("rint"),
    np.trunc: _intrinsic("trunc"),
    np.floor: _intrinsic("floor"),
    np.ceil: _intrinsic("ceil"),
    np.bitwise_count: _count_ones,
    np.signbit: _sign_bit,
    np.isnan: _is_nan,
    np.isfinite: _against_infinity("olt"),
    np.isinf: _against_infinity("oeq"),
}


def _where(code: Code, condition: Any, a: Any, b: Any) -> Traced:
    if not isinstance(condition, Traced):
        raise NotTraced("a condition that is known")
    dtype = np.result_type(*(one if type(one) in (int, float) else _dtype_of(one) for one in (a, b)))
    chosen = condition.astype(np.bool_)
    x, y = (_lanes(code, one, dtype, condition.shape) for one in (a, b))
    return x.made(code.emit(f"select {chosen.kind} {chosen.name}, {x.kind} {x.name}, {y.kind} {y.name}"), dtype, condition.shape)


def _clip(code: Code, value: Traced, low: Any, high: Any) -> Any:
    return np.minimum(np.maximum(value, low), high)


def _zeros_like(code: Code, value: Traced) -> Traced:
    return _lanes(code, 0, value.dtype, value.shape)


_FUNCTIONS: dict[Any, Callable[..., Any]] = {np.where: _where, np.clip: _clip, np.zeros_like: _zeros_like}


# ---- registers


class RegisterRow:
    """A register of the traced instruction."""

    def __init__(self, code: Code, slot: int, dtype: np.dtype[Any]) -> None:
        self.code, self.slot, self.dtype = code, slot, dtype

    def copy(self) -> Traced:
        stored = np.dtype(np.uint8) if self.dtype == np.bool_ else self.dtype
        place = self.code.place(self.slot)
        name = self.code.emit(f"load {_vector(stored, LANES)}, ptr {place}, align 32")
        return Traced(self.code, name, stored).astype(self.dtype)

    def view(self, dtype: Any) -> Traced:
        return self.copy().view(dtype)

    def astype(self, dtype: Any, **_: Any) -> Traced:
        return self.copy().astype(dtype)

    def __invert__(self) -> Traced:
        inverted: Traced = ~self.copy()
        return inverted

    def __setitem__(self, where: Any, value: Any) -> None:
        """All lanes that are active."""
        if where is not Ellipsis:
            raise NotTraced("a part of a register")
        code, stored = self.code, np.dtype(np.uint8) if self.dtype == np.bool_ else self.dtype
        lanes = _lanes(code, value, self.dtype, (LANES,)).astype(stored)
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


class TracedWarp:
    """What stands in for a warp: it has registers, and nothing else."""

    mask = None

    def __init__(self, code: Code, dtypes: Sequence[np.dtype[Any]]) -> None:
        self.registers = Rows(code, dtypes)


def trace(execute: Callable[[Any], Any], dtypes: Sequence[np.dtype[Any]]) -> Code | None:
    """The code of an instruction whose registers have these types; None where its meaning cannot be traced."""
    code = Code()
    try:
        outcome = execute(TracedWarp(code, dtypes))
    except (NotTraced, AttributeError, TypeError, ValueError, struct.error, np.exceptions.DTypePromotionError):
        return None
    return code if outcome is None else None
