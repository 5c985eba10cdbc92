"""Expressions: syntax to entities, compile-time values folded, run-time values typed."""

from collections.abc import Callable
from typing import TypeVar

from pipec.diag.catalogue.grid import clusters as cluster_messages
from pipec.diag.catalogue.language import names as messages
from pipec.diag.catalogue.tiles import scaling as scaling_messages
from pipec.diag.message import Message
from pipec.isa.dtypes import DTYPES, DType
from pipec.isa.specials import AXES
from pipec.isa.specials import MEMBERS as MEMBERS_OF_SPECIALS
from pipec.record import replace
from pipec.sema import tree
from pipec.sema.context import Context
from pipec.sema.language.operations import BARRIER, CONSUMER, EPILOGUE_STAGE, FREE, INPUT, MEMBERS, PRODUCER, TILE, VIEWS
from pipec.sema.language.other_names import library_member
from pipec.sema.meanings import (
    EXPRESSIONS,
    Barrier,
    EpilogueStage,
    Known,
    Meaning,
    Payload,
    PipelinePayload,
    Reported,
    Tile,
    TileGroup,
    TileSpec,
    Token,
    View,
    describe,
)
from pipec.sema.types import BOOL, I32, TileType, dtype_of
from pipec.sema.values import arithmetic
from pipec.sema.values.groups import known_place, pick, tile_group
from pipec.sema.values.tile_order import tile_place
from pipec.source import Span
from pipec.syntax import ast
from pipec.vocabulary import BinaryOperator, Space

Value = Known | tree.Expression
Kind = TypeVar("Kind")

# Names that are built in but not operations; for `did you mean`.
BUILT_IN = (
    "tile",
    "tmem",
    "tensor",
    "cast",
    "range",
    "elect",
    "lane_id",
    "role_thread",
    "role_warp",
    "select",
    "load",
    "fill",
    "per_row",
    "per_column",
    "columns",
    "row_index",
    "column_index",
    *MEMBERS_OF_SPECIALS,
    "target",
)


def elaborate(context: Context, node: ast.Expression) -> Meaning:
    """What the expression stands for. Reports and raises Reported when it stands for nothing."""
    context.spend(node.span)
    match node:
        case ast.Number(value, span) | ast.Boolean(value, span) | ast.String(value, span):
            return Known(value, span)
        case ast.Name():
            return _name(context, node)
        case ast.Attribute():
            return _attribute(context, node)
        case ast.Subscript():
            return _subscript(context, node)
        case ast.Call():
            return context.call(node)
        case ast.Unary():
            return _unary(context, node)
        case ast.Binary():
            return _binary(context, node)
        case ast.Conditional():
            return _conditional(context, node)


def value(context: Context, node: ast.Expression, what: str = "the value") -> Value:
    """A number or tile: compile-time or run-time."""
    entity = elaborate(context, node)
    return as_value(context, entity, node.span, what)


def as_value(context: Context, entity: Meaning, span: Span, what: str) -> Value:
    """The value of an entity; a stage or tile stands for its elements."""
    if isinstance(entity, Known) and not isinstance(entity.value, str | DType):
        return entity
    if isinstance(entity, EXPRESSIONS):
        return entity
    if isinstance(entity, tree.Accumulator):
        return tree.ReadAccumulator(entity, span)
    if isinstance(entity, EpilogueStage):
        entity = entity.output
    if isinstance(entity, Token):
        return tree.ReadVariable(entity.ready, span)
    if isinstance(entity, tree.Handle) and len(context.buffers.get(entity.pipeline, ())) == 1:
        entity = reference(context, entity, span)
    if isinstance(entity, tree.BufferRef):
        buffer = entity.buffer
        rows, columns = (buffer.columns, buffer.rows) if entity.transposed else (buffer.rows, buffer.columns)
        if entity.transposed and (rows == 1 or columns > 1 or buffer.space == "tensor"):
            found = "a transposed view, which only `mma` takes; values are read so from tiles of one row"
            context.fail(messages.WrongType(what=what, expected="a tile in its stored order", found=found, at=span))
        need_values(context, buffer.dtype, "read as a tile of values", span)
        return tree.ReadBuffer(entity, TileType(buffer.dtype, rows, columns), span)
    context.fail(messages.WrongType(what=what, expected="a number or a tile", found=describe(entity), at=span))


