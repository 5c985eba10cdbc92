"""What the checks of global memory assume, neither proved nor checked at launch; a report lists it."""

from collections.abc import Iterable, Iterator

from pipec.kir.global_memory.accesses import RoleAccesses
from pipec.kir.global_memory.counters import unplaced
from pipec.kir.global_memory.starts import unstarted
from pipec.kir.plan.types import Plan
from pipec.sema import tree

Partners = tuple[str, str, str]  # two roles and a tensor


def sentences(plan: Plan, rows: tuple[RoleAccesses, ...], blocks: Iterable[str], partners: Iterable[Partners]) -> Iterator[str]:
    """`blocks`: tensors whose elements different blocks may share, as far as is known; `partners`: roles that both store to a tensor and
    may overlap."""
    kernel = plan.kernel
    turns = any(isinstance(one, tree.AwaitTurn) for role in kernel.roles for block in role.blocks for one in block.operations)
    for tensor in sorted(blocks):
        yield f"{tensor}: what one block stores no other touches{' but in another turn' if turns else ''}"
    for role, other, tensor in dict.fromkeys(partners):
        yield f"{tensor}: roles `{role}` and `{other}` store different elements"
    orders = {one.role.name: one.global_order for one in plan.roles}
    for row in rows:
        for tensor in sorted(orders[row.role.name].taken):
            yield f"{tensor}: role `{row.role.name}` stores different elements each time"
    for where in dict.fromkeys(access.where.span.text() for access in unstarted(rows)):
        yield f"stores: `{where}` starts at no negative coordinate"
    for where in dict.fromkeys(operation.counter.span.text() for operation in unplaced(kernel)):
        yield f"counters: `{where}` lies inside its tensor"
