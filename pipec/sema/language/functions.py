"""The element functions, one row each: name, parameters, accepted types and meaning. The lowering has an entry per row, compared with this
table at import; tests and `numpy:` lines evaluate the functions from here.

All of them propagate NaN, as NumPy and torch do (`np.maximum`, `torch.relu`), so that a NaN in the data reaches the result. `fmin` and
`fmax` are the exceptions, as in C and NumPy.
"""

import math
from collections.abc import Callable
from typing import Any, Literal

from pipec.record import record
from pipec.vocabulary import RowFunction


@record
class ElementFunction:
    """`domain`: "float" (computed in f32), "number" (the operands' own type), "integer".

    `value(np, x, ...)` is the function in float64; NumPy is passed in, so that this module need not import it. For a `monotone` function
    of one operand, `numpy:` lines derive their error bound from `value` alone; the others have a bound in pipec.reference.bounded, or
    none.
    """

    name: str
    parameters: tuple[str, ...]
    domain: Literal["float", "number", "integer"]
    document: str
    value: Callable[..., Any]
    monotone: bool = False


def _erf(np: Any, x: Any) -> Any:
    return np.vectorize(math.erf, otypes=[np.float64])(x)


def _gelu(np: Any, x: Any) -> Any:
    return x * (1 + _erf(np, x * math.sqrt(0.5))) / 2


# Beyond this the parts of pi that the lowering subtracts do not suffice.
LARGEST_ANGLE = 100_000.0


def _angle(np: Any, x: Any) -> Any:
    return np.where(np.abs(x) <= LARGEST_ANGLE, x, math.nan)


X, XY = ("x",), ("x", "y")
_ROWS = (
    ElementFunction("min", XY, "number", "the smaller; NaN if either is, as NumPy's minimum", lambda np, x, y: np.minimum(x, y)),
    ElementFunction("max", XY, "number", "the larger; NaN if either is, as NumPy's maximum", lambda np, x, y: np.maximum(x, y)),
    ElementFunction(
        "fmin",
        XY,
        "float",
        "the smaller; of a NaN and a number the number, as C's and NumPy's fmin",
        lambda np, x, y: np.fmin(x, y),
    ),
    ElementFunction(
        "fmax",
        XY,
        "float",
        "the larger; of a NaN and a number the number, as C's and NumPy's fmax",
        lambda np, x, y: np.fmax(x, y),
    ),
    ElementFunction("abs", X, "number", "the magnitude", lambda np, x: np.abs(x)),
    ElementFunction("ceildiv", XY, "integer", "x / y rounded up", lambda np, x, y: np.ceil(x / y)),
    ElementFunction("floor", X, "float", "x rounded down to a whole number", lambda np, x: np.floor(x)),
    ElementFunction("ceil", X, "float", "x rounded up to a whole number", lambda np, x: np.ceil(x)),
    ElementFunction(
        "round", X, "float", "the nearest whole number; of two the even one, as NumPy's round", lambda np, x: np.rint(x)
    ),
    ElementFunction("fma", ("x", "y", "z"), "float", "x * y + z, rounded once", lambda np, x, y, z: x * y + z),
    ElementFunction("exp", X, "float", "e ** x", lambda np, x: np.exp(x), monotone=True),
    ElementFunction("exp2", X, "float", "2 ** x", lambda np, x: np.exp2(x), monotone=True),
    ElementFunction(
        "exp2_ftz",
        X,
        "float",
        "2 ** x, or 0 where that is below 2 ** -126: three instructions less than exp2",
        lambda np, x: np.where(x < -126, 0.0, np.exp2(x)),
    ),
    ElementFunction("log", X, "float", "natural logarithm", lambda np, x: np.log(x), monotone=True),
    ElementFunction("log2", X, "float", "binary logarithm", lambda np, x: np.log2(x), monotone=True),
    ElementFunction("sqrt", X, "float", "square root", lambda np, x: np.sqrt(x), monotone=True),
    ElementFunction("rsqrt", X, "float", "1 / sqrt(x)", lambda np, x: 1 / np.sqrt(x), monotone=True),
    ElementFunction("rcp", X, "float", "1 / x", lambda np, x: 1 / x),
    ElementFunction(
        "rcp_approx",
        X,
        "float",
        "1 / x to within 1 ulp in one instruction, rcp takes eight; numbers below 2 ** -126 are 0 to it",
        lambda np, x: 1 / x,
    ),
    ElementFunction("relu", X, "number", "max(x, 0): the relu of a NaN is NaN", lambda np, x: np.maximum(x, 0)),
    ElementFunction("sigmoid", X, "float", "1 / (1 + exp(-x))", lambda np, x: 1 / (1 + np.exp(-x)), monotone=True),
    ElementFunction("tanh", X, "float", "hyperbolic tangent", lambda np, x: np.tanh(x), monotone=True),
    ElementFunction(
        "tanh_approx",
        X,
        "float",
        "hyperbolic tangent to within 2 ** -11 of its value: one instruction",
        lambda np, x: np.tanh(x),
    ),
    ElementFunction(
        "sin", X, "float", "sine to within 2 ** -23; NaN beyond -100,000 and 100,000", lambda np, x: np.sin(_angle(np, x))
    ),
    ElementFunction(
        "cos", X, "float", "cosine to within 2 ** -23; NaN beyond -100,000 and 100,000", lambda np, x: np.cos(_angle(np, x))
    ),
    ElementFunction("erf", X, "float", "error function", _erf),
    ElementFunction("gelu", X, "float", "x * (1 + erf(x / sqrt(2))) / 2", _gelu),
)

FUNCTIONS: dict[str, ElementFunction] = {row.name: row for row in _ROWS}
REDUCTIONS: dict[str, RowFunction] = {"row_sum": "sum", "row_max": "max", "row_min": "min"}
COLUMN_REDUCTIONS: dict[str, RowFunction] = {"column_sum": "sum", "column_max": "max", "column_min": "min"}
