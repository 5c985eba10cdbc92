"""Calls: element functions, casts, loads of values, methods of pipelines and stages, helpers, and the operations that do something."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from pipec.diag.catalogue.language import names as messages
from pipec.diag.catalogue.tiles import columns as column_messages
from pipec.isa.dtypes import DTYPES
from pipec.sema import tree
from pipec.sema.calls.actions import ACTIONS
from pipec.sema.calls.role_pipeline import sub_stage
from pipec.sema.context import Context
from pipec.sema.language.functions import FUNCTIONS, REDUCTIONS, ElementFunction
from pipec.sema.language.operation import ANYWHERE, OUTSIDE, THREADS
from pipec.sema.language.operations import BARRIER, CONSUMER, EPILOGUE_STAGE, FREE, MEMBERS, PRODUCER, TILE, VIEWS, Operation
from pipec.sema.meanings import EXPRESSIONS, Barrier, Elected, EpilogueStage, Helper, Known, Meaning, Range, Void, describe
from pipec.sema.types import BOOL, I32, TileType, dtype_of, with_dtype
from pipec.sema.values import arithmetic
from pipec.sema.values.arguments import bind_arguments
from pipec.sema.values.columns import moving_columns
from pipec.sema.values.expected import (
    as_runtime,
    coordinate,
    known,
    known_dtype,
    known_int,
    need_values,
    runtime,
    scalar,
    tensor_slice,
    value,
)
from pipec.sema.values.groups import ask_for_value
from pipec.sema.values.names import dotted, members_of
from pipec.sema.values.operators import select
from pipec.syntax import ast


def call(context: Context, node: ast.Call) -> Meaning:
    """The result of a call; operations are emitted into the context."""
    path = dotted(context, node.callee)
    if path is not None and path in FREE:
        return _operate(context, FREE[path], None, node)
    if path is not None and path in _BUILT_IN:
        return _BUILT_IN[path](context, node)
    if path is not None and path in FUNCTIONS:
        return _element_function(context, FUNCTIONS[path], node)
    if isinstance(node.callee, ast.Subscript) and dotted(context, node.callee.value) == "cast":
        return _cast(context, node)
    named = node.callee.value if isinstance(node.callee, ast.Subscript) else node.callee
    if isinstance(named, ast.Attribute) and path is None and dotted(context, named) is None:
        return _method(context, node, named)
    if path in DTYPES:
        context.fail(messages.NotCallable(what=f"the element type {path}", at=node.callee.span))
    if path in _DECLARATIONS:
        context.fail(messages.Misplaced(what=f"`{path}`", where="here", to="to the kernel, as `name = ...`", at=node.span))
    entity = context.elaborate(node.callee)
    if isinstance(entity, Helper):
        return _inline(context, entity.function, node)
    context.fail(messages.NotCallable(what=describe(entity).removeprefix("the "), at=node.callee.span))


_DECLARATIONS = (
    "ProducerConsumerPipeline",
    "EpiLoadPipeline",
    "InputTilePipeline",
    "OutputTilePipeline",
    "RolePipeline",
    "StandardTilePayload",
    "BlockwiseFP8TilePayload",
    "TmemAllocation",
    "BarrierArray",
    "BlockScaledTilePayload",
    "TilePayload",
    "SharedTiles",
    "TensorTiles",
    "TileScheduler",
)

# ---------------------------------------------------------------------------------------------------------------- methods


def _method(context: Context, node: ast.Call, callee: ast.Attribute) -> Meaning:
    entity = context.elaborate(callee.value)
    if isinstance(entity, tree.Handle):
        receiver = PRODUCER if entity.side == "producer" else CONSUMER
    elif isinstance(entity, tree.Pipeline):
        receiver = entity.kind
    elif isinstance(entity, Barrier):
        receiver = BARRIER
    elif isinstance(entity, EpilogueStage):
        receiver = EPILOGUE_STAGE
    elif isinstance(entity, tree.BufferRef):
        receiver = TILE
    else:
        receiver = VIEWS.get(getattr(entity, "side", ""), "")
    operation = MEMBERS.get(receiver, {}).get(callee.name) if receiver else None
    if isinstance(entity, tree.Handle) and operation is not None and not operation.belongs_to(entity.pipeline.kind):
        operation = None
    if operation is None:
        owner, members = members_of(context, entity)
        context.no_member(owner, callee.name, members, callee.span)
    if isinstance(entity, EpilogueStage):
        entity = entity.input if operation.half == "input" else entity.output
    if operation.sub_stages is None:
        sub_stage(context, operation, node)  # refuses one
    return _operate(context, operation, entity, node)


# Actions that stand in the kernel, outside its roles: where to move them.
_OUTSIDE = {"init": "next to the declaration", "programmatic": "next to `grid(...)`"}


def _operate(context: Context, operation: Operation, receiver: Meaning | None, node: ast.Call) -> Meaning:
    """An operation of the table: its action does the work."""
    if operation.action in _OUTSIDE and context.place == "role":
        context.fail(
            messages.Misplaced(what=f"`{operation.name}`", where="inside a role", to=_OUTSIDE[operation.action], at=node.span)
        )
    if context.place != "role" and THREADS.get(operation.action) not in (ANYWHERE, OUTSIDE):
        context.fail(messages.Misplaced(what=f"`{operation.name}`", where="outside a role", to="into a role", at=node.span))
    if operation.action in ("grid", "cluster", "assume"):
        what = f"`{operation.name}(...)`"
        context.fail(messages.Misplaced(what=what, where="here", to="to the kernel, outside its roles", at=node.span))
    return ACTIONS[operation.action](context, operation, receiver, node)


# ---------------------------------------------------------------------------------------------------------------- helpers


def _inline(context: Context, function: ast.Function, node: ast.Call) -> Meaning:
    """Expands an `fn`: its parameters name the arguments, its statements go where the call stands."""
    name = function.name.name
    if name in context.inlining:
        context.fail(messages.Recursive(name=name, at=node.span, defined=function.name.span))
    parameters = tuple(parameter.name.name for parameter in function.parameters)
    bound = bind_arguments(context, node, name, parameters)
    outer = context.kernel_scope or context.scope
    inner = replace(context, scope=outer.inner(), inlining=(*context.inlining, name))
    for parameter in parameters:
        inner.bind(parameter, _argument(context, bound[parameter], parameter), None)
    body = function.body
    last = body[-1] if body else None
    if not isinstance(last, ast.Return):
        inner.run_body(body)
        return Void()
    inner.run_body(body[:-1])
    return inner.elaborate(last.value) if last.value is not None else Void()


def _argument(context: Context, node: ast.Expression, name: str) -> Meaning:
    """An argument is evaluated once, before the helper's body."""
    entity = context.elaborate(node)
    if isinstance(entity, tree.Binary | tree.Call | tree.Select | tree.Unary | tree.Convert) and not isinstance(
        entity.type, TileType
    ):
        variable = tree.Variable(name, entity.type, node.span)
        context.emit(tree.Assign(variable, entity, node.span))
        return tree.ReadVariable(variable, node.span)
    return entity


