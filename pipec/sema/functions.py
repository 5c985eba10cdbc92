"""The element functions, one row each: name, parameters and what they accept. Lowering keeps one entry per row.

A NaN operand makes every one of them NaN, as in NumPy and torch (`np.maximum`, `torch.relu`), so that a NaN in the data reaches the
result. `fmin` and `fmax` are the exception by name, as in C and NumPy.
"""

from typing import Literal

from pipec.record import record
from pipec.vocabulary import RowFunction


@record
class ElementFunction:
    """`domain`: "float" (computed in f32), "number" (the operands' own type), "integer"."""

    name: str
    parameters: tuple[str, ...]
    domain: Literal["float", "number", "integer"]
    document: str


_ROWS = (
    ElementFunction("min", ("x", "y"), "number", "the smaller; NaN if either is, as NumPy's minimum"),
    ElementFunction("max", ("x", "y"), "number", "the larger; NaN if either is, as NumPy's maximum"),
    ElementFunction("fmin", ("x", "y"), "float", "the smaller; of a NaN and a number the number, as C's and NumPy's fmin"),
    ElementFunction("fmax", ("x", "y"), "float", "the larger; of a NaN and a number the number, as C's and NumPy's fmax"),
    ElementFunction("abs", ("x",), "number", "the magnitude"),
    ElementFunction("ceildiv", ("x", "y"), "integer", "x / y rounded up"),
    ElementFunction("fma", ("x", "y", "z"), "float", "x * y + z, rounded once"),
    ElementFunction("exp", ("x",), "float", "e ** x"),
    ElementFunction("exp2", ("x",), "float", "2 ** x"),
    ElementFunction("exp2_ftz", ("x",), "float", "2 ** x, or 0 where that is below 2 ** -126: three instructions less than exp2"),
    ElementFunction("log", ("x",), "float", "natural logarithm"),
    ElementFunction("log2", ("x",), "float", "binary logarithm"),
    ElementFunction("sqrt", ("x",), "float", "square root"),
    ElementFunction("rsqrt", ("x",), "float", "1 / sqrt(x)"),
    ElementFunction("rcp", ("x",), "float", "1 / x"),
    ElementFunction("relu", ("x",), "number", "max(x, 0): the relu of a NaN is NaN"),
    ElementFunction("sigmoid", ("x",), "float", "1 / (1 + exp(-x))"),
    ElementFunction("tanh", ("x",), "float", "hyperbolic tangent"),
    ElementFunction("erf", ("x",), "float", "error function"),
    ElementFunction("gelu", ("x",), "float", "x * (1 + erf(x / sqrt(2))) / 2"),
)

FUNCTIONS: dict[str, ElementFunction] = {row.name: row for row in _ROWS}
REDUCTIONS: dict[str, RowFunction] = {"row_sum": "sum", "row_max": "max", "row_min": "min"}
