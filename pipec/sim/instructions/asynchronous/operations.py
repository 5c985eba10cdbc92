"""What all asynchronous instructions share: views of shared memory, completion on barriers, bulk groups."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from ...errors import SimulationError
from ...machine.memory.spaces import OFFSET_MASK
from ...machine.program import Execute
from ...machine.races.clocks import NOTHING, UNKNOWING, Agent, join, learned
from ...machine.races.ledger import Access, Proxy
from ...machine.threads.cta import Cta, Warp
from ...machine.threads.divergence import Outcome, Wait
from ...machine.threads.groups import TOGETHER, GroupKind, Groups, Operation
from ...ptx.types import LANES, Addresses, Bytes
from ...units.copies.places import Places
from ...units.layouts import Tile

# Rough durations in instruction slots: enough for a plausible timeline, not a prediction.
COPY_LATENCY = 300
BYTES_PER_SLOT = 128


# The completions that a wait for groups of each kind covers; the source reads come first.
_AGENTS: dict[GroupKind, tuple[Agent, ...]] = {"bulk": ("bulk read", "bulk"), "cp.async": ("cp.async",), "wgmma": ("wgmma",)}


def copy_slots(count: int) -> int:
    return max(1, count // BYTES_PER_SLOT)


class AsyncView:
    """One CTA's shared memory as seen by one asynchronous operation. Reads check that bytes were written."""

    def __init__(self, cta: Cta, what: str) -> None:
        self.cta, self.what = cta, what

    def read(self, offsets: Addresses) -> Bytes:
        return self.cta.shared.async_read(offsets, self.what)

    def read_places(self, places: Places) -> Bytes:
        return self.cta.shared.async_read_places(places, self.what)

    def read_granules(self, granules: Addresses) -> Bytes:
        return self.cta.shared.async_read_granules(granules, self.what)


def operation(warp: Warp, what: str, writes: bool, *agents: Agent, proxy: Proxy = "async") -> Access:
    """`what`, issued by `warp` now; it is complete when one of its `agents` has been waited for, or when the barrier assigned later says
    so (`Access.ends`)."""
    thread = warp.thread
    return Access(what, thread, warp.fragment.pc, thread.time, writes, proxy, thread.issue(*agents))


def writing(
    warp: Warp,
    cta: Cta,
    places: Places,
    what: str,
    barrier: int = -1,
    reducing: bool = False,
    proxy: Proxy = "async",
    tile: Tile | None = None,
    copied: object = None,
    barrier_cta: Cta | None = None,
) -> Access:
    """`what` of `warp` starts to write these bytes of `cta`, tracked by the mbarrier at `barrier` of `barrier_cta` (None: the same)."""
    # Another CTA is told which of the warp's accesses precede the operation.
    away = cta is not warp.cta or (barrier_cta or cta) is not cta
    behind = warp.thread.publish() if away else warp.thread.knowledge
    access = operation(warp, what, True, proxy=proxy)
    access.tile, access.copied, access.behind = tile, copied, behind
    if reducing:
        access.scope = "sys"
    cta.shared.begin(warp.thread, access, places.granules)
    cta.shared.filled_by[places.granules] = barrier
    if barrier >= 0:
        holder = barrier_cta or cta
        holder.check_signalled(warp, barrier, what)
        _check_told(warp, holder, barrier, what)
        warp.thread.step()  # its bytes show nothing of what the warp does from now on
    return access


def _check_told(warp: Warp, cta: Cta, offset: int, what: str) -> None:
    """Checks that the initialisation of this barrier of `cta` is visible to the async proxy, which signals it on behalf of `warp`."""
    barrier, findings = cta.mbarriers.get(offset), cta.machine.findings
    if barrier is None or warp.watched is None or barrier.announced or not findings.wanted("init"):
        return
    made, pc = barrier.made, warp.fragment.pc
    if made.over(warp.thread.knowledge.shared) or findings.again("init", (made.pc, pc)):
        return
    if not cta.cluster.several and cta.machine.practised("mbarriers of a CTA without a fence"):
        return
    item = cta.image.item(made.pc)
    message = (
        f"{what} counts bytes on the mbarrier at shared 0x{offset:x}, which mbarrier.init of PTX line {item.line if item else 0} made: "
        "neither fence.mbarrier_init nor fence.proxy.async stands between"
    )
    findings.add("init", (made.pc, pc), warp.here(SimulationError("race", message)))


