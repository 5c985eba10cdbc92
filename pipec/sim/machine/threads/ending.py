"""What is checked once all CTAs of a cluster have exited."""

from __future__ import annotations

from ...errors import SimulationError
from ..image import Image
from ..machine import Machine
from ..races.leftovers import judge
from .barriers import TrackedBarrier
from .cta import Cluster, Cta, Warp
from .groups import uncommitted, unwaited


def check_end(cluster: Cluster) -> None:
    """Checks at the end: no barrier with outstanding bytes, no allocated tensor memory."""
    machine, image, findings = cluster.machine, cluster.image, cluster.machine.findings
    for cta in cluster.ctas:
        if image.copies_tensors and machine.watching:
            judge(machine.races.layouts, cta.shared.shadow)
        # The next CTAs need not rediscover the access granularity.
        image.granule = min(image.granule, cta.shared.shadow.granule)
        for offset, barrier in sorted(cta.mbarriers.items()):
            if barrier.state.tx < 0 or (barrier.state.tx and not machine.practised("bytes announced for nobody")):
                name = image.names.barrier(offset)
                what = f"{name} (shared 0x{offset:x})" if name else f"mbarrier at shared 0x{offset:x}"
                error = SimulationError(
                    "byte_mismatch",
                    f"{cta.name}: {what} ends in phase {barrier.state.phase} with {barrier.state.tx} bytes outstanding",
                    details={"address": offset, "tx": barrier.state.tx},
                )
                pc = _announced_at(image, barrier)
                item = image.item(pc)
                findings.add("bytes", offset, error.located(item.line if item else 0, image.source(item)))
        if not cluster.several and machine.watching:
            _check_landed(cta)
        leak = cta.tensor.leak(cta.name) if cta.tensor is not None else None
        if leak is not None:
            findings.add("leak", "", leak)
    if machine.late_tests:
        _leave_out_onlookers(cluster)
    for warp in cluster.warps:
        if warp.groups:
            _check_groups(machine, image, warp)
        if (store := warp.thread.stored_unlike) is not None and not findings.again("lanes", ("unlike", store)):
            error = SimulationError(
                "undefined", "lanes of this store store different values to one place, and any of them may remain"
            )
            findings.add("lanes", ("unlike", store), warp.located(error, store))
        if warp.thread.executed is not None:
            image.spare_executions.append(warp.thread.executed)
        warp.thread.retire()
        if not warp.in_flight:
            image.spare.append(warp.file)
    machine.spare_rows += [cta.warp_rows for cta in cluster.ctas]


def _check_landed(cta: Cta) -> None:
    """Copies into shared memory that are complete by now, but of which no warp has found that before it exited: the memory may have been
    another CTA's. (Those in clusters are checked at the exit.)"""
    clocks = [warp.thread.knowledge.order for warp in cta.warps]
    for barrier in cta.mbarriers.values():
        copy = barrier.landing_last
        if copy is None or any(copy.over(clock) for clock in clocks) or cta.machine.findings.again("exit", ("landed", copy.pc)):
            continue
        item = cta.image.item(copy.pc)
        error = SimulationError(
            "undefined",
            f"no warp of {cta.name} waits for this copy into its shared memory, which is gone when it exits: the copy may still be under "
            "way then",
        )
        findings = cta.machine.findings
        findings.add("exit", ("landed", copy.pc), error.located(item.line if item else 0, cta.image.source(item)))


def _leave_out_onlookers(cluster: Cluster) -> None:
    """Late tests by warps that have done nothing from then on but wait: what they find makes no difference, if they keep up at all."""
    late, threads = cluster.machine.late_tests, {warp.thread.number: warp.thread for warp in cluster.warps}
    seen = [key for key, one in late.items() if key[2] in threads and not threads[key[2]].acts_after(one.time)]
    if seen and cluster.machine.practised("waits of onlookers"):
        for key in seen:
            del late[key]


def _announced_at(image: Image, barrier: TrackedBarrier) -> int:
    """Where a warp last announced bytes to it, or else where it was initialised."""
    for _, pc in barrier.uses.values():
        item = image.item(pc)
        if item is not None and "expect_tx" in item.opcode:
            return pc
    return barrier.made.pc


def _check_groups(machine: Machine, image: Image, warp: Warp) -> None:
    """Stores that no wait could have covered. (cp.async may be tracked by mbarriers, without a group.)"""
    for pc in uncommitted(warp.groups, "bulk"):
        error = SimulationError("undefined", "no cp.async.bulk.commit_group follows this store, so that no wait is for it")
        machine.findings.add("commit", pc, warp.located(error, pc))
    # DeepGEMM waits before it stages again, and exits after its last stores.
    may_exit = machine.rules == "practice" and image.waits_for_stores
    for pc in unwaited(warp.groups, "bulk", warp.thread.known_of("bulk read"), may_exit):
        error = SimulationError(
            "undefined", "no cp.async.bulk.wait_group finds that this store has read its source before its CTA ends"
        )
        machine.findings.add("exit", pc, warp.located(error, pc))
