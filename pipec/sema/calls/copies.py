"""Copies between memories: by TMA, by threads, and of register values; also the tiles of other CTAs."""

from collections.abc import Iterable

from pipec.diag.catalogue.grid import clusters as cluster_messages
from pipec.diag.catalogue.language import names as messages
from pipec.diag.catalogue.language import types as types_messages
from pipec.isa.dtypes import DType
from pipec.isa.reductions import OPERATIONS as REDUCTIONS
from pipec.isa.specials import AXES
from pipec.record import replace
from pipec.sema import tree
from pipec.sema.calls.built_ins import rows_at
from pipec.sema.context import Context
from pipec.sema.language.operation import ActionName, Operation
from pipec.sema.meanings import Barrier, Known, Meaning, NewRegisterTile, Void, describe
from pipec.sema.types import I32, TileType
from pipec.sema.values import arithmetic
from pipec.sema.values.arguments import Action, bind_arguments
from pipec.sema.values.expected import Value, as_buffer_ref, as_runtime, as_value, known, scalar, tensor_slice, value
from pipec.source import Span
from pipec.syntax import ast
from pipec.vocabulary import CACHE_POLICIES, Axis, StorePath, Word, one_of


def _of_cta(context: Context, operation: Operation, receiver: Meaning | None, node: ast.Call) -> Meaning:
    bound = bind_arguments(context, node, operation.name, ("rank",), signature=operation.signature)
    assert isinstance(receiver, tree.BufferRef)
    pipeline = receiver.handle.pipeline
    if receiver.cta is not None or receiver.part is not None:
        context.fail(cluster_messages.RemoteOperand(what="what `.of(rank)` is taken of", at=node.span))
    # Only pipelines with cluster scope track when another CTA's tile is filled, and only a consumer may read it then.
    if pipeline.scope != "cluster" or receiver.handle.side != "consumer" or receiver.buffer.space != "shared":
        if pipeline.scope != "cluster":
            reason = f"`{pipeline.name}` hands stages over inside a CTA"
            fix = f'declare `{pipeline.name}` with `scope="cluster"`, and read it as a consumer'
        elif receiver.handle.side != "consumer":
            reason = f"stage `{receiver.handle.name}` was obtained for filling"
            fix = f"fill the CTA's own tile, and read the others in a consumer of `{pipeline.name}`"
        else:
            reason = "it lies in tensor memory"
            fix = "hand it over through a tile in shared memory"
        context.fail(
            cluster_messages.OwnTile(
                tile=receiver.span.text(),
                reason=reason,
                fix=fix,
                at=node.span,
                declared=pipeline.span,
                obtained=receiver.handle.span,
            )
        )
    return replace(receiver, cta=scalar(context, bound["rank"], I32, "the rank of a CTA"), span=node.span)


def _own_barrier(context: Context, node: ast.Expression, handle: tree.Handle) -> None:
    """A barrier passed explicitly must be that of the stage the operation works on."""
    barrier = context.elaborate(node)
    if not isinstance(barrier, Barrier):
        context.fail(
            types_messages.WrongType(what="the barrier", expected="`stage.mbar()`", found=describe(barrier), at=node.span)
        )
    # Otherwise the bytes would complete another stage's phase, and this stage's phase would never complete.
    if barrier.handle is not handle:
        context.fail(messages.WrongBarrier(stage=handle.name, other=barrier.handle.name, at=node.span, obtained=handle.span))


def _tma_load(context: Context, operation: Operation, receiver: Meaning | None, node: ast.Call) -> Meaning:
    options = ("barrier", "multicast", "mask", "cache")
    bound = bind_arguments(context, node, operation.name, ("tile", "source"), options, signature=operation.signature)
    destination = shared_tile(context, bound["tile"], "the destination", parts=True)
    source = tensor_slice(context, bound["source"], "the source")
    if "barrier" in bound:
        _own_barrier(context, bound["barrier"], destination.handle)
    if destination.part is not None and "multicast" in bound:
        problem = "shares whole tiles among the CTAs, and no rows of one"
        context.fail(
            types_messages.WrongArguments(
                callee="tma.load", problem=problem, signature=operation.signature, at=bound["multicast"].span
            )
        )
    axis = _axis(context, bound["multicast"]) if "multicast" in bound else None
    mask = scalar(context, bound["mask"], I32, "the mask") if "mask" in bound else None
    if mask is not None and axis is None:
        problem = "states a mask, but not along which axis the tile is shared"
        context.fail(
            types_messages.WrongArguments(
                callee="tma.load", problem=problem, signature=operation.signature, at=bound["mask"].span
            )
        )
    cache = _chosen(context, bound, "cache", CACHE_POLICIES)
    context.emit(tree.TmaLoad(destination, source, node.span, axis, mask, cache))
    return Void()


