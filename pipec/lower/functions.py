"""The elementwise functions, in single precision; other float types are computed in f32 and rounded once.

Largest errors seen against float64 (relative unless said otherwise): exp 3e-6 (from the rounded product with log2 e), exp2 2 ulp,
log and log2 2^-22 (absolute near 1), rsqrt 2^-22.9, sqrt and rcp correctly rounded, sigmoid 3e-6, tanh 2e-6,
erf and gelu 4e-7 absolute (Abramowitz and Stegun 7.1.26).
"""

import math
from collections.abc import Callable, Sequence

from pipec.isa.dtypes import DTYPES, DType
from pipec.lower.arithmetic import binary, ceil_divide, convert, is_narrow_float, negate
from pipec.lower.llvm import Builder, Value, floating, integer

F32 = DTYPES["f32"]
_LOG2_E, _LN_2 = math.log2(math.e), math.log(2.0)
_ERF_P = 0.3275911
_ERF_COEFFICIENTS = (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592)
_TANH_SMALL = 0.25  # below this the odd series is used; 1 - 2 / (exp(2x) + 1) would cancel
_TANH_SERIES = (-17 / 315, 2 / 15, -1 / 3)


def _number(value: float) -> Value:
    return floating(value)


def _multiply(builder: Builder, left: Value, right: Value | float) -> Value:
    return builder.binary("fmul", left, _number(right) if isinstance(right, float) else right)


def _fma(builder: Builder, a: Value, b: Value, c: Value | float) -> Value:
    addend = _number(c) if isinstance(c, float) else c
    return builder.emit(a.type, f"call {a.type} @llvm.fma.{_suffix(a)}({a}, {b}, {addend})")


def _suffix(value: Value) -> str:
    return "f64" if value.type == "double" else "f32"


def _unary_intrinsic(name: str) -> Callable[[Builder, Value], Value]:
    return lambda builder, x: builder.emit(x.type, f"call {x.type} @llvm.{name}.{_suffix(x)}({x})")


_abs = _unary_intrinsic("fabs")


def _exp(builder: Builder, x: Value) -> Value:
    return builder.call("ex2.approx", _multiply(builder, x, _LOG2_E))


def _log(builder: Builder, x: Value) -> Value:
    return _multiply(builder, builder.call("lg2.approx", x), _LN_2)


def _sigmoid(builder: Builder, x: Value) -> Value:
    decayed = builder.call("ex2.approx", _multiply(builder, x, -_LOG2_E))
    return builder.call("rcp.approx", builder.binary("fadd", decayed, _number(1.0)))


def _tanh(builder: Builder, x: Value) -> Value:
    grown = builder.call("ex2.approx", _multiply(builder, x, 2.0 * _LOG2_E))
    inverse = builder.call("rcp.approx", builder.binary("fadd", grown, _number(1.0)))
    large = _fma(builder, inverse, _number(-2.0), 1.0)
    square = builder.binary("fmul", x, x)
    series = _number(_TANH_SERIES[0])
    for coefficient in _TANH_SERIES[1:]:
        series = _fma(builder, series, square, coefficient)
    small = _fma(builder, builder.binary("fmul", series, square), x, x)
    return builder.select(builder.compare("olt", _abs(builder, x), _number(_TANH_SMALL)), small, large)


def _erf(builder: Builder, x: Value) -> Value:
    size = _abs(builder, x)
    t = builder.call("rcp.approx", _fma(builder, size, _number(_ERF_P), 1.0))
    series = _number(_ERF_COEFFICIENTS[0])
    for coefficient in _ERF_COEFFICIENTS[1:]:
        series = _fma(builder, series, t, coefficient)
    decayed = builder.call("ex2.approx", _multiply(builder, builder.binary("fmul", x, x), -_LOG2_E))
    tail = builder.binary("fmul", builder.binary("fmul", series, t), decayed)
    positive = builder.binary("fsub", _number(1.0), tail)
    return builder.emit("float", f"call float @llvm.copysign.f32({positive}, {x})")


def _gelu(builder: Builder, x: Value) -> Value:
    error = _erf(builder, _multiply(builder, x, math.sqrt(0.5)))
    half = _multiply(builder, x, 0.5)
    return _fma(builder, half, error, half)


def _table_call(name: str) -> Callable[[Builder, Value], Value]:
    return lambda builder, x: builder.call(name, x)


_FLOAT_UNARY: dict[str, Callable[[Builder, Value], Value]] = {
    "abs": _abs,
    "exp": _exp,
    "exp2": _table_call("ex2.approx"),
    "exp2_ftz": _table_call("ex2.approx.ftz"),
    "log": _log,
    "log2": _table_call("lg2.approx"),
    "rsqrt": _table_call("rsqrt.approx"),
    "sqrt": _table_call("sqrt.rn"),
    "rcp": _table_call("rcp.rn"),
    "sigmoid": _sigmoid,
    "tanh": _tanh,
    "erf": _erf,
    "gelu": _gelu,
}


def call_function(builder: Builder, function: str, dtype: DType, arguments: Sequence[Value]) -> Value:
    """`dtype` is that of the arguments and the result."""
    if is_narrow_float(dtype) or (dtype.bits == 64 and dtype.is_float and function in _FLOAT_UNARY and function != "abs"):
        wide = [convert(builder, [argument], dtype, F32)[0] for argument in arguments]
        return convert(builder, [call_function(builder, function, F32, wide)], F32, dtype)[0]
    if dtype.is_float:
        return _float_function(builder, function, arguments)
    return _integer_function(builder, function, dtype, arguments)


def _float_function(builder: Builder, function: str, arguments: Sequence[Value]) -> Value:
    first = arguments[0]
    match function:
        # LLVM's minimum and maximum propagate NaN (`max.NaN.f32`), its minnum and maxnum drop it (`max.f32`).
        case "min" | "max":
            return _fold(builder, f"{function}imum.{_suffix(first)}", arguments)
        case "fmin" | "fmax":
            return _fold(builder, f"{function.removeprefix('f')}num.{_suffix(first)}", arguments)
        case "relu":
            return _fold(builder, f"maximum.{_suffix(first)}", (first, floating(0.0, first.type)))
        case "fma":
            return _fma(builder, *arguments)
        case _:
            return _FLOAT_UNARY[function](builder, first)


def _fold(builder: Builder, intrinsic: str, arguments: Sequence[Value]) -> Value:
    result = arguments[0]
    for argument in arguments[1:]:
        result = builder.emit(result.type, f"call {result.type} @llvm.{intrinsic}({result}, {argument})")
    return result


def _integer_function(builder: Builder, function: str, dtype: DType, arguments: Sequence[Value]) -> Value:
    first = arguments[0]
    sign = "s" if dtype.family == "signed" else "u"
    match function:
        case "min" | "max":
            return _fold(builder, f"{sign}{function}.{first.type}", arguments)
        case "relu":
            return _fold(builder, f"{sign}max.{first.type}", (first, integer(0, first.type)))
        case "abs":
            return first if sign == "u" else _fold(builder, f"smax.{first.type}", (first, negate(builder, dtype, first)))
        case "ceildiv":
            return ceil_divide(builder, dtype, first, arguments[1])
        case "fma":
            return binary(builder, "+", dtype, binary(builder, "*", dtype, first, arguments[1]), arguments[2])
        case _:
            raise AssertionError(f"no integer form of {function}")
