"""The meaning of names, members (`stage.a`) and subscripts (`buffer[i]`)."""

from collections.abc import Callable

from pipec.diag.catalogue.language import constants as constants_messages
from pipec.diag.catalogue.language import names as messages
from pipec.diag.catalogue.language import placement as placement_messages
from pipec.diag.catalogue.language import types as types_messages
from pipec.diag.shown import counted
from pipec.interface import MULTIPROCESSORS
from pipec.isa.dtypes import DTYPES
from pipec.isa.specials import AXES
from pipec.isa.specials import MEMBERS as MEMBERS_OF_SPECIALS
from pipec.record import replace
from pipec.sema import tree
from pipec.sema.context import Context
from pipec.sema.language.operation import BARRIER, CONSUMER, EPILOGUE_STAGE, INPUT, PRODUCER, TILE, VIEWS
from pipec.sema.language.operations import FREE, MEMBERS
from pipec.sema.language.other_names import library_member
from pipec.sema.meanings import (
    Barrier,
    EpilogueStage,
    Known,
    Meaning,
    OfEachRole,
    Payload,
    PipelinePayload,
    Tile,
    TileGroup,
    TileSpec,
    View,
    describe,
)
from pipec.sema.types import BOOL, I32
from pipec.sema.values.expected import coordinate, known_dtype, tile_size
from pipec.sema.values.groups import known_place, pick, tile_group
from pipec.sema.values.stage_numbers import number_written, picked_stage
from pipec.sema.values.tile_order import tile_place
from pipec.source import Span
from pipec.syntax import ast
from pipec.vocabulary import Space

_GPU = MULTIPROCESSORS.partition(".")[0]

# Built-in names that are not operations; for `did you mean`.
BUILT_IN = (
    "tile",
    "tmem",
    "tensor",
    "cast",
    "bitcast",
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
    _GPU,
)
_KNOWN_NAMES = BUILT_IN + tuple(FREE)


def _tile_of(context: Context, handle: tree.Handle, node: ast.Attribute) -> tree.BufferRef | TileGroup | None:
    group = tile_group(context, handle.pipeline, handle, node.name, node.span)
    if group is None or handle.pipeline.k_group_size > 1:
        return group
    return tree.BufferRef(group.tiles[0], handle, False, node.span)


# Properties of a pipeline.
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


def members_of(context: Context, meaning: Meaning) -> tuple[str, tuple[str, ...]]:
    """How a message describes the owner of members, and their names."""
    match meaning:
        case tree.Pipeline():
            return f"the {meaning.kind} `{meaning.name}`", tuple(MEMBERS.get(meaning.kind, {}))
        case View(pipeline, side):
            return f"the {side} view of `{pipeline.name}`", tuple(MEMBERS[VIEWS[side]])
        case EpilogueStage():
            stages = ("output_stage", "input_stage", *_member_names(context, meaning.input.pipeline))
            return describe(meaning), stages + tuple(MEMBERS[EPILOGUE_STAGE])
        case tree.Handle():
            tiles = _member_names(context, meaning.pipeline)
            rows = MEMBERS[PRODUCER if meaning.side == "producer" else CONSUMER].values()
            names = tuple(row.name for row in rows if row.belongs_to(meaning.pipeline.kind))
            return f"the {meaning.side} stage `{meaning.name}`", tiles + names
        case Payload(handle):
            return f"the payload of stage `{handle.name}`", _member_names(context, handle.pipeline)
        case PipelinePayload(pipeline):
            return describe(meaning), _member_names(context, pipeline)
        case tree.BufferRef():
            return describe(meaning), ("T", *MEMBERS[TILE])
        case Barrier():
            return describe(meaning), tuple(MEMBERS[BARRIER])
        case Tile():
            return describe(meaning), (*AXES, "index")
        case _:
            return describe(meaning), ()


def named(context: Context, node: ast.Name) -> Meaning:
    # Element types are not reserved words: names of the program hide them.
    if node.name in DTYPES and context.scope.find(node.name) is None:
        return Known(DTYPES[node.name], node.span)
    found = context.look_up(node, _KNOWN_NAMES)
    return context.of_this_role(found, node.span) if isinstance(found, OfEachRole) else _at(found, node.span)


