"""What a kernel is compared with: the NumPy line of its docstring, evaluated in float64.

    \"\"\"D = relu(A @ B.T + bias).

    numpy: d = maximum(a @ b.T + bias, 0)
    shapes: M=256, N=512, K=128; M=200, N=136, K=72
    \"\"\"

The line is untrusted data, so it is not executed as Python: a small set of node kinds and functions is evaluated.
"""

import ast
import operator
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from pipec.interface import KernelInterface
from pipec.isa.dtypes import DTYPES
from pipec.reference.bounded import Arithmetic, Bounded, Precision, bounded, constant, functions
from pipec.reference.packed_arrays import values_of
from pipec.reference.precision import rounding_to
from pipec.runtime.arguments.tensors import numpy_dtype


class ReferenceProblem(Exception):
    """The reference or shapes line cannot be used; the text says why."""


_BINARY: dict[type, str] = {
    ast.Add: "add",
    ast.Sub: "subtract",
    ast.Mult: "multiply",
    ast.Div: "divide",
    ast.FloorDiv: "floor_divide",
    ast.Mod: "remainder",
    ast.MatMult: "matmul",
    ast.Pow: "power",
}
_UNARY: dict[type, str] = {ast.USub: "negative", ast.UAdd: "positive"}
_RELATIONS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Gt: operator.gt,
    ast.Lt: operator.lt,
    ast.GtE: operator.ge,
    ast.LtE: operator.le,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}


def reference_lines(document: str) -> list[str]:
    """The `numpy:` lines of a docstring, without the word."""
    return _lines(document, "numpy:")


def given_lines(document: str) -> list[str]:
    """The `given:` lines of a docstring, without the word."""
    return _lines(document, "given:")


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


def apply_given(
    document: str,
    arguments: Mapping[str, Any],
    sizes: Mapping[str, object],
    dtypes: Mapping[str, str] | None = None,
) -> frozenset[str]:
    """Fills arguments according to the `given:` lines, from sizes and other arguments: `given: begins = offsets(M // 2, 0, M - M // 2)`.

    `sizes`: also the kernel's compile-time parameters, of which a line may use the numbers and conditions; `dtypes` as in
    `expected_values`. Returns the names of the arguments it filled. Raises ReferenceProblem.
    """
    numbers = {name: size for name, size in sizes.items() if isinstance(size, bool | int | float)}
    evaluator = _Evaluator({name: bounded(size) for name, size in numbers.items()}, Precision())
    filled = set()
    for line in given_lines(document):
        read = arguments.keys() & set(re.findall(r"\w+", line))  # converting all of them would cost as much as the reference
        evaluator.names |= {name: _argument(arguments[name], (dtypes or {}).get(name)) for name in read}
        target, value = evaluator.assignment(line)
        if not isinstance(arguments.get(target), np.ndarray):
            raise ReferenceProblem(f"there is no tensor `{target}`")
        try:
            arguments[target][...] = value.value
        except (TypeError, ValueError):
            shapes = f"of shape {np.shape(value.value)}, and `{target}` is of shape {arguments[target].shape}"
            raise ReferenceProblem(f"the value given for `{target}` is {shapes}") from None
        filled.add(target)
    return frozenset(filled)


def expected_values(
    lines: Sequence[str],
    arguments: Mapping[str, Any],
    dtypes: Mapping[str, str] | None = None,
    constants: Mapping[str, object] | None = None,
    *,
    precision: Precision | None = None,
    unread: Collection[str] = (),
) -> dict[str, Bounded]:
    """Output name -> float64 values and allowed errors. Raises ReferenceProblem.

    `arguments` have their values before the launch. `dtypes` gives the element types of arguments that do not have them; `constants` are
    the kernel's compile-time parameters and sizes, whose numbers and conditions a line may use. A line that reads an argument of `unread`
    is rejected: their contents before the launch are undefined.
    """
    known = {name: constant(value) for name, value in (constants or {}).items() if isinstance(value, bool | int | float)}
    kinds = dtypes or {}
    known |= {name: _argument(value, kinds.get(name)) for name, value in arguments.items() if name not in unread}
    evaluator = _Evaluator(known, precision or Precision(), frozenset(unread))
    outputs = {}
    for line in lines:
        target, value = evaluator.assignment(line)
        outputs[target] = value
        evaluator.names[target] = _read_back(value, kinds.get(target))
    compared = {name: _shaped(name, value, arguments[name]) for name, value in outputs.items() if name in arguments}
    if not compared:
        raise ReferenceProblem("it assigns to no argument of the kernel")
    return compared


