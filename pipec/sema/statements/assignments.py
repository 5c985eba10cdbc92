"""Assignments: aliases, variables, register tiles, accumulators."""

from pipec.diag.catalogue.language import constants as constants_messages
from pipec.diag.catalogue.language import names as messages
from pipec.diag.catalogue.language import placement as placement_messages
from pipec.diag.catalogue.language import types as types_messages
from pipec.diag.catalogue.stages import linear as linear_messages
from pipec.diag.catalogue.stages import stepping
from pipec.isa.dtypes import DType
from pipec.sema import tree
from pipec.sema.calls.peeks import assign_peek, assign_token
from pipec.sema.calls.stepping import take_stage
from pipec.sema.context import Context
from pipec.sema.declarations.scheduling import refuse_assignment
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
    Tile,
    TileGroup,
    Token,
    Turn,
    View,
    Void,
    describe,
)
from pipec.sema.scope import Binding
from pipec.sema.types import BOOL, TileType, dtype_of
from pipec.sema.values import arithmetic
from pipec.sema.values.expected import as_runtime, as_value, known_dtype
from pipec.sema.values.operators import operate
from pipec.source import Span
from pipec.syntax import ast
from pipec.vocabulary import Form

# What a name may stand for without a run-time value: it is resolved at compile time at each use.
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


def comptime(context: Context, statement: ast.Comptime) -> None:
    """`comptime NAME = value`, at file, kernel or role level."""
    meaning = context.elaborate(statement.value)
    if not isinstance(meaning, Known):
        context.fail(constants_messages.NotComptime(what=f"`{statement.target.name}`", at=statement.value.span))
    context.define(statement.target, Known(meaning.value, statement.value.span))


def assign(context: Context, statement: ast.Assign) -> None:
    target = statement.target
    # Before the value is analysed: its operations would be emitted although the name cannot take it.
    refuse_assignment(context, target)
    meaning = context.elaborate(statement.value)
    match meaning:
        case Peeked():
            refuse_shadowing(context, target)
            assign_peek(context, target, meaning)
        case Acquired():
            if meaning.form not in ("linear", "either"):
                _not_linear(context, meaning, statement)
            # Not an alias: the wait happens at the assignment, so an acquire cannot be reordered by naming it later.
            handle = acquire(context, target.name, meaning, "linear")
            if (stage := _stage_outside(context, target)) is not None and stage.meaning in context.given_away:
                _move(context, stage, handle, statement)
            else:
                context.bind(target.name, handle, target.span)
        case AcquiredPair(output):
            _not_linear(context, output, statement)
        case NewRegisterTile(value):
            _assign_register_tile(context, target, value, statement.span)
        case NewAccumulator():
            _new_accumulator(context, target, meaning)
        # These are used in a `with`, a `for`, or as a statement; a named one could be used where it has no meaning.
        case Void() | Elected() | Turn() | Range():
            context.fail(
                types_messages.WrongType(
                    what="the value", expected="something to name", found=describe(meaning), at=statement.value.span
                )
            )
        case tree.Handle() if (stage := _stage_outside(context, target)) is not None:
            _move(context, stage, meaning, statement)
        case Token() if assign_token(context, target, meaning, statement.span):
            pass
        # A second name for a compile-time value costs nothing at run time, so nothing is emitted.
        # (The rank of another CTA's tile is a value, which may change while the name is in use.)
        case _ if isinstance(meaning, _ALIASES) and not _is_elsewhere(meaning) and _register_variable(context, target) is None:
            refuse_shadowing(context, target)
            context.bind_again(target.name, meaning, target.span)
        case _:
            found = as_value(context, meaning, statement.value.span, "the value")
            if _register_variable(context, target) is not None:
                _assign_register_tile(context, target, as_runtime(context, found, None, "the value"), statement.span)
            elif isinstance(found, EXPRESSIONS) and isinstance(found.type, TileType):
                _assign_tile(context, target, found, statement.span)
            else:
                _assign_scalar(context, target, found, statement)


def _is_elsewhere(meaning: object) -> bool:
    return isinstance(meaning, tree.BufferRef) and meaning.cta is not None


def _not_linear(context: Context, meaning: Acquired, statement: ast.Assign) -> None:
    context.fail(
        placement_messages.LinearInWith(
            problem=f"a stage of `{meaning.span.text()}` belongs to a `with`",
            form="scoped",
            fix=f"write `with {statement.value.span.text()} as {statement.target.name}:`, or use the acquire form",
            at=statement.value.span,
        )
    )


