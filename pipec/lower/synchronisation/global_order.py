"""Accesses to global memory in the order of the statements: where `pipec.kir.global_memory.order` says.

A bulk store is complete once its group was waited for, by the thread that issued it, and seen by ordinary loads behind a proxy fence; what
threads stored is seen by copies behind a proxy fence of theirs. A meeting of the threads makes both known to all of them.
"""

from pipec.lower.context import RoleContext
from pipec.lower.emit.value import integer


def order(role: RoleContext) -> None:
    """All accesses of the role so far before all that follow."""
    _complete(role, role.plan.global_order.waits, role.plan.global_order.fences)
    if not role.alone:
        role.synchronise()


def hand_over(role: RoleContext) -> None:
    """What this thread did, before a signal that speaks for it."""
    _complete(role, role.plan.global_order.hand_over_waits, role.plan.global_order.hand_over_fences)


def hand_over_by_one(role: RoleContext) -> None:
    """What all threads of the role did, before one of them signals."""
    if not role.plan.global_order.hand_over:
        return
    hand_over(role)
    if not role.alone:
        role.synchronise()


def _complete(role: RoleContext, waits: bool, fences: bool) -> None:
    if waits:
        with role.one_thread("landed"):
            role.builder.call("bulk.wait_group", integer(0))
    if fences:
        role.builder.call("fence.proxy.async.global")
