"""What all asynchronous instructions share: views of shared memory, completion on barriers, bulk groups."""

from __future__ import annotations

import numpy as np

from ...errors import SimulationError
from ...machine.cta import WARPS_PER_CTA, Cta, Warp
from ...machine.divergence import Outcome, Wait
from ...machine.groups import GroupKind, Groups, Operation
from ...machine.memory import OFFSET_MASK
from ...machine.program import Execute
from ...machine.underway import Access
from ...ptx.types import Addresses, Bytes

# Rough durations in instruction slots: enough to make a timeline look right, never a promise.
COPY_LATENCY = 300
BYTES_PER_SLOT = 128


def copy_slots(count: int) -> int:
    return max(1, count // BYTES_PER_SLOT)


class AsyncView:
    """One CTA's shared memory through the async proxy, as one operation sees it.

    Reads check that bytes were written, and that generic-proxy writes were followed by fence.proxy.async in the writing
    or the issuing warp before the operation was issued.
    """

    def __init__(self, cta: Cta, warp: Warp, what: str) -> None:
        self.cta, self.what = cta, what
        self.issued = cta.machine.tick()
        self.issuer_fence = warp.proxy_fence
        # A fence that a writer executes after the issue comes too late.
        self.fences = {other.identity: other.proxy_fence for other in cta.cluster.warps}
        self.check = cta.machine.options.check_proxies

    def read(self, offsets: Addresses) -> Bytes:
        shared = self.cta.shared
        data = shared.async_read(offsets, self.what)
        if self.check and offsets.size:
            self._check_proxy(offsets >> 4)
        return data

    def _check_proxy(self, granules: Addresses) -> None:
        shared = self.cta.shared
        if int(shared.write_sequence[granules].max()) <= self.issuer_fence:
            return
        granules = np.unique(granules)
        sequence = shared.write_sequence[granules]
        suspicious = sequence > self.issuer_fence
        granules, sequence = granules[suspicious], sequence[suspicious]
        for granule, moment in zip(granules.tolist(), sequence.tolist(), strict=True):
            writer = int(shared.write_warp[granule])
            warp = self.cta.cluster.ctas[writer // WARPS_PER_CTA].warps[writer % WARPS_PER_CTA]
            if moment > self.issued:
                raise SimulationError(
                    "race",
                    f"{self.what} reads shared address 0x{granule * 16:x}, which warp {warp.index} "
                    "overwrote after the operation was issued",
                )
            if self.fences[writer] <= moment:
                raise SimulationError(
                    "race",
                    f"{self.what} reads shared address 0x{granule * 16:x}, which warp {warp.index} wrote "
                    "with ordinary stores and no fence.proxy.async in between",
                )


def granules(offsets: Addresses) -> Addresses:
    """The 16-byte granules that byte offsets lie in; runs of 8 bytes that start at multiples of 8 are given whole."""
    return np.unique(offsets[::8] >> 4)


def reading(warp: Warp, cta: Cta, offsets: Addresses, what: str) -> Access:
    """`what` of `warp` starts to read these bytes of `cta`."""
    return cta.shared.begin(Access(what, warp.who, reads=granules(offsets)))


def writing(warp: Warp, cta: Cta, offsets: Addresses, what: str, barrier: int = -1) -> Access:
    """`what` of `warp` starts to write these bytes of `cta`, counted on the mbarrier at `barrier`."""
    access = cta.shared.begin(Access(what, warp.who, writes=granules(offsets)))
    cta.shared.filled_by[access.writes] = barrier
    return access


def complete(cta: Cta, address: int, count: int, what: str) -> None:
    """complete_tx on the barrier at `address` (rank bits ignored) of `cta`."""
    offset = address & OFFSET_MASK
    if cta.exited:
        raise SimulationError("undefined", f"{what} completes on a barrier of {cta.name}, which has exited")
    barrier = cta.mbarrier(offset, what)
    cta.after_barrier_operation(barrier, barrier.state.complete_tx(count))


def groups_of(warp: Warp, lane: int, kind: GroupKind) -> Groups:
    return warp.groups.setdefault((kind, lane), Groups())


def finished(warp: Warp, operation: Operation, *, read_only: bool = False) -> None:
    """Marks progress of a group's operation and wakes threads that wait for groups."""
    operation.read = True
    operation.done = operation.done or not read_only
    for fragment in warp.fragments:
        if fragment.wait is not None and fragment.wait.kind == "group":
            fragment.wait = None


def wait_for_groups(kind: GroupKind, allowed: int, reading_only: bool) -> Execute:
    """execute(warp): blocks until each active thread has at most `allowed` groups pending."""

    def execute(warp: Warp) -> Outcome:
        most = max(groups_of(warp, lane, kind).pending(reading_only) for lane in warp.lanes())
        if most <= allowed:
            return None
        return warp.park(Wait("group", f"{most - allowed} {kind} group(s) to finish", retry=True))

    return execute


def commit_groups(kind: GroupKind) -> Execute:
    def execute(warp: Warp) -> None:
        for lane in warp.lanes():
            groups_of(warp, lane, kind).commit()

    return execute