def _at(meaning: Meaning, span: Span) -> Meaning:
    """The meaning with the span of this use, to which messages point."""
    match meaning:
        case Known():
            return Known(meaning.value, span)
        case tree.Variable():
            return tree.ReadVariable(meaning, span)
        case tree.ScalarParameter():
            return tree.ReadParameter(meaning, span)
        case tree.ReadDimension() | tree.ReadVariable():
            return replace(meaning, span=span)
        case _:
            return meaning


def dotted(context: Context, node: ast.Expression) -> str | None:
    """`tma.load` as text if its first name is not defined by the program; None otherwise."""
    match node:
        case ast.Name(name):
            return name if context.scope.find(name) is None else None
        case ast.Attribute(owner, name):
            first = dotted(context, owner)
            return f"{first}.{name}" if first else None
        case _:
            return None


def _special(context: Context, first: str, rest: str, span: Span) -> tree.Expression:
    """`block.x` and the like."""
    if rest not in MEMBERS_OF_SPECIALS[first]:
        context.no_member(f"`{first}`", rest, MEMBERS_OF_SPECIALS[first], span)
    if first == "grid" and context.grid is not None and context.cluster.size == 1:
        blocks = context.grid[AXES.index(rest)]
        # A constant gives loops that step by the grid constant bounds, which the proof and LLVM both use.
        if isinstance(blocks, tree.Constant):
            return tree.Constant(blocks.value, I32, span)
    if rest != "leader":
        return tree.Special(f"{first}.{rest}", I32, span)
    # There is no register for it: the leader of a pair is the CTA of even rank (hardware.md 5.1).
    two, zero = tree.Constant(2, I32, span), tree.Constant(0, I32, span)
    return tree.Binary("==", tree.Binary("%", tree.Special("cta.rank", I32, span), two, I32, span), zero, BOOL, span)


def _of_gpu(context: Context, path: str, member: str, span: Span) -> tree.Expression:
    """What the host finds out of the GPU that a kernel is launched on."""
    if path != MULTIPROCESSORS:
        context.no_member(f"`{_GPU}`", member, (MULTIPROCESSORS.partition(".")[2],), span)
    if not context.on_host:
        context.fail(constants_messages.HostValue(name=path, at=span))
    return tree.Special(path, I32, span)


def _target_property(context: Context, name: str, span: Span) -> Known:
    """A compile-time property of the target."""
    properties = context.target.properties
    if name not in properties:
        context.no_member("`target`", name, tuple(properties), span)
    return Known(properties[name], span)


def attribute(context: Context, node: ast.Attribute) -> Meaning:
    path = dotted(context, node)
    if path is not None:
        first, _, rest = path.partition(".")
        if first in MEMBERS_OF_SPECIALS:
            return _special(context, first, rest, node.span)
        if first == _GPU:
            return _of_gpu(context, path, rest, node.span)
        if first == "target":
            return _target_property(context, rest, node.span)
        if path in FREE:
            context.fail(placement_messages.NoEffect(hint=f"call it: `{FREE[path].signature}`", at=node.span))
        if any(name.startswith(first + ".") for name in FREE):
            context.no_member(f"`{first}`", rest, tuple(n.split(".")[1] for n in FREE if n.startswith(first + ".")), node.span)
        context.refuse_other(path, library_member(path), node.span)
    meaning = context.elaborate(node.value)
    if isinstance(meaning, EpilogueStage) and node.name in ("output_stage", "input_stage"):
        return meaning.output if node.name == "output_stage" else meaning.input
    # Of the two stages only the input stage has named tiles: its scale factors.
    if isinstance(meaning, EpilogueStage) and tile_group(context, meaning.input.pipeline, None, node.name, node.span) is not None:
        meaning = meaning.input
    if isinstance(meaning, Payload):
        meaning = meaning.handle
    if isinstance(meaning, Tile):
        place = tile_place(meaning, node.name, node.span)
        if place is not None:
            return place
    if isinstance(meaning, tree.Handle):
        tile = _tile_of(context, meaning, node)
        if tile is not None:
            return tile
    if isinstance(meaning, tree.Pipeline) and node.name in _CONSTANTS and node.name in MEMBERS.get(meaning.kind, {}):
        return _CONSTANTS[node.name](context, meaning, node.span)
    if isinstance(meaning, PipelinePayload):
        group = tile_group(context, meaning.pipeline, None, node.name, node.span)
        if group is not None:
            return group
    if isinstance(meaning, tree.BufferRef) and node.name == "T":
        return replace(meaning, transposed=not meaning.transposed, span=node.span)
    owner, members = members_of(context, meaning)
    if node.name in members:
        context.fail(placement_messages.NoEffect(hint=f"call it: `{node.span.text()}()`", at=node.span))
    context.no_member(owner, node.name, members, node.span)


