"""Waits for register MMAs, and releases the stages that they read: where `pipec.kir.plan.mma_waits` requires it."""

from pipec.kir.plan.types import MmaWait
from pipec.lower.context import RoleContext
from pipec.lower.emit.value import Value, integer
from pipec.lower.synchronisation import clusters
from pipec.sema import tree

_NONE = integer(0)  # there is no barrier at address 0


def start(role: RoleContext) -> None:
    if role.plan.mma_waits is not None:
        for pipeline in role.plan.mma_waits.lagging:
            role.late[pipeline] = role.builder.variable("i32", f"{role.prefix}.{pipeline.name}.late")
            role.late[pipeline].write(_NONE)


def wait(role: RoleContext, row: MmaWait) -> None:
    """At most `row.pending` MMAs stay in flight."""
    if row.pending == 0:
        # For paths without any MMA: otherwise ptxas inserts one itself, with a warning.
        role.builder.call("wgmma.fence")
    role.builder.call("wgmma.wait_group", integer(row.pending))
    for pipeline in row.gives_back:
        _give_late(role, pipeline, role.late[pipeline].read())
        role.late[pipeline].write(_NONE)


def settle(role: RoleContext) -> None:
    """Completes all MMAs so far, and releases the late stages."""
    wait(role, MmaWait(0, tuple(role.late)))


def give_back(role: RoleContext, operation: tree.Release | tree.Signal, pointer: Value) -> None:
    """Signals a stage that MMAs have read: one lane of each warp arrives once its own MMAs are complete.

    A stage of a lagging pipeline is only recorded; the preceding wait has released the one before it.
    """
    builder, mma_waits, pipeline = role.builder, role.plan.mma_waits, operation.handle.pipeline
    assert mma_waits is not None
    if operation not in mma_waits.late:
        clusters.arrive_per_warp(role, pipeline, operation.handle.side, pointer)
        return
    role.late[pipeline].write(builder.cast("ptrtoint", pointer, "i32"))


def _give_late(role: RoleContext, pipeline: tree.Pipeline, late: Value) -> None:
    some = role.builder.compare("ne", late, _NONE)
    clusters.arrive_per_warp(role, pipeline, "consumer", role.builder.shared_pointer(late), some)
