"""Expressions of the typed tree as text: for `--emit kir`, messages of the verifier and tests. For readers only; nothing parses it."""

from collections.abc import Callable
from typing import assert_never

from pipec.sema.tree import expressions as tree
from pipec.sema.types import TileType, ValueType

_PRECEDENCE = {
    "or": 1, "and": 2, "==": 3, "!=": 3, "<": 3, "<=": 3, ">": 3, ">=": 3, "|": 4, "^": 5, "&": 6, "<<": 7, ">>": 7,
    "+": 8, "-": 8, "*": 9, "/": 9, "//": 9, "%": 9,
}  # fmt: skip
_ATOM = 11
_UNARY = 10
_LONGEST = 10_000  # characters of an expression


def reference_text(reference: tree.BufferRef) -> str:
    handle = reference.handle
    name = handle.name if reference.buffer.space == "tensor" else f"{handle.name}.{reference.buffer.name}"
    where = "" if reference.cta is None else f".of({expression_text(reference.cta)})"
    if reference.part is not None:
        name = f"rows({name}, {reference.part[0]}, {reference.part[1]})"
    return name + where + (".T" if reference.transposed else "")


def slice_text(tile: tree.TensorSlice) -> str:
    return f"{tile.tensor.name}[{', '.join(expression_text(coordinate) for coordinate in tile.coordinates)}]"


def expression_text(expression: tree.Expression) -> str:
    return _Writer().write(expression, 0)


class _Writer:
    """Writes one expression. Each node is written once: expressions share subexpressions, so the text can double at each of them; text
    that is too long is truncated."""

    def __init__(self) -> None:
        self._written: dict[tree.Expression, tuple[str, int]] = {}

    def write(self, expression: tree.Expression, outer: int) -> str:
        """Parenthesised if it binds less tightly than `outer` requires."""
        if expression not in self._written:
            text, precedence = _parts(expression, self.write)
            self._written[expression] = (text, precedence) if len(text) <= _LONGEST else (f"{text[:_LONGEST]} ...", _ATOM)
        text, precedence = self._written[expression]
        return f"({text})" if precedence < outer else text


# C901: one case per kind of node; `assert_never` keeps it complete.
def _parts(expression: tree.Expression, write: Callable[[tree.Expression, int], str]) -> tuple[str, int]:  # noqa: C901
    match expression:
        case tree.Constant():
            return str(expression.value), _ATOM
        case tree.ReadVariable():
            return expression.variable.name, _ATOM
        case tree.ReadDimension():
            return expression.name, _ATOM
        case tree.ReadParameter():
            return expression.parameter.name, _ATOM
        case tree.Special():
            return expression.name + ("" if "." in expression.name else "()"), _ATOM
        case tree.StageIndex():
            return f"{expression.handle.name}.index()", _ATOM
        case tree.ReadResponse():
            return f"the tile granted in {expression.handle.name}", _ATOM
        case tree.Unary():
            gap = " " if expression.operator == "not" else ""
            return f"{expression.operator}{gap}{write(expression.operand, _UNARY)}", _UNARY
        case tree.Binary():
            strength = _PRECEDENCE[expression.operator]
            left, right = write(expression.left, strength), write(expression.right, strength + 1)
            return f"{left} {expression.operator} {right}", strength
        case tree.Convert():
            return f"cast[{_dtype(expression.type)}]({write(expression.operand, 0)})", _ATOM
        case tree.Bitcast():
            return f"bitcast[{_dtype(expression.type)}]({write(expression.operand, 0)})", _ATOM
        case tree.Select():
            parts = (expression.condition, expression.when_true, expression.when_false)
            return f"select({_list(parts, write)})", _ATOM
        case tree.Call():
            return f"{expression.function}({_list(expression.arguments, write)})", _ATOM
        case tree.Splat():
            return f"splat[{expression.type.rows}, {expression.type.columns}]({write(expression.operand, 0)})", _ATOM
        case tree.ReadBuffer():
            read = f"read({reference_text(expression.source)})"
            if expression.first_column is None:
                return read, _ATOM
            return f"columns({read}, {write(expression.first_column, 0)}, {expression.type.columns})", _ATOM
        case tree.ReadTensor():
            at = "" if expression.at is None else f", at={write(expression.at, 0)}"
            return f"read({slice_text(expression.source)}{at})", _ATOM
        case tree.ReadElement():
            return f"load({slice_text(expression.source)})", _ATOM
        case tree.Position():
            axis, size = ("row", expression.type.rows) if expression.axis == 0 else ("column", expression.type.columns)
            return f"{axis}_index({size})", _ATOM
        case tree.Scattered(operand, at):
            return f"{write(operand, 0)}, at={write(at, 0)}", 0
        case tree.ReadAccumulator():
            return f"read({expression.accumulator.name})", _ATOM
        case tree.ReadReducedColumns():
            return f"read({expression.reduced.name})", _ATOM
        case tree.Columns(operand, first, type_):
            return f"columns({write(operand, 0)}, {first}, {type_.columns})", _ATOM
        case tree.RowReduce():
            return f"row_{expression.function}({write(expression.operand, 0)})", _ATOM
        case _:
            assert_never(expression)


def _dtype(value_type: ValueType) -> str:
    return str(value_type.dtype if isinstance(value_type, TileType) else value_type)


def _list(expressions: tuple[tree.Expression, ...], write: Callable[[tree.Expression, int], str]) -> str:
    return ", ".join(write(one, 0) for one in expressions)