def _axis(context: Context, node: ast.Expression) -> Axis:
    axis = one_of(AXES, known(context, node, str, "an axis of the cluster", '`"x"`, `"y"` or `"z"`'))
    if axis is None:
        context.fail(
            types_messages.WrongType(
                what="an axis of the cluster", expected='`"x"`, `"y"` or `"z"`', found=f"`{node.span.text()}`", at=node.span
            )
        )
    return axis


def _copy_async(context: Context, operation: Operation, receiver: Meaning | None, node: ast.Call) -> Meaning:
    bound = bind_arguments(context, node, operation.name, ("tile", "source"), ("barrier",), signature=operation.signature)
    destination = shared_tile(context, bound["tile"], "the destination")
    source = tensor_slice(context, bound["source"], "the source")
    if "barrier" in bound:
        _own_barrier(context, bound["barrier"], destination.handle)
    context.emit(tree.CopyAsync(destination, source, node.span))
    return Void()


def shared_tile(context: Context, node: ast.Expression, what: str, *, parts: bool = False) -> tree.BufferRef:
    """`parts`: whether some rows of a tile will do."""
    found = as_buffer_ref(context, context.elaborate(node), node.span, what, parts=parts)
    if found.buffer.space != "shared" or found.transposed:
        context.fail(
            types_messages.WrongType(
                what=what,
                expected="a tile in shared memory, in its stored order",
                found="a transposed view" if found.transposed else describe(found),
                at=node.span,
            )
        )
    return found


def _tma_store(context: Context, operation: Operation, receiver: Meaning | None, node: ast.Call) -> Meaning:
    names = ("destination", "tile"), ("reduce", "cache")
    bound = bind_arguments(context, node, operation.name, *names, signature=operation.signature)
    destination = tensor_slice(context, bound["destination"], "the destination")
    source = shared_tile(context, bound["tile"], "the source")
    reduce, cache = _chosen(context, bound, "reduce", REDUCTIONS), _chosen(context, bound, "cache", CACHE_POLICIES)
    context.emit(tree.TmaStore(destination, source, node.span, reduce, cache))
    return Void()


def _chosen(context: Context, bound: dict[str, ast.Expression], name: str, choices: Iterable[Word]) -> Word | None:
    """The value of the string option `name`, such as `reduce="add"`; None if it is omitted."""
    if name not in bound:
        return None
    words = tuple(choices)
    written = known(context, bound[name], str, f"`{name}`", f'a string such as "{words[0]}"')
    found = one_of(words, written)
    if found is None:
        listed = ", ".join(f'"{word}"' for word in words)
        expected, at = f"one of {listed}", bound[name].span
        context.fail(types_messages.WrongType(what=f"`{name}`", expected=expected, found=f'"{written}"', at=at))
    return found


def _store(context: Context, operation: Operation, receiver: Meaning | None, node: ast.Call) -> Meaning:
    by_tma = operation.action == "store"
    names = ("destination", "tile"), ("reduce", "rows", "cache") if by_tma else ("reduce", "rows", "at")
    bound = bind_arguments(context, node, operation.name, *names, signature=operation.signature)
    destination = tensor_slice(context, bound["destination"], "the destination")
    stored, transposed = _stored_tile(context, bound["tile"], None if by_tma else destination.tensor.dtype)
    path: StorePath = "tma" if by_tma else "direct"
    rows = scalar(context, bound["rows"], I32, "`rows`") if "rows" in bound else None
    reduce, cache = _chosen(context, bound, "reduce", REDUCTIONS), _chosen(context, bound, "cache", CACHE_POLICIES)
    if transposed and rows is None and len(destination.tensor.shape) == 1 and _is_vector(stored):
        transposed = False  # a tensor of one dimension takes a row and a column alike
    if "at" in bound:
        if transposed:
            problem = "says where rows go, and the rows of the tile are columns of the tensor"
            context.fail(
                types_messages.WrongArguments(
                    callee=operation.name, problem=problem, signature=operation.signature, at=bound["at"].span
                )
            )
        stored = _scattered(context, destination, stored, bound["at"])
    context.emit(tree.Store(destination, stored, path, node.span, reduce, rows, cache, transposed))
    return Void()


