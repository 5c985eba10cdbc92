"""Which stages in shared memory threads and the async proxy meet in, and which stages hand over tensor memory: what one has done is
ordered by a fence before the other goes on.

A tile that TMA or an MMA touches in no role, such as a factor for each row that one role's threads write and another's read, needs none:
the fence waits for all memory accesses of a warp.
"""

from collections.abc import Mapping

from pipec.kir.ir import Kernel, Role
from pipec.kir.plan.roles import expressions, operations
from pipec.kir.plan.types import GlobalOrder
from pipec.sema import tree
from pipec.vocabulary import UseKind

_BY_ASYNC_PROXY: frozenset[UseKind] = frozenset({"load", "operand", "store"})


def plan_proxies(kernel: Kernel) -> dict[str, frozenset[tree.Pipeline]]:
    """By role: the pipelines in whose tiles its threads meet the async proxy."""
    met = {
        use.tile.buffer
        for role in kernel.roles
        for operation in operations(role)
        for use in operation.effects.uses
        if use.kind in _BY_ASYNC_PROXY and use.tile.buffer.space == "shared"
    }
    return {
        role.name: frozenset(tile.handle.pipeline for tile in _of_threads(role) if tile.buffer in met) for role in kernel.roles
    }


def plan_tensor_stages(kernel: Kernel) -> frozenset[tree.Pipeline]:
    """The pipelines in whose stages tiles of tensor memory are handed over. A tile belongs to one pipeline, so who waits for another
    learns nothing of it."""
    return frozenset(
        tile.handle.pipeline
        for role in kernel.roles
        for tile in (*_of_threads(role), *(use.tile for operation in operations(role) for use in operation.effects.uses))
        if tile.buffer.space == "tensor"
    )


def plan_tensor_only(kernel: Kernel, orders: Mapping[str, GlobalOrder]) -> frozenset[tree.Pipeline]:
    """Those whose signals say nothing of memory that threads access as such, shared or global. Tensor memory is ordered by tcgen05 fences
    around a signal, for both CTAs of a pair and however far the signal itself orders memory (hardware.md 3.8)."""
    if any(row.hand_over for row in orders.values()):
        return frozenset()
    shared = (tile.handle.pipeline for role in kernel.roles for tile in _of_threads(role) if tile.buffer.space == "shared")
    return plan_tensor_stages(kernel).difference(shared)


def _of_threads(role: Role) -> list[tree.BufferRef]:
    """What the role's threads write and read themselves; `cp.async` works for them."""
    written = [use.tile for operation in operations(role) for use in operation.effects.uses if use.kind in ("write", "copy")]
    return written + [node.source for node in expressions(role) if isinstance(node, tree.ReadBuffer)]
