"""The statements of a role: names bound, stages acquired and released, blocks nested."""

from pipec.diag.catalogue.language import names as messages
from pipec.diag.catalogue.stages import peek, stepping
from pipec.diag.message import Message
from pipec.isa.dtypes import DType
from pipec.sema import tree
from pipec.sema.calls.semaphores import take_turn
from pipec.sema.calls.stepping import bind_peek, completing_wait, take_stage
from pipec.sema.context import Context
from pipec.sema.declarations.scheduling import refuse_assignment, walk
from pipec.sema.meanings import (
    EXPRESSIONS,
    Acquired,
    AcquiredPair,
    Barrier,
    Elected,
    EpilogueStage,
    Known,
    NewAccumulator,
    NewRegisterTile,
    Payload,
    Peeked,
    PipelinePayload,
    Poison,
    Range,
    Reported,
    Tile,
    TileGroup,
    Token,
    Turn,
    View,
    Void,
    describe,
)
from pipec.sema.scope import BlockKind
from pipec.sema.types import BOOL, I32, TileType, dtype_of
from pipec.sema.values import arithmetic
from pipec.sema.values.expected import as_runtime, as_value, known, known_dtype, runtime
from pipec.sema.values.groups import NeedsValue
from pipec.sema.values.operators import operate
from pipec.source import Span
from pipec.syntax import ast
from pipec.vocabulary import Form

_ALIASES = (
    Barrier,
    EpilogueStage,
    Payload,
    PipelinePayload,
    Tile,
    TileGroup,
    View,
    Token,
    tree.Handle,
    tree.BufferRef,
    tree.TensorSlice,
    tree.Buffer,
    tree.Pipeline,
    tree.TensorParameter,
    tree.Accumulator,
)


def run_body(context: Context, body: tuple[ast.Statement, ...]) -> None:
    """Analyses statements one by one; a mistake costs only its own statement."""
    for statement in body:
        try:
            _run(context, statement)
        except Reported:
            _poison(context, statement)


def _poison(context: Context, statement: ast.Statement) -> None:
    """Names that a failed statement would have bound mean nothing, so that their uses are not reported as well."""
    targets = []
    if isinstance(statement, ast.Assign | ast.Comptime):
        targets = [statement.target]
    elif isinstance(statement, ast.With):
        targets = [item.target for item in statement.items if item.target is not None]
    for target in targets:
        if context.scope.find(target.name) is None:
            context.bind(target.name, Poison(), None)


def _run(context: Context, statement: ast.Statement) -> None:
    match statement:
        case ast.Assign():
            _assign(context, statement)
        case ast.AugmentedAssign():
            _augmented(context, statement)
        case ast.ExpressionStatement():
            _expression(context, statement)
        case ast.If():
            _if(context, statement)
        case ast.For():
            _for(context, statement)
        case ast.While():
            _while(context, statement)
        case ast.With():
            _with(context, statement, list(statement.items))
        case ast.Comptime():
            comptime(context, statement)
        case ast.Pass():
            pass
        case ast.Tune():
            where = "inside a role" if context.place == "role" else "in a helper"
            context.fail(messages.Misplaced(what="`tune`", where=where, to="to the kernel", at=statement.span))
        case ast.Return():
            context.misplaced_return(statement.span)
        case ast.Role():
            context.fail(messages.Misplaced(what="a role", where="inside a role", to="to the kernel", at=statement.span))


# ------------------------------------------------------------------------------------------------------------ assignments


def comptime(context: Context, statement: ast.Comptime) -> None:
    """`comptime NAME = value`, at file, kernel or role level."""
    entity = context.elaborate(statement.value)
    if not isinstance(entity, Known):
        context.fail(messages.NotComptime(what=f"`{statement.target.name}`", at=statement.value.span))
    context.define(statement.target, Known(entity.value, statement.value.span))