def _scattered(context: Context, destination: tree.TensorSlice, stored: tree.Expression, node: ast.Expression) -> tree.Expression:
    assert isinstance(stored.type, TileType)
    if len(destination.tensor.shape) == 1 and stored.type.columns > 1:
        expected = "a tile of one column, for a tensor of one dimension"
        context.fail(
            types_messages.WrongType(what="what is scattered", expected=expected, found=describe(stored), at=stored.span)
        )
    at = rows_at(context, stored.type.rows, node, "where the rows go")
    return tree.Scattered(stored, at, stored.type, stored.span)


def _is_vector(stored: tree.Expression) -> bool:
    return isinstance(stored.type, TileType) and 1 in (stored.type.rows, stored.type.columns)


def _stored_tile(context: Context, node: ast.Expression, element: DType | None) -> tuple[tree.Expression, bool]:
    """The tile, and whether it is stored transposed (`x.T` of values). The transposed one-row tile of a stage is an ordinary value.

    `element`: that of the tensor, where a number may be stored as a tile of one element.
    """
    what = "what is stored"
    if not (isinstance(node, ast.Attribute) and node.name == "T"):
        given = value(context, node, what)
        if element is None:
            return _as_tile(context, given, what, node.span), False
        found = as_runtime(context, given, element if isinstance(given, Known) else None, what)
        if isinstance(found.type, TileType):
            return found, False
        return tree.Splat(found, TileType(found.type, 1, 1), node.span), False
    meaning = context.elaborate(node.value)  # once: elaborating a call to a helper emits its operations
    if isinstance(meaning, tree.BufferRef) and meaning.buffer.rows == 1:
        meaning = replace(meaning, transposed=not meaning.transposed, span=node.span)
        return _as_tile(context, as_value(context, meaning, node.span, what), what, node.span), False
    return _as_tile(context, as_value(context, meaning, node.value.span, what), what, node.value.span), True


def register_tile(context: Context, node: ast.Expression, what: str) -> tree.Expression:
    return _as_tile(context, value(context, node, what), what, node.span)


def _as_tile(context: Context, given: Value, what: str, span: Span) -> tree.Expression:
    found = as_runtime(context, given, None, what)
    if not isinstance(found.type, TileType):
        context.fail(types_messages.WrongType(what=what, expected="a tile", found=describe(found), at=span))
    return found


def _registers(context: Context, operation: Operation, receiver: Meaning | None, node: ast.Call) -> Meaning:
    bound = bind_arguments(context, node, operation.name, ("tile",), signature=operation.signature)
    found = register_tile(context, bound["tile"], "what is kept in registers")
    return NewRegisterTile(found, node.span)


def _write(context: Context, operation: Operation, receiver: Meaning | None, node: ast.Call) -> Meaning:
    bound = bind_arguments(context, node, operation.name, ("tile", "value"), signature=operation.signature)
    meaning = context.elaborate(bound["tile"])
    if isinstance(meaning, tree.Accumulator):
        return _write_accumulator(context, meaning, bound["value"], node)
    parts = "write the whole tile; to write a part of it at a time, give the payload a tile for each part"
    hint = parts if isinstance(meaning, tree.Columns | tree.ReadBuffer) else None
    destination = as_buffer_ref(context, meaning, bound["tile"].span, "the destination", hint)
    if destination.transposed:
        destination = shared_tile(context, bound["tile"], "the destination")
    context.emit(tree.Write(destination, register_tile(context, bound["value"], "what is written"), node.span))
    return Void()


def _write_accumulator(context: Context, accumulator: tree.Accumulator, written: ast.Expression, node: ast.Call) -> Meaning:
    found = register_tile(context, written, "what is written")
    widened = arithmetic.widen(found, accumulator.dtype)
    if widened is None or widened.type != accumulator.type:
        old, new = str(accumulator.type), str(found.type)
        context.fail(types_messages.TypeChanged(name=accumulator.name, old=old, new=new, at=written.span, first=accumulator.span))
    context.emit(tree.WriteAccumulator(accumulator, widened, node.span))
    return Void()


COPY_ACTIONS: dict[ActionName, Action] = {
    "tma_load": _tma_load,
    "copy_async": _copy_async,
    "tma_store": _tma_store,
    "store": _store,
    "store_direct": _store,
    "write": _write,
    "registers": _registers,
    "of_cta": _of_cta,
}
