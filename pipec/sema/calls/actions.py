"""What each operation of the table does to the typed tree: one function per action."""

from collections.abc import Callable

from pipec.diag.catalogue.grid import clusters as cluster_messages
from pipec.diag.catalogue.language import names as messages
from pipec.isa.reductions import OPERATIONS as REDUCTIONS
from pipec.isa.specials import AXES
from pipec.record import replace
from pipec.sema import tree
from pipec.sema.calls.grids import GRID_ACTIONS
from pipec.sema.calls.role_pipeline import ROLE_ACTIONS
from pipec.sema.calls.semaphores import semaphore
from pipec.sema.calls.stepping import STEPPING_ACTIONS, pipeline_of
from pipec.sema.context import Context
from pipec.sema.language.operation import THREADS
from pipec.sema.language.operations import EPILOGUE_LOAD, INPUT, OPERATIONS, RING, Operation
from pipec.sema.meanings import (
    EXPRESSIONS,
    Acquired,
    AcquiredPair,
    Barrier,
    Known,
    Meaning,
    NewAccumulator,
    NewRegisterTile,
    Payload,
    View,
    Void,
    describe,
)
from pipec.sema.scope import Scope
from pipec.sema.types import BOOL, I32, TileType
from pipec.sema.values import arithmetic
from pipec.sema.values.arguments import bind_arguments
from pipec.sema.values.expected import (
    as_buffer_ref,
    as_runtime,
    as_value,
    buffer_ref,
    known,
    known_dtype,
    known_int,
    reference,
    runtime,
    scalar,
    tensor_slice,
    value,
)
from pipec.syntax import ast
from pipec.vocabulary import Axis, Reduction, StorePath, one_of

MOST_ACCUMULATOR_ROWS = 65_536  # far beyond what registers hold, which the checks tell; keeps later numbers sane
_EPILOGUE_LOAD_COUNTS = (1, 128)  # a TMA transaction; the threads of four epilogue warps
Action = Callable[[Context, Operation, Meaning | None, ast.Call], Meaning]


def _no_arguments(context: Context, operation: Operation, node: ast.Call) -> None:
    bind_arguments(context, node, operation.name, (), signature=operation.signature)


def _handle(receiver: Meaning | None) -> tree.Handle:
    assert isinstance(receiver, tree.Handle)
    return receiver


# ------------------------------------------------------------------------------------------------------ stages


def _acquire(context: Context, operation: Operation, receiver: Meaning | None, node: ast.Call) -> Meaning:
    _no_arguments(context, operation, node)
    assert operation.side and operation.form
    return Acquired(pipeline_of(receiver), operation.side, operation.form, node.span)


def _view(context: Context, operation: Operation, receiver: Meaning | None, node: ast.Call) -> Meaning:
    _no_arguments(context, operation, node)
    assert operation.side
    return View(pipeline_of(receiver), operation.side)


def _underlying(context: Context, operation: Operation, receiver: Meaning | None, node: ast.Call) -> Meaning:
    _no_arguments(context, operation, node)
    return pipeline_of(receiver)


def _per_k(context: Context, operation: Operation, receiver: Meaning | None, node: ast.Call) -> Meaning:
    _no_arguments(context, operation, node)
    return View(pipeline_of(receiver), "per_k")


def _per_k_epilogue(context: Context, operation: Operation, receiver: Meaning | None, node: ast.Call) -> Meaning:
    bound = bind_arguments(context, node, operation.name, ("input_pipeline",), signature=operation.signature)
    source = context.elaborate(bound["input_pipeline"])
    if not isinstance(source, tree.Pipeline) or source.kind not in (INPUT, RING):
        context.fail(
            messages.WrongType(
                what="the input pipeline",
                expected=f"an {INPUT} or a {RING}",
                found=f"an {source.kind}" if isinstance(source, tree.Pipeline) else describe(source),
                at=bound["input_pipeline"].span,
            )
        )
    output, input_ = (Acquired(one, "consumer", "scoped", node.span) for one in (pipeline_of(receiver), source))
    return AcquiredPair(output, input_, node.span)


