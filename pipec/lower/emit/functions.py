"""The elementwise functions, in single precision; other float types are computed in f32 and rounded once.

Largest observed errors against float64 (relative unless stated otherwise): exp 3e-6 (from the rounded product with log2 e), exp2 2 ulp,
log and log2 2^-22 (absolute near 1), rsqrt 2^-22.9, sqrt and rcp correctly rounded, rcp_approx 1 ulp and tanh_approx 2^-11 (as
the PTX ISA allows), sigmoid 3e-6, tanh 2e-6, erf and gelu 4e-7 absolute (Abramowitz and Stegun 7.1.26), sin and cos 2^-23.7 absolute.
"""

import math
from collections.abc import Callable, Sequence

from pipec.isa.dtypes import DTYPES, DType
from pipec.lower.emit.arithmetic import ceil_divide, convert, is_narrow_float, negate
from pipec.lower.emit.llvm import Builder
from pipec.lower.emit.value import Value, floating, integer
from pipec.sema.language.functions import FUNCTIONS, LARGEST_ANGLE

F32 = DTYPES["f32"]
_LOG2_E, _LN_2 = math.log2(math.e), math.log(2.0)
_ERF_P = 0.3275911
_ERF_COEFFICIENTS = (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592)
_TANH_SMALL = 0.25  # below this the odd series is used, since 1 - 2 / (exp(2x) + 1) would cancel
_TANH_SERIES = (-17 / 315, 2 / 15, -1 / 3)
_ROUNDING = 1.5 * 2.0**23  # added to an f32, it leaves the nearest integer in the lowest bits
# Parts of pi / 2 as f32; and the minimax polynomials of sin(r) / r - 1 and cos(r) up to pi / 4, in r * r (Cephes, sinf.c).
_QUARTER_TURN = (1.57079601287841796875, 3.1391647326017846e-07, 5.390302529957764e-15)
_SIN_SERIES = (-1.95152959e-4, 8.33216087e-3, -1.66666546e-1)
_COS_SERIES = (2.44331571e-5, -1.38873162e-3, 4.16666456e-2, -0.5, 1.0)


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


# Without `.ftz`, an approximation takes three to six more instructions to handle numbers below 2 ** -126. If the result is added to 1, or
# is the reciprocal of at least 1, they make no difference.


def _sigmoid(builder: Builder, x: Value) -> Value:
    """A quarter of 1 / ((1 + 2 ** -y) / 4): the reciprocal is then a normal number even if the result is not."""
    decayed = builder.call("ex2.approx.ftz", _multiply(builder, x, -_LOG2_E))
    inverse = builder.call("rcp.approx.ftz", _fma(builder, decayed, _number(0.25), 0.25))
    return _multiply(builder, inverse, 0.25)


def _tanh(builder: Builder, x: Value) -> Value:
    grown = builder.call("ex2.approx.ftz", _multiply(builder, x, 2.0 * _LOG2_E))
    inverse = builder.call("rcp.approx.ftz", builder.binary("fadd", grown, _number(1.0)))
    large = _fma(builder, inverse, _number(-2.0), 1.0)
    square = builder.binary("fmul", x, x)
    series = _series(builder, _TANH_SERIES, square)
    small = _fma(builder, builder.binary("fmul", series, square), x, x)
    return builder.select(builder.compare("olt", _abs(builder, x), _number(_TANH_SMALL)), small, large)


def _erf(builder: Builder, x: Value) -> Value:
    size = _abs(builder, x)
    t = builder.call("rcp.approx.ftz", _fma(builder, size, _number(_ERF_P), 1.0))
    series = _series(builder, _ERF_COEFFICIENTS, t)
    decayed = builder.call("ex2.approx.ftz", _multiply(builder, builder.binary("fmul", x, x), -_LOG2_E))
    tail = builder.binary("fmul", builder.binary("fmul", series, t), decayed)
    positive = builder.binary("fsub", _number(1.0), tail)
    return _copysign(builder, positive, x)


def _copysign(builder: Builder, size: Value, sign: Value) -> Value:
    return builder.emit("float", f"call float @llvm.copysign.f32({size}, {sign})")


def _circular(quarters: int) -> Callable[[Builder, Value], Value]:
    """The sine of an angle that is so many quarter turns larger: that of what is left of it, or the cosine."""

    def value(builder: Builder, x: Value) -> Value:
        rounded = _fma(builder, x, _number(2.0 / math.pi), _ROUNDING)
        turns = builder.binary("fsub", rounded, _number(_ROUNDING))
        rest = x
        for part in _QUARTER_TURN:
            rest = _fma(builder, turns, _number(-part), rest)
        square = builder.binary("fmul", rest, rest)
        sine = _fma(builder, builder.binary("fmul", _series(builder, _SIN_SERIES, square), square), rest, rest)
        sine = _copysign(builder, sine, rest)  # that of -0.0
        cosine = _series(builder, _COS_SERIES, square)
        count = builder.binary("add", builder.cast("bitcast", rounded, "i32"), integer(quarters))
        even = builder.compare("eq", builder.bits("and", count, 1), integer(0))
        # The second bit of the count is the sign.
        bits = builder.cast("bitcast", builder.select(even, sine, cosine), "i32")
        sign = builder.bits("shl", builder.bits("and", count, 2), 30)
        signed = builder.cast("bitcast", builder.binary("xor", bits, sign), "float")
        return builder.select(builder.compare("ole", _abs(builder, x), _number(LARGEST_ANGLE)), signed, _number(math.nan))

    return value


