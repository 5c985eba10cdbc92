"""Why the bound of an output says nothing: the part of a line that loses it, of operands that still had one."""

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from pipec.reference.arithmetic import Arithmetic
from pipec.reference.bounded import Bounded, Precision
from pipec.reference.functions import functions
from pipec.reference.problem import ReferenceProblem

Place = tuple[int, ...]
# Whether an array is without a bound at this place, or somewhere (None).
Lost = Callable[[Bounded, Place | None], bool]

_ZERO = "divides by what rounding may make zero"
_EQUAL = "compares numbers that are as good as equal"
_BEST = "chooses among numbers that are as good as equal"
_CANCELLED = "takes numbers from each other that are as good as equal"
_GROWN = "makes much of what rounding may change"
_REASONS: dict[type | str, str] = {
    ast.Div: _ZERO,
    ast.FloorDiv: _ZERO,
    ast.Mod: _ZERO,
    ast.Compare: _EQUAL,
    ast.Add: _CANCELLED,
    ast.Sub: _CANCELLED,
    "sum": _CANCELLED,
    "argmax": _BEST,
    "argmin": _BEST,
}
_ELEMENTWISE = frozenset(
    row.name for row in functions(Arithmetic(Precision())).values() if row.elementwise or row.signature == "x"
)


def unbounded(value: Bounded, place: Place | None) -> bool:
    return bool(np.any(~np.isfinite(value.error if place is None else value.error[place])))


def zeros_pass(value: Bounded, place: Place | None) -> bool:
    """Whether each element may be zero, though some are not."""
    size = np.abs(value.value)
    return bool(np.any(size > 0) and np.all(size <= value.error))


def _uncertain(value: Bounded, place: Place | None) -> bool:
    """Whether a condition may be met or not."""
    unsure = (value.error > 0) & (np.abs(value.value) <= value.error)
    return bool(np.any(unsure if place is None else unsure[place]))


@dataclass(slots=True)
class Trace:
    """The values of all parts of some lines. `observe` is told of each, operands first, and `assigned` of the end of each line."""

    _values: dict[int, Bounded] = field(default_factory=dict)  # by the identity of its node
    _nodes: list[ast.expr] = field(default_factory=list)
    _earlier: dict[int, ast.expr] = field(default_factory=dict)  # the expression of a name that an earlier line assigned
    _assigned: dict[str, ast.expr] = field(default_factory=dict)
    _lines: dict[int, str] = field(default_factory=dict)  # of the whole expressions

    def observe(self, node: ast.expr, value: Bounded) -> None:
        self._nodes.append(node)
        self._values[id(node)] = value
        if isinstance(node, ast.Name) and node.id in self._assigned:
            self._earlier[id(node)] = self._assigned[node.id]

    def assigned(self, target: str, line: str) -> None:
        self._assigned[target] = self._nodes[-1]
        self._lines[id(self._nodes[-1])] = line

    def problem(self, target: str, lost: Lost, said: str) -> ReferenceProblem:
        """`said`, and what the assigned value is lost by: "`1 / x` divides by what rounding may make zero (`x` is 1e-9, give or take
        2e-7)"."""
        node, place, line = self._assigned[target], None, ""
        while True:
            line = self._lines.get(id(node), line)
            place = self._where(node, lost) if place is None else place
            step = self._operand(node, place, lost)
            if step is None:
                return ReferenceProblem(f"{said}: {self._said(node, place)}").at(node).within(line)
            node, place, lost = step

    def _where(self, node: ast.expr, lost: Lost) -> Place | None:
        """A place that is lost: the first; of zeros that pass, where the number is largest."""
        value = self._values[id(node)]
        if not value.value.size:
            return None
        measure = np.abs(value.value) if lost is zeros_pass else value.error
        return tuple(int(i) for i in np.unravel_index(int(np.nanargmax(measure)), value.value.shape))

    def _operand(self, node: ast.expr, place: Place | None, lost: Lost) -> tuple[ast.expr, Place | None, Lost] | None:
        """The operand that is lost already, if there is one."""
        if lost is _uncertain and isinstance(node, ast.Compare):
            return None
        operands = [(operand, self._place_in(node, operand, place)) for operand in self._operands(node)]
        for operand, at in operands:
            if lost(self._values[id(operand)], at):
                return operand, at, lost
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "where":
            condition, at = operands[0]
            if _uncertain(self._values[id(condition)], at):
                return condition, at, _uncertain
        return None

    def _operands(self, node: ast.expr) -> list[ast.expr]:
        if id(node) in self._earlier:
            return [self._earlier[id(node)]]
        return list(self._observed_in(node))

    def _observed_in(self, node: ast.AST) -> Iterator[ast.expr]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr) and id(child) in self._values:
                yield child
            else:
                yield from self._observed_in(child)

    def _place_in(self, node: ast.expr, operand: ast.expr, place: Place | None) -> Place | None:
        """The place of the operand that the place of the result depends on; None if it depends on several."""
        match node:
            case ast.BinOp(_, ast.MatMult(), _):
                return None
            case ast.BinOp() | ast.UnaryOp() | ast.Compare() | ast.Name():
                pass
            case ast.Call(ast.Name(id=name)) if name in _ELEMENTWISE:
                pass
            case _:
                return None
        shape = self._values[id(operand)].value.shape
        if place is None:
            return None
        return tuple(0 if size == 1 else at for at, size in zip(place[len(place) - len(shape) :], shape, strict=True))

    def _said(self, node: ast.expr, place: Place | None) -> str:
        kind = type(node.op) if isinstance(node, ast.BinOp) else type(node)
        called = node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""
        known = []
        for operand in self._operands(node):
            at = self._place_in(node, operand, place)
            value = self._values[id(operand)]
            if at is not None and (value.error[at] or isinstance(node, ast.Compare)) and not isinstance(operand, ast.Constant):
                known.append(f"`{ast.unparse(operand)}` is {value.value[at]:.6g}, give or take {value.error[at]:.3g}")
        shown = f" ({'; '.join(known)})" if known else ""
        return f"`{ast.unparse(node)}` {_REASONS.get(called or kind, _GROWN)}{shown}"
