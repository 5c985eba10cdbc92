"""Turns of blocks, through a counter in global memory.

One thread waits (ld.acquire.gpu) and passes the turn on (st.release.gpu); the barrier of the role's threads extends both to the others.
TMA stores are complete only after waiting for their group, and need a proxy fence before ordinary loads can read them; a fence after the
wait does the same for copies that follow (hardware.md 4).
"""

from pipec.lower.context import RoleContext
from pipec.lower.emit.value import Value, integer
from pipec.lower.global_memory import element_pointer, global_row
from pipec.lower.scalars import scalar
from pipec.lower.synchronisation import watchdog
from pipec.lower.table import lowers
from pipec.sema import tree


@lowers(tree.AwaitTurn)
def await_turn(role: RoleContext, operation: tree.AwaitTurn) -> None:
    builder = role.builder
    pointer, turn = _counter(role, operation.counter), scalar(role, operation.turn)
    with role.one_thread("turn"):
        mine = builder.label(f"{role.prefix}.turn.mine")
        _wait(role, pointer, turn, mine)
        builder.place(mine)
        builder.call("fence.proxy.async.global")
    if not role.alone:
        role.synchronise()


def _wait(role: RoleContext, pointer: Value, turn: Value, mine: str) -> None:
    builder, alarm = role.builder, role.kernel.alarm
    if alarm is not None:
        watchdog.poll(role, alarm, lambda: builder.call("load.acquire.gpu", pointer), turn, mine)
        return
    again = builder.label(f"{role.prefix}.turn.wait")
    builder.jump(again)
    builder.place(again, head=True)
    builder.branch(builder.compare("eq", builder.call("load.acquire.gpu", pointer), turn), mine, again)


@lowers(tree.PassTurn)
def pass_turn(role: RoleContext, operation: tree.PassTurn) -> None:
    builder = role.builder
    pointer, turn = _counter(role, operation.counter), scalar(role, operation.turn)
    builder.call("fence.proxy.async.global")
    if not role.alone:
        role.synchronise()
    with role.one_thread("turn.pass"):
        if role.plan.stores_bulk:
            # Not `.read`: the next block reads global memory, so the writes must be complete.
            builder.call("bulk.wait_group", integer(0))
            builder.call("fence.proxy.async.global")
        builder.call("store.release.gpu", pointer, turn)


def _counter(role: RoleContext, counter: tree.TensorSlice) -> Value:
    """The address of the counter, in all threads."""
    row = global_row(role, counter.tensor, [scalar(role, coordinate) for coordinate in counter.coordinates], None)
    return element_pointer(role, row, integer(0), counter.tensor.dtype)