def _drain(context: Context, operation: Operation, receiver: Meaning | None, node: ast.Call) -> Meaning:
    _no_arguments(context, operation, node)
    context.emit(tree.Drain(pipeline_of(receiver), node.span))
    return Void()


def _release(context: Context, operation: Operation, receiver: Meaning | None, node: ast.Call) -> Meaning:
    _no_arguments(context, operation, node)
    context.emit(tree.Release(_handle(receiver), operation.action == "release", node.span))
    return Void()


def _release_stage(context: Context, operation: Operation, receiver: Meaning | None, node: ast.Call) -> Meaning:
    bound = bind_arguments(context, node, operation.name, ("stage",), signature=operation.signature)
    stage = context.elaborate(bound["stage"])
    if not isinstance(stage, tree.Handle) or stage.pipeline is not pipeline_of(receiver) or stage.side != operation.side:
        context.fail(
            messages.WrongType(
                what="the stage",
                expected=f"a {operation.side} stage of `{pipeline_of(receiver).name}`",
                found=describe(stage),
                at=bound["stage"].span,
            )
        )
    context.emit(tree.Release(stage, True, node.span))
    return Void()


def _release_current(context: Context, operation: Operation, receiver: Meaning | None, node: ast.Call) -> Meaning:
    _no_arguments(context, operation, node)
    pipeline = pipeline_of(receiver)
    assert operation.side
    stage = context.current.get((pipeline, operation.side))
    if stage is None:
        context.fail(
            messages.WrongType(
                what=f"the {operation.side} stage of `{pipeline.name}`",
                expected="acquired before it is released",
                found="a release without an acquire",
                at=node.span,
            )
        )
    context.emit(tree.Release(stage, True, node.span))
    return Void()


def _arrive(context: Context, operation: Operation, receiver: Meaning | None, node: ast.Call) -> Meaning:
    _no_arguments(context, operation, node)
    context.emit(tree.Signal(_handle(receiver), "arrive", node.span))
    return Void()


def _index(context: Context, operation: Operation, receiver: Meaning | None, node: ast.Call) -> Meaning:
    _no_arguments(context, operation, node)
    return tree.StageIndex(_handle(receiver), I32, node.span)


def _barrier(context: Context, operation: Operation, receiver: Meaning | None, node: ast.Call) -> Meaning:
    _no_arguments(context, operation, node)
    return Barrier(_handle(receiver), node.span)


def _payload(context: Context, operation: Operation, receiver: Meaning | None, node: ast.Call) -> Meaning:
    _no_arguments(context, operation, node)
    return Payload(_handle(receiver))


def _accumulator(context: Context, operation: Operation, receiver: Meaning | None, node: ast.Call) -> Meaning:
    _no_arguments(context, operation, node)
    found = reference(context, _handle(receiver), node.span)
    if found.buffer.space != "tensor":
        context.fail(
            messages.WrongType(
                what=f"the stage of `{operation.name}`", expected="an accumulator stage", found=describe(found), at=node.span
            )
        )
    return found


def _of_cta(context: Context, operation: Operation, receiver: Meaning | None, node: ast.Call) -> Meaning:
    bound = bind_arguments(context, node, operation.name, ("rank",), signature=operation.signature)
    assert isinstance(receiver, tree.BufferRef)
    pipeline = receiver.handle.pipeline
    if receiver.cta is not None:
        context.fail(cluster_messages.RemoteOperand(what="what `.of(rank)` is taken of", at=node.span))
    if pipeline.scope != "cluster" or receiver.handle.side != "consumer" or receiver.buffer.space != "shared":
        context.fail(
            cluster_messages.OwnTile(
                tile=receiver.span.text(),
                pipeline=pipeline.name,
                at=node.span,
                declared=pipeline.span,
                obtained=receiver.handle.span,
            )
        )
    return replace(receiver, cta=scalar(context, bound["rank"], I32, "the rank of a CTA"), span=node.span)


def _property(context: Context, operation: Operation, receiver: Meaning | None, node: ast.Call) -> Meaning:
    context.fail(messages.NotCallable(what=f"`{operation.name}`, a value", at=node.callee.span))