def need_values(context: Context, dtype: DType, use: str, span: Span) -> None:
    """Elements that only MMAs read have no values in registers."""
    if dtype.is_opaque:
        context.fail(scaling_messages.MmaOnly(dtype=dtype.name, use=use, at=span))


def runtime(context: Context, node: ast.Expression, dtype: DType | None = None, what: str = "the value") -> tree.Expression:
    """A run-time value; compile-time ones become constants of `dtype` (or of their natural type)."""
    return as_runtime(context, value(context, node, what), dtype, what)


def as_runtime(context: Context, found: Value, dtype: DType | None, what: str = "the value") -> tree.Expression:
    if isinstance(found, Known):
        wanted = dtype or arithmetic.default_dtype(found)
        assert wanted is not None, "`as_value` lets neither text nor element types through"
        return context.accept(arithmetic.constant(found, wanted))
    if dtype is None:
        return found
    widened = arithmetic.widen(found, dtype)
    if widened is None:
        context.fail(messages.WrongType(what=what, expected=str(dtype), found=describe(found), at=found.span))
    return widened


def scalar(context: Context, node: ast.Expression, dtype: DType, what: str) -> tree.Expression:
    """A run-time scalar of exactly this element type."""
    found = runtime(context, node, dtype, what)
    if isinstance(found.type, TileType):
        context.fail(messages.WrongType(what=what, expected=f"one {dtype} value", found=describe(found), at=node.span))
    return found


def coordinate(context: Context, node: ast.Expression) -> tree.Expression:
    return scalar(context, node, I32, "a coordinate")


def known(context: Context, node: ast.Expression, kind: type[Kind] | tuple[type[Kind], ...], what: str, expected: str) -> Kind:
    """A compile-time value of a Python type."""
    entity = elaborate(context, node)
    if not isinstance(entity, Known):
        if isinstance(entity, EXPRESSIONS):
            context.fail(messages.NotComptime(what=what, at=node.span))
        context.fail(messages.WrongType(what=what, expected=expected, found=describe(entity), at=node.span))
    found = entity.value
    if not isinstance(found, kind) or (isinstance(found, bool) and kind is int):
        context.fail(messages.WrongType(what=what, expected=expected, found=describe(entity), at=node.span))
    return found


def known_int(context: Context, node: ast.Expression, what: str) -> int:
    return known(context, node, int, what, "a whole number")


def known_dtype(context: Context, node: ast.Expression) -> DType:
    return known(context, node, DType, "the element type", "an element type such as bf16 or f32")


def buffer_ref(context: Context, node: ast.Expression, what: str) -> tree.BufferRef:
    """A stage's tile: `s.a`, an accumulator stage, or `buffer[s.index()]`."""
    return as_buffer_ref(context, elaborate(context, node), node.span, what)


def as_buffer_ref(context: Context, entity: Meaning, span: Span, what: str) -> tree.BufferRef:
    if isinstance(entity, tree.Handle):
        entity = reference(context, entity, span)
    if not isinstance(entity, tree.BufferRef):
        context.fail(messages.WrongType(what=what, expected="a tile of a stage", found=describe(entity), at=span))
    if entity.cta is not None:
        context.fail(cluster_messages.RemoteOperand(what=what, at=span))
    return entity


def tensor_slice(context: Context, node: ast.Expression, what: str) -> tree.TensorSlice:
    entity = elaborate(context, node)
    if not isinstance(entity, tree.TensorSlice):
        context.fail(
            messages.WrongType(what=what, expected="a place in a tensor, such as `a[i, j]`", found=describe(entity), at=node.span)
        )
    return entity


# ------------------------------------------------------------------------------------------------------- stages and tiles


