"""What a kernel is compared with: the NumPy line of its docstring, evaluated in float64.

    \"\"\"D = relu(A @ B.T + bias).

    numpy: d = maximum(a @ b.T + bias, 0)
    shapes: M=256, N=512, K=128; M=200, N=136, K=72
    \"\"\"

The line is data of the source file, so it is not run as Python: a small set of node kinds and functions is evaluated.
"""

import ast
import itertools
import math
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipec.interface import KernelInterface, TensorArgument
from pipec.kir.ir import Kernel
from pipec.sema.tree import BufferRef, Mma, ReadVariable, RegisterMma, Write


class ReferenceProblem(Exception):
    """The reference or shapes line cannot be used; the text says why."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """`error` is the largest difference and `bound` what was allowed there; `wrong` counts elements beyond their bound."""

    output: str
    error: float
    bound: float
    wrong: int
    total: int
    first: tuple[int, ...]
    found: float
    expected: float

    @property
    def passed(self) -> bool:
        return self.wrong == 0


def _scaled(operand: np.ndarray, chunks: np.ndarray, block: int) -> np.ndarray:
    from pipec.narrow import scaled

    return scaled(operand, chunks, block)


def _grouped(a: np.ndarray, b: np.ndarray, begins: np.ndarray) -> np.ndarray:
    """Rows begins[g] to begins[g + 1] of `a` times the transposed b[g]; zeros in rows of no group."""
    out = np.zeros((a.shape[0], b.shape[1]))
    for group, (first, last) in enumerate(itertools.pairwise(begins.astype(int))):
        out[first:last] = a[first:last] @ b[group].T
    return out


def _offsets(*sizes: float) -> np.ndarray:
    """Where runs of these sizes begin, one behind the other, and where the last one ends."""
    return np.cumsum([0, *sizes])


def _erf(x: Any) -> Any:
    return np.vectorize(math.erf, otypes=[np.float64])(x)


def _block_scale(x: Any, scales: Any, rows: float, columns: float) -> Any:
    """Each block of `rows` x `columns` elements times its scale."""
    spread = np.repeat(np.repeat(scales, int(rows), axis=0), int(columns), axis=1)
    return x * spread[: x.shape[0], : x.shape[1]]


def _softmax(x: Any, causal: bool = False) -> Any:
    """Along the last axis; with `causal` row i has the columns 0 to i."""
    if causal:
        rows, columns = np.indices(x.shape[-2:])
        x = np.where(columns <= rows, x, -np.inf)
    weights = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return weights / np.sum(weights, axis=-1, keepdims=True)


FUNCTIONS: dict[str, Callable] = {
    **{
        name: getattr(np, name)
        for name in ("abs", "exp", "exp2", "log", "log2", "maximum", "minimum", "sqrt", "sum", "tanh", "where", "max", "min")
    },
    "erf": _erf,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "gelu": lambda x: x * (1 + _erf(x / math.sqrt(2))) / 2,
    "relu": lambda x: np.maximum(x, 0),
    "clip": np.clip,
    "softmax": _softmax,
    "block_scale": _block_scale,
    "scaled": _scaled,
    "grouped": _grouped,
    "offsets": _offsets,
}
_OPERATORS: dict[type, Callable] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.MatMult: operator.matmul,
    ast.Pow: operator.pow,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Gt: operator.gt,
    ast.Lt: operator.lt,
    ast.GtE: operator.ge,
    ast.LtE: operator.le,
    ast.Eq: operator.eq,
}


def reference_lines(document: str) -> list[str]:
    """The `numpy:` lines of a docstring, without the word."""
    return _lines(document, "numpy:")


def _lines(document: str, word: str) -> list[str]:
    return [line.strip().removeprefix(word).strip() for line in document.splitlines() if line.strip().startswith(word)]


def shape_sets(document: str) -> list[dict[str, str]]:
    """The `shapes:` lines: one mapping per set, sets separated by semicolons."""
    sets = []
    for line in document.splitlines():
        if line.strip().startswith("shapes:"):
            for part in line.split(":", 1)[1].split(";"):
                found = dict(re.findall(r"(\w+)\s*=\s*([-+.\w]+)", part))
                if found:
                    sets.append(found)
    return sets


def apply_given(document: str, arguments: Mapping[str, Any], sizes: Mapping[str, float]) -> None:
    """Fills arguments with what the `given:` lines say of them, made of sizes: `given: begins = offsets(M // 2, 0, M - M // 2)`.

    Raises ReferenceProblem.
    """
    for line in _lines(document, "given:"):
        target, value = _assignment(line, sizes)
        if not isinstance(arguments.get(target), np.ndarray):
            raise ReferenceProblem(f"there is no tensor `{target}`")
        try:
            arguments[target][...] = value
        except (TypeError, ValueError) as error:
            raise ReferenceProblem(str(error)) from None


def expected_values(
    lines: list[str],
    arguments: Mapping[str, Any],
    dtypes: Mapping[str, str] | None = None,
    constants: Mapping[str, object] | None = None,
) -> dict[str, np.ndarray]:
    """Output name -> float64 values. Raises ReferenceProblem. `dtypes` names the element types of arrays that cannot tell;
    `constants` are the kernel's compile-time parameters, whose numbers and conditions a line may use."""
    names: dict[str, Any] = {name: value for name, value in (constants or {}).items() if isinstance(value, bool | int | float)}
    names |= {name: _float64(value, (dtypes or {}).get(name)) for name, value in arguments.items()}
    outputs = {}
    for line in lines:
        target, value = _assignment(line, names)
        names[target] = outputs[target] = value
    compared = {name: _shaped(name, value, arguments[name]) for name, value in outputs.items() if name in arguments}
    if not compared:
        raise ReferenceProblem("it assigns to no argument of the kernel")
    return compared