def _init(context: Context, operation: Operation, receiver: Meaning | None, node: ast.Call) -> Meaning:
    names = ("producer_count", "consumer_count")
    pipeline = pipeline_of(receiver)
    if pipeline.kind == EPILOGUE_LOAD:
        bound = bind_arguments(context, node, operation.name, (), names, signature=operation.signature)
    else:
        bound = bind_arguments(context, node, operation.name, names, signature=operation.signature)
    producer, consumer = (
        known_int(context, bound[name], "an arrival count") if name in bound else default
        for name, default in zip(names, _EPILOGUE_LOAD_COUNTS, strict=True)
    )
    context.stated.append(tree.StatedCounts(pipeline, producer, consumer, node.span))
    return Void()


def _expect_bytes(context: Context, operation: Operation, receiver: Meaning | None, node: ast.Call) -> Meaning:
    bound = bind_arguments(context, node, operation.name, ("bytes",), signature=operation.signature)
    stated = known_int(context, bound["bytes"], "the number of bytes")
    context.emit(tree.ExpectBytes(_handle(receiver), stated, node.span))
    return Void()


# ------------------------------------------------------------------------------------------------------ copies and MMA


def _own_barrier(context: Context, node: ast.Expression, handle: tree.Handle) -> None:
    """The barrier given by hand must be the one of the stage that the operation works on."""
    barrier = context.elaborate(node)
    if not isinstance(barrier, Barrier):
        context.fail(messages.WrongType(what="the barrier", expected="`stage.mbar()`", found=describe(barrier), at=node.span))
    if barrier.handle is not handle:
        context.fail(messages.WrongBarrier(stage=handle.name, other=barrier.handle.name, at=node.span, obtained=handle.span))


def _tma_load(context: Context, operation: Operation, receiver: Meaning | None, node: ast.Call) -> Meaning:
    options = ("barrier", "multicast", "mask")
    bound = bind_arguments(context, node, operation.name, ("tile", "source"), options, signature=operation.signature)
    destination = _shared_tile(context, bound["tile"], "the destination")
    source = tensor_slice(context, bound["source"], "the source")
    if "barrier" in bound:
        _own_barrier(context, bound["barrier"], destination.handle)
    axis = _axis(context, bound["multicast"]) if "multicast" in bound else None
    mask = scalar(context, bound["mask"], I32, "the mask") if "mask" in bound else None
    if mask is not None and axis is None:
        problem = "states a mask, but not along which axis the tile is shared"
        context.fail(
            messages.WrongArguments(callee="tma.load", problem=problem, signature=operation.signature, at=bound["mask"].span)
        )
    context.emit(tree.TmaLoad(destination, source, node.span, axis, mask))
    return Void()


def _axis(context: Context, node: ast.Expression) -> Axis:
    axis = one_of(AXES, known(context, node, str, "an axis of the cluster", '`"x"`, `"y"` or `"z"`'))
    if axis is None:
        context.fail(
            messages.WrongType(
                what="an axis of the cluster", expected='`"x"`, `"y"` or `"z"`', found=f"`{node.span.text()}`", at=node.span
            )
        )
    return axis


def _copy_async(context: Context, operation: Operation, receiver: Meaning | None, node: ast.Call) -> Meaning:
    bound = bind_arguments(context, node, operation.name, ("tile", "source"), ("barrier",), signature=operation.signature)
    destination = _shared_tile(context, bound["tile"], "the destination")
    source = tensor_slice(context, bound["source"], "the source")
    if "barrier" in bound:
        _own_barrier(context, bound["barrier"], destination.handle)
    context.emit(tree.CopyAsync(destination, source, node.span))
    return Void()


def _shared_tile(context: Context, node: ast.Expression, what: str) -> tree.BufferRef:
    found = buffer_ref(context, node, what)
    if found.buffer.space != "shared" or found.transposed:
        context.fail(
            messages.WrongType(
                what=what,
                expected="a tile in shared memory, in its stored order",
                found="a transposed view" if found.transposed else describe(found),
                at=node.span,
            )
        )
    return found