def reference(context: Context, handle: tree.Handle, span: Span) -> tree.BufferRef:
    """The only tile of a stage (an accumulator, say)."""
    buffers = context.buffers.get(handle.pipeline, ())
    if len(buffers) != 1:
        names = ", ".join(f"`{handle.name}.{buffer.name}`" for buffer in buffers)
        context.fail(
            messages.WrongType(
                what="the tile",
                expected=f"one of {names}" if names else "a tile",
                found=f"the stage `{handle.name}`, which holds {len(buffers)} tiles",
                at=span,
            )
        )
    return tree.BufferRef(buffers[0], handle, False, span)


def _tile_of(context: Context, handle: tree.Handle, node: ast.Attribute) -> tree.BufferRef | TileGroup | None:
    group = tile_group(context, handle.pipeline, handle, node.name, node.span)
    if group is None or handle.pipeline.k_group_size > 1:
        return group
    return tree.BufferRef(group.tiles[0], handle, False, node.span)


# What a pipeline tells of itself.
_CONSTANTS: dict[str, Callable[[Context, tree.Pipeline, Span], Meaning]] = {
    "num_group_stages": lambda context, pipeline, span: Known(pipeline.stages, span),
    "k_group_size": lambda context, pipeline, span: Known(pipeline.k_group_size, span),
    "num_stages": lambda context, pipeline, span: Known(pipeline.stages, span),
    "payload": lambda context, pipeline, span: PipelinePayload(pipeline),
    "stage_stride_cols": lambda context, pipeline, span: Known(_stride(context.buffers[pipeline][0]), span),
}


def _stride(buffer: tree.Buffer) -> int:
    return buffer.stride or buffer.columns


def _member_names(context: Context, pipeline: tree.Pipeline) -> tuple[str, ...]:
    buffers = context.buffers.get(pipeline, ())
    return tuple(dict.fromkeys(buffer.member for buffer in buffers if buffer.space == "shared"))


def members_of(context: Context, entity: Meaning) -> tuple[str, tuple[str, ...]]:
    """What a message calls the owner of members, and their names."""
    match entity:
        case tree.Pipeline():
            return f"the {entity.kind} `{entity.name}`", tuple(MEMBERS.get(entity.kind, {}))
        case View(pipeline, side):
            return f"the {side} view of `{pipeline.name}`", tuple(MEMBERS[VIEWS[side]])
        case EpilogueStage():
            stages = ("output_stage", "input_stage", *_member_names(context, entity.input.pipeline))
            return describe(entity), stages + tuple(MEMBERS[EPILOGUE_STAGE])
        case tree.Handle():
            tiles = _member_names(context, entity.pipeline)
            rows = MEMBERS[PRODUCER if entity.side == "producer" else CONSUMER].values()
            names = tuple(row.name for row in rows if row.belongs_to(entity.pipeline.kind))
            return f"the {entity.side} stage `{entity.name}`", tiles + names
        case Payload(handle):
            return f"the payload of stage `{handle.name}`", _member_names(context, handle.pipeline)
        case PipelinePayload(pipeline):
            return describe(entity), _member_names(context, pipeline)
        case tree.BufferRef():
            return describe(entity), ("T", *MEMBERS[TILE])
        case Barrier():
            return describe(entity), tuple(MEMBERS[BARRIER])
        case Tile():
            return describe(entity), (*AXES, "index")
        case _:
            return describe(entity), ()


# ------------------------------------------------------------------------------------------------------------ node kinds


def _name(context: Context, node: ast.Name) -> Meaning:
    if context.scope.find(node.name) is None and node.name in DTYPES:
        return Known(DTYPES[node.name], node.span)
    return _at(context.look_up(node, BUILT_IN + tuple(FREE)), node.span)


def _at(entity: Meaning, span: Span) -> Meaning:
    """The entity as used here: messages point to the use."""
    match entity:
        case Known(value, _):
            return Known(value, span)
        case tree.Variable():
            return tree.ReadVariable(entity, span)
        case tree.ScalarParameter():
            return tree.ReadParameter(entity, span)
        case tree.ReadDimension() | tree.ReadVariable():
            return replace(entity, span=span)
        case _:
            return entity


