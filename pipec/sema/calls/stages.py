"""Obtaining, signalling and releasing stages, and their contents; properties of a pipeline."""

from pipec.diag.catalogue.language import names as messages
from pipec.diag.catalogue.language import types as types_messages
from pipec.sema import tree
from pipec.sema.calls.stepping import pipeline_of
from pipec.sema.context import Context
from pipec.sema.language.operation import EPILOGUE_LOAD, INPUT, RING, ActionName, Operation
from pipec.sema.meanings import Acquired, AcquiredPair, Barrier, Meaning, Payload, View, Void, describe
from pipec.sema.types import I32
from pipec.sema.values.arguments import Action, bind_arguments, no_arguments
from pipec.sema.values.expected import known_int, reference
from pipec.syntax import ast

_EPILOGUE_LOAD_COUNTS = (1, 128)  # a TMA transaction; the threads of four epilogue warps


def _handle(receiver: Meaning | None) -> tree.Handle:
    assert isinstance(receiver, tree.Handle)
    return receiver


def _acquire(context: Context, operation: Operation, receiver: Meaning | None, node: ast.Call) -> Meaning:
    no_arguments(context, operation, node)
    assert operation.side and operation.form
    return Acquired(pipeline_of(receiver), operation.side, operation.form, node.span)


def _view(context: Context, operation: Operation, receiver: Meaning | None, node: ast.Call) -> Meaning:
    no_arguments(context, operation, node)
    assert operation.side
    return View(pipeline_of(receiver), operation.side)


def _underlying(context: Context, operation: Operation, receiver: Meaning | None, node: ast.Call) -> Meaning:
    no_arguments(context, operation, node)
    return pipeline_of(receiver)


def _per_k(context: Context, operation: Operation, receiver: Meaning | None, node: ast.Call) -> Meaning:
    no_arguments(context, operation, node)
    return View(pipeline_of(receiver), "per_k")


def _per_k_epilogue(context: Context, operation: Operation, receiver: Meaning | None, node: ast.Call) -> Meaning:
    bound = bind_arguments(context, node, operation.name, ("input_pipeline",), signature=operation.signature)
    source = context.elaborate(bound["input_pipeline"])
    # Only these kinds have one consumer position per role. The stages of a RolePipeline are waited for by sub-stage, which a `with` of two
    # stages cannot express.
    if not isinstance(source, tree.Pipeline) or source.kind not in (INPUT, RING):
        context.fail(
            types_messages.WrongType(
                what="the input pipeline",
                expected=f"an {INPUT} or a {RING}",
                found=f"an {source.kind}" if isinstance(source, tree.Pipeline) else describe(source),
                at=bound["input_pipeline"].span,
            )
        )
    output, input_ = (Acquired(one, "consumer", "scoped", node.span) for one in (pipeline_of(receiver), source))
    return AcquiredPair(output, input_, node.span)


def _drain(context: Context, operation: Operation, receiver: Meaning | None, node: ast.Call) -> Meaning:
    no_arguments(context, operation, node)
    context.emit(tree.Drain(pipeline_of(receiver), node.span))
    return Void()


def _skip(context: Context, operation: Operation, receiver: Meaning | None, node: ast.Call) -> Meaning:
    no_arguments(context, operation, node)
    context.emit(tree.Skip(pipeline_of(receiver), node.span))
    return Void()


def _release(context: Context, operation: Operation, receiver: Meaning | None, node: ast.Call) -> Meaning:
    no_arguments(context, operation, node)
    context.emit(tree.Release(_handle(receiver), operation.action == "release", node.span))
    return Void()


def _release_stage(context: Context, operation: Operation, receiver: Meaning | None, node: ast.Call) -> Meaning:
    bound = bind_arguments(context, node, operation.name, ("stage",), signature=operation.signature)
    stage = context.elaborate(bound["stage"])
    # The call names the pipeline and the side twice. Believing either one would release a stage that the author did not mean.
    if not isinstance(stage, tree.Handle) or stage.pipeline is not pipeline_of(receiver) or stage.side != operation.side:
        context.fail(
            types_messages.WrongType(
                what="the stage",
                expected=f"a {operation.side} stage of `{pipeline_of(receiver).name}`",
                found=describe(stage),
                at=bound["stage"].span,
            )
        )
    context.emit(tree.Release(stage, True, node.span))
    return Void()


def _release_current(context: Context, operation: Operation, receiver: Meaning | None, node: ast.Call) -> Meaning:
    no_arguments(context, operation, node)
    pipeline = pipeline_of(receiver)
    assert operation.side
    stage = context.current.get((pipeline, operation.side))
    if stage is None:
        context.fail(
            types_messages.WrongType(
                what=f"the {operation.side} stage of `{pipeline.name}`",
                expected="acquired before it is released",
                found="a release without an acquire",
                at=node.span,
            )
        )
    context.emit(tree.Release(stage, True, node.span))
    return Void()


def _arrive(context: Context, operation: Operation, receiver: Meaning | None, node: ast.Call) -> Meaning:
    no_arguments(context, operation, node)
    context.emit(tree.Signal(_handle(receiver), "arrive", node.span))
    return Void()


def _index(context: Context, operation: Operation, receiver: Meaning | None, node: ast.Call) -> Meaning:
    no_arguments(context, operation, node)
    return tree.StageIndex(_handle(receiver), I32, node.span)


def _barrier(context: Context, operation: Operation, receiver: Meaning | None, node: ast.Call) -> Meaning:
    no_arguments(context, operation, node)
    return Barrier(_handle(receiver), node.span)


def _payload(context: Context, operation: Operation, receiver: Meaning | None, node: ast.Call) -> Meaning:
    no_arguments(context, operation, node)
    return Payload(_handle(receiver))


def _accumulator(context: Context, operation: Operation, receiver: Meaning | None, node: ast.Call) -> Meaning:
    no_arguments(context, operation, node)
    found = reference(context, _handle(receiver), node.span)
    if found.buffer.space != "tensor":
        context.fail(
            types_messages.WrongType(
                what=f"the stage of `{operation.name}`", expected="an accumulator stage", found=describe(found), at=node.span
            )
        )
    return found


def _property(context: Context, operation: Operation, receiver: Meaning | None, node: ast.Call) -> Meaning:
    # `num_stages` and the like are resolved as members; only a call of one reaches this point.
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
    # A check compares them with the derived counts once all roles are known; here the roles have not been analysed yet.
    context.stated.append(tree.StatedCounts(pipeline, producer, consumer, node.span))
    return Void()


def _expect_bytes(context: Context, operation: Operation, receiver: Meaning | None, node: ast.Call) -> Meaning:
    bound = bind_arguments(context, node, operation.name, ("bytes",), signature=operation.signature)
    stated = known_int(context, bound["bytes"], "the number of bytes")
    context.emit(tree.ExpectBytes(_handle(receiver), stated, node.span))
    return Void()


STAGE_ACTIONS: dict[ActionName, Action] = {
    "acquire": _acquire,
    "view": _view,
    "drain": _drain,
    "skip": _skip,
    "release": _release,
    "release_silent": _release,
    "release_stage": _release_stage,
    "release_current": _release_current,
    "arrive": _arrive,
    "property": _property,
    "init": _init,
    "expect_bytes": _expect_bytes,
    "index": _index,
    "barrier": _barrier,
    "payload": _payload,
    "accumulator": _accumulator,
    "underlying": _underlying,
    "per_k": _per_k,
    "per_k_epilogue": _per_k_epilogue,
}
