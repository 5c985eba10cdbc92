"""The plan of a kernel with time stamps: the same, with an additional tensor to record the clock."""

from collections.abc import Iterator

from pipec.interface import DimensionParameter, PointerParameter, TensorArgument, Timestamps
from pipec.kir.plan.roles import operations
from pipec.kir.plan.types import Plan
from pipec.record import replace
from pipec.sema import tree
from pipec.timestamps import ARGUMENT, DIMENSION

# Operations executed by all threads of a role, so that recording the clock beside them splits no one-thread section.
_MARKED = (tree.Acquire, tree.AwaitTurn, tree.Store, tree.Write, tree.WriteAccumulator)


def marked(plan: Plan) -> Iterator[tuple[str, tree.Operation]]:
    """Roles with their marked operations, in the order of the marks' numbers."""
    for row in plan.roles:
        for operation in operations(row.role):
            if isinstance(operation, _MARKED):
                yield row.role.name, operation


def with_timestamps(plan: Plan) -> Plan:
    interface = plan.interface
    name, dimension = ARGUMENT, DIMENSION
    while any(name == one.name for one in interface.arguments):
        name, dimension = name + "_", dimension + "_"
    marks = tuple((role, _said(operation), operation.span.shown_line) for role, operation in marked(plan))
    argument = TensorArgument(name, "i64", (dimension,), True, False, True, True)
    symbol = f"{plan.kernel.name}_{ARGUMENT}"
    parameters = (PointerParameter(symbol, name), DimensionParameter(f"{symbol}_words", dimension))
    roles = tuple(row.role.name for row in plan.roles)
    changed = replace(
        interface,
        arguments=(*interface.arguments, argument),
        parameters=(*interface.parameters, *parameters),
        timestamps=Timestamps(name, roles, marks),
    )
    return replace(plan, interface=changed, twins={})  # marks belong to one role


def _said(operation: tree.Operation) -> str:
    match operation:
        case tree.Acquire(handle):
            return f"wait for {handle.pipeline.name}"
        case tree.AwaitTurn():
            return "wait for turns of other blocks"
        case tree.Store():
            return f"store {operation.destination.tensor.name}"
        case _:
            return "write"
