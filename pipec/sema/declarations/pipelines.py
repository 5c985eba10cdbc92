"""Declarations at kernel level: pipelines with their payloads, and buffers."""

from collections.abc import Callable
from typing import Any

from pipec.diag.catalogue.grid import clusters as cluster_messages
from pipec.diag.catalogue.language import types as messages
from pipec.diag.catalogue.stages import output as output_messages
from pipec.diag.catalogue.stages import sub_stages
from pipec.diag.catalogue.tiles import resources as resource_messages
from pipec.record import replace
from pipec.sema import tree
from pipec.sema.context import Context
from pipec.sema.declarations.scheduling import declare_scheduler
from pipec.sema.declarations.storage import declare_allocation, declare_barriers, own_barriers, tensor_allocation
from pipec.sema.language.operation import EPILOGUE_LOAD, INPUT, OUTPUT, RING, ROLE, SCHEDULER
from pipec.sema.meanings import PayloadSpec, TileSpec, describe
from pipec.sema.values.arguments import bind_arguments
from pipec.sema.values.expected import known, known_int
from pipec.syntax import ast
from pipec.vocabulary import PipelineKind, Scope, Space, one_of

_SCOPES: tuple[Scope, ...] = ("cta", "cluster")
_SIGNATURES = {
    RING: f'{RING}(stages=2, cta_group=1, scope="cta")',
    EPILOGUE_LOAD: f"{EPILOGUE_LOAD}(stages=2)",
    INPUT: f'{INPUT}(StandardTilePayload(a=tile[...], b=tile[...]), stages=4, k_group_size=1, cta_group=1, scope="cta")',
    OUTPUT: f"{OUTPUT}(tmem[f32, rows, columns], stages=1, stage_stride_cols=columns, barriers=BarrierArray(2), "
    "tmem=allocation, cta_group=1, mma_complete_mask=1)",
    ROLE: f"{ROLE}(stages=2, producer_sub_stages=1, consumer_sub_stages=1, cta_group=1)",
    "StandardTilePayload": "StandardTilePayload(a=tile[...], b=tile[...])",
    "BlockwiseFP8TilePayload": "BlockwiseFP8TilePayload(a=tile[...], b=tile[...], a_scales=tile[f32, 1, rows of a])",
    "BlockScaledTilePayload": "BlockScaledTilePayload(a=tile[...], b=tile[...], sfa=tile[...], sfb=tile[...])",
    "TilePayload": "TilePayload(name=tile[...], ...)",
    "SharedTiles": "SharedTiles(tile[...], count=2)",
    "TensorTiles": "TensorTiles(tmem[...], count=2, alias=..., column=0)",
}


MOST_STAGES = 32
MOST_SUB_STAGES = 8

# Payloads with fixed member names.
_FIXED_MEMBERS = {
    "StandardTilePayload": ("a", "b"),
    "BlockScaledTilePayload": ("a", "b", "sfa", "sfb"),
    "BlockwiseFP8TilePayload": ("a", "b", "a_scales"),
}


_PAYLOADS = (*_FIXED_MEMBERS, "TilePayload")
_NAMED_TILES = "tiles that have other names travel together in a `TilePayload(name=tile[...], ...)`"
_ONE_ACCUMULATOR = (
    "each accumulator is a pipeline of its own; a role may hold stages of both: "
    "`with first.produce() as x, second.produce() as y:`"
)


def declare(context: Context, target: ast.Name, node: ast.Call, kind: str) -> None:
    """`name = Constructor(...)` at kernel level."""
    _CONSTRUCTORS[kind](context, target, node)


def is_declaration(node: ast.Expression) -> str | None:
    """The constructor's name when the expression declares something."""
    if isinstance(node, ast.Call) and isinstance(node.callee, ast.Name) and node.callee.name in _CONSTRUCTORS:
        return node.callee.name
    return None