def _assign(context: Context, statement: ast.Assign) -> None:
    target = statement.target
    refuse_assignment(context, target)
    entity = context.elaborate(statement.value)
    match entity:
        case Peeked():
            _refuse_shadowing(context, target)
            context.bind(target.name, bind_peek(context, entity, target.name), target.span)
        case Acquired():
            if entity.form not in ("linear", "either"):
                _not_linear(context, entity, statement)
            context.bind(target.name, acquire(context, target.name, entity, "linear"), target.span)
        case AcquiredPair(output):
            _not_linear(context, output, statement)
        case NewRegisterTile(value):
            _assign_kept(context, target, value, statement.span)
        case NewAccumulator():
            _new_accumulator(context, target, entity)
        case Void() | Elected() | Turn() | Range():
            context.fail(
                messages.WrongType(
                    what="the value", expected="something to name", found=describe(entity), at=statement.value.span
                )
            )
        case _ if isinstance(entity, _ALIASES):
            _refuse_shadowing(context, target)
            context.bind(target.name, entity, target.span)
        case _:
            found = as_value(context, entity, statement.value.span, "the value")
            if _kept_variable(context, target) is not None:
                _assign_kept(context, target, as_runtime(context, found, None, "the value"), statement.span)
            elif isinstance(found, EXPRESSIONS) and isinstance(found.type, TileType):
                _assign_tile(context, target, found, statement.span)
            else:
                _assign_scalar(context, target, found, statement)


def _not_linear(context: Context, entity: Acquired, statement: ast.Assign) -> None:
    context.fail(
        messages.LinearInWith(
            problem=f"a stage of `{entity.span.text()}` belongs to a `with`",
            form="scoped",
            fix=f"write `with {statement.value.span.text()} as {statement.target.name}:`, or use the acquire form",
            at=statement.value.span,
        )
    )


def acquire(context: Context, name: str, entity: Acquired, either: Form = "scoped") -> tree.Handle:
    """Emits the wait and gives the stage its handle; `either` is the form of a stage that may have both."""
    form = either if entity.form == "either" else entity.form
    return take_stage(context, entity.pipeline, entity.side, form, name, entity.span, entity.token)


def _new_accumulator(context: Context, target: ast.Name, entity: NewAccumulator) -> None:
    _refuse_shadowing(context, target)
    accumulator = tree.Accumulator(target.name, entity.dtype, entity.rows, entity.columns, entity.span)
    context.emit(tree.ClearAccumulator(accumulator, entity.span))
    context.bind(target.name, accumulator, target.span)


def _refuse_shadowing(context: Context, target: ast.Name) -> None:
    """Names of the kernel mean the same in all of its roles."""
    assert context.kernel_scope is not None
    binding = context.kernel_scope.find(target.name)
    if binding is not None:
        context.fail(messages.Redefined(name=target.name, at=target.span, first=binding.span))


def _assign_tile(context: Context, target: ast.Name, found: tree.Expression, span: Span) -> None:
    _new_tile(context, target, tree.Variable(target.name, found.type, target.span), found, span)


def _kept_variable(context: Context, target: ast.Name) -> tree.Variable | None:
    """The tile in registers that the name stands for already."""
    binding = context.scope.find(target.name)
    variable = binding.entity if binding is not None else None
    return variable if isinstance(variable, tree.Variable) and variable.in_registers else None


def _assign_kept(context: Context, target: ast.Name, found: tree.Expression, span: Span) -> None:
    variable = _kept_variable(context, target)
    if variable is None:
        _new_tile(context, target, tree.Variable(target.name, found.type, target.span, in_registers=True), found, span)
        return
    widened = arithmetic.widen(found, dtype_of(variable.type))
    if widened is None or widened.type != variable.type:
        context.fail(
            messages.TypeChanged(name=variable.name, old=str(variable.type), new=str(found.type), at=span, first=variable.span)
        )
    context.emit(tree.Assign(variable, widened, span))