def _read_back(value: Bounded, dtype: str | None) -> Bounded:
    """A later line may read an output: it has been rounded to its type."""
    kind = DTYPES[dtype] if dtype else None
    if kind is None or not kind.is_float or kind.bits >= 32:
        return value
    return bounded(value.value, value.error + rounding_to(str(kind.numpy)).of(value.value))


def _shaped(name: str, expected: Bounded, output: Any) -> Bounded:
    if not isinstance(output, np.ndarray):
        raise ReferenceProblem(f"`{name}` is a scalar, which a kernel cannot write")
    try:
        return Bounded(np.broadcast_to(expected.value, output.shape), np.broadcast_to(expected.error, output.shape))
    except (TypeError, ValueError):
        raise ReferenceProblem(f"its value for `{name}` has shape {expected.value.shape}, the argument {output.shape}") from None


def dtypes_of(interface: KernelInterface) -> dict[str, str]:
    """The element type of each argument of a kernel."""
    return {argument.name: argument.dtype for argument in interface.arguments}


def _argument(value: Any, dtype: str | None) -> Bounded:
    """The value of an argument: scalars as the kernel gets them, in their own type."""
    if not isinstance(value, np.ndarray):
        return bounded(_stored_scalar(value, dtype))
    # ml_dtypes arrays convert through float32, which represents all of their values.
    return bounded(value.astype(np.float64) if dtype is None else values_of(value, dtype))


def _stored_scalar(value: float, dtype: str | None) -> float:
    if dtype is None or not DTYPES[dtype].is_float:
        return value
    with np.errstate(over="ignore"):
        return float(np.array(value).astype(numpy_dtype(DTYPES[dtype])))


