"""Walks over the typed tree's expressions and operations: what they read, and which stages they touch."""

from collections.abc import Iterator, Mapping
from typing import assert_never

from pipec.record import fields_of, replace
from pipec.sema import tree

# Half of all expressions. `match` tests one class at a time, and the walks below are a fifth of the time of checks and plan.
_LEAVES = frozenset(
    (
        tree.Constant, tree.ReadVariable, tree.ReadDimension, tree.ReadParameter, tree.Special,
        tree.StageIndex, tree.ReadResponse, tree.ReadAccumulator, tree.ReadReducedColumns, tree.Position,
    )
)  # fmt: skip


def children(expression: tree.Expression) -> tuple[tree.Expression, ...]:
    match expression:
        case tree.Binary():
            return (expression.left, expression.right)
        case tree.Unary() | tree.Convert() | tree.Bitcast() | tree.Splat() | tree.Columns() | tree.RowReduce():
            return (expression.operand,)
        case tree.ReadTensor(source, at=at):
            return source.coordinates if at is None else (*source.coordinates, at)
        case tree.ReadElement():
            return expression.source.coordinates
        case tree.ReadBuffer():
            return tuple(part for part in (expression.first_column, expression.source.cta) if part is not None)
        case tree.Scattered():
            return (expression.operand, expression.at)
        case tree.Select():
            return (expression.condition, expression.when_true, expression.when_false)
        case tree.Call():
            return expression.arguments
        case (
            tree.Constant() | tree.ReadVariable() | tree.ReadDimension() | tree.ReadParameter() | tree.Special()
            | tree.StageIndex() | tree.ReadResponse() | tree.ReadAccumulator() | tree.ReadReducedColumns() | tree.Position()
        ):  # fmt: skip
            return ()
        case _:
            assert_never(expression)


def with_children(expression: tree.Expression, made: Mapping[tree.Expression, tree.Expression]) -> tree.Expression:
    """The same operation on other operands: `made` maps each child to its replacement."""
    changes: dict[str, object] = {}
    for name, value in fields_of(expression).items():
        changes[name] = tuple(made.get(one, one) for one in value) if isinstance(value, tuple) else made.get(value, value)
    return replace(expression, **changes)


def subexpressions(
    expression: tree.Expression, names: Mapping[tree.Variable, tree.Expression] | None = None
) -> Iterator[tree.Expression]:
    """The expression and everything below it, outermost first; variables in `names` are expanded.

    Each node once: expressions share subexpressions (`t = t + t` many times over), so there may be exponentially more paths than nodes.
    """
    seen: set[tree.Expression] = set()
    through: set[tree.Variable] = set()
    stack = [expression]
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        yield node
        if names is not None and isinstance(node, tree.ReadVariable) and node.variable in names:
            if node.variable not in through:
                through.add(node.variable)
                stack.append(names[node.variable])
            continue
        if type(node) not in _LEAVES:
            stack.extend(reversed(children(node)))


def evaluated_tile(operation: tree.Operation) -> tree.Expression | None:
    """The tile that the role's threads compute for this operation, element by element."""
    return operation.effects.tile


def operands(operation: tree.Operation) -> tuple[tree.Expression, ...]:
    """The expressions that an operation evaluates (buffer references are not expressions: see `references`)."""
    return operation.effects.evaluates


def nodes(operation: tree.Operation) -> tuple[tree.Expression, ...]:
    """The expressions that an operation evaluates, and everything below them. Half of the checks and of the plan ask for these, so they
    are listed once."""
    found: tuple[tree.Expression, ...] | None = getattr(operation, "_nodes", None)
    if found is None:
        found = tuple([node for one in operands(operation) for node in subexpressions(one)])
        object.__setattr__(operation, "_nodes", found)
    return found


def references(operation: tree.Operation) -> tuple[tree.BufferRef, ...]:
    """The stage tiles that are direct operands, outside expressions."""
    return tuple(use.tile for use in operation.effects.uses)