def _is_tile_word(context: Context, name: str) -> bool:
    """An allocation may be named `tmem`: it cannot be indexed, so `tmem[...]` keeps its meaning."""
    binding = context.scope.find(name)
    return binding is None or isinstance(binding.meaning, tree.TensorAllocation)


def subscript(context: Context, node: ast.Subscript) -> Meaning:
    if isinstance(node.value, ast.Name) and node.value.name in ("tile", "tmem") and _is_tile_word(context, node.value.name):
        return _tile_spec(context, node, "shared" if node.value.name == "tile" else "tensor")
    meaning = context.elaborate(node.value)
    match meaning:
        case tree.TensorParameter():
            if len(node.items) != len(meaning.shape):
                context.fail(
                    types_messages.WrongRank(
                        tensor=meaning.name,
                        rank=counted(len(meaning.shape), "dimension"),
                        given=counted(len(node.items), "coordinate"),
                        at=node.span,
                        declared=meaning.span,
                    )
                )
            return tree.TensorSlice(meaning, tuple(coordinate(context, item) for item in node.items), node.span)
        case tree.Buffer():
            return _slot(context, meaning, node)
        case TileGroup():
            return _group_tile(context, meaning, node)
        case tree.BufferRef() if meaning.buffer.owner is not None and meaning.buffer.owner.kind == INPUT and len(node.items) == 1:
            # A group of one: a kernel with the group size as a parameter is written the same way for all sizes.
            known_place(context, context.elaborate(node.items[0]), 1, node.items[0].span)
            return meaning
        case _:
            context.fail(
                types_messages.WrongType(
                    what="what is indexed",
                    expected="a tensor, a buffer, `tile` or `tmem`",
                    found=describe(meaning),
                    at=node.value.span,
                )
            )


def _slot(context: Context, buffer: tree.Buffer, node: ast.Subscript) -> tree.BufferRef:
    index = context.elaborate(node.items[0])
    handle = picked_stage(context, index)
    if len(node.items) != 1 or handle is None:
        context.fail(
            messages.ForeignStage(
                buffer=buffer.name, number=number_written(context, buffer.owner), found=describe(index), at=node.items[0].span
            )
        )
    return tree.BufferRef(buffer, handle, False, node.span, index.sub_stage if isinstance(index, tree.StageIndex) else None)


def _group_tile(context: Context, group: TileGroup, node: ast.Subscript) -> tree.BufferRef:
    """`s.a[j]`, or `payload.a[s.stage(), j]` with the pipeline's payload, where a group of one needs no `j`."""
    items = list(node.items)
    if group.handle is None:
        index = context.elaborate(items[0])
        handle = picked_stage(context, index)
        if handle is None or handle.pipeline is not group.tiles[0].owner:
            context.fail(
                messages.ForeignStage(
                    buffer=group.span.text(),
                    number=number_written(context, group.tiles[0].owner),
                    found=describe(index) if handle is None else f"the number of a stage of `{handle.pipeline.name}`",
                    at=items[0].span,
                )
            )
        group = TileGroup(group.tiles, handle, group.span)
        items = items[1:]
        if not items and len(group.tiles) == 1:
            return tree.BufferRef(group.tiles[0], handle, False, node.span)
    if len(items) != 1:
        context.fail(
            types_messages.WrongType(
                what="the place in a group",
                expected=f"one number from 0 to {len(group.tiles) - 1}",
                found=counted(len(items), "number"),
                at=node.span,
            )
        )
    return pick(context, group, context.elaborate(items[0]), node.span, items[0].span)


def _tile_spec(context: Context, node: ast.Subscript, space: Space) -> TileSpec:
    word = "tile" if space == "shared" else "tmem"
    if len(node.items) != 3:
        context.fail(
            types_messages.WrongArguments(
                callee=word,
                problem=f"takes 3 items and was given {len(node.items)}",
                signature=f"{word}[dtype, rows, columns]",
                at=node.span,
            )
        )
    dtype = known_dtype(context, node.items[0])
    rows, columns = (tile_size(context, item) for item in node.items[1:])
    if dtype is BOOL:
        context.fail(
            types_messages.WrongType(
                what="the element type of a tile", expected="a number type", found="bool", at=node.items[0].span
            )
        )
    return TileSpec(space, dtype, rows, columns, node.span)
