"""The barriers and fences that order a kernel's accesses to global memory, by role."""

from pipec.kir.global_memory.accesses import RoleAccesses
from pipec.kir.global_memory.order import hands_over, order
from pipec.kir.global_memory.overlaps import stores_again
from pipec.kir.ir import Kernel
from pipec.kir.plan.types import GlobalOrder


def plan_global(kernel: Kernel, rows: tuple[RoleAccesses, ...]) -> dict[str, GlobalOrder]:
    """Only for roles that touch what the kernel writes, and touches elsewhere as well."""
    again = stores_again(kernel, rows)
    handed = hands_over(rows, again.shared)
    found: dict[str, GlobalOrder] = {}
    for row in rows:
        name = row.role.name
        own = order(row, again.own.get(name, ()))
        waits, fences = handed.get(name, (False, False))
        found[name] = GlobalOrder(own.before, own.at_end, own.waits, own.fences, name in handed, waits, fences, own.taken)
    return found