def _new_tile(context: Context, target: ast.Name, variable: tree.Variable, found: tree.Expression, span: Span) -> None:
    _refuse_shadowing(context, target)
    outer = context.scope.find(target.name)
    if outer is not None and target.name not in context.scope.names and isinstance(outer.entity, tree.Variable):
        context.fail(messages.TileReassigned(name=target.name, at=target.span, first=outer.entity.span))
    context.emit(tree.Assign(variable, found, span))
    context.bind(target.name, variable, target.span)


def _assign_scalar(context: Context, target: ast.Name, found: Known | tree.Expression, statement: ast.Assign) -> None:
    _refuse_shadowing(context, target)
    stated = known_dtype(context, statement.annotation) if statement.annotation is not None else None
    binding = context.scope.find(target.name)
    variable = binding.entity if binding is not None else None
    again = isinstance(found, tree.StageIndex) and target.name in context.scope.names
    if not isinstance(variable, tree.Variable) or isinstance(variable.type, TileType) or again:
        first = as_runtime(context, found, stated, "the value")
        variable = tree.Variable(target.name, first.type, target.span)
        context.emit(tree.Assign(variable, first, statement.span))
        context.bind(target.name, variable, target.span)
        if isinstance(found, tree.StageIndex) and found.sub_stage is None:
            context.stage_numbers[variable] = found.handle
        return
    if stated is not None and stated is not variable.type:
        context.fail(
            messages.TypeChanged(
                name=target.name, old=str(variable.type), new=str(stated), at=statement.span, first=variable.span
            )
        )
    _store_scalar(context, variable, found, statement.span)


def _store_scalar(context: Context, variable: tree.Variable, found: Known | tree.Expression, span: Span) -> None:
    assert isinstance(variable.type, DType)
    if variable in context.picked:
        context.fail(stepping.StageNumberChanged(name=variable.name, at=span, first=variable.span))
    context.stage_numbers.pop(variable, None)
    if not isinstance(found, Known):
        widened = arithmetic.widen(found, variable.type)
        if widened is None:
            context.fail(
                messages.TypeChanged(
                    name=variable.name, old=str(variable.type), new=str(found.type), at=span, first=variable.span
                )
            )
        found = widened
    context.emit(tree.Assign(variable, as_runtime(context, found, variable.type, "the value"), span))


def _augmented(context: Context, statement: ast.AugmentedAssign) -> None:
    refuse_assignment(context, statement.target)
    entity = context.look_up(statement.target)
    right = context.elaborate(statement.value)
    if not isinstance(right, Known):
        right = as_value(context, right, statement.value.span, "the value")
    if not isinstance(entity, tree.Variable):
        context.fail(
            messages.WrongType(
                what=f"the target of `{statement.operator}=`",
                expected="a variable",
                found=describe(entity),
                at=statement.target.span,
            )
        )
    result = operate(context, statement.operator, tree.ReadVariable(entity, statement.target.span), right, statement.span)
    if entity.in_registers:
        _assign_kept(context, statement.target, result, statement.span)
        return
    if isinstance(entity.type, TileType):
        _assign_tile(context, statement.target, result, statement.span)
        return
    if isinstance(result.type, TileType):
        context.fail(
            messages.TypeChanged(
                name=entity.name, old=str(entity.type), new=str(result.type), at=statement.span, first=entity.span
            )
        )
    _store_scalar(context, entity, result, statement.span)


def _expression(context: Context, statement: ast.ExpressionStatement) -> None:
    if isinstance(statement.value, ast.String):
        return
    entity = context.elaborate(statement.value)
    match entity:
        case Void():
            return
        case Acquired() | AcquiredPair():
            by_hand = isinstance(entity, Acquired) and entity.form == "linear"
            call = statement.span.text()
            context.fail(messages.UnnamedStage(fix=f"s = {call}" if by_hand else f"with {call} as s:", at=statement.span))
        case Peeked():
            context.fail(_dropped_peek(entity))
        case Turn():
            context.fail(messages.NoEffect(hint=f"write `with {statement.span.text()}:`", at=statement.span))
        case _:
            context.fail(messages.NoEffect(hint=None, at=statement.span))