# -------------------------------------------------------------------------------------------------------- value functions


def _element_function(context: Context, function: ElementFunction, node: ast.Call) -> Meaning:
    bound = bind_arguments(context, node, function.name, function.parameters)
    values = [value(context, bound[name], f"`{name}` of `{function.name}`") for name in function.parameters]
    if all(isinstance(one, Known) for one in values) and function.name in _KNOWN:
        return _fold_call(context, function.name, values, node)
    typed = next((one for one in values if not isinstance(one, Known)), None)
    wanted = dtype_of(typed.type) if typed is not None else (DTYPES["f32"] if function.domain == "float" else None)
    parts = [as_runtime(context, one, wanted if isinstance(one, Known) else None) for one in values]
    for position, part in enumerate(parts[1:], 1):
        pair = arithmetic.common(parts[0], part)
        if pair is None:
            context.fail(
                messages.MixedTypes(
                    operator=function.name, left=str(dtype_of(parts[0].type)), right=str(dtype_of(part.type)), at=node.span
                )
            )
        parts[0], parts[position] = pair
    parts = [_in_domain(context, function, part) for part in parts]
    dtype = dtype_of(parts[0].type)
    shape = None
    for part in parts:
        joined = arithmetic.joint_shape(TileType(dtype, *shape) if shape else dtype, part.type)
        if joined is False:
            context.fail(
                messages.ShapeMismatch(operator=function.name, left=str(parts[0].type), right=str(part.type), at=node.span)
            )
        shape = joined
    if shape is None:
        return tree.Call(function.name, tuple(parts), dtype, node.span)
    return tree.Call(function.name, tuple(arithmetic.splat(part) for part in parts), TileType(dtype, *shape), node.span)


