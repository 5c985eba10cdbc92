"""Barriers of CTA and cluster, fences (PTX ISA 9.7.13.1-5)."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable

import numpy as np

from ...errors import SimulationError
from ...machine.practice import PracticeName
from ...machine.program import Execute
from ...machine.threads.barriers import NamedBarrier, Vote
from ...machine.threads.cta import Warp
from ...machine.threads.divergence import Outcome, Wait
from ...ptx.tree import Immediate
from ...ptx.types import LANES, TYPES, LaneMask, Type
from ...units.limits import NAMED_BARRIERS
from ..decode import Decoder, instruction
from ..widths import Writer
from .branches import nothing


def _participants(warp: Warp) -> int:
    return LANES if warp.mask is None else int(np.count_nonzero(warp.active))


@instruction("bar", "barrier")
def named_barrier(d: Decoder) -> Execute:
    """bar{.cta}.{sync,arrive,red} and barrier{.cta}.{...}{.aligned}."""
    d.choose("cta")
    d.flag("aligned")
    mode = d.require("sync", "arrive", "red")
    if mode == "red":
        return _reducing_barrier(d)
    number = _number(d, 0)
    threads = _number(d, 1) if len(d.operands) > 1 else None

    def execute(warp: Warp) -> Outcome:
        barrier, expected = _arrive(warp, number, threads, mode == "sync")
        # The last to arrive opens the barrier and does not wait.
        if warp.cta.settle_named(barrier) or mode == "arrive":
            return None
        barrier.waiting.append(warp.fragment)
        return warp.park(Wait("barrier", functools.partial(_state, warp, barrier, expected), retry=False, barrier=barrier.number))

    return execute


def _state(warp: Warp, barrier: NamedBarrier, expected: int | None) -> str:
    wanted = expected if expected is not None else warp.cta.live_threads
    return f"barrier {barrier.number}, where {barrier.arrived} of {wanted} threads have arrived"


def _number(d: Decoder, index: int) -> Callable[[Warp], int]:
    """The first active lane's value of an operand, which is usually a literal."""
    read, operand = d.source(index, TYPES["u32"]), d.operand(index)
    if isinstance(operand, Immediate):
        constant = operand.value
        return lambda warp: constant
    return lambda warp: int(read(warp)[warp.active][0])


def _arrive(
    warp: Warp, number: Callable[[Warp], int], threads: Callable[[Warp], int] | None, hears: bool
) -> tuple[NamedBarrier, int | None]:
    """The barrier at which the active threads arrive, and its expected count (None: the whole CTA)."""
    identity = number(warp)
    if identity >= NAMED_BARRIERS:
        raise SimulationError("undefined", f"barrier {identity} does not exist; there are {NAMED_BARRIERS}")
    expected = threads(warp) if threads else None
    # Barriers count warps, all of whose lanes count as arrived; PTX requires a multiple of the warp size.
    if expected is not None and (expected % LANES or expected == 0):
        raise SimulationError("undefined", f"barrier {identity}: thread count {expected} is not a multiple of 32")
    barrier = warp.cta.named[identity]
    if barrier.completed and warp.mask is None and not barrier.may_arrive(warp.thread):
        _tell_of_two(warp, identity)
    barrier.arrive(_participants(warp), expected, warp.thread, hears)
    _met(warp)
    return barrier, expected


def _tell_of_two(warp: Warp, number: int) -> None:
    """An arrival that may count in either of two phases."""
    findings, key = warp.cta.machine.findings, (warp.fragment.pc, number)
    if findings.again("phase", key):
        return
    message = (
        f"warp {warp.thread.index} arrives at barrier {number}, and nothing has shown it that the last phase there is complete: the "
        "arrival may count in that phase, for another warp"
    )
    findings.add("phase", key, warp.here(SimulationError("undefined", message)))


def _met(warp: Warp) -> None:
    machine = warp.cta.machine
    machine.progress += 1
    machine.meetings += 1
    warp.meetings += 1


_REDUCTIONS: dict[str, Callable[[Iterable[bool]], int]] = {"popc": sum, "and": all, "or": any}


def _reducing_barrier(d: Decoder) -> Execute:
    reduce = _REDUCTIONS[d.require(*_REDUCTIONS)]
    type_ = d.type()
    write, number = d.destination(0, type_), _number(d, 1)
    threads = _number(d, 2) if len(d.operands) > 3 else None
    predicate = d.source(len(d.operands) - 1, TYPES["pred"])

    def execute(warp: Warp) -> Outcome:
        barrier, _ = _arrive(warp, number, threads, True)
        # The result is known with the last vote: until then the result writes of waiting warps are kept with their votes.
        barrier.votes.append(Vote(predicate(warp)[warp.active], functools.partial(_hear, warp, warp.mask, write, type_)))
        barrier.waiting.append(warp.fragment)
        wait = warp.park(Wait("barrier", f"reducing barrier {barrier.number}", retry=False, barrier=barrier.number))
        if not warp.cta.settle_named(barrier):
            return wait
        value = reduce(bool(item) for vote in barrier.votes for item in vote.predicates)
        for vote in barrier.votes:
            vote.hear(value)
        barrier.votes.clear()
        return None

    return execute


