"""Waiting for multiplications in registers, and giving back the stages they read: where `pipec.kir.plan.mma_waits` says."""

from pipec.kir.plan.types import MmaWait
from pipec.lower.context import RoleContext
from pipec.lower.emit.value import Value, integer
from pipec.lower.synchronisation import clusters
from pipec.sema import tree

_NONE = integer(0)  # no barrier stands at address 0


def start(role: RoleContext) -> None:
    if role.plan.mma_waits is not None and role.plan.mma_waits.lagging is not None:
        role.late = role.builder.variable("i32", f"{role.prefix}.late")
        role.late.write(_NONE)


def wait(role: RoleContext, row: MmaWait) -> None:
    """At most `row.pending` multiplications stay in flight."""
    if row.pending == 0:
        # For paths without any multiplication: ptxas would put one in by itself, and say so.
        role.builder.call("wgmma.fence")
    role.builder.call("wgmma.wait_group", integer(row.pending))
    if row.gives_back:
        assert role.late is not None
        _give_late(role, role.late.read())
        role.late.write(_NONE)


def settle(role: RoleContext) -> None:
    """Every multiplication so far is complete, and the late stage is given back."""
    wait(role, MmaWait(0, gives_back=role.late is not None))


def give_back(role: RoleContext, operation: tree.Release | tree.Signal, pointer: Value) -> None:
    """The signal of a stage that multiplications read: one lane of each warp arrives; those of its own are complete.

    A stage of the lagging pipeline is noted instead; the one released before it was given back by the wait before this.
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
