"""Storage of a pipeline that is declared explicitly: `BarrierArray(count)` and `TmemAllocation(columns)`.

Both are derived if omitted. Declared storage has an owner: a pipeline owns an array of barriers; the kernel owns the allocation and frees
it at its end.
"""

from pipec.diag.catalogue.language import types as messages
from pipec.diag.catalogue.stages import output as output_messages
from pipec.sema import tree
from pipec.sema.context import Context
from pipec.sema.meanings import BarrierArray, describe
from pipec.sema.values.arguments import bind_arguments
from pipec.sema.values.expected import known_int
from pipec.syntax import ast

_BARRIERS_PER_STAGE = 2


def declare_barriers(context: Context, target: ast.Name, node: ast.Call) -> None:
    context.define(target, _barriers(context, node))


def declare_allocation(context: Context, target: ast.Name, node: ast.Call) -> None:
    context.define(target, _allocation(context, node, target.name))


def own_barriers(context: Context, pipeline: tree.Pipeline, node: ast.Expression) -> None:
    """The pipeline takes ownership of the barriers: exactly as many as it needs, shared with no other pipeline."""
    found = _barriers(context, node) if _is_call_of(node, "BarrierArray") else context.elaborate(node)
    if not isinstance(found, BarrierArray):
        context.fail(
            messages.WrongType(what="the barriers", expected="`BarrierArray(count)`", found=describe(found), at=node.span)
        )
    needed = _BARRIERS_PER_STAGE * pipeline.stages
    if found.count != needed:
        context.fail(
            output_messages.BarrierCount(
                pipeline=pipeline.name, count=found.count, stages=pipeline.stages, needed=needed, at=found.span
            )
        )
    owner = context.barrier_arrays.setdefault(found, node.span)
    if owner is not node.span:
        context.fail(output_messages.BarriersShared(pipeline=pipeline.name, at=node.span, owner=owner, declared=found.span))


def tensor_allocation(context: Context, node: ast.Expression) -> None:
    """The allocation that holds a pipeline's accumulators; a kernel has one."""
    if _is_call_of(node, "TmemAllocation"):
        _allocation(context, node, "tmem")
        return
    found = context.elaborate(node)
    if not isinstance(found, tree.TensorAllocation):
        context.fail(
            messages.WrongType(what="the tensor memory", expected="a `TmemAllocation`", found=describe(found), at=node.span)
        )


def _is_call_of(node: ast.Expression, name: str) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.callee, ast.Name) and node.callee.name == name


def _barriers(context: Context, node: ast.Expression) -> BarrierArray:
    assert isinstance(node, ast.Call)
    bound = bind_arguments(context, node, "BarrierArray", ("count",))
    return BarrierArray(known_int(context, bound["count"], "the number of barriers"), node.span)


def _allocation(context: Context, node: ast.Expression, name: str) -> tree.TensorAllocation:
    assert isinstance(node, ast.Call)
    bound = bind_arguments(context, node, "TmemAllocation", ("columns",))
    columns = known_int(context, bound["columns"], "the number of columns")
    if columns not in (32, 64, 128, 256, 512):
        context.fail(output_messages.AllocationColumns(columns=columns, at=bound["columns"].span))
    if context.allocations:
        context.fail(output_messages.SecondAllocation(at=node.span, first=context.allocations[0].span))
    allocation = tree.TensorAllocation(name, columns, node.span)
    context.allocations.append(allocation)
    return allocation