def _tma_store(context: Context, operation: Operation, receiver: Meaning | None, node: ast.Call) -> Meaning:
    bound = bind_arguments(context, node, operation.name, ("destination", "tile"), ("reduce",), signature=operation.signature)
    destination = tensor_slice(context, bound["destination"], "the destination")
    source = _shared_tile(context, bound["tile"], "the source")
    context.emit(tree.TmaStore(destination, source, node.span, _reduction(context, bound)))
    return Void()


def _reduction(context: Context, bound: dict[str, ast.Expression]) -> Reduction | None:
    """`reduce="add"` of a store."""
    if "reduce" not in bound:
        return None
    written = known(context, bound["reduce"], str, "`reduce`", 'a string such as "add"')
    found = one_of(REDUCTIONS, written)
    if found is None:
        listed = ", ".join(f'"{name}"' for name in REDUCTIONS)
        expected, at = f"one of {listed}", bound["reduce"].span
        context.fail(messages.WrongType(what="`reduce`", expected=expected, found=f'"{written}"', at=at))
    return found


def _both_scales(
    context: Context,
    node: ast.Call,
    operation: Operation,
    accumulator: tree.BufferRef | tree.Accumulator,
    bound: dict[str, ast.Expression],
) -> None:
    given = [name for name in ("sfa", "sfb", "sfb_row") if name in bound]
    if given and isinstance(accumulator, tree.Accumulator):
        problem = "takes no scale factors with an accumulator in registers"
    elif given and len(given) < 2 or given[:1] == ["sfb"]:
        problem = f"scales both operands or none: {'`sfb`' if given == ['sfa'] else '`sfa`'} is missing"
    else:
        return
    context.fail(messages.WrongArguments(callee="mma", problem=problem, signature=operation.signature, at=node.span))


def _mma(context: Context, operation: Operation, receiver: Meaning | None, node: ast.Call) -> Meaning:
    names, optional = ("accumulator", "a", "b"), ("sfa", "sfb", "accumulate", "sfb_row")
    bound = bind_arguments(context, node, operation.name, names, optional, signature=operation.signature)
    accumulator = _target(context, bound["accumulator"])
    _both_scales(context, node, operation, accumulator, bound)
    operands: dict[str, tree.BufferRef] = {}
    in_registers: tree.ReadVariable | None = None
    for name in ("a", "b", "sfa", "sfb"):
        if name not in bound:
            continue
        entity = context.elaborate(bound[name])
        if name == "a" and isinstance(accumulator, tree.Accumulator):
            in_registers = _operand_in_registers(context, entity, bound[name])
            if in_registers is not None:
                continue
        operand = as_buffer_ref(context, entity, bound[name].span, f"operand `{name}`")
        in_tensor = operand.buffer.space == "tensor"
        shared = name != "a" or "sfa" in bound
        if in_tensor and (shared or operand.transposed):
            expected = "a tile in shared memory" if shared else "untransposed where it stands in tensor memory"
            context.fail(
                messages.WrongType(what=f"operand `{name}`", expected=expected, found=describe(operand), at=bound[name].span)
            )
        operands[name] = operand
    accumulate = row = None
    if "accumulate" in bound:
        accumulate = runtime(context, bound["accumulate"], None, "`accumulate`")
        if accumulate.type is not BOOL:
            context.fail(
                messages.WrongType(
                    what="`accumulate`", expected="a condition", found=describe(accumulate), at=bound["accumulate"].span
                )
            )
    if isinstance(accumulator, tree.Accumulator):
        context.emit(tree.RegisterMma(accumulator, in_registers or operands["a"], operands["b"], accumulate, node.span))
        return Void()
    if "sfb_row" in bound:
        row = scalar(context, bound["sfb_row"], I32, "`sfb_row`")
    scales = operands.get("sfa"), operands.get("sfb"), row
    context.emit(tree.Mma(accumulator, operands["a"], operands["b"], accumulate, node.span, *scales))
    return Void()


