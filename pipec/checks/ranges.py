"""The least and the largest value of a scalar, where they follow from numbers, loop bounds and the shape of the cluster."""

from collections.abc import Iterable

from pipec.isa.specials import AXES
from pipec.sema import tree

Range = tuple[int, int]
_LIMIT = 2**31
_DEEPEST = 16  # of expressions and of variables that stand for each other


class Ranges:
    """Of one role's scalars; `statements` are all of its statements, however deep."""

    def __init__(self, cluster: tree.Cluster, statements: Iterable[tree.Statement]) -> None:
        self._cluster = cluster
        self._assigned: dict[tree.Variable, list[tree.Expression]] = {}
        self._loops: dict[tree.Variable, tree.For] = {}
        self._found: dict[tree.Expression, Range | None] = {}
        for statement in statements:
            if isinstance(statement, tree.Assign):
                self._assigned.setdefault(statement.variable, []).append(statement.value)
            elif isinstance(statement, tree.For):
                self._loops[statement.variable] = statement

    def of(self, expression: tree.Expression, depth: int = 0) -> Range | None:
        """None where nothing is known, or where the machine's arithmetic may wrap."""
        if expression not in self._found:
            self._found[expression] = None  # of what it is computed from itself
            found = self._of(expression, depth + 1) if depth < _DEEPEST else None
            fits = found is not None and -_LIMIT <= found[0] <= found[1] < _LIMIT
            self._found[expression] = found if fits else None
        return self._found[expression]

    def _of(self, expression: tree.Expression, depth: int) -> Range | None:
        match expression:
            case tree.Constant(value=bool() | int() as value):
                return int(value), int(value)
            case tree.Special(name="cta.rank"):
                return 0, self._cluster.size - 1
            case tree.Special(name=name) if name.startswith("cta.") and name[-1] in AXES:
                return 0, self._cluster.shape[AXES.index(name[-1])] - 1
            case tree.ReadVariable(variable=variable) if variable in self._loops and variable not in self._assigned:
                return self._loop(self._loops[variable], depth)
            case tree.ReadVariable(variable=variable):
                values = [self.of(value, depth) for value in self._assigned.get(variable, ())]
                return _hull(values) if variable not in self._loops else None
            case tree.Select(when_true=one, when_false=other):
                return _hull([self.of(one, depth), self.of(other, depth)])
            case tree.Call(function="min" | "max" as function, arguments=arguments):
                choose = min if function == "min" else max
                known = [self.of(argument, depth) for argument in arguments]
                ranges = [one for one in known if one is not None]
                return (
                    (choose(low for low, _ in ranges), choose(high for _, high in ranges)) if len(ranges) == len(known) else None
                )
            case tree.Binary(operator=operator, left=left, right=right):
                return _binary(operator, self.of(left, depth), self.of(right, depth))
            case tree.ReadParameter() | tree.ReadDimension() | tree.ReadElement() if str(expression.type) == "i32":
                return -_LIMIT, _LIMIT - 1
            case _:
                return None

    def _loop(self, loop: tree.For, depth: int) -> Range | None:
        start, stop = self.of(loop.start, depth), self.of(loop.stop, depth)
        if start is None or stop is None or not loop.step:
            return None
        found = (start[0], stop[1] - 1) if loop.step > 0 else (stop[0] + 1, start[1])
        return found if found[0] <= found[1] else (start[0], start[0])  # a loop that never runs


def _hull(ranges: list[Range | None]) -> Range | None:
    known = [one for one in ranges if one is not None]
    if not known or len(known) < len(ranges):
        return None
    return min(low for low, _ in known), max(high for _, high in known)


def _binary(operator: str, left: Range | None, right: Range | None) -> Range | None:
    if operator == "%" and right is not None and right[0] > 0:
        return 0, right[1] - 1
    if operator == "&" and right is not None and right[0] >= 0:
        return 0, right[1]
    if left is None or right is None:
        return None
    match operator:
        case "+":
            return left[0] + right[0], left[1] + right[1]
        case "-":
            return left[0] - right[1], left[1] - right[0]
        case "*":
            corners = [one * other for one in left for other in right]
            return min(corners), max(corners)
        case "//" if right[0] == right[1] > 0:
            return left[0] // right[0], left[1] // right[0]
        case "^" | "|" if left[0] >= 0 and right[0] >= 0:
            return 0, (1 << max(left[1], right[1]).bit_length()) - 1
        case _:
            return None
