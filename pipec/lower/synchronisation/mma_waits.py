"""Waits for register MMAs, and releases the stages that they read: where `pipec.kir.plan.mma_waits` requires it."""

from pipec.kir.plan.types import MmaWait
from pipec.lower.context import RoleContext
from pipec.lower.emit.value import Value, integer
from pipec.lower.synchronisation import clusters
from pipec.sema import tree

_NONE = integer(0)  # there is no barrier at address 0


def start(role: RoleContext) -> None:
    if role.plan.mma_waits is not None and role.plan.mma_waits.lagging is not None:
        role.late = role.builder.variable("i32", f"{role.prefix}.late")
        role.late.write(_NONE)


def wait(role: RoleContext, row: MmaWait) -> None:
    """At most `row.pending` MMAs stay in flight."""
    if row.pending == 0:
        # For paths without any MMA: otherwise ptxas inserts one itself, with a warning.
        role.builder.call("wgmma.fence")
    role.builder.call("wgmma.wait_group", integer(row.pending))
    if row.gives_back:
        assert role.late is not None
        _give_late(role, role.late.read())
        role.late.write(_NONE)


def settle(role: RoleContext) -> None:
    """Completes all MMAs so far, and releases the late stage."""
    wait(role, MmaWait(0, gives_back=role.late is not None))


def give_back(role: RoleContext, operation: tree.Release | tree.Signal, pointer: Value) -> None:
    """Signals a stage that MMAs have read: one lane of each warp arrives once its own MMAs are complete.

    A stage of the lagging pipeline is only recorded; the preceding wait has released the one before it.
    """
    builder, mma_waits = role.builder, role.plan.mma_waits
    assert mma_waits is not None
    if operation not in mma_waits.late:
        clusters.arrive_per_warp(role, operation.handle.pipeline, operation.handle.side, pointer)
        return
    assert role.late is not None
    role.late.write(builder.cast("ptrtoint", pointer, "i32"))


def _give_late(role: RoleContext, late: Value) -> None:
    mma_waits = role.plan.mma_waits
    assert mma_waits is not None and mma_waits.lagging is not None
    some = role.builder.compare("ne", late, _NONE)
    clusters.arrive_per_warp(role, mma_waits.lagging, "consumer", role.builder.shared_pointer(late), some)
