"""Branches and loops; a loop whose variable selects one of several tiles is unrolled."""

from collections.abc import Iterable, Iterator
from typing import Final

from pipec.diag.catalogue.language import placement as placement_messages
from pipec.diag.catalogue.language import types as types_messages
from pipec.isa.dtypes import DType
from pipec.record import fields_of
from pipec.sema import tree
from pipec.sema.context import Context
from pipec.sema.declarations.scheduling import walk
from pipec.sema.meanings import Known, Range, describe
from pipec.sema.scope import BlockKind
from pipec.sema.statements.assignments import refuse_shadowing
from pipec.sema.types import BOOL, I32, TileType
from pipec.sema.values.expected import as_runtime, as_value, known
from pipec.sema.values.groups import NeedsValue
from pipec.source import Span
from pipec.syntax import ast


def _block(context: Context, body: tuple[ast.Statement, ...], inside: Span, kind: BlockKind) -> tuple[tree.Statement, ...]:
    with context.block(inside, kind) as inner:
        inner.run_body(body)
    return tuple(inner.statements)


def _condition(context: Context, node: ast.Expression) -> Known | tree.Expression:
    meaning = context.elaborate(node)
    if isinstance(meaning, Known):
        # A compile-time number is not accepted as a condition either: `if STAGES:` is more often an error than a test for zero.
        known(context, node, bool, "the condition", "a condition")
        return meaning
    found = as_runtime(context, as_value(context, meaning, node.span, "the condition"), None)
    if found.type is not BOOL:
        more, hint, text = "", None, node.span.text()
        if isinstance(found.type, DType):
            more = "; compare it, for example `!= 0`"
        elif isinstance(found.type, TileType) and found.type.dtype is BOOL:
            hint = f"write `any({text})` or `all({text})`, for where it holds somewhere or everywhere in the tile"
        context.fail(
            types_messages.WrongType(
                what="the condition", expected="true or false", found=describe(found) + more, hint=hint, at=node.span
            )
        )
    return found


def branch(context: Context, statement: ast.If) -> None:
    condition = _condition(context, statement.condition)
    if isinstance(condition, Known):
        # Decided at compile time: the other branch is not analysed, and the names of this one stay in scope.
        context.run_body(statement.then if condition.value else statement.otherwise)
        return
    context.in_a_role("a branch on a value that is not known at compile time", statement.condition.span)
    before = dict(context.scope.hidden)
    then = _block(context, statement.then, statement.condition.span, "branch")
    # What one branch gives another meaning has its old one in the other branch.
    hidden = dict(context.scope.hidden)
    context.scope.hidden.clear()
    context.scope.hidden.update(before)
    otherwise = _block(context, statement.otherwise, statement.condition.span, "branch")
    context.scope.hidden.update(hidden)
    context.emit(tree.If(condition, then, otherwise, statement.condition.span))


def for_loop(context: Context, statement: ast.For) -> None:
    context.in_a_role("a loop", statement.span)
    iterable = context.elaborate(statement.iterable)
    if not isinstance(iterable, Range | tree.Schedule):
        context.fail(types_messages.BadRange(found=describe(iterable), at=statement.iterable.span))
    refuse_shadowing(context, statement.target)
    if isinstance(iterable, tree.Schedule):
        walk(context, statement, iterable)
        return
    # `tree.For` has a constant step, on which the trip-count analysis and the lowered comparison rely.
    if not isinstance(iterable.step, int):
        _strided(context, statement, iterable, iterable.step)
        return
    variable = tree.Variable(statement.target.name, I32, statement.target.span)
    values = _constant_range(iterable)
    if values is not None:
        context.ranges[variable] = values
    # A loop stays a loop unless its body indexes one of several tiles with the loop variable, which raises NeedsValue: such an index must
    # be known at compile time.
    attempt = context.checkpoint()
    try:
        _loop(context, statement, iterable, variable, values is not None)
    except NeedsValue as asked:
        # The variable of an outer loop: that loop catches the exception and is unrolled, with this one inside.
        if asked.variable is not variable or values is None:
            raise
        # Undo what the attempt emitted, bound and reported; otherwise each diagnostic of the body would appear twice.
        context.take_back(attempt)
        _unrolled(context, statement, values)


def _constant_range(iterable: Range) -> range | None:
    if isinstance(iterable.start, tree.Constant) and isinstance(iterable.stop, tree.Constant):
        assert isinstance(iterable.step, int)
        return range(int(iterable.start.value), int(iterable.stop.value), iterable.step)
    return None