def _in_domain(context: Context, function: ElementFunction, part: tree.Expression) -> tree.Expression:
    dtype = dtype_of(part.type)
    if function.domain == "float":
        widened = arithmetic.widen(part, DTYPES["f32"])
        if widened is None:
            context.fail(
                messages.BadOperand(
                    operator=function.name, type=str(dtype), hint="convert it first: `cast[f32](...)`", at=part.span
                )
            )
        return widened
    good = dtype.is_integer if function.domain == "integer" else dtype is not BOOL and dtype.computes
    if not good:
        context.fail(
            messages.BadOperand(
                operator=function.name,
                type=str(dtype),
                hint="convert it first: `cast[f32](...)`" if dtype is not BOOL else None,
                at=part.span,
            )
        )
    return part


_KNOWN: dict[str, Callable[..., Any]] = {"min": min, "max": max, "abs": abs, "ceildiv": lambda x, y: -(-x // y)}


def _fold_call(context: Context, name: str, values: list[Any], node: ast.Call) -> Known:
    numbers = [one.value for one in values]
    if any(isinstance(number, bool) for number in numbers) or (
        name == "ceildiv" and any(isinstance(number, float) for number in numbers)
    ):
        context.fail(messages.BadOperand(operator=name, type="bool" if name != "ceildiv" else "float", hint=None, at=node.span))
    if name == "ceildiv" and numbers[1] == 0:
        context.fail(messages.DivisionByZero(at=values[1].span))
    # Python's own min and max of a NaN and a number depend on their order.
    if any(isinstance(number, float) and math.isnan(number) for number in numbers):
        return Known(math.nan, node.span)
    return Known(_KNOWN[name](*numbers), node.span)


def _cast(context: Context, node: ast.Call) -> Meaning:
    callee = node.callee
    assert isinstance(callee, ast.Subscript)
    if len(callee.items) != 1:
        context.fail(
            messages.WrongArguments(
                callee="cast", problem="takes one element type", signature="cast[dtype](value)", at=callee.span
            )
        )
    dtype = known_dtype(context, callee.items[0])
    need_values(context, dtype, "the type to convert to", callee.span)
    bound = bind_arguments(context, node, "cast", ("value",))
    operand = value(context, bound["value"], "what is converted")
    if isinstance(operand, Known):
        if isinstance(operand.value, float) and dtype.is_integer:
            operand = Known(int(operand.value), operand.span)
        return context.accept(arithmetic.constant(operand, dtype))
    own = dtype_of(operand.type).name
    if dtype is BOOL or dtype.name == "tf32" or (own == "tf32" and dtype.name != "f32"):
        expected = "a number type" if own != "tf32" else "f32"
        context.fail(
            messages.WrongType(what="the target of a cast", expected=expected, found=str(dtype), at=callee.items[0].span)
        )
    return tree.Convert(operand, with_dtype(operand.type, dtype), node.span)


def _select(context: Context, node: ast.Call) -> Meaning:
    bound = bind_arguments(context, node, "select", ("condition", "when_true", "when_false"))
    condition, when_true, when_false = (value(context, bound[name]) for name in ("condition", "when_true", "when_false"))
    if isinstance(condition, Known):
        return when_true if known(context, bound["condition"], bool, "the condition", "a condition") else when_false
    return select(context, condition, when_true, when_false, node.span)


def _reduction(context: Context, node: ast.Call) -> Meaning:
    name = dotted(context, node.callee) or ""
    bound = bind_arguments(context, node, name, ("tile",))
    operand = runtime(context, bound["tile"], None, "what is reduced")
    tile = operand.type
    if not isinstance(tile, TileType):
        context.fail(messages.WrongType(what="what is reduced", expected="a tile", found=describe(operand), at=node.span))
    if tile.dtype.is_float and tile.dtype.bits == 16:
        operand = arithmetic.widen(operand, DTYPES["f32"]) or operand
    dtype = dtype_of(operand.type)
    if dtype is BOOL or not dtype.computes:
        context.fail(messages.BadOperand(operator=name, type=str(dtype), hint="convert it first: `cast[f32](...)`", at=node.span))
    return tree.RowReduce(REDUCTIONS[name], operand, TileType(dtype, tile.rows, 1), node.span)


def _load(context: Context, node: ast.Call) -> Meaning:
    one = len(node.arguments) == 1
    bound = bind_arguments(context, node, "load", ("tensor",) if one else ("tensor", "rows", "columns"))
    source = tensor_slice(context, bound["tensor"], "what is loaded")
    need_values(context, source.tensor.dtype, "loaded into registers", node.span)
    if one:
        return tree.ReadElement(source, source.tensor.dtype, node.span)
    _need_rank(context, source, 2, "load", bound["tensor"])
    rows, columns = (known_int(context, bound[name], "a tile size") for name in ("rows", "columns"))
    _need_size(context, rows, bound["rows"])
    _need_size(context, columns, bound["columns"])
    return tree.ReadTensor(source, None, TileType(source.tensor.dtype, rows, columns), node.span)


def _fill(context: Context, node: ast.Call) -> Meaning:
    bound = bind_arguments(context, node, "fill", ("value", "dtype", "rows", "columns"))
    dtype = known_dtype(context, bound["dtype"])
    filler = scalar(context, bound["value"], dtype, "the value of `fill`")
    rows, columns = (known_int(context, bound[name], "a tile size") for name in ("rows", "columns"))
    _need_size(context, rows, bound["rows"])
    _need_size(context, columns, bound["columns"])
    return tree.Splat(filler, TileType(dtype, rows, columns), node.span)


def _vector(axis: int) -> Callable[[Context, ast.Call], Meaning]:
    name = ("per_row", "per_column")[axis]
    size = ("rows", "columns")[axis]

    def load_vector(context: Context, node: ast.Call) -> Meaning:
        bound = bind_arguments(context, node, name, ("tensor", size))
        source = tensor_slice(context, bound["tensor"], "what is loaded")
        need_values(context, source.tensor.dtype, "loaded into registers", node.span)
        _need_rank(context, source, 1, name, bound["tensor"])
        count = known_int(context, bound[size], "a tile size")
        _need_size(context, count, bound[size])
        shape = (count, 1) if axis == 0 else (1, count)
        return tree.ReadTensor(source, axis, TileType(source.tensor.dtype, *shape), node.span)

    return load_vector


_MOST_AT_ONCE = 32  # elements of a row
_GROUP_COLUMNS = 8  # that wgmma spreads over the threads of a row together
_HALF_WARP_ROWS, _HALF_WARP_RUNS = 64, 16  # rows of tiles that the halves of a warp may share, and of how many columns


def _position(axis: int) -> Callable[[Context, ast.Call], Meaning]:
    name = ("row_index", "column_index")[axis]
    size = ("rows", "columns")[axis]

    def number(context: Context, node: ast.Call) -> Meaning:
        bound = bind_arguments(context, node, name, (size,))
        count = known_int(context, bound[size], "a tile size")
        _need_size(context, count, bound[size])
        shape = (count, 1) if axis == 0 else (1, count)
        return tree.Position(axis, TileType(I32, *shape), node.span)

    return number


def _columns(context: Context, node: ast.Call) -> Meaning:
    bound = bind_arguments(context, node, "columns", ("tile", "first", "count"))
    start = context.elaborate(bound["first"])
    if not isinstance(start, Known):
        if isinstance(context.elaborate(bound["tile"]), (tree.Accumulator, *EXPRESSIONS)):
            ask_for_value(context, start)  # registers cannot be indexed
        return moving_columns(context, bound, node)
    operand = runtime(context, bound["tile"], None, "the tile")
    if not isinstance(operand.type, TileType):
        context.fail(messages.WrongType(what="the tile", expected="a tile", found=describe(operand), at=node.span))
    first, count = (known_int(context, bound[name], f"`{name}`") for name in ("first", "count"))
    tile = operand.type
    if count < 1:
        context.fail(
            column_messages.ColumnsCount(count=count, needed="at least one group is needed here", at=bound["count"].span)
        )
    if not (0 <= first and first + count <= tile.columns):
        context.fail(
            messages.WrongType(
                what="the range of columns",
                expected=f"inside the tile's {tile.columns}",
                found=f"{first} to {first + count - 1}",
                at=node.span,
            )
        )
    # What a thread works on at a time starts at a multiple of its own length, here as in the whole tile.
    unit = max(_HALF_WARP_RUNS if tile.rows == _HALF_WARP_ROWS else _GROUP_COLUMNS, min(_MOST_AT_ONCE, count & -count))
    if count % unit:
        context.fail(
            column_messages.ColumnsCount(count=count, needed=f"a multiple of {unit} is needed here", at=bound["count"].span)
        )
    if first % unit:
        context.fail(
            messages.WrongType(
                what="`first`", expected=f"a multiple of {unit} for {count} columns", found=str(first), at=bound["first"].span
            )
        )
    return tree.Columns(operand, first, TileType(tile.dtype, tile.rows, count), node.span)


def _need_rank(context: Context, source: tree.TensorSlice, rank: int, name: str, node: ast.Expression) -> None:
    if len(source.coordinates) != rank:
        context.fail(
            messages.WrongType(
                what=f"the tensor of `{name}`",
                expected=f"{rank}-dimensional",
                found=f"`{source.tensor.name}` with {len(source.coordinates)} dimensions",
                at=node.span,
            )
        )


def _need_size(context: Context, size: int, node: ast.Expression) -> None:
    if not 1 <= size <= 65_536:
        context.fail(messages.WrongType(what="a tile size", expected="between 1 and 65536", found=str(size), at=node.span))


def _special(name: str) -> Callable[[Context, ast.Call], Meaning]:
    def read(context: Context, node: ast.Call) -> Meaning:
        bind_arguments(context, node, name, ())
        return tree.Special(name, I32, node.span)

    return read


def _elect(context: Context, node: ast.Call) -> Meaning:
    bind_arguments(context, node, "elect", ())
    return Elected(node.span)


def _step(context: Context, node: ast.Expression) -> int | tree.Expression:
    found = context.elaborate(node)
    if isinstance(found, EXPRESSIONS) and found.type is I32 and _is_positive(found):
        return found
    return known_int(context, node, "the step of a range")


def _is_positive(expression: tree.Expression) -> bool:
    """Whatever the launch: a grid has at least one block along each axis."""
    match expression:
        case tree.Constant(value):
            return value > 0
        case tree.Special(name):
            return name.startswith(("grid.", "clusters."))
        case tree.Binary("+" | "*", left, right):
            return _is_positive(left) and _is_positive(right)
        case _:
            return False


def _range(context: Context, node: ast.Call) -> Meaning:
    """`range` with one to three arguments, as in Python; the step is a constant, or made of `grid.x` and the like."""
    positional = [argument.value for argument in node.arguments if argument.name is None]
    if len(positional) != len(node.arguments) or not 1 <= len(positional) <= 3:
        context.fail(
            messages.WrongArguments(
                callee="range",
                problem=f"takes 1 to 3 arguments and was given {len(node.arguments)}",
                signature="range(start, stop, step)",
                at=node.span,
            )
        )
    step = _step(context, positional[2]) if len(positional) == 3 else 1
    if isinstance(step, int) and (step == 0 or abs(step) > 2**30):
        context.fail(messages.BadRange(found=f"a range with step {step}", at=positional[2].span))
    if len(positional) == 1:
        start = tree.Constant(0, I32, node.span)
        return Range(start, scalar(context, positional[0], I32, "the end of a range"), step, node.span)
    return Range(coordinate(context, positional[0]), scalar(context, positional[1], I32, "the end of a range"), step, node.span)


_BUILT_IN: dict[str, Callable[[Context, ast.Call], Meaning]] = {
    "select": _select,
    "load": _load,
    "fill": _fill,
    "per_row": _vector(0),
    "per_column": _vector(1),
    "row_index": _position(0),
    "column_index": _position(1),
    "columns": _columns,
    "lane_id": _special("lane_id"),
    "role_thread": _special("role_thread"),
    "role_warp": _special("role_warp"),
    "elect": _elect,
    "range": _range,
    **dict.fromkeys(REDUCTIONS, _reduction),
}