def acquire(context: Context, name: str, meaning: Acquired, either: Form = "scoped") -> tree.Handle:
    """Emits the wait and creates the stage's handle; `either` is the form to use if the acquire allows both."""
    form = either if meaning.form == "either" else meaning.form
    return take_stage(context, meaning.pipeline, meaning.side, form, name, meaning.span, meaning.token)


def _stage_outside(context: Context, target: ast.Name) -> Binding | None:
    """The stage of an enclosing block that the name stands for: it will stand for another one behind this block, too."""
    binding = None if target.name in context.scope.names else context.scope.find(target.name)
    return binding if binding is not None and isinstance(binding.meaning, tree.Handle) else None


def _move(context: Context, taken: Binding, source: tree.Handle, statement: ast.Assign) -> None:
    target = taken.meaning
    assert isinstance(target, tree.Handle)
    name, span = statement.target, statement.span
    problem = None
    if taken.span is None:
        problem = f"`{name.name}` is the helper's own name for a stage of its caller, which would keep the old one"
    elif (target.pipeline, target.side) != (source.pipeline, source.side):
        of_target, of_source = (f"a {one.side}'s stage of `{one.pipeline.name}`" for one in (target, source))
        problem = f"it stands for {of_target}, this is {of_source}"
    elif source.side == "producer":
        problem = "what fills a producer's stage is counted where the stage is obtained"
    elif (target.form, source.form) != ("linear", "linear"):
        problem = "one of the two is given back by the `with` or the step that belongs to it"
    elif max(source.pipeline.producer_sub_stages, source.pipeline.consumer_sub_stages) > 1:
        problem = "the sub-stages of a stage are waited for one by one"
    if problem is not None:
        context.fail(
            linear_messages.NotMoved(stage=name.name, source=source.name, problem=problem, at=statement.span, obtained=taken.span)
        )
    context.leave_behind(name.name, target, span)
    context.given_away.add(source)
    context.emit(tree.Move(target, source, span))


def _new_accumulator(context: Context, target: ast.Name, meaning: NewAccumulator) -> None:
    refuse_shadowing(context, target)
    accumulator = tree.Accumulator(target.name, meaning.dtype, meaning.rows, meaning.columns, meaning.span)
    # Cleared at its declaration and not by the first MMA: in a loop each iteration starts from zero, and an accumulator that no MMA
    # reaches is still defined.
    context.emit(tree.ClearAccumulator(accumulator, meaning.span))
    context.bind_again(target.name, accumulator, target.span)


def refuse_shadowing(context: Context, target: ast.Name) -> None:
    """Rejects a target that names something of the kernel: those names mean the same in all roles. The names of a helper are its own."""
    assert context.kernel_scope is not None
    binding = context.kernel_scope.find(target.name)
    if binding is not None and not context.inlining:
        context.bind(target.name, Poison(), target.span)  # one mistake, however often the name is used
        context.fail(messages.Redefined(name=target.name, at=target.span, first=binding.span))


def _assign_tile(context: Context, target: ast.Name, found: tree.Expression, span: Span) -> None:
    _new_tile(context, target, tree.Variable(target.name, found.type, target.span), found, span)


def _register_variable(context: Context, target: ast.Name) -> tree.Variable | None:
    """The register tile that the name already stands for."""
    binding = context.scope.find(target.name)
    variable = binding.meaning if binding is not None else None
    return variable if isinstance(variable, tree.Variable) and variable.in_registers else None


def _assign_register_tile(context: Context, target: ast.Name, found: tree.Expression, span: Span) -> None:
    # A register-resident tile keeps its variable across assignments and so becomes loop-carried state. A lazy tile gets a new variable
    # each time.
    variable = _register_variable(context, target)
    if variable is None:
        _new_tile(context, target, tree.Variable(target.name, found.type, target.span, in_registers=True), found, span)
        return
    # The first assignment fixes the register type; narrower values are widened, anything else would change the type.
    widened = arithmetic.widen(found, dtype_of(variable.type))
    if widened is None or widened.type != variable.type:
        context.fail(
            types_messages.TypeChanged(
                name=variable.name, old=str(variable.type), new=str(found.type), at=span, first=variable.span
            )
        )
    context.emit(tree.Assign(variable, widened, span))