def _barriers_only(kind: PipelineKind) -> Callable[[Context, ast.Name, ast.Call], None]:
    def make(context: Context, target: ast.Name, node: ast.Call) -> None:
        options = ("cta_group", "scope") if kind == RING else ()
        _no_payload(context, kind, node)
        bound = bind_arguments(context, node, kind, ("stages",), options, signature=_SIGNATURES[kind])
        _pipeline(
            context,
            target,
            node,
            kind,
            bound,
            {},
            **_small_counts(context, target, bound, ("cta_group",)),
            **_scope(context, bound),
        )

    return make


def _no_payload(context: Context, kind: PipelineKind, node: ast.Call) -> None:
    """Reports tiles given to a pipeline that has barriers only: the call of another kind would have them first."""
    first = node.arguments[0] if node.arguments else None
    if first is not None and first.name is None and _payload_name(first.value) is not None:
        context.fail(
            messages.WrongArguments(
                callee=kind,
                problem="has barriers only and takes no payload",
                signature=_SIGNATURES[kind],
                at=first.span,
                advice=f"write `{INPUT}({first.value.span.text()}, stages=...)`, or declare `SharedTiles` beside it",
            )
        )


def _payload_name(node: ast.Expression) -> str | None:
    """The name of the payload that the expression constructs."""
    name = node.callee.name if isinstance(node, ast.Call) and isinstance(node.callee, ast.Name) else None
    return name if name in _PAYLOADS else None


def _input(context: Context, target: ast.Name, node: ast.Call) -> None:
    options = ("k_group_size", "cta_group", "scope")
    bound = bind_arguments(context, node, INPUT, ("payload", "stages"), options, signature=_SIGNATURES[INPUT])
    payload = payload_spec(context, bound["payload"])
    counts = _small_counts(context, target, bound, ("cta_group",))
    _pipeline(context, target, node, INPUT, bound, payload.tiles, **counts, **_scope(context, bound))


def _output(context: Context, target: ast.Name, node: ast.Call) -> None:
    options = ("stages", "stage_stride_cols", "barriers", "tmem", "cta_group", "mma_complete_mask")
    bound = bind_arguments(context, node, OUTPUT, ("accumulator",), options, _SIGNATURES[OUTPUT], _ONE_ACCUMULATOR)
    spec = _spec(context, bound["accumulator"], "tensor", "the accumulator", "`tmem[dtype, rows, columns]`")
    if "stage_stride_cols" in bound:
        stride = _count(context, bound["stage_stride_cols"], "`stage_stride_cols`")
        if stride < spec.columns:
            context.fail(
                output_messages.StageStride(
                    pipeline=target.name,
                    stride=stride,
                    columns=spec.columns,
                    at=bound["stage_stride_cols"].span,
                    declared=spec.span,
                )
            )
        # The stride is part of the tile: everything that addresses the accumulator of a stage multiplies by it.
        spec = replace(spec, stride=stride)
    counts = _small_counts(context, target, bound, ("cta_group",))
    if "mma_complete_mask" in bound:
        _complete_mask(context, bound["mma_complete_mask"], counts.get("cta_group", 1))
    _pipeline(context, target, node, OUTPUT, bound, {"tmem": spec}, **counts)
    pipeline = context.scope.names[target.name].meaning
    assert isinstance(pipeline, tree.Pipeline)
    if "barriers" in bound:
        own_barriers(context, pipeline, bound["barriers"])
    if "tmem" in bound:
        tensor_allocation(context, bound["tmem"])


def _role(context: Context, target: ast.Name, node: ast.Call) -> None:
    options = ("producer_sub_stages", "consumer_sub_stages", "cta_group")
    _no_payload(context, ROLE, node)
    bound = bind_arguments(context, node, ROLE, ("stages",), options, signature=_SIGNATURES[ROLE])
    _pipeline(context, target, node, ROLE, bound, {}, **_small_counts(context, target, bound, options))


def _complete_mask(context: Context, node: ast.Expression, group: int) -> None:
    stated, derived = known_int(context, node, "`mma_complete_mask`"), (1 << group) - 1
    if stated != derived:
        context.sink.report(
            cluster_messages.CompleteMask(stated=f"{stated:#b}", derived=f"{derived:#b}", group=group, at=node.span)
        )