def _operand_in_registers(context: Context, entity: Meaning, node: ast.Expression) -> tree.ReadVariable | None:
    """A register tile as operand `a`: a tile that is kept already, or its values now under a name of their own. None for stages."""
    if isinstance(entity, tree.ReadVariable) and entity.variable.in_registers:
        return entity
    if not isinstance(entity, (NewRegisterTile, tree.Accumulator, *EXPRESSIONS)):
        return None
    found = (
        entity.value
        if isinstance(entity, NewRegisterTile)
        else as_runtime(context, as_value(context, entity, node.span, "a"), None, "a")
    )
    if not isinstance(found.type, TileType) or found.type.rows == 1:
        context.fail(messages.WrongType(what="operand `a`", expected="a tile with rows", found=describe(found), at=node.span))
    variable = tree.Variable(node.span.text(), found.type, node.span, in_registers=True)
    context.emit(tree.Assign(variable, found, node.span))
    return tree.ReadVariable(variable, node.span)


def _target(context: Context, node: ast.Expression) -> tree.Accumulator | tree.BufferRef:
    """What an MMA adds up in: an accumulator in registers or in tensor memory."""
    entity = context.elaborate(node)
    if isinstance(entity, tree.Accumulator):
        return entity
    if isinstance(entity, tree.Handle):
        entity = reference(context, entity, node.span)
    if not isinstance(entity, tree.BufferRef) or entity.buffer.space != "tensor" or entity.transposed:
        expected = "an accumulator: a tile in tensor memory, or `accumulator(...)` in registers"
        context.fail(messages.WrongType(what="the accumulator", expected=expected, found=describe(entity), at=node.span))
    return entity


def _register_accumulator(context: Context, operation: Operation, receiver: Meaning | None, node: ast.Call) -> Meaning:
    bound = bind_arguments(context, node, operation.name, ("dtype", "rows", "columns"), signature=operation.signature)
    dtype = known_dtype(context, bound["dtype"])
    rows, columns = (known_int(context, bound[name], "an accumulator's size") for name in ("rows", "columns"))
    for size, name in ((rows, "rows"), (columns, "columns")):
        if not 1 <= size <= MOST_ACCUMULATOR_ROWS:
            expected = f"between 1 and {MOST_ACCUMULATOR_ROWS}"
            context.fail(
                messages.WrongType(what="an accumulator's size", expected=expected, found=str(size), at=bound[name].span)
            )
    return NewAccumulator(dtype, rows, columns, node.span)


def _commit(context: Context, operation: Operation, receiver: Meaning | None, node: ast.Call) -> Meaning:
    bound = bind_arguments(context, node, operation.name, ("barrier",), signature=operation.signature)
    barrier = context.elaborate(bound["barrier"])
    if not isinstance(barrier, Barrier):
        context.fail(
            messages.WrongType(what="the barrier", expected="`stage.mbar()`", found=describe(barrier), at=bound["barrier"].span)
        )
    context.emit(tree.Signal(barrier.handle, "commit", node.span, barrier.sub_stage))
    return Void()


# ------------------------------------------------------------------------------------------------------ register tiles


def _store(context: Context, operation: Operation, receiver: Meaning | None, node: ast.Call) -> Meaning:
    names = ("destination", "tile"), ("reduce", "rows")
    bound = bind_arguments(context, node, operation.name, *names, signature=operation.signature)
    destination = tensor_slice(context, bound["destination"], "the destination")
    stored = _tile(context, bound["tile"], "what is stored")
    path: StorePath = "tma" if operation.action == "store" else "direct"
    rows = scalar(context, bound["rows"], I32, "`rows`") if "rows" in bound else None
    context.emit(tree.Store(destination, stored, path, node.span, _reduction(context, bound), rows))
    return Void()


def _tile(context: Context, node: ast.Expression, what: str) -> tree.Expression:
    found = as_runtime(context, value(context, node, what), None, what)
    if not isinstance(found.type, TileType):
        context.fail(messages.WrongType(what=what, expected="a tile", found=describe(found), at=node.span))
    return found


def _registers(context: Context, operation: Operation, receiver: Meaning | None, node: ast.Call) -> Meaning:
    bound = bind_arguments(context, node, operation.name, ("tile",), signature=operation.signature)
    found = _tile(context, bound["tile"], "what is kept in registers")
    if isinstance(found.type, TileType) and found.type.rows == 1:
        context.fail(messages.KeptWithoutRows(type=str(found.type), at=bound["tile"].span))
    return NewRegisterTile(found, node.span)