def _hear(warp: Warp, mask: LaneMask | None, write: Writer, type_: Type, value: int) -> None:
    """The lanes of `mask`, which waited, receive the result."""
    saved, warp.mask = warp.mask, mask
    write(warp, np.full(LANES, value, type_.dtype))
    warp.mask = saved


_IN_ADVANCE: PracticeName = "cluster arrivals in advance"


@instruction("barrier.cluster.arrive")
def cluster_arrive(d: Decoder) -> Execute:
    d.flag("aligned")
    relaxed = d.choose("release", "relaxed") == "relaxed"

    def execute(warp: Warp) -> None:
        cluster = warp.cta.cluster
        # A second arrival may be counted as that of a thread that has not arrived yet, unless the first phase is known to be complete.
        awaited = int(warp.cluster_arrivals[warp.active].max())
        ahead = False
        if awaited and not (_knows_to_be_met(warp, awaited) and cluster.machine.practised("cluster arrivals without a wait")):
            wrong = warp.here(SimulationError("undefined", "barrier.cluster.arrive twice without barrier.cluster.wait"))
            if warp.cluster_ahead is not None or warp.mask is not None or not cluster.machine.practised(_IN_ADVANCE):
                raise wrong
            ahead = awaited > cluster.barrier_phase
            warp.cluster_ahead = cluster.barrier_phase + 1 + ahead, wrong
        else:
            warp.cluster_arrivals = np.where(warp.active, cluster.barrier_phase + 1, warp.cluster_arrivals)
        cluster.arrive(_participants(warp), warp.thread.arrive_at_cluster(relaxed), ahead)
        _met(warp)
        cluster.settle_barrier()

    return execute


def _knows_to_be_met(warp: Warp, phases: int) -> bool:
    """Whether something has shown the warp that all threads have arrived in that many phases of the cluster barrier."""
    cluster, thread = warp.cta.cluster, warp.thread
    return phases <= cluster.barrier_phase and thread.comes_behind(cluster.barrier_tells.order)


@instruction("barrier.cluster.wait")
def cluster_wait(d: Decoder) -> Execute:
    d.flag("aligned")
    relaxed = d.choose("acquire", "relaxed") == "relaxed"

    def execute(warp: Warp) -> Outcome:
        cluster = warp.cta.cluster
        awaited = warp.cluster_arrivals[warp.active]
        if (awaited == 0).any():
            raise SimulationError("undefined", "barrier.cluster.wait without barrier.cluster.arrive")
        if (awaited <= cluster.barrier_phase).all():
            if warp.cluster_ahead is not None and warp.cluster_ahead[0] != awaited.max():
                # The arrivals of this phase may include two of one warp: only the next one shows that all have arrived.
                warp.cluster_arrivals = np.where(warp.active, warp.cluster_ahead[0], warp.cluster_arrivals)
                return None
            # Another wait would be for another phase, in which this warp has not arrived yet.
            warp.cluster_arrivals = np.where(warp.active, 0, warp.cluster_arrivals)
            warp.cluster_ahead = None
            warp.thread.leave_cluster_barrier(cluster.barrier_tells, not relaxed)
            warp.thread.lanes_met()
            return None
        cluster.barrier_waiting.append(warp.fragment)
        what = f"the cluster barrier, where {cluster.barrier_arrived} threads have arrived"
        return warp.park(Wait("cluster", what, retry=True))

    return execute


# Everything that a fence may order, by words of its name.
_FENCES = frozenset(
    ("proxy", "alias", "async", "async::generic", "tensormap::generic", "mbarrier_init")
    + ("global", "shared::cta", "shared::cluster", "sync_restrict::shared::cta", "sync_restrict::shared::cluster")
    + ("sc", "acq_rel", "acquire", "release", "cta", "cluster", "gpu", "sys", "gl")
)


def _fence(warp: Warp, releases: bool, acquires: bool, scope: str) -> None:
    thread = warp.thread
    if releases and warp.mask is not None and warp.watched is not None:
        warp.cta.machine.races.some_signal(thread, warp.mask)
    thread.fence(releases, acquires, scope)
    thread.in_part = False


@instruction("membar", "fence")
def fence(d: Decoder) -> Execute:
    """Values are always in order here; the order that fences guarantee is checked against the accesses (`machine.races`)."""
    names = {name for name in d.modifiers if name in _FENCES}
    d.ignore(*names)
    if "mbarrier_init" in names:
        return lambda warp: warp.cta.announce_barriers(warp)
    if "proxy" not in names:
        acquires, releases = "release" not in names, "acquire" not in names
        scope = next((name for name in ("cta", "cluster") if name in names), "gpu")
        return lambda warp: _fence(warp, releases, acquires, scope)
    # The release side belongs to the writer, whose signal carries it; the acquire side makes the writes visible to the proxy.
    if "tensormap::generic" in names and "release" not in names:
        return lambda warp: warp.thread.fence_maps()
    if not any(name.startswith("async") for name in names):
        return nothing
    named = names & {"global", "shared::cta", "shared::cluster"}
    shared, global_ = not named or named != {"global"}, not named or "global" in named
    return lambda warp: warp.thread.fence_proxy(shared, global_)