def _small_counts(
    context: Context, target: ast.Name, bound: dict[str, ast.Expression], options: tuple[str, ...]
) -> dict[str, int]:
    counts = {name: known_int(context, bound[name], f"`{name}`") for name in options if name in bound}
    for name, count in counts.items():
        most = 2 if name == "cta_group" else MOST_SUB_STAGES
        if not 1 <= count <= most:
            legal = "1 or 2" if most == 2 else f"from 1 to {most}"
            context.sink.report(
                sub_stages.SubStageCount(pipeline=target.name, what=name, count=count, legal=legal, at=bound[name].span)
            )
            # Declare the pipeline anyway, with a legal count, so that its uses are checked as well.
            counts[name] = 1
    return counts


def _scope(context: Context, bound: dict[str, ast.Expression]) -> dict[str, Scope]:
    if "scope" not in bound:
        return {}
    scope = one_of(_SCOPES, known(context, bound["scope"], str, "the scope of a pipeline", '`"cta"` or `"cluster"`'))
    if scope is None:
        found = f"`{bound['scope'].span.text()}`"
        context.fail(
            messages.WrongType(
                what="the scope of a pipeline", expected='`"cta"` or `"cluster"`', found=found, at=bound["scope"].span
            )
        )
    return {"scope": scope}