def _assignment(line: str, names: Mapping[str, Any]) -> tuple[str, Any]:
    """The target of `output = expression`, and the value. Raises ReferenceProblem."""
    try:
        (statement,) = ast.parse(line).body
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        raise ReferenceProblem(f"it is no Python expression ({error})") from None
    if not (isinstance(statement, ast.Assign) and len(statement.targets) == 1 and isinstance(statement.targets[0], ast.Name)):
        raise ReferenceProblem("it must have the form `output = expression`")
    with np.errstate(all="ignore"):
        try:
            return statement.targets[0].id, _evaluate(statement.value, names)
        except (ArithmeticError, AttributeError, LookupError, MemoryError, TypeError, ValueError) as error:
            raise ReferenceProblem(str(error) or type(error).__name__) from None


def before_launch(interface: KernelInterface, arguments: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Copies of the tensors that a kernel adds to; its reference starts from these: `d = d + a @ b.T`."""
    kept = {argument.name for argument in interface.arguments if isinstance(argument, TensorArgument) and argument.accumulated}
    return {name: value.copy() for name, value in arguments.items() if name in kept}


def _shaped(name: str, value: Any, output: Any) -> np.ndarray:
    if not isinstance(output, np.ndarray):
        raise ReferenceProblem(f"`{name}` is a scalar, which a kernel cannot write")
    try:
        return np.broadcast_to(np.asarray(value, np.float64), output.shape)
    except (TypeError, ValueError):
        raise ReferenceProblem(f"its value for `{name}` has shape {np.shape(value)}, the argument {output.shape}") from None


def dtypes_of(interface: KernelInterface) -> dict[str, str]:
    """The element type of each tensor a kernel takes."""
    return {argument.name: argument.dtype for argument in interface.arguments if isinstance(argument, TensorArgument)}


def _float64(value: Any, dtype: str | None) -> Any:
    if not isinstance(value, np.ndarray):
        return value
    if dtype is None:
        # ml_dtypes arrays convert through float32, which holds every one of their values.
        return value.astype(np.float64)
    from pipec.narrow import values_of

    return values_of(value, dtype)


def _evaluate(node: ast.expr, names: Mapping[str, Any]) -> Any:
    match node:
        case ast.Name(id=name):
            if name not in names:
                raise ReferenceProblem(f"there is no argument `{name}`")
            return names[name]
        case ast.Constant(value=int() | float() as value):
            return float(value)
        case ast.BinOp(left, symbol, right) if type(symbol) in _OPERATORS:
            return _OPERATORS[type(symbol)](_evaluate(left, names), _evaluate(right, names))
        case ast.UnaryOp(symbol, operand) if type(symbol) in _OPERATORS:
            return _OPERATORS[type(symbol)](_evaluate(operand, names))
        case ast.Compare(left, [symbol], [right]) if type(symbol) in _OPERATORS:
            return _OPERATORS[type(symbol)](_evaluate(left, names), _evaluate(right, names))
        case ast.Attribute(value, "T"):
            return _evaluate(value, names).T
        case ast.Attribute(value, "mT"):  # of the last two axes, as NumPy 2 spells it
            return np.swapaxes(_evaluate(value, names), -1, -2)
        case ast.Subscript(value, index):
            return _evaluate(value, names)[_index(index)]
        case ast.Call(ast.Name(id=name), arguments, keywords) if name in FUNCTIONS:
            options = {keyword.arg: ast.literal_eval(keyword.value) for keyword in keywords if keyword.arg}
            return FUNCTIONS[name](*(_evaluate(argument, names) for argument in arguments), **options)
        case _:
            raise ReferenceProblem(f"`{ast.unparse(node)}` is not among the allowed forms")


def _index(node: ast.expr) -> Any:
    """`[:, None]` and the like."""
    parts = node.elts if isinstance(node, ast.Tuple) else [node]
    found: list[slice | None] = []
    for part in parts:
        if isinstance(part, ast.Slice) and part.lower is part.upper is part.step is None:
            found.append(slice(None))
        elif isinstance(part, ast.Constant) and part.value is None:
            found.append(None)
        else:
            raise ReferenceProblem("an index may only hold `:` and `None`")
    return tuple(found)


def accumulation_unit(kernel: Kernel) -> float:
    """What one term may cost a sum, relative to its largest value: 2**-23 where float32 is truncated after each term, as if by itself;
    2**-15 with float16 accumulators, which round to 2**-11 after each MMA of 16 terms, and with 8-bit floats added up in registers,
    which are cut to 13 bits after each MMA of 32 terms."""
    coarse = any(buffer.space == "tensor" and buffer.dtype.name == "f16" for buffer in kernel.buffers)
    operations = (operation for role in kernel.roles for block in role.blocks for operation in block.operations)
    mmas = [operation for operation in operations if isinstance(operation, RegisterMma)]
    coarse = coarse or any(mma.accumulator.dtype.name == "f16" or mma.a_dtype.name in ("e4m3", "e5m2") for mma in mmas)
    return 2.0**-15 if coarse else 2.0**-23


def operand_rounding(kernel: Kernel) -> float:
    """What a kernel loses that makes an operand of its MMAs by itself: half a unit in the last place of the coarsest float type of the
    operands that its threads write into a tile or hold in registers; 0 where all operands come from the arguments."""
    operations = [operation for role in kernel.roles for block in role.blocks for operation in block.operations]
    mmas = [operation for operation in operations if isinstance(operation, Mma | RegisterMma)]
    read = {operand.buffer for mma in mmas for operand in (mma.a, mma.b) if isinstance(operand, BufferRef)}
    written = {operation.destination.buffer for operation in operations if isinstance(operation, Write)}
    dtypes = {buffer.dtype for buffer in written & read}
    dtypes |= {mma.a_dtype for mma in mmas if isinstance(mma, RegisterMma) and isinstance(mma.a, ReadVariable)}
    names = {dtype.numpy for dtype in dtypes if dtype.is_float}
    return max((_half_unit(name) for name in names if name), default=0.0)


def compare(
    output: str, found: np.ndarray, expected: np.ndarray, depth: int, unit: float = 2.0**-23, rounding: float = 0.0
) -> Comparison:
    """Compares an output with its reference, element by element; integers must be equal.

    Allowed is what rounding explains: half a unit in the last place of the output's type at the expected value, plus arithmetic at the
    largest value: `depth` additions of `unit` each (see accumulation_unit), approximate functions of 2**-18, and `rounding` of
    operands that the kernel itself makes (see operand_rounding).
    """
    expected = np.broadcast_to(np.asarray(expected, np.float64), found.shape)
    if found.size == 0:
        return Comparison(output, 0.0, 0.0, 0, 0, (), 0.0, 0.0)
    got = found.astype(np.float64)
    magnitude = np.abs(expected)
    bound = np.zeros(found.shape)
    if found.dtype.kind not in "iub":
        bound = magnitude * _half_unit(found.dtype) + np.max(magnitude) * (depth * unit + 2.0**-18 + rounding) + _SMALLEST
    with np.errstate(invalid="ignore"):
        difference = np.where(got == expected, 0.0, np.abs(got - expected))
    off = ~(difference <= bound)
    first = tuple(int(i) for i in np.argwhere(off)[0]) if off.any() else (0,) * found.ndim
    worst = np.unravel_index(int(np.argmax(np.where(np.isnan(difference), np.inf, difference))), found.shape)
    return Comparison(
        output,
        float(difference[worst]),
        float(bound[worst]),
        int(off.sum()),
        found.size,
        first,
        float(got[first]),
        float(expected[first]),
    )


_SMALLEST = 1e-30


def _half_unit(dtype: np.dtype | str) -> float:
    """Half a unit in the last place, relative to the value."""
    import ml_dtypes

    return float(ml_dtypes.finfo(dtype).eps) / 2
