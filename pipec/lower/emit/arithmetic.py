"""Operators and conversions on single values, the same for scalars and for the elements of register tiles.

A value of an element type has the LLVM type DType.llvm. Arithmetic on 16- and 8-bit floats is done in f32 and rounded after each
operation, which is correctly rounded for + - * / (24 bits are more than twice 11, plus 2).
"""

from collections.abc import Sequence

from pipec.isa.dtypes import BYTE_FLOATS, DTYPES, DType
from pipec.lower.emit.llvm import Builder
from pipec.lower.emit.value import FALSE, TRUE, Value, floating, integer
from pipec.vocabulary import BinaryOperator

F32 = DTYPES["f32"]

_COMPARISONS = {"==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}
_FLOAT_OPERATIONS = {"+": "fadd", "-": "fsub", "*": "fmul", "/": "fdiv"}
_INTEGER_OPERATIONS = {"+": "add", "-": "sub", "*": "mul", "&": "and", "|": "or", "^": "xor"}


def constant(value: float | bool, dtype: DType) -> Value:
    if dtype.family == "bool":
        return TRUE if value else FALSE
    if dtype.llvm in ("float", "double", "half", "bfloat"):
        return floating(float(value), dtype.llvm)
    if dtype.name in BYTE_FLOATS:
        raise AssertionError("an 8-bit float constant is a converted f32 constant")
    return integer(int(value), dtype.llvm)


def is_narrow_float(dtype: DType) -> bool:
    return dtype.is_float and dtype.bits < 32


def binary(builder: Builder, operator: BinaryOperator, dtype: DType, left: Value, right: Value) -> Value:
    """`dtype` is the type of the operands."""
    if is_narrow_float(dtype):
        wide = [convert(builder, [operand], dtype, F32)[0] for operand in (left, right)]
        result = binary(builder, operator, F32, *wide)
        return result if operator in _COMPARISONS else convert(builder, [result], F32, dtype)[0]
    if operator in _COMPARISONS:
        return _compare(builder, _COMPARISONS[operator], dtype, left, right)
    if dtype.is_float:
        return _float_binary(builder, operator, left, right)
    if operator in ("and", "or"):
        return builder.binary(operator, left, right)
    if operator in _INTEGER_OPERATIONS:
        return builder.binary(_INTEGER_OPERATIONS[operator], left, right)
    if operator in ("<<", ">>"):
        return _shift(builder, operator, dtype, left, right)
    return floor_divide(builder, dtype, left, right, remainder=operator == "%")


def _compare(builder: Builder, predicate: str, dtype: DType, left: Value, right: Value) -> Value:
    if dtype.is_float:
        return builder.compare("une" if predicate == "ne" else f"o{predicate}", left, right)
    if predicate in ("eq", "ne"):
        return builder.compare(predicate, left, right)
    return builder.compare(("s" if dtype.family == "signed" else "u") + predicate, left, right)


def _float_binary(builder: Builder, operator: BinaryOperator, left: Value, right: Value) -> Value:
    if operator in _FLOAT_OPERATIONS:
        return builder.binary(_FLOAT_OPERATIONS[operator], left, right)
    quotient = builder.emit(left.type, f"call {left.type} @llvm.floor.{_suffix(left)}({builder.binary('fdiv', left, right)})")
    if operator == "//":
        return quotient
    return builder.binary("fsub", left, builder.binary("fmul", quotient, right))


def _suffix(value: Value) -> str:
    return {"float": "f32", "double": "f64", "half": "f16", "bfloat": "bf16"}.get(value.type, value.type)


def _shift(builder: Builder, operator: BinaryOperator, dtype: DType, left: Value, right: Value) -> Value:
    """A shift by the width or more gives zero (or the sign), as in Python and PTX; in LLVM the result is poison."""
    operation = "shl" if operator == "<<" else "ashr" if dtype.family == "signed" else "lshr"
    if right.name.isdigit() and int(right.name) < dtype.bits:
        return builder.binary(operation, left, right)
    inside = builder.compare("ult", right, integer(dtype.bits, right.type))
    if operation == "ashr":
        return builder.binary(operation, left, builder.select(inside, right, integer(dtype.bits - 1, right.type)))
    shifted = builder.binary(operation, left, builder.select(inside, right, integer(0, right.type)))
    return builder.select(inside, shifted, integer(0, left.type))


def floor_divide(builder: Builder, dtype: DType, left: Value, right: Value, *, remainder: bool, natural: bool = False) -> Value:
    """Quotient and remainder as in Python. A zero divisor, undefined in LLVM, counts as one. `natural`: neither is negative."""
    known, right = _divisor(builder, right)
    if dtype.family == "unsigned" or natural:
        return builder.binary("urem" if remainder else "udiv", left, right)
    if known > 0 and known & (known - 1) == 0:
        return builder.bits("and", left, known - 1) if remainder else builder.bits("ashr", left, known.bit_length() - 1)
    rest = builder.binary("srem", left, right)
    # (With a test of only the remainder's sign, LLVM would create masks, which the proof reader cannot split into cases.)
    below = _inexact(builder, rest, left, integer(0, left.type) if known > 0 else right, "slt")
    if remainder:
        return builder.select(below, builder.add(rest, right), rest)
    return builder.binary("add", builder.binary("sdiv", left, right), builder.cast("sext", below, left.type))


def divide_by_few(builder: Builder, left: Value, right: Value, most: int, *, remainder: bool) -> Value:
    """The quotient or remainder of numbers without a sign, by one of at most `most`: a choice among divisions by constants, each a shift or
    a multiplication. As in `floor_divide`, 0 counts as 1."""
    quotient = left
    for number in range(2, most + 1):
        quotient = builder.select(builder.compare("eq", right, integer(number)), builder.bits("udiv", left, number), quotient)
    return builder.binary("sub", left, builder.multiply(quotient, _divisor(builder, right)[1])) if remainder else quotient


def ceil_divide(builder: Builder, dtype: DType, left: Value, right: Value, *, natural: bool = False) -> Value:
    """-(-left // right), without an intermediate overflow."""
    known, right = _divisor(builder, right)
    if natural and dtype.family == "signed":
        # The sum may reach the sign bit, but no further.
        return builder.binary("udiv", builder.binary("add", left, builder.add(right, -1)), right)
    zero = integer(0, left.type)
    if dtype.family == "unsigned" or (known > 0 and known & (known - 1) == 0):
        rest = floor_divide(builder, dtype, left, right, remainder=True)
        quotient, above = floor_divide(builder, dtype, left, right, remainder=False), builder.compare("ne", rest, zero)
    else:
        rest, quotient = builder.binary("srem", left, right), builder.binary("sdiv", left, right)
        above = builder.compare("sgt", rest, zero) if known > 0 else _inexact(builder, rest, left, right, "sge")
    return builder.add(quotient, builder.cast("zext", above, left.type))


def _divisor(builder: Builder, value: Value) -> tuple[int, Value]:
    """The divisor as a number if it is known, else 0; and the value to divide by."""
    if value.name.lstrip("-").isdigit():
        return int(value.name), value
    return 0, builder.emit(value.type, f"call {value.type} @llvm.umax.{value.type}({value}, {value.type} 1)")


def _inexact(builder: Builder, rest: Value, left: Value, right: Value, sign: str) -> Value:
    """Whether a division has a remainder, and the exact quotient is negative ("slt"), or is not ("sge")."""
    zero = integer(0, left.type)
    return builder.binary(
        "and", builder.compare("ne", rest, zero), builder.compare(sign, builder.binary("xor", left, right), zero)
    )


def negate(builder: Builder, dtype: DType, value: Value) -> Value:
    if is_narrow_float(dtype):
        return convert(builder, [negate(builder, F32, convert(builder, [value], dtype, F32)[0])], F32, dtype)[0]
    if dtype.is_float:
        return builder.negate(value)
    return builder.binary("sub", integer(0, value.type), value)


# ------------------------------------------------------------------------------------------------------------ conversions


def convert(builder: Builder, values: Sequence[Value], source: DType, target: DType) -> list[Value]:
    """Converts each value. Takes lists because the 8-bit float conversions work on pairs."""
    if source.name == target.name or source.llvm == target.llvm == "float":
        return list(values)
    if is_narrow_float(source):
        return convert(builder, _widen(builder, values, source), F32, target)
    if is_narrow_float(target):
        singles = convert(builder, values, source, F32)
        return _narrow(builder, singles, target)
    return [_convert_one(builder, value, source, target) for value in values]


def _convert_one(builder: Builder, value: Value, source: DType, target: DType) -> Value:
    if target.family == "bool":
        zero = floating(0.0, value.type) if source.is_float else integer(0, value.type)
        return builder.compare("une" if source.is_float else "ne", value, zero)
    if source.is_float and target.is_float:
        return builder.cast("fpext" if target.bits > source.bits else "fptrunc", value, target.llvm)
    if source.is_float:
        return _to_integer(builder, value, source, target)
    if target.is_float:
        return builder.cast("sitofp" if source.family == "signed" else "uitofp", value, target.llvm)
    if target.bits > source.bits:
        return builder.cast("sext" if source.family == "signed" else "zext", value, target.llvm)
    return builder.cast("trunc", value, target.llvm)


def _to_integer(builder: Builder, value: Value, source: DType, target: DType) -> Value:
    """Rounds toward zero, clamped to the target's range (NaN gives 0), like cvt.rzi."""
    if source.bits == 64:
        kind = "fptosi" if target.family == "signed" else "fptoui"
        return builder.emit(target.llvm, f"call {target.llvm} @llvm.{kind}.sat.{target.llvm}.f64({value})")
    signed = target.family == "signed"
    if target.bits == 64:
        return builder.call("cvt.s64.f32" if signed else "cvt.u64.f32", value)
    word = builder.call("cvt.s32.f32" if signed else "cvt.u32.f32", value)
    if target.bits == 32:
        return word
    top = 2 ** (target.bits - (1 if signed else 0)) - 1
    kind = "s" if signed else "u"
    word = builder.emit("i32", f"call i32 @llvm.{kind}min.i32({word}, i32 {top})")
    if signed:
        word = builder.emit("i32", f"call i32 @llvm.smax.i32({word}, i32 {-top - 1})")
    return builder.cast("trunc", word, target.llvm)


def _widen(builder: Builder, values: Sequence[Value], source: DType) -> list[Value]:
    """16- and 8-bit floats to f32, exactly."""
    if source.name == "bf16":
        # The bits of a bfloat are the upper half of the float's.
        wide = []
        for value in values:
            bits = builder.cast("zext", builder.cast("bitcast", value, "i16"), "i32")
            wide.append(builder.cast("bitcast", builder.bits("shl", bits, 16), "float"))
        return wide
    if source.name == "f16":
        return [builder.call("cvt.f32.f16", value) for value in values]
    wide = []
    for low, high in _pairs(values):
        bits = builder.cast("zext", low, "i16")
        if high is not None:
            bits = builder.binary("or", bits, builder.bits("shl", builder.cast("zext", high, "i16"), 8))
        both = builder.call(f"cvt.f16x2.{source.name}x2", bits)
        for index in range(1 if high is None else 2):
            wide.append(builder.call("cvt.f32.f16", builder.element(both, index, "half")))
    return wide


def _narrow(builder: Builder, values: Sequence[Value], target: DType) -> list[Value]:
    narrow = []
    for low, high in _pairs(values):
        packed = pack_pair(builder, low, high, target)
        if target.bits == 16:
            parts = [builder.element(packed, index, target.llvm) for index in (0, 1)]
        else:
            parts = [builder.cast("trunc", packed, "i8"), builder.cast("trunc", builder.bits("lshr", packed, 8), "i8")]
        narrow += parts[: 1 if high is None else 2]
    return narrow


def pack_pair(builder: Builder, low: Value, high: Value | None, target: DType) -> Value:
    """Two f32 values rounded to a narrow float type: <2 x half>, <2 x bfloat>, or i16 for the 8-bit types."""
    return builder.call(f"cvt.{target.name}x2.f32", high or floating(0.0), low)


def _pairs(values: Sequence[Value]) -> list[tuple[Value, Value | None]]:
    return [(values[index], values[index + 1] if index + 1 < len(values) else None) for index in range(0, len(values), 2)]
