"""Orders accesses to global memory: where `pipec.kir.global_memory.order` requires it.

A bulk store is complete once the issuing thread has waited for its group, and visible to ordinary loads after a proxy fence; stores of
threads are visible to copies after a proxy fence of their own. Synchronising the threads then makes both visible to all of them.
"""

from pipec.lower.context import RoleContext
from pipec.lower.emit.value import integer


def order(role: RoleContext) -> None:
    """Orders all preceding accesses of the role before all following ones."""
    _complete(role, role.plan.global_order.waits, role.plan.global_order.fences)
    if not role.alone:
        role.synchronise()


def hand_over(role: RoleContext) -> None:
    """Orders this thread's accesses before a signal that covers them."""
    _complete(role, role.plan.global_order.hand_over_waits, role.plan.global_order.hand_over_fences)


def hand_over_by_one(role: RoleContext) -> None:
    """Orders the accesses of all threads of the role before one of them signals."""
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