def _series(builder: Builder, coefficients: Sequence[float], x: Value) -> Value:
    """A polynomial, the highest power first."""
    found = _number(coefficients[0])
    for coefficient in coefficients[1:]:
        found = _fma(builder, found, x, coefficient)
    return found


def _gelu(builder: Builder, x: Value) -> Value:
    error = _erf(builder, _multiply(builder, x, math.sqrt(0.5)))
    half = _multiply(builder, x, 0.5)
    return _fma(builder, half, error, half)


def _table_call(name: str) -> Callable[[Builder, Value], Value]:
    return lambda builder, x: builder.call(name, x)


def _folded(intrinsic: str) -> Callable[..., Value]:
    """Folds all operands with a binary LLVM intrinsic."""

    def fold(builder: Builder, *operands: Value) -> Value:
        result = operands[0]
        for operand in operands[1:]:
            result = builder.emit(result.type, f"call {result.type} @llvm.{intrinsic}.{_suffix(result)}({result}, {operand})")
        return result

    return fold


def _relu(builder: Builder, x: Value) -> Value:
    return _folded("maximum")(builder, x, floating(0.0, x.type))


# LLVM's minimum and maximum propagate NaN (`max.NaN.f32`), its minnum and maxnum ignore it (`max.f32`).
_FLOAT: dict[str, Callable[..., Value]] = {
    "min": _folded("minimum"),
    "max": _folded("maximum"),
    "fmin": _folded("minnum"),
    "fmax": _folded("maxnum"),
    "relu": _relu,
    "floor": _unary_intrinsic("floor"),
    "ceil": _unary_intrinsic("ceil"),
    "round": _unary_intrinsic("roundeven"),
    "fma": _fma,
    "abs": _abs,
    "exp": _exp,
    "exp2": _table_call("ex2.approx"),
    "exp2_ftz": _table_call("ex2.approx.ftz"),
    "log": _log,
    "log2": _table_call("lg2.approx"),
    "rsqrt": _table_call("rsqrt.approx"),
    "sqrt": _table_call("sqrt.rn"),
    "rcp": _table_call("rcp.rn"),
    "rcp_approx": _table_call("rcp.approx.ftz"),
    "sigmoid": _sigmoid,
    "tanh": _tanh,
    "tanh_approx": _table_call("tanh.approx"),
    "sin": _circular(0),
    "cos": _circular(1),
    "erf": _erf,
    "gelu": _gelu,
}
_IN_DOUBLE = ("min", "max", "fmin", "fmax", "relu", "fma", "abs")  # need no approximations, so f64 stays f64


def _extreme(which: str) -> Callable[..., Value]:
    """The minimum or maximum of integers."""

    def pick(builder: Builder, dtype: DType, x: Value, y: Value) -> Value:
        return builder.emit(x.type, f"call {x.type} @llvm.{'s' if _signed(dtype) else 'u'}{which}.{x.type}({x}, {y})")

    return pick


def _signed(dtype: DType) -> bool:
    return dtype.family == "signed"


def _integer_abs(builder: Builder, dtype: DType, x: Value) -> Value:
    return _extreme("max")(builder, dtype, x, negate(builder, dtype, x)) if _signed(dtype) else x


_INTEGER: dict[str, Callable[..., Value]] = {
    "min": _extreme("min"),
    "max": _extreme("max"),
    "relu": lambda builder, dtype, x: _extreme("max")(builder, dtype, x, integer(0, x.type)),
    "abs": _integer_abs,
    "ceildiv": ceil_divide,
}


def call_function(builder: Builder, function: str, dtype: DType, arguments: Sequence[Value]) -> Value:
    """`dtype` is the type of the arguments and the result."""
    if not dtype.is_float:
        return _INTEGER[function](builder, dtype, *arguments)
    if is_narrow_float(dtype) or (dtype.bits == 64 and function not in _IN_DOUBLE):
        wide = [convert(builder, [argument], dtype, F32)[0] for argument in arguments]
        return convert(builder, [call_function(builder, function, F32, wide)], F32, dtype)[0]
    return _FLOAT[function](builder, *arguments)


def _compare_tables() -> None:
    """A row of pipec.sema.language.functions without a lowering is reported at import, not in the kernel that calls it."""
    wanted = {"float": (_FLOAT,), "number": (_FLOAT, _INTEGER), "integer": (_INTEGER,)}
    missing = [row.name for row in FUNCTIONS.values() if any(row.name not in table for table in wanted[row.domain])]
    if missing:
        raise ImportError(f"pipec.lower.emit.functions has no entry for {', '.join(missing)}")


_compare_tables()