def _write(context: Context, operation: Operation, receiver: Meaning | None, node: ast.Call) -> Meaning:
    bound = bind_arguments(context, node, operation.name, ("tile", "value"), signature=operation.signature)
    entity = context.elaborate(bound["tile"])
    if isinstance(entity, tree.Accumulator):
        return _write_accumulator(context, entity, bound["value"], node)
    destination = as_buffer_ref(context, entity, bound["tile"].span, "the destination")
    if destination.transposed:
        destination = _shared_tile(context, bound["tile"], "the destination")
    context.emit(tree.Write(destination, _tile(context, bound["value"], "what is written"), node.span))
    return Void()


def _write_accumulator(context: Context, accumulator: tree.Accumulator, written: ast.Expression, node: ast.Call) -> Meaning:
    found = _tile(context, written, "what is written")
    widened = arithmetic.widen(found, accumulator.dtype)
    if widened is None or widened.type != accumulator.type:
        old, new = str(accumulator.type), str(found.type)
        context.fail(messages.TypeChanged(name=accumulator.name, old=old, new=new, at=written.span, first=accumulator.span))
    context.emit(tree.WriteAccumulator(accumulator, widened, node.span))
    return Void()


def _assert(context: Context, operation: Operation, receiver: Meaning | None, node: ast.Call) -> Meaning:
    bound = bind_arguments(context, node, operation.name, ("condition",), ("text",), signature=operation.signature)
    holds = known(context, bound["condition"], bool, "a static_assert", "a condition")
    text = known(context, bound["text"], str, "the text", "a string") if "text" in bound else "static assertion failed"
    if not holds:
        context.fail(messages.AssertionFailed(text=text, values=_values(context), at=bound["condition"].span))
    return Void()


def _values(context: Context) -> str:
    """The compile-time numbers in sight, for the note of a failed assertion."""
    found: dict[str, object] = {}
    scope: Scope | None = context.scope
    while scope is not None:
        for name, binding in scope.names.items():
            if isinstance(binding.entity, Known) and binding.span is not None:
                found.setdefault(name, binding.entity.value)
        scope = scope.parent
    return ", ".join(f"{name} = {found[name]}" for name in sorted(found)) or "none"


ACTIONS: dict[str, Action] = {
    "acquire": _acquire,
    "view": _view,
    "drain": _drain,
    "release": _release,
    "release_silent": _release,
    "release_stage": _release_stage,
    "release_current": _release_current,
    "arrive": _arrive,
    "property": _property,
    "of_cta": _of_cta,
    "init": _init,
    "expect_bytes": _expect_bytes,
    "index": _index,
    "barrier": _barrier,
    "payload": _payload,
    "accumulator": _accumulator,
    "tma_load": _tma_load,
    "copy_async": _copy_async,
    "tma_store": _tma_store,
    "mma": _mma,
    "register_accumulator": _register_accumulator,
    "commit": _commit,
    "store": _store,
    "store_direct": _store,
    "write": _write,
    "underlying": _underlying,
    "per_k": _per_k,
    "per_k_epilogue": _per_k_epilogue,
    "registers": _registers,
    "assert": _assert,
    "semaphore": semaphore,
    **GRID_ACTIONS,
    **ROLE_ACTIONS,
    **STEPPING_ACTIONS,
}

# Of rows that have no action: pipec.sema.kernels reads them where a kernel begins.
_HEAD = {"grid", "cluster", "assume"}


def _compare_tables() -> None:
    """A row without an action or without its threads, and an action without a row, are found at import."""
    named = {row.action for row in OPERATIONS} - _HEAD
    members = {row.action for row in OPERATIONS if row.receivers != ("",)}
    for problem, names in (
        ("rows of pipec.sema.language.operations without an action", named - set(ACTIONS)),
        ("actions without a row in pipec.sema.language.operations", set(ACTIONS) - named),
        ("actions without an entry in pipec.sema.language.operation.THREADS", members - set(THREADS)),
        ("entries of pipec.sema.language.operation.THREADS without a row", set(THREADS) - named - _HEAD),
    ):
        if names:
            raise ImportError(f"{problem}: {', '.join(sorted(names))}")


_compare_tables()
