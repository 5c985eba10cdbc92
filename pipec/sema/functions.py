"""The element functions, one row each: name, parameters and what they accept. Lowering keeps one entry per row."""

from pipec.record import record


@record
class ElementFunction:
    """`domain`: "float" (computed in f32), "number" (the operands' own type), "integer"."""

    name: str
    parameters: tuple[str, ...]
    domain: str
    document: str


_ROWS = (
    ElementFunction("min", ("x", "y"), "number", "the smaller; a NaN loses against a number"),
    ElementFunction("max", ("x", "y"), "number", "the larger; a NaN loses against a number"),
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
    ElementFunction("relu", ("x",), "number", "max(x, 0)"),
    ElementFunction("sigmoid", ("x",), "float", "1 / (1 + exp(-x))"),
    ElementFunction("tanh", ("x",), "float", "hyperbolic tangent"),
    ElementFunction("erf", ("x",), "float", "error function"),
    ElementFunction("gelu", ("x",), "float", "x * (1 + erf(x / sqrt(2))) / 2"),
)

FUNCTIONS: dict[str, ElementFunction] = {row.name: row for row in _ROWS}
REDUCTIONS: dict[str, str] = {"row_sum": "sum", "row_max": "max", "row_min": "min"}