def _pipeline(
    context: Context,
    target: ast.Name,
    node: ast.Call,
    kind: PipelineKind,
    bound: dict[str, ast.Expression],
    tiles: dict[str, TileSpec],
    **counts: Any,
) -> None:
    stages = _count(context, bound["stages"], "the number of stages") if "stages" in bound else 1
    group = _count(context, bound["k_group_size"], "the group size") if "k_group_size" in bound else 1
    if group < 1 or stages % group:
        context.fail(
            resource_messages.StageGroups(
                pipeline=target.name,
                stages=stages,
                group=group,
                fix=f"stages={-(-max(stages, 1) // group) * group}" if group >= 1 else "k_group_size=1",
                at=bound["k_group_size"].span,
                counted=bound["stages"].span,
            )
        )
    if stages < 1:
        context.fail(resource_messages.NoStages(pipeline=target.name, stages=stages, at=bound["stages"].span))
    if stages // group > MOST_STAGES:
        context.sink.report(
            resource_messages.StageCount(pipeline=target.name, stages=stages, most=MOST_STAGES * group, at=bound["stages"].span)
        )
    # A group is waited for and signalled as a unit, so everything else treats it as one stage.
    pipeline = tree.Pipeline(target.name, kind, stages // group, target.span, group, **counts)
    context.define(target, pipeline)
    context.buffers[pipeline] = tuple(
        tree.Buffer(
            tile_name, spec.space, spec.dtype, spec.rows, spec.columns, pipeline.stages, pipeline, spec.span, slot, spec.stride
        )
        for name, spec in tiles.items()
        for tile_name, slot in _slots(name, group)
    )


def _slots(name: str, group: int) -> list[tuple[str, int | None]]:
    """The tiles of one payload member in a stage: their names and places in the group."""
    return [(name, None)] if group == 1 else [(f"{name}[{slot}]", slot) for slot in range(group)]


def _count(context: Context, node: ast.Expression, what: str) -> int:
    count = known_int(context, node, what)
    # The real limits depend on the target's memory and are checked with it; this keeps later numbers in range.
    if not -(2**31) < count < 2**31:
        context.fail(messages.WrongType(what=what, expected="a small number", found=str(count), at=node.span))
    return count


def _buffer(space: Space) -> Callable[[Context, ast.Name, ast.Call], None]:
    name = "SharedTiles" if space == "shared" else "TensorTiles"

    def make(context: Context, target: ast.Name, node: ast.Call) -> None:
        optional = ("alias", "column") if space == "tensor" else ()
        bound = bind_arguments(context, node, name, ("tile", "count"), optional, signature=_SIGNATURES[name])
        word = "`tile[dtype, rows, columns]`" if space == "shared" else "`tmem[dtype, rows, columns]`"
        spec = _spec(context, bound["tile"], space, "the tile", word)
        count = _count(context, bound["count"], "the number of tiles")
        alias = _aliased(context, bound["alias"]) if "alias" in bound else None
        column = _count(context, bound["column"], "the first column") if "column" in bound else 0
        buffer = tree.Buffer(target.name, space, spec.dtype, spec.rows, spec.columns, count, None, target.span)
        context.define(target, replace(buffer, alias=alias, alias_column=column))

    return make


def _aliased(context: Context, node: ast.Expression) -> tree.Buffer:
    base = context.elaborate(node)
    if not isinstance(base, tree.Buffer) or base.space != "tensor" or base.owner is not None:
        context.fail(
            messages.WrongType(what="`alias`", expected="a `TensorTiles` declared above", found=describe(base), at=node.span)
        )
    return base


def _spec(context: Context, node: ast.Expression, space: Space, what: str, expected: str) -> TileSpec:
    spec = context.elaborate(node)
    if not isinstance(spec, TileSpec) or spec.space != space:
        context.fail(messages.WrongType(what=what, expected=expected, found=describe(spec), at=node.span))
    return spec


def payload_spec(context: Context, node: ast.Expression) -> PayloadSpec:
    """A payload with fixed members, or `TilePayload(name=..., ...)`."""
    kind = _payload_name(node)
    if kind is None:
        context.fail(
            messages.WrongType(
                what="the payload",
                expected=", ".join(f"`{name}(...)`" for name in _FIXED_MEMBERS) + " or `TilePayload(...)`",
                found=f"`{node.span.text()}`",
                at=node.span,
            )
        )
    assert isinstance(node, ast.Call)
    if kind in _FIXED_MEMBERS:
        bound = bind_arguments(context, node, kind, _FIXED_MEMBERS[kind], (), _SIGNATURES[kind], _NAMED_TILES)
    else:
        unnamed = next((argument for argument in node.arguments if argument.name is None), None)
        if unnamed is not None or not node.arguments:
            context.fail(
                messages.WrongArguments(
                    callee=kind,
                    problem="names each of its tiles, and has at least one",
                    signature=_SIGNATURES[kind],
                    at=(unnamed or node).span,
                )
            )
        names = tuple(dict.fromkeys(argument.name for argument in node.arguments if argument.name))
        bound = bind_arguments(context, node, kind, names, signature=_SIGNATURES[kind])
    tiles = {name: _spec(context, bound[name], "shared", f"tile `{name}`", "`tile[dtype, rows, columns]`") for name in bound}
    if kind == "BlockwiseFP8TilePayload":
        _scales(context, tiles["a"], tiles["a_scales"])
    return PayloadSpec(tiles, node.span)


def _scales(context: Context, a: TileSpec, scales: TileSpec) -> None:
    """One scale for each row of `a`."""
    if (scales.dtype.name, scales.rows, scales.columns) != ("f32", 1, a.rows):
        found = f"tile[{scales.dtype}, {scales.rows}, {scales.columns}]"
        context.fail(output_messages.ScaleShape(found=found, rows=a.rows, at=scales.span, tile=a.span))


_CONSTRUCTORS: dict[str, Callable[[Context, ast.Name, ast.Call], None]] = {
    RING: _barriers_only(RING),
    EPILOGUE_LOAD: _barriers_only(EPILOGUE_LOAD),
    INPUT: _input,
    OUTPUT: _output,
    ROLE: _role,
    "SharedTiles": _buffer("shared"),
    "TensorTiles": _buffer("tensor"),
    "TmemAllocation": declare_allocation,
    "BarrierArray": declare_barriers,
    SCHEDULER: declare_scheduler,
}

# Calls that belong at kernel level, including the payloads inside pipelines.
DECLARATIONS = (*_CONSTRUCTORS, *_FIXED_MEMBERS, "TilePayload")