def complete(cta: Cta, address: int, count: int, what: str, *accesses: Access) -> None:
    """complete_tx on the barrier of `cta` at `address` (rank bits ignored); its phase covers the completion of `accesses`."""
    offset = address & OFFSET_MASK
    if cta.exited:
        raise SimulationError("undefined", f"{what} completes on a barrier of {cta.name}, which has exited")
    barrier, grid = cta.mbarrier(offset, what), cta.machine.races.preceding
    for access in accesses:
        access.ends = (access.ends or ()) + barrier.end
        if access.behind is not None and grid in access.behind.order:
            barrier.arrived(learned(UNKNOWING, grid, 1), here=True, began=NOTHING)  # issued after the preceding grid had ended
        if access.behind is not None and access.thread.cta != cta.name:
            barrier.behind = join(barrier.behind, access.behind.settled)
            barrier.began = join(barrier.began, access.behind.order)
        elif access.behind is not None:
            barrier.issued.append(access)
            barrier.landing_last = access
    cta.after_barrier_operation(barrier, barrier.state.complete_tx(count))


def groups_of(warp: Warp, lane: int, kind: GroupKind) -> Groups:
    _parted(warp, kind)
    return warp.groups.setdefault((kind, lane), Groups())


def groups_of_lanes(warp: Warp, kind: GroupKind) -> list[Groups]:
    """The groups of the active lanes. Lanes that have always acted together share one."""
    if warp.mask is not None:
        return [groups_of(warp, lane, kind) for lane in warp.lanes()]
    together = warp.groups.get((kind, TOGETHER))
    if together is None and any(of == kind for of, _ in warp.groups):
        return [groups_of(warp, lane, kind) for lane in range(LANES)]
    return [together or warp.groups.setdefault((kind, TOGETHER), Groups())]


def _parted(warp: Warp, kind: GroupKind) -> None:
    """From now on each lane has its own groups."""
    together = warp.groups.pop((kind, TOGETHER), None)
    if together is not None:
        for lane in range(LANES):
            warp.groups[kind, lane] = together.copy()


def finished(warp: Warp, operation: Operation, *, read_only: bool = False) -> None:
    """Advances a group's operation and wakes threads that wait for groups."""
    operation.read = True
    operation.done = operation.done or not read_only
    for fragment in warp.fragments:
        wait = fragment.wait
        if wait is not None and wait.over is not None and wait.over():
            fragment.wait = None


def wait_for_groups(kind: GroupKind, allowed: int, reading_only: bool) -> Execute:
    """execute(warp): blocks until each active thread has at most `allowed` groups pending."""

    def execute(warp: Warp) -> Outcome:
        groups = groups_of_lanes(warp, kind)
        most = max(group.pending(reading_only) for group in groups)
        if most <= allowed:
            for group in groups:
                group.waited = len(group.marks)
            over = min((group.over(allowed) for group in groups if group.marks), default=0)
            if kind == "cp.async" and warp.watched is not None and (left := warp.thread.waited_for_copies(warp.mask, over)):
                warp.cta.machine.races.sets.loosen(warp.thread, left)
            warp.thread.found_over(_AGENTS[kind][: 1 if reading_only else None], over)
            return None
        text, asked = f"{most - allowed} {kind} group(s) to finish", functools.partial(_over, groups, allowed, reading_only)
        return warp.park(Wait("group", text, retry=True, over=asked))

    return execute


def _over(groups: Sequence[Groups], allowed: int, reading_only: bool) -> bool:
    # A loop, since this runs whenever an operation completes.
    for group in groups:
        if group.pending(reading_only) > allowed:
            return False
    return True


def commit_groups(kind: GroupKind) -> Execute:
    def execute(warp: Warp) -> None:
        # The threads of a warpgroup share their groups.
        for groups in dict.fromkeys(groups_of_lanes(warp, kind)):
            groups.commit(warp.thread.count(_AGENTS[kind][0]))

    return execute
