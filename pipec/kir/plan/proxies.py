"""Stages in shared memory shared by threads and the async proxy, and stages that hand over tensor memory: a fence orders the accesses of
both sides.

A tile that no role accesses by TMA or MMA, such as per-row factors that one role's threads write and another's read, needs none: the
fence waits for all memory accesses of a warp.
"""

from collections.abc import Mapping

from pipec.kir.ir import Kernel, Role
from pipec.kir.plan.roles import expressions, operations
from pipec.kir.plan.types import GlobalOrder
from pipec.sema import tree
from pipec.vocabulary import UseKind

_BY_ASYNC_PROXY: frozenset[UseKind] = frozenset({"load", "operand", "store"})


def plan_proxies(kernel: Kernel) -> dict[str, frozenset[tree.Pipeline]]:
    """By role: the pipelines whose tiles its threads share with the async proxy."""
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
    """The pipelines whose stages hand over tiles in tensor memory. A tile belongs to one pipeline, so waiting for another one says
    nothing about it."""
    return frozenset(
        tile.handle.pipeline
        for role in kernel.roles
        for tile in (*_of_threads(role), *(use.tile for operation in operations(role) for use in operation.effects.uses))
        if tile.buffer.space == "tensor"
    )


def plan_tensor_only(kernel: Kernel, orders: Mapping[str, GlobalOrder]) -> frozenset[tree.Pipeline]:
    """The pipelines whose signals order no ordinary memory accesses of threads, shared or global. Tensor memory is ordered by tcgen05
    fences around a signal, for both CTAs of a pair and independently of the signal's own memory semantics (hardware.md 3.8)."""
    if any(row.hand_over for row in orders.values()):
        return frozenset()
    shared = (tile.handle.pipeline for role in kernel.roles for tile in _of_threads(role) if tile.buffer.space == "shared")
    return plan_tensor_stages(kernel).difference(shared)


def _of_threads(role: Role) -> list[tree.BufferRef]:
    """The tiles accessed by the role's threads themselves; `cp.async` counts as such."""
    written = [use.tile for operation in operations(role) for use in operation.effects.uses if use.kind in ("write", "copy")]
    return written + [node.source for node in expressions(role) if isinstance(node, tree.ReadBuffer)]