def dotted(context: Context, node: ast.Expression) -> str | None:
    """`tma.load` as text when its first name is not a name of the program; None otherwise."""
    match node:
        case ast.Name(name):
            return name if context.scope.find(name) is None else None
        case ast.Attribute(owner, name):
            first = dotted(context, owner)
            return f"{first}.{name}" if first else None
        case _:
            return None


def _special(context: Context, first: str, rest: str, span: Span) -> tree.Expression:
    """`block.x` and its like."""
    if rest not in MEMBERS_OF_SPECIALS[first]:
        context.no_member(f"`{first}`", rest, MEMBERS_OF_SPECIALS[first], span)
    if rest != "leader":
        return tree.Special(f"{first}.{rest}", I32, span)
    two, zero = tree.Constant(2, I32, span), tree.Constant(0, I32, span)
    return tree.Binary("==", tree.Binary("%", tree.Special("cta.rank", I32, span), two, I32, span), zero, BOOL, span)


def _fact(context: Context, name: str, span: Span) -> Known:
    """What is known of the target while compiling."""
    facts = context.target.facts
    if name not in facts:
        context.no_member("`target`", name, tuple(facts), span)
    return Known(facts[name], span)


def _attribute(context: Context, node: ast.Attribute) -> Meaning:
    path = dotted(context, node)
    if path is not None:
        first, _, rest = path.partition(".")
        if first in MEMBERS_OF_SPECIALS:
            return _special(context, first, rest, node.span)
        if first == "target":
            return _fact(context, rest, node.span)
        if path in FREE:
            context.fail(messages.NoEffect(hint=f"call it: `{FREE[path].signature}`", at=node.span))
        if any(name.startswith(first + ".") for name in FREE):
            context.no_member(f"`{first}`", rest, tuple(n.split(".")[1] for n in FREE if n.startswith(first + ".")), node.span)
        context.refuse_other(path, library_member(path), node.span)
    entity = elaborate(context, node.value)
    if isinstance(entity, EpilogueStage) and node.name in ("output_stage", "input_stage"):
        return entity.output if node.name == "output_stage" else entity.input
    if isinstance(entity, EpilogueStage) and tile_group(context, entity.input.pipeline, None, node.name, node.span) is not None:
        entity = entity.input
    if isinstance(entity, Payload):
        entity = entity.handle
    if isinstance(entity, Tile):
        place = tile_place(entity, node.name, node.span)
        if place is not None:
            return place
    if isinstance(entity, tree.Handle):
        tile = _tile_of(context, entity, node)
        if tile is not None:
            return tile
    if isinstance(entity, tree.Pipeline) and node.name in _CONSTANTS and node.name in MEMBERS.get(entity.kind, {}):
        return _CONSTANTS[node.name](context, entity, node.span)
    if isinstance(entity, PipelinePayload):
        group = tile_group(context, entity.pipeline, None, node.name, node.span)
        if group is not None:
            return group
    if isinstance(entity, tree.BufferRef) and node.name == "T":
        return replace(entity, transposed=not entity.transposed, span=node.span)
    owner, members = members_of(context, entity)
    if node.name in members:
        context.fail(messages.NoEffect(hint=f"call it: `{node.span.text()}()`", at=node.span))
    context.no_member(owner, node.name, members, node.span)


def _is_tile_word(context: Context, name: str) -> bool:
    """An allocation may be called `tmem`: it is not indexed, so `tmem[...]` keeps its meaning."""
    binding = context.scope.find(name)
    return binding is None or isinstance(binding.entity, tree.TensorAllocation)