class _Evaluator:
    """Evaluates lines of the form `name = expression` over known names, with a fixed set of node kinds and functions."""

    def __init__(self, names: dict[str, Bounded], precision: Precision, unread: frozenset[str] = frozenset()) -> None:
        self.names = names
        self._unread = unread
        self._arithmetic = Arithmetic(precision)
        self._functions = functions(self._arithmetic)

    def assignment(self, line: str) -> tuple[str, Bounded]:
        """The target of `output = expression`, and the value. Raises ReferenceProblem."""
        try:
            (statement,) = ast.parse(line).body
        except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
            raise ReferenceProblem(f"it is no Python expression ({error})") from None
        if not (isinstance(statement, ast.Assign) and len(statement.targets) == 1 and isinstance(statement.targets[0], ast.Name)):
            raise ReferenceProblem("it must have the form `output = expression`, with the whole output on the left")
        with np.errstate(all="ignore"):
            try:
                return statement.targets[0].id, self._evaluate(statement.value)
            except (ArithmeticError, AttributeError, LookupError, MemoryError, RecursionError, TypeError, ValueError) as error:
                raise ReferenceProblem(str(error) or type(error).__name__) from None

    def _evaluate(self, node: ast.expr) -> Bounded:
        match node:
            case ast.Name(id=name):
                return self._named(name)
            case ast.Constant(value=int() | float() as value):
                return constant(float(value))
            case ast.BinOp(left, symbol, right) if type(symbol) in _BINARY:
                return self._operator(_BINARY[type(symbol)], left, right)
            case ast.UnaryOp(symbol, operand) if type(symbol) in _UNARY:
                return self._operator(_UNARY[type(symbol)], operand)
            case ast.Compare(left, [symbol], [right]) if type(symbol) in _RELATIONS:
                compared = self._arithmetic.compare(_RELATIONS[type(symbol)])
                return compared(self._evaluate(left), self._evaluate(right))
            case ast.Attribute(value, "T"):
                return self._view(value, lambda array: array.T)
            case ast.Attribute(value, "mT"):  # of the last two axes, as NumPy 2 spells it
                return self._view(value, lambda array: np.swapaxes(array, -1, -2))
            case ast.Subscript(value, index):
                place = self._index(index)
                return self._view(value, lambda array: array[_within(place, array.shape)])
            case ast.Call(ast.Name(id=name), arguments, keywords) if name in self._functions:
                options = {keyword.arg: ast.literal_eval(keyword.value) for keyword in keywords if keyword.arg}
                operands = [self._evaluate(argument) for argument in arguments]
                try:
                    return self._functions[name](*operands, **options)
                except TypeError as error:  # Python's message, without the name of the internal function
                    raise ReferenceProblem(f"`{name}` {re.sub(r'^[^ ]*[(][)] ', '', str(error))}") from None
            case ast.Call(ast.Name(id=name)):
                raise ReferenceProblem(f"`{name}` is not among its functions: {', '.join(sorted(self._functions))}")
            case _:
                raise ReferenceProblem(f"`{ast.unparse(node)}` is not among the allowed forms")

    def _named(self, name: str) -> Bounded:
        if name in self.names:
            return self.names[name]
        if name in self._unread:
            raise ReferenceProblem(
                f"it reads `{name}`, which the kernel writes and does not read: there is no value before the launch to speak of"
            )
        raise ReferenceProblem(f"there is no argument `{name}`")

    def _operator(self, name: str, *operands: ast.expr) -> Bounded:
        values: Bounded = getattr(self._arithmetic, name)(*(self._evaluate(operand) for operand in operands))
        return values

    def _view(self, node: ast.expr, view: Callable[[np.ndarray], np.ndarray]) -> Bounded:
        whole = self._evaluate(node)
        if not whole.value.ndim:
            raise ReferenceProblem(f"`{ast.unparse(node)}` is one number: it has no .T and no index")
        return Bounded(np.asarray(view(whole.value)), np.asarray(view(whole.error)))

    def _index(self, node: ast.expr) -> tuple[slice | np.ndarray | None, ...]:
        """`[:, None]`, `[:, ::2]`; or whole numbers, which select as in NumPy: `table[tokens]`, `logits[arange(M), labels]`."""
        return tuple(self._place(part) for part in (node.elts if isinstance(node, ast.Tuple) else [node]))

    def _place(self, node: ast.expr) -> slice | np.ndarray | None:
        match node:
            case ast.Slice(lower, upper, step):
                return slice(*(None if part is None else self._end(part) for part in (lower, upper, step)))
            case ast.Constant(value=None):
                return None
        return self._whole(node)

    def _end(self, node: ast.expr) -> int:
        """The beginning, the end or the step of a slice."""
        found = self._whole(node)
        if found.ndim:
            raise ReferenceProblem(f"`{ast.unparse(node)}` is no index: a part of an axis has one beginning and one end")
        return int(found)

    def _whole(self, node: ast.expr) -> np.ndarray:
        numbers = self._evaluate(node)
        if not numbers.exact or (numbers.value % 1 != 0).any() or (numbers.value < 0).any():
            raise ReferenceProblem(f"`{ast.unparse(node)}` is no index: its numbers must be whole, exact and not negative")
        return numbers.value.astype(np.int64)


def _within(place: tuple[slice | np.ndarray | None, ...], shape: tuple[int, ...]) -> tuple[slice | np.ndarray | None, ...]:
    """The index, whose slices end in their axes. (NumPy would shorten them, and a row of one element fits every other.)"""
    axes = [part for part in place if part is not None]
    for part, size in zip(axes, shape, strict=False):
        ends = [one for one in (part.start, part.stop) if one is not None] if isinstance(part, slice) else []
        if ends and max(ends) > size:
            raise ReferenceProblem(f"a part of an axis reaches to {max(ends)}, but the axis has {size} elements")
    return place