def _dropped_peek(peeked: Peeked) -> Message:
    token = tree.Handle("ready", peeked.pipeline, peeked.side, "token", peeked.span)
    return peek.PeekNeverUsed(
        token=token.name,
        pipeline=peeked.pipeline.name,
        ending="",
        right=completing_wait(token),
        at=peeked.span,
        end=None,
    )


# ----------------------------------------------------------------------------------------------------------------- blocks


def _block(context: Context, body: tuple[ast.Statement, ...], inside: Span, kind: BlockKind) -> tuple[tree.Statement, ...]:
    with context.block(inside, kind) as inner:
        run_body(inner, body)
    return tuple(inner.statements)


def _condition(context: Context, node: ast.Expression) -> Known | tree.Expression:
    entity = context.elaborate(node)
    if isinstance(entity, Known):
        known(context, node, bool, "the condition", "a condition")
        return entity
    found = as_runtime(context, as_value(context, entity, node.span, "the condition"), None)
    if found.type is not BOOL:
        hint = "; compare it, for example `!= 0`" if isinstance(found.type, DType) else ""
        context.fail(
            messages.WrongType(what="the condition", expected="true or false", found=describe(found) + hint, at=node.span)
        )
    return found


def _if(context: Context, statement: ast.If) -> None:
    condition = _condition(context, statement.condition)
    if isinstance(condition, Known):
        # Chosen while compiling: the other branch is not looked at, and the names of this one stay in sight.
        run_body(context, statement.then if condition.value else statement.otherwise)
        return
    then = _block(context, statement.then, statement.condition.span, "branch")
    otherwise = _block(context, statement.otherwise, statement.condition.span, "branch")
    context.emit(tree.If(condition, then, otherwise, statement.condition.span))


def _for(context: Context, statement: ast.For) -> None:
    iterable = context.elaborate(statement.iterable)
    if not isinstance(iterable, Range | tree.Schedule):
        context.fail(messages.BadRange(found=describe(iterable), at=statement.iterable.span))
    _refuse_shadowing(context, statement.target)
    if isinstance(iterable, tree.Schedule):
        walk(context, statement, iterable)
        return
    if not isinstance(iterable.step, int):
        _strided(context, statement, iterable, iterable.step)
        return
    variable = tree.Variable(statement.target.name, I32, statement.target.span)
    values = _constant_range(iterable)
    if values is not None:
        context.ranges[variable] = values
    attempt = context.checkpoint()
    try:
        _loop(context, statement, iterable, variable, values is not None)
    except NeedsValue as asked:
        if asked.variable is not variable or values is None:
            raise
        context.take_back(attempt)
        _unrolled(context, statement, values)


def _constant_range(iterable: Range) -> range | None:
    if isinstance(iterable.start, tree.Constant) and isinstance(iterable.stop, tree.Constant):
        assert isinstance(iterable.step, int)
        return range(int(iterable.start.value), int(iterable.stop.value), iterable.step)
    return None


def _strided(context: Context, statement: ast.For, iterable: Range, step: tree.Expression) -> None:
    """A step that is known at launch only: counts the iterations, and computes the target from the count."""
    name, at = statement.target.name, statement.target.span
    first = tree.Variable(f"{name}.start", I32, at)
    count, target = tree.Variable(f"{name}.count", I32, at), tree.Variable(name, I32, at)
    context.emit(tree.Assign(first, iterable.start, at))
    start = tree.ReadVariable(first, at)
    length = tree.Binary("-", iterable.stop, start, I32, iterable.span)
    trips = tree.Call("ceildiv", (length, step), I32, iterable.span)
    walked = tree.Binary("*", tree.ReadVariable(count, at), step, I32, at)
    with context.block(statement.span) as inner:
        inner.emit(tree.Assign(target, tree.Binary("+", start, walked, I32, at), at))
        inner.bind(name, tree.ReadVariable(target, at), at)
        run_body(inner, statement.body)
    zero = tree.Constant(0, I32, iterable.span)
    context.emit(tree.For(count, zero, trips, 1, tuple(inner.statements), statement.span))