def _subscript(context: Context, node: ast.Subscript) -> Meaning:
    if isinstance(node.value, ast.Name) and node.value.name in ("tile", "tmem") and _is_tile_word(context, node.value.name):
        return _tile_spec(context, node, "shared" if node.value.name == "tile" else "tensor")
    entity = elaborate(context, node.value)
    match entity:
        case tree.TensorParameter():
            if len(node.items) != len(entity.shape):
                context.fail(
                    messages.WrongRank(
                        tensor=entity.name,
                        rank=_count(len(entity.shape), "dimension"),
                        given=_count(len(node.items), "coordinate"),
                        at=node.span,
                        declared=entity.span,
                    )
                )
            return tree.TensorSlice(entity, tuple(coordinate(context, item) for item in node.items), node.span)
        case tree.Buffer():
            return _slot(context, entity, node)
        case TileGroup():
            return _group_tile(context, entity, node)
        case tree.BufferRef() if entity.buffer.owner is not None and entity.buffer.owner.kind == INPUT and len(node.items) == 1:
            # A group of one: a kernel with the group size as a parameter reads the same for all sizes.
            known_place(context, elaborate(context, node.items[0]), 1, node.items[0].span)
            return entity
        case _:
            context.fail(
                messages.WrongType(
                    what="what is indexed",
                    expected="a tensor, a buffer, `tile` or `tmem`",
                    found=describe(entity),
                    at=node.value.span,
                )
            )


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"


def _slot(context: Context, buffer: tree.Buffer, node: ast.Subscript) -> tree.BufferRef:
    index = elaborate(context, node.items[0])
    handle = picked_stage(context, index)
    if len(node.items) != 1 or handle is None:
        context.fail(messages.ForeignStage(buffer=buffer.name, found=describe(index), at=node.items[0].span))
    return tree.BufferRef(buffer, handle, False, node.span, index.sub_stage if isinstance(index, tree.StageIndex) else None)


def picked_stage(context: Context, index: Meaning) -> tree.Handle | None:
    """The stage whose number this is: `s.index()`, `p.producer_stage()`, or a variable that holds one."""
    if isinstance(index, tree.StageIndex):
        return index.handle
    if isinstance(index, tree.ReadVariable) and index.variable in context.stage_numbers:
        context.picked.add(index.variable)
        return context.stage_numbers[index.variable]
    return None


def _group_tile(context: Context, group: TileGroup, node: ast.Subscript) -> tree.BufferRef:
    """`s.a[j]`, or from the pipeline's payload `payload.a[s.stage(), j]`, where a group of one needs no `j`."""
    items = list(node.items)
    if group.handle is None:
        index = elaborate(context, items[0])
        handle = picked_stage(context, index)
        if handle is None or handle.pipeline is not group.tiles[0].owner:
            context.fail(messages.ForeignStage(buffer=group.span.text(), found=describe(index), at=items[0].span))
        group = TileGroup(group.tiles, handle, group.span)
        items = items[1:]
        if not items and len(group.tiles) == 1:
            return tree.BufferRef(group.tiles[0], handle, False, node.span)
    if len(items) != 1:
        context.fail(
            messages.WrongType(
                what="the place in a group",
                expected=f"one number from 0 to {len(group.tiles) - 1}",
                found=_count(len(items), "number"),
                at=node.span,
            )
        )
    return pick(context, group, elaborate(context, items[0]), node.span, items[0].span)


def _tile_spec(context: Context, node: ast.Subscript, space: Space) -> TileSpec:
    word = "tile" if space == "shared" else "tmem"
    if len(node.items) != 3:
        context.fail(
            messages.WrongArguments(
                callee=word,
                problem=f"takes 3 items and was given {len(node.items)}",
                signature=f"{word}[dtype, rows, columns]",
                at=node.span,
            )
        )
    dtype = known_dtype(context, node.items[0])
    rows, columns = (known_int(context, item, "a tile size") for item in node.items[1:])
    for size, item in ((rows, node.items[1]), (columns, node.items[2])):
        if not 1 <= size <= 65_536:
            context.fail(messages.WrongType(what="a tile size", expected="between 1 and 65536", found=f"{size}", at=item.span))
    if dtype is BOOL:
        context.fail(
            messages.WrongType(what="the element type of a tile", expected="a number type", found="bool", at=node.items[0].span)
        )
    return TileSpec(space, dtype, rows, columns, node.span)


