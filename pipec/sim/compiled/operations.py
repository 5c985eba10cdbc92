"""NumPy's functions as LLVM IR, with NumPy's types and results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .code import Code, NotTraced, literal, vector_type
from .loops import of_doubles
from .traced import FUNCTIONS, OPERATIONS, Elements, Row, Traced, dtype_of, lanes_of


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
    """Of two NaNs the first is propagated, quieted, whatever operand order LLVM chooses."""
    bits = np.dtype(f"u{a.dtype.itemsize}")
    quiet = 1 << {2: 9, 4: 22, 8: 51}[a.dtype.itemsize]
    whole = vector_type(bits, a.size)
    nan = code.emit(f"fcmp uno {a.kind} {a.name}, {a.name}")
    pattern = code.emit(f"bitcast {a.kind} {a.name} to {whole}")
    told = code.emit(f"or {whole} {pattern}, {literal([quiet] * a.size, bits)}")
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
    """Shift amounts of the width and more shift everything out."""

    def row(code: Code, a: Traced, b: Traced) -> str:
        bits = 8 * a.dtype.itemsize
        fits = code.emit(f"icmp ult {a.kind} {b.name}, {literal([bits] * a.size, a.dtype)}")
        choose = f"select <{a.size} x i1> {fits}, {a.kind}"
        if operation == "shr" and a.dtype.kind == "i":
            amount = code.emit(f"{choose} {b.name}, {a.kind} {literal([bits - 1] * a.size, a.dtype)}")
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
    safe = code.emit(f"{choose} {literal([1] * a.size, a.dtype)}, {a.kind} {b.name}")
    found = code.emit(f"udiv {a.kind} {a.name}, {safe}")
    return code.emit(f"{choose} zeroinitializer, {a.kind} {found}")


def _invert(code: Code, a: Traced) -> str:
    return code.emit(f"xor {a.kind} {a.name}, {literal([1 if a.dtype == np.bool_ else -1] * a.size, _signed(a.dtype))}")


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
    whole = vector_type(bits, a.size)
    return code.emit(f"icmp slt {whole} {code.emit(f'bitcast {a.kind} {a.name} to {whole}')}, zeroinitializer")


def _is_nan(code: Code, a: Traced) -> str:
    return code.emit(f"fcmp uno {a.kind} {a.name}, {a.name}")


def _against_infinity(relation: str) -> Row:
    def row(code: Code, a: Traced) -> str:
        limit = literal([np.inf] * a.size, a.dtype)
        return code.emit(f"fcmp {relation} {a.kind} {_absolute(code, a)}, {limit}")

    return row


def _by_numpy(function: np.ufunc) -> Row:
    """Calls NumPy's loop for all lanes, one after the other, as NumPy does."""

    def row(code: Code, a: Traced) -> str:
        known = of_doubles(function) if a.dtype == np.float64 else None
        if known is None:
            raise NotTraced(f"{function.__name__} of {a.dtype}")
        loop, data = known
        code.intrinsics.add(f"declare void @{loop}(ptr, ptr, ptr, ptr)")
        if data != "null":
            code.intrinsics.add(f"{data} = external global i8")
        given, made, pointers, numbers = (
            code.emit(f"alloca {kind}, align 64") for kind in (a.kind, a.kind, "[2 x ptr]", "[3 x i64]")
        )
        code.lines.append(f"  store {a.kind} {a.name}, ptr {given}, align 64")
        for number, pointer in enumerate((given, made)):
            place = code.emit(f"getelementptr ptr, ptr {pointers}, i64 {number}")
            code.lines.append(f"  store ptr {pointer}, ptr {place}, align 8")
        for number, value in enumerate((a.size, 8, 8)):
            place = code.emit(f"getelementptr i64, ptr {numbers}, i64 {number}")
            code.lines.append(f"  store i64 {value}, ptr {place}, align 8")
        steps = code.emit(f"getelementptr i64, ptr {numbers}, i64 1")
        code.lines.append(f"  call void @{loop}(ptr {pointers}, ptr {numbers}, ptr {steps}, ptr {data})")
        return code.emit(f"load {a.kind}, ptr {made}, align 64")

    return row


_OPERATIONS: dict[np.ufunc, Row] = {
    **{function: _by_numpy(function) for function in (np.exp2, np.log2, np.sin, np.cos, np.tanh)},
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
OPERATIONS.update(_OPERATIONS)


def _where(code: Code, condition: Any, a: Any, b: Any) -> Traced:
    if not isinstance(condition, Traced):
        raise NotTraced("a condition that is known")
    dtype = np.result_type(*(one if type(one) in (int, float) else dtype_of(one) for one in (a, b)))
    chosen = condition.astype(np.bool_)
    x, y = (lanes_of(code, one, dtype, condition.shape) for one in (a, b))
    return x.made(code.emit(f"select {chosen.kind} {chosen.name}, {x.kind} {x.name}, {y.kind} {y.name}"), dtype, condition.shape)


def _clip(code: Code, value: Traced, low: Any, high: Any) -> Any:
    return np.minimum(np.maximum(value, low), high)


def _zeros_like(code: Code, value: Traced) -> Traced:
    return lanes_of(code, 0, value.dtype, value.shape)


def _stack(code: Code, lanes: Sequence[Any], axis: int) -> Elements:
    if axis != 1 or not all(isinstance(one, Traced) for one in lanes):
        raise NotTraced("another stack than of elements")
    return Elements(lanes)


_FUNCTIONS: dict[Any, Any] = {
    np.where: _where,
    np.clip: _clip,
    np.zeros_like: _zeros_like,
    np.stack: _stack,
    np.broadcast_to: lambda code, value, shape: value,
}
FUNCTIONS.update(_FUNCTIONS)
