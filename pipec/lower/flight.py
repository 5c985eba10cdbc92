"""Waiting for multiplications in registers, and giving back the stages they read: where `pipec.kir.plan_flight` says."""

from pipec.lower.context import RoleContext
from pipec.lower.llvm import Value, integer
from pipec.sema import tree

_NONE = integer(0)  # no barrier stands at address 0


def start(role: RoleContext) -> None:
    if role.plan.flight is not None and role.plan.flight.lagging is not None:
        role.late = role.builder.variable("i32", f"{role.prefix}.late")
        role.late.write(_NONE)


def settle(role: RoleContext) -> None:
    """Every multiplication so far is complete, and the late stage is given back."""
    # The fence is for paths without any multiplication: ptxas would put one in by itself, and say so.
    role.builder.call("wgmma.fence")
    role.builder.call("wgmma.commit_group")
    role.builder.call("wgmma.wait_group", integer(0))
    if role.late is not None:
        _give_late(role, role.late.read())
        role.late.write(_NONE)


def give_back(role: RoleContext, handle: tree.Handle, pointer: Value) -> None:
    """The signal of a stage that multiplications read: one lane of each warp arrives when those of its own are complete.

    For the lagging pipeline this completes the group before the latest, and gives back the stage that was released before this one.
    """
    builder, flight = role.builder, role.plan.flight
    assert flight is not None
    builder.call("wgmma.commit_group")
    if flight.lagging is not handle.pipeline:
        builder.call("wgmma.wait_group", integer(0))
        builder.call("mbarrier.arrive.if", pointer, _first_lane(role))
        return
    assert role.late is not None
    builder.call("wgmma.wait_group", integer(1))
    _give_late(role, role.late.read())
    role.late.write(builder.cast("ptrtoint", pointer, "i32"))


def _give_late(role: RoleContext, late: Value) -> None:
    builder = role.builder
    some = builder.compare("ne", late, _NONE)
    builder.call("mbarrier.arrive.if", builder.shared_pointer(late), builder.binary("and", some, _first_lane(role)))


def _first_lane(role: RoleContext) -> Value:
    return role.builder.compare("eq", role.lane, integer(0))