def _unary(context: Context, node: ast.Unary) -> Meaning:
    operand = value(context, node.operand, f"the operand of `{node.operator}`")
    if isinstance(operand, Known):
        return context.accept(arithmetic.fold_unary(node.operator, operand, node.span))
    made = arithmetic.unary(node.operator, operand, node.span)
    return context.fail(made) if isinstance(made, Message) else made


def _binary(context: Context, node: ast.Binary) -> Meaning:
    sides: list[Value] = []
    for side in (node.left, node.right):
        try:
            entity = elaborate(context, side)
        except Reported:
            if side is node.left:  # the right side may hold an independent mistake
                elaborate(context, node.right)
            raise
        if not isinstance(entity, Known):
            entity = as_value(context, entity, side.span, f"the operand of `{node.operator}`")
        sides.append(entity)
    return _combine(context, node.operator, sides[0], sides[1], node.span)


def _combine(context: Context, operator: BinaryOperator, left: Value, right: Value, span: Span) -> Value:
    """`left operator right`, folded when both are known."""
    if isinstance(left, Known) and isinstance(right, Known):
        return context.accept(arithmetic.fold(operator, left, right, span))
    return operate(context, operator, left, right, span)


def operate(context: Context, operator: BinaryOperator, left: Value, right: Value, span: Span) -> tree.Expression:
    """`left operator right`, of which at least one is a run-time value."""
    if isinstance(right, Known) and operator in ("/", "//", "%") and right.value == 0:
        context.fail(messages.DivisionByZero(at=right.span))
    made = arithmetic.binary(operator, _beside(context, left, right), _beside(context, right, left), span)
    return context.fail(made) if isinstance(made, Message) else made


def _beside(context: Context, found: Value, other: Value) -> tree.Expression:
    """A compile-time operand takes the element type of the run-time one beside it."""
    if not isinstance(found, Known):
        return found
    assert not isinstance(other, Known)
    return context.accept(arithmetic.constant(found, dtype_of(other.type)))


def _conditional(context: Context, node: ast.Conditional) -> Meaning:
    condition = value(context, node.condition, "the condition")
    if isinstance(condition, Known):
        chosen = known(context, node.condition, bool, "the condition", "a condition")
        return elaborate(context, node.when_true if chosen else node.when_false)
    return select(context, condition, value(context, node.when_true), value(context, node.when_false), node.span)


def select(
    context: Context,
    condition: Value,
    when_true: Value,
    when_false: Value,
    span: Span,
) -> tree.Expression:
    """Element by element, one of two values."""
    test = as_runtime(context, condition, None)
    if dtype_of(test.type) is not BOOL:
        context.fail(messages.WrongType(what="the condition", expected="a condition", found=describe(test), at=test.span))
    first, second = _alternatives(context, when_true, when_false)
    pair = arithmetic.common(first, second)
    if pair is None:
        context.fail(
            messages.MixedTypes(operator="if else", left=str(dtype_of(first.type)), right=str(dtype_of(second.type)), at=span)
        )
    first, second = pair
    shape = arithmetic.joint_shape(first.type, second.type)
    if shape is not False:
        shape = arithmetic.joint_shape(test.type, TileType(BOOL, *shape) if shape else BOOL)
    if shape is False:
        context.fail(messages.ShapeMismatch(operator="if else", left=str(first.type), right=str(second.type), at=span))
    dtype = dtype_of(first.type)
    if shape is None:
        return tree.Select(test, first, second, dtype, span)
    test, first, second = arithmetic.splat(test), arithmetic.splat(first), arithmetic.splat(second)
    return tree.Select(test, first, second, TileType(dtype, *shape), span)


def _alternatives(context: Context, when_true: Value, when_false: Value) -> tuple[tree.Expression, tree.Expression]:
    if isinstance(when_true, Known) and isinstance(when_false, Known):
        both_int = isinstance(when_true.value, int) and isinstance(when_false.value, int)
        dtype = arithmetic.default_dtype(when_true) if both_int else DTYPES["f32"]
        return as_runtime(context, when_true, dtype), as_runtime(context, when_false, dtype)
    return _beside(context, when_true, when_false), _beside(context, when_false, when_true)