def _strided(context: Context, statement: ast.For, iterable: Range, step: tree.Expression) -> None:
    """A step known only at launch: counts the iterations and computes the target from the count."""
    name, at = statement.target.name, statement.target.span
    first = tree.Variable(f"{name}.start", I32, at)
    # Between the start and the stop.
    natural = _is_natural(iterable.start) and _is_natural(step)
    count, target = tree.Variable(f"{name}.count", I32, at), tree.Variable(name, I32, at, natural=natural)
    # Evaluated once, as in Python: the body may change the operands of the start.
    context.emit(tree.Assign(first, iterable.start, at))
    start = tree.ReadVariable(first, at)
    length = tree.Call("distance", (start, iterable.stop), I32, iterable.span)
    trips = tree.Call("ceildiv", (length, step), I32, iterable.span)
    walked = tree.Binary("*", tree.ReadVariable(count, at), step, I32, at)
    with context.block(statement.span) as inner:
        inner.emit(tree.Assign(target, tree.Binary("+", start, walked, I32, at), at))
        inner.bind_again(name, tree.ReadVariable(target, at), at)
        inner.run_body(statement.body)
    zero = tree.Constant(0, I32, iterable.span)
    way = tree.Walk(target, start, iterable.stop, step)
    context.emit(tree.For(count, zero, trips, 1, tuple(inner.statements), statement.span, way))


def _is_natural(expression: tree.Expression) -> bool:
    return isinstance(expression, tree.Special) or (isinstance(expression, tree.Constant) and expression.value >= 0)


def _unrolled(context: Context, statement: ast.For, values: range) -> None:
    """The body once per value of the variable, as a compile-time constant."""
    for number in values:
        # Each copy counts against the budget: nested unrolled loops multiply, and nothing else bounds them.
        context.spend(statement.span)
        with context.block(statement.span) as inner:
            inner.bind_again(statement.target.name, Known(number, statement.target.span), statement.target.span)
            inner.run_body(statement.body)
        context.statements.extend(inner.statements)


def _loop(context: Context, statement: ast.For, iterable: Range, variable: tree.Variable, constant: bool) -> None:
    assert isinstance(iterable.step, int)
    with context.block(statement.span) as inner:
        if constant:
            # The loop can be unrolled, if its body requires it, only if the bounds are constants.
            inner.unrollable = context.unrollable | {variable}
        # Bound as a value, not as the variable: an assignment to it creates a new name, and the count continues, as in Python.
        inner.bind_again(statement.target.name, tree.ReadVariable(variable, statement.target.span), statement.target.span)
        inner.run_body(statement.body)
    context.emit(tree.For(variable, iterable.start, iterable.stop, iterable.step, tuple(inner.statements), statement.span))


def while_loop(context: Context, statement: ast.While) -> None:
    context.in_a_role("a loop", statement.condition.span)
    before = len(context.statements)
    condition = _condition(context, statement.condition)
    if isinstance(condition, Known):
        # A loop whose condition is false at compile time is dropped without analysing its body, like an untaken branch.
        if condition.value:
            context.fail(placement_messages.EndlessLoop(why="the condition is true at compile time", at=statement.condition.span))
        return
    at = statement.condition.span
    if len(context.statements) == before:
        reported = context.sink.checkpoint()
        repeated = _block(context, statement.body, at, "loop")
        asked = _asked(condition)
        # (An assignment that is refused may be the one that would have changed it.)
        if asked is not None and asked.isdisjoint(_assigned(repeated)) and context.sink.checkpoint() == reported:
            context.fail(
                placement_messages.EndlessLoop(why="if this holds once it holds for ever: nothing in the loop changes it", at=at)
            )
        context.emit(tree.While(condition, repeated, at))
        return
    # The operations of the condition (votes, the arguments of helpers) are repeated before each iteration.
    holds = tree.Variable("while", BOOL, at)
    context.emit(tree.Assign(holds, condition, at))
    body = _block(context, statement.body, at, "loop")
    with context.block(at) as again:
        found = _condition(again, statement.condition)
        assert not isinstance(found, Known)
        again.emit(tree.Assign(holds, found, at))
    context.emit(tree.While(tree.ReadVariable(holds, at), (*body, *again.statements), at))


_STEADY: Final = (
    tree.Constant | tree.ReadVariable | tree.ReadDimension | tree.ReadParameter | tree.Special
    | tree.Unary | tree.Binary | tree.Convert | tree.Bitcast | tree.Select | tree.Call
)  # fmt: skip


def _asked(condition: tree.Expression) -> set[tree.Variable] | None:
    """The variables on which a condition depends; None if it depends on something else that may change, such as memory."""
    found: set[tree.Variable] = set()
    seen: set[tree.Expression] = set()
    work = [condition]
    while work:
        one = work.pop()
        if one in seen:
            continue
        seen.add(one)
        if not isinstance(one, _STEADY):
            return None
        if isinstance(one, tree.ReadVariable):
            found.add(one.variable)
        for value in fields_of(one).values():
            work += [part for part in (value if isinstance(value, tuple) else (value,)) if isinstance(part, tree.Expression)]
    return found


def _assigned(statements: Iterable[tree.Statement]) -> Iterator[tree.Variable]:
    """The variables that statements change: by assignment, or by an operation that has a result."""
    for one in statements:
        for value in fields_of(one).values():
            if isinstance(value, tree.Variable):
                yield value
            elif isinstance(value, tuple) and isinstance(one, tree.If | tree.For | tree.While | tree.Elect):
                yield from _assigned(value)