def _new_tile(context: Context, target: ast.Name, variable: tree.Variable, found: tree.Expression, span: Span) -> None:
    refuse_shadowing(context, target)
    # A lazy tile is evaluated at its uses, so its expression must not depend on the path taken.
    outer = context.scope.find(target.name)
    if outer is not None and target.name not in context.scope.names and isinstance(outer.meaning, tree.Variable):
        context.fail(messages.TileReassigned(name=target.name, at=target.span, first=outer.meaning.span))
    context.emit(tree.Assign(variable, found, span))
    context.bind_again(target.name, variable, target.span)


def _assign_scalar(context: Context, target: ast.Name, found: Known | tree.Expression, statement: ast.Assign) -> None:
    refuse_shadowing(context, target)
    stated = known_dtype(context, statement.annotation) if statement.annotation is not None else None
    if context.place != "role":
        # In a helper that is called there: nothing runs, so the name stands for its expression, as a name of the kernel does.
        named = found if isinstance(found, Known) and stated is None else as_runtime(context, found, stated, "the value")
        context.bind_again(target.name, named, target.span)
        return
    binding = context.scope.find(target.name)
    variable = binding.meaning if binding is not None else None
    if isinstance(variable, Token) and binding is not None and binding.span is not None and _is_condition(found):
        variable = variable.ready
    # The number of another stage gets a variable of its own, so that each number selects its own stage's slot.
    again = isinstance(found, tree.StageIndex) and target.name in context.scope.names
    # A name that stood for something else, such as an alias or a lazy tile, starts a new variable; a scalar keeps its type.
    if not isinstance(variable, tree.Variable) or isinstance(variable.type, TileType) or again:
        first = as_runtime(context, found, stated, "the value")
        variable = tree.Variable(target.name, first.type, target.span)
        context.emit(tree.Assign(variable, first, statement.span))
        context.bind_again(target.name, variable, target.span)
        # The number stands for a stage, and the stage selects the slot. Later checks track the stage and must be able to find it.
        if isinstance(found, tree.StageIndex) and found.sub_stage is None:
            context.stage_numbers[variable] = found.handle
        return
    if stated is not None and stated is not variable.type:
        context.fail(
            types_messages.TypeChanged(
                name=target.name, old=str(variable.type), new=str(stated), at=statement.span, first=variable.span
            )
        )
    _store_scalar(context, variable, found, statement.span)


def _is_condition(found: Known | tree.Expression) -> bool:
    return isinstance(found.value, bool) if isinstance(found, Known) else found.type is BOOL


def _store_scalar(context: Context, variable: tree.Variable, found: Known | tree.Expression, span: Span) -> None:
    assert isinstance(variable.type, DType)
    # The selected slot belongs to the stage that is held; another number could select one that is not.
    if variable in context.picked:
        context.fail(stepping.StageNumberChanged(name=variable.name, at=span, first=variable.span))
    # From here on it is an ordinary number, which selects no slot.
    context.stage_numbers.pop(variable, None)
    if not isinstance(found, Known):
        widened = arithmetic.widen(found, variable.type)
        if widened is None:
            context.fail(
                types_messages.TypeChanged(
                    name=variable.name, old=str(variable.type), new=str(found.type), at=span, first=variable.span
                )
            )
        found = widened
    context.emit(tree.Assign(variable, as_runtime(context, found, variable.type, "the value"), span))


def augmented(context: Context, statement: ast.AugmentedAssign) -> None:
    refuse_assignment(context, statement.target)
    meaning = context.look_up(statement.target)
    right = context.elaborate(statement.value)
    if not isinstance(right, Known):
        right = as_value(context, right, statement.value.span, "the value")
    if context.place != "role" and isinstance(meaning, (Known, *EXPRESSIONS)):
        named = operate(context, statement.operator, meaning, right, statement.span)
        context.bind_again(statement.target.name, named, statement.target.span)
        return
    if not isinstance(meaning, tree.Variable):
        context.fail(
            types_messages.WrongType(
                what=f"the target of `{statement.operator}=`",
                expected="a variable",
                found=describe(meaning),
                at=statement.target.span,
            )
        )
    result = operate(context, statement.operator, tree.ReadVariable(meaning, statement.target.span), right, statement.span)
    if meaning.in_registers:
        _assign_register_tile(context, statement.target, result, statement.span)
        return
    if isinstance(meaning.type, TileType):
        _assign_tile(context, statement.target, result, statement.span)
        return
    if isinstance(result.type, TileType):
        context.fail(
            types_messages.TypeChanged(
                name=meaning.name, old=str(meaning.type), new=str(result.type), at=statement.span, first=meaning.span
            )
        )
    _store_scalar(context, meaning, result, statement.span)