def _unrolled(context: Context, statement: ast.For, values: range) -> None:
    """The body once per value, which it knows while compiling."""
    for number in values:
        context.spend(statement.span)
        with context.block(statement.span) as inner:
            inner.bind(statement.target.name, Known(number, statement.target.span), statement.target.span)
            run_body(inner, statement.body)
        context.statements.extend(inner.statements)


def _loop(context: Context, statement: ast.For, iterable: Range, variable: tree.Variable, constant: bool) -> None:
    assert isinstance(iterable.step, int)
    with context.block(statement.span) as inner:
        if constant:
            inner.unrollable = context.unrollable | {variable}
        # Bound as a value, not as the variable: assigning to it makes a new name, and the count goes on, as in Python.
        inner.bind(statement.target.name, tree.ReadVariable(variable, statement.target.span), statement.target.span)
        run_body(inner, statement.body)
    context.emit(tree.For(variable, iterable.start, iterable.stop, iterable.step, tuple(inner.statements), statement.span))


def _while(context: Context, statement: ast.While) -> None:
    condition = _condition(context, statement.condition)
    if isinstance(condition, Known):
        if condition.value:
            context.fail(messages.EndlessLoop(at=statement.condition.span))
        return
    context.emit(
        tree.While(condition, _block(context, statement.body, statement.condition.span, "loop"), statement.condition.span)
    )


def _with(context: Context, statement: ast.With, items: list[ast.WithItem]) -> None:
    """The items from left to right, each inside the one before; released from right to left."""
    if not items:
        run_body(context, statement.body)
        return
    item, rest = items[0], items[1:]
    entity = context.elaborate(item.context)
    if isinstance(entity, Elected):
        with context.block(item.span, "with") as inner:
            _with(inner, statement, rest)
        context.emit(tree.Elect(tuple(inner.statements), item.span))
        return
    if isinstance(entity, AcquiredPair):
        _with_pair(context, statement, item, rest, entity)
        return
    if isinstance(entity, Turn):
        with take_turn(context, entity) as inner:
            _with(inner, statement, rest)
        return
    if not isinstance(entity, Acquired):
        context.fail(messages.NotScoped(found=describe(entity), at=item.context.span))
    if entity.form == "linear":
        verb = "produce" if entity.side == "producer" else "consume"
        context.fail(
            messages.LinearInWith(
                problem="an acquired stage is released by hand, not by a `with`",
                form="linear",
                fix=f"write `with {entity.pipeline.name}.{verb}() as s:`, or assign it and call `release()`",
                at=item.context.span,
            )
        )
    if item.target is not None:
        _refuse_shadowing(context, item.target)
    name = item.target.name if item.target is not None else entity.pipeline.name
    handle = acquire(context, name, entity)
    with context.block(item.span, "with") as inner:
        if item.target is not None:
            inner.bind(name, handle, item.target.span)
        _with(inner, statement, rest)
    context.statements.extend(inner.statements)
    context.emit(tree.Release(handle, handle.form == "scoped", item.span))


def _with_pair(context: Context, statement: ast.With, item: ast.WithItem, rest: list[ast.WithItem], entity: AcquiredPair) -> None:
    """Both stages for the length of the block; the accumulator is waited for first and released last."""
    if item.target is not None:
        _refuse_shadowing(context, item.target)
    name = item.target.name if item.target is not None else entity.output.pipeline.name
    output = acquire(context, name, entity.output)
    source = acquire(context, f"{name}.input_stage", entity.input)
    with context.block(item.span, "with") as inner:
        if item.target is not None:
            inner.bind(name, EpilogueStage(output, source), item.target.span)
        _with(inner, statement, rest)
    context.statements.extend(inner.statements)
    for handle in (source, output):
        context.emit(tree.Release(handle, True, item.span))


__all__ = ["comptime", "run_body", "runtime"]
