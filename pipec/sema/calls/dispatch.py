"""Resolves calls of any kind: built-in functions, operations, methods of pipelines and stages, helpers."""

from pipec.diag.catalogue.language import names as messages
from pipec.diag.catalogue.language import placement as placement_messages
from pipec.isa.dtypes import DTYPES
from pipec.record import replace
from pipec.sema import tree
from pipec.sema.calls.actions import ACTIONS, HEAD, OUTSIDE_ROLES
from pipec.sema.calls.built_ins import BUILT_IN_CALLS
from pipec.sema.calls.element_functions import CONVERSIONS, conversion, element_function
from pipec.sema.calls.role_pipeline import sub_stage
from pipec.sema.context import Context
from pipec.sema.declarations.pipelines import DECLARATIONS
from pipec.sema.language.functions import FUNCTIONS
from pipec.sema.language.operation import (
    ANYWHERE,
    BARRIER,
    CONSUMER,
    EPILOGUE_STAGE,
    OUTSIDE,
    PRODUCER,
    THREADS,
    TILE,
    VIEWS,
    Operation,
    Receiver,
)
from pipec.sema.language.operations import FREE, MEMBERS
from pipec.sema.meanings import EXPRESSIONS, Barrier, EpilogueStage, Helper, Meaning, View, Void, describe
from pipec.sema.types import TileType
from pipec.sema.values.arguments import bind_arguments
from pipec.sema.values.names import dotted, members_of
from pipec.syntax import ast

_COMPUTED = (tree.Binary, tree.Call, tree.Select, tree.Unary, tree.Convert, tree.Bitcast, tree.ReadElement)


def call(context: Context, node: ast.Call) -> Meaning:
    """The result of a call; its operations are emitted into the context."""
    # None if the program defines the first name itself: user definitions hide built-ins.
    path = dotted(context, node.callee)
    if path is not None and path in FREE:
        return _operate(context, FREE[path], None, node)
    if path is not None and path in BUILT_IN_CALLS:
        return BUILT_IN_CALLS[path](context, node)
    if path is not None and path in FUNCTIONS:
        return element_function(context, FUNCTIONS[path], node)
    if isinstance(node.callee, ast.Subscript) and dotted(context, node.callee.value) in CONVERSIONS:
        return conversion(context, node)
    named = node.callee.value if isinstance(node.callee, ast.Subscript) else node.callee
    if isinstance(named, ast.Attribute) and path is None and (named is node.callee or dotted(context, named) is None):
        return _method(context, node, named)
    if path in DTYPES:
        context.fail(messages.NotCallable(what=f"the element type {path}", at=node.callee.span))
    if path in DECLARATIONS:
        context.fail(
            placement_messages.Misplaced(what=f"`{path}`", where="here", to="to the kernel, as `name = ...`", at=node.span)
        )
    meaning = context.elaborate(node.callee)
    if isinstance(meaning, Helper):
        return _inline(context, meaning.function, node)
    context.fail(messages.NotCallable(what=describe(meaning).removeprefix("the "), at=node.callee.span))


def _method(context: Context, node: ast.Call, callee: ast.Attribute) -> Meaning:
    meaning = context.elaborate(callee.value)
    receiver = _receiver(meaning)
    operation = MEMBERS.get(receiver, {}).get(callee.name) if receiver is not None else None
    # The table lists the operations of all stages together; some exist for one kind of pipeline only.
    if isinstance(meaning, tree.Handle) and operation is not None and not operation.belongs_to(meaning.pipeline.kind):
        operation = None
    if operation is None:
        owner, members = members_of(context, meaning)
        context.no_member(owner, callee.name, members, callee.span)
    if isinstance(meaning, EpilogueStage):
        meaning = meaning.input if operation.half == "input" else meaning.output
    if operation.sub_stages is None:
        sub_stage(context, operation, node)  # rejects a sub-stage
    return _operate(context, operation, meaning, node)


def _receiver(meaning: Meaning) -> Receiver | None:
    """The receiver under which the table lists the operations of a meaning; None if it has none."""
    match meaning:
        case tree.Handle():
            return PRODUCER if meaning.side == "producer" else CONSUMER
        case tree.Pipeline():
            return meaning.kind
        case View():
            return VIEWS[meaning.side]
        case Barrier():
            return BARRIER
        case EpilogueStage():
            return EPILOGUE_STAGE
        case tree.BufferRef():
            return TILE
        case _:
            return None


def _operate(context: Context, operation: Operation, receiver: Meaning | None, node: ast.Call) -> Meaning:
    """An operation of the table: its action does the work."""
    if operation.action in OUTSIDE_ROLES and context.place == "role":
        context.fail(
            placement_messages.Misplaced(
                what=f"`{operation.name}`", where="inside a role", to=OUTSIDE_ROLES[operation.action], at=node.span
            )
        )
    # Free operations are not in that table: they do work, which only roles can do.
    if context.place != "role" and THREADS.get(operation.action) not in (ANYWHERE, OUTSIDE):
        context.fail(
            placement_messages.Misplaced(what=f"`{operation.name}`", where="outside a role", to="into a role", at=node.span)
        )
    if operation.action in HEAD:
        what = f"`{operation.name}(...)`"
        context.fail(placement_messages.Misplaced(what=what, where="here", to="to the kernel, outside its roles", at=node.span))
    return ACTIONS[operation.action](context, operation, receiver, node)


def _inline(context: Context, function: ast.Function, node: ast.Call) -> Meaning:
    """Inlines an `fn`: its parameters name the arguments, its statements replace the call."""
    name = function.name.name
    # Inlining a recursive helper would not terminate, and kernels have no calls.
    if name in context.inlining:
        context.fail(placement_messages.Recursive(name=name, at=node.span, defined=function.name.span))
    parameters = tuple(parameter.name.name for parameter in function.parameters)
    bound = bind_arguments(context, node, name, parameters)
    # The kernel's scope, not the caller's: the meaning of a helper must not depend on where it is called.
    outer = context.kernel_scope or context.scope
    inner = replace(context, scope=outer.inner(), inlining=(*context.inlining, name))
    body = function.body
    last = body[-1] if body else None
    alone = len(body) == 1 and isinstance(last, ast.Return)
    for parameter in parameters:
        inner.bind(parameter, _argument(context, bound[parameter], parameter, alone=alone), None)
    if not isinstance(last, ast.Return):
        inner.run_body(body)
        return Void()
    inner.run_body(body[:-1])
    return inner.elaborate(last.value) if last.value is not None else Void()


def _argument(context: Context, node: ast.Expression, name: str, *, alone: bool) -> Meaning:
    """A number is evaluated once, before the helper's body; a tile is named, as by an assignment, unless the body is a value `alone`.

    Outside of roles nothing is evaluated: there a name stands for its expression.
    """
    meaning = context.elaborate(node)
    if not isinstance(meaning, EXPRESSIONS) or isinstance(meaning, tree.ReadVariable) or context.place != "role":
        return meaning
    if not alone if isinstance(meaning.type, TileType) else isinstance(meaning, _COMPUTED):
        # Otherwise the expression would be recomputed at each use of the parameter.
        variable = tree.Variable(name, meaning.type, node.span)
        context.emit(tree.Assign(variable, meaning, node.span))
        return tree.ReadVariable(variable, node.span)
    return meaning
