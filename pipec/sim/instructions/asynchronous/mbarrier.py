"""mbarrier.* and cp.async.mbarrier.arrive (PTX ISA 9.7.13.15)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...errors import SimulationError
from ...machine.memory.spaces import OFFSET_MASK, RANK_SHIFT
from ...machine.program import Execute
from ...machine.races.clocks import REACHES, Reach
from ...machine.races.ledger import Access
from ...machine.threads.barriers import TrackedBarrier
from ...machine.threads.cta import Warp
from ...machine.threads.divergence import AwaitedPhase, Outcome, Wait
from ...ptx.tree import Address
from ...ptx.types import LANES, TYPES, Addresses, LaneValues
from ...units.mbarrier import Mbarrier
from ..decode import Decoder, instruction
from ..memory.loadstore import shared_addresses
from ..ordering import Ordering
from .successive import check_arrival, check_wait, knows

# A try_wait without an explicit limit gives up after about 3.9 microseconds (hardware.md 1.2).
SUSPENDED = 4000

_ZEROS = [0] * LANES
_NONE, _ALL = np.zeros(LANES, bool), np.ones(LANES, bool)

_SPACES = ("shared::cta", "shared", "shared::cluster")


def _space(d: Decoder) -> tuple[bool, bool]:
    """(generic addressing, may be in another CTA)."""
    chosen = d.choose(*_SPACES)
    return chosen is None, chosen == "shared::cluster"


def _common(d: Decoder) -> tuple[bool, bool]:
    d.ordering()
    d.types()
    return _space(d)


def local_barrier(warp: Warp, address: int, what: str) -> TrackedBarrier:
    known = warp.cta.mbarriers.get(address ^ (warp.cta.rank << RANK_SHIFT))
    if known is not None:
        return known
    offset = int(warp.cta.own_offset(np.array([address]))[0])
    return warp.cta.mbarrier(offset, what)


def _tell_lanes(warp: Warp, offset: int) -> None:
    """Lanes of one `mbarrier.init` that initialise a barrier with the same count: undefined, but the barrier is the same whichever is
    last."""
    findings, message = (
        warp.cta.machine.findings,
        f"several lanes of one mbarrier.init make the mbarrier at shared address 0x{offset:x}",
    )
    if not findings.again("lanes", ("mbarrier.init", warp.fragment.pc)):
        findings.add("lanes", ("mbarrier.init", warp.fragment.pc), warp.here(SimulationError("undefined", message)))


@instruction("mbarrier.init")
def init(d: Decoder) -> Execute:
    generic, _ = _common(d)
    read, count = shared_addresses(d, 0, generic), d.source(1, TYPES["u32"])

    def execute(warp: Warp) -> None:
        counts, cta = count(warp), warp.cta
        addresses = read(warp)
        made_now: dict[int, int] = {}  # the counts of the barriers that this instruction has initialised
        for lane in warp.lanes():
            offset = int(cta.own_offset(addresses[lane : lane + 1])[0])
            cta.shared.check(np.array([offset]), 8, "mbarrier.init")
            if made_now.setdefault(offset, -1) == counts[lane]:
                _tell_lanes(warp, offset)
                continue
            made_now[offset] = int(counts[lane])
            if not counts[lane] and cta.machine.practised("mbarriers of no count"):
                continue
            if offset in cta.mbarriers:
                message = f"mbarrier.init on shared address 0x{offset:x}, where a live mbarrier is"
                # A barrier that has not been used yet has not been invalidated.
                if cta.mbarriers[offset].state.phase == 0:
                    raise SimulationError("undefined", message)
                cta.check_over(warp, cta.mbarriers[offset])
                cta.shared.reclaim(np.array([offset]), message)
            if warp.watched is not None:
                # The words of a barrier were ordinary memory until now: their earlier writes must be ordered before this one.
                cta.machine.races.store(warp.watched, cta.shared.shadow, np.array([offset // 8]), 8)
            thread = warp.thread
            # Kept with the barrier: a thread that uses it without being ordered after its init is reported (`on_object`).
            made = Access("mbarrier.init", thread, warp.fragment.pc, thread.time, True)
            thread.touched = True
            cta.former_mbarriers.pop(offset, None)
            cta.mbarriers[offset] = TrackedBarrier(Mbarrier(int(counts[lane])), offset, cta.machine.actors.new(), made)
            cta.shared.mark_barrier(offset, live=True)
            cta.machine.progress += 1

    return execute


@instruction("mbarrier.inval")
def invalidate(d: Decoder) -> Execute:
    generic, _ = _common(d)
    read = shared_addresses(d, 0, generic)

    def execute(warp: Warp) -> None:
        addresses = read(warp)
        for lane in warp.lanes():
            barrier = local_barrier(warp, int(addresses[lane]), "mbarrier.inval")
            if barrier.waiting:
                raise SimulationError("undefined", f"mbarrier.inval on 0x{barrier.offset:x} while threads wait on it")
            # A copy that completes later would count bytes on memory that is no longer a barrier.
            if barrier.state.tx:
                raise SimulationError(
                    "byte_mismatch", f"mbarrier.inval on 0x{barrier.offset:x} with {barrier.state.tx} bytes outstanding"
                )
            warp.cta.invalidate(warp, barrier)

    return execute


def _arriving(
    d: Decoder,
    operation: Callable[[Mbarrier, int], bool],
    operand_index: int,
    remote: bool,
    generic: bool,
    returns: int | None,
    default: int | None,
    told: Ordering | None,
) -> Execute:
    """Runs `operation(state, value) -> flipped` for each active lane, in lane order. `told`: the ordering with which an operation that
    a phase awaits releases what the thread has observed; None: no phase awaits it."""
    read = shared_addresses(d, operand_index, generic)
    value = d.source(operand_index + 1, TYPES["u32"]) if len(d.operands) > operand_index + 1 else None
    if default is None:
        if value is None:
            d.fail("needs a count", "malformed")
        default = 0  # given by the operand
    write = d.destination(returns, TYPES["b64"]) if returns is not None else None
    what = d.item.opcode
    arrives = told is not None and operation is not Mbarrier.complete_tx

    def execute(warp: Warp) -> None:
        asked = _asked(warp, read(warp), value(warp) if value else None)
        tokens = np.zeros(LANES, np.uint64) if write else None
        last: int | None = None  # no address: initial value that differs from all addresses
        flipped, cta = False, warp.cta
        told_at: int | None = None  # whoever comes after an arrival of one lane comes after those of all
        alike = write is None and operation is Mbarrier.arrive and (len(asked) == 1 or len(set(asked)) == 1)
        count = LANES if warp.mask is None else len(asked)
        if told is not None and warp.mask is not None and warp.watched is not None:
            cta.machine.races.some_signal(warp.thread, warp.mask)
        for lane, (address, given) in zip(warp.lanes(), asked if len(asked) == count else asked * count, strict=True):
            another = address != last
            if another:
                cta = warp.cta
                if remote or generic:
                    cta = cta.peer(address, what)
                    if arrives and cta.arrives_late(warp, address & OFFSET_MASK):
                        last = None
                        continue
                    barrier = cta.mbarrier(address & OFFSET_MASK, what)
                else:
                    barrier = local_barrier(warp, address, what)
                warp.thread.barrier_used = barrier.offset
                # What holds for one lane holds for the next one at the same barrier; errors are reported per lane.
                ready = cta.check_ready(warp, barrier) and (cta is warp.cta or cta.rank in warp.thread.running)
                last = address if ready else None
            if tokens is not None:
                tokens[lane] = barrier.state.token()
            if arrives and flipped and not another:
                complain_of_split(warp, barrier, warp.fragment.pc)
            if told is not None and (another or flipped):
                _release(warp, barrier, told, what, own=cta is warp.cta)
                told_at = warp.thread.time - 1 if told_at is None else told_at
            amount = default if value is None else given
            # Identical lanes arrive in one step, unless that exceeds the pending count of the phase.
            together = alike and ready and amount * count <= barrier.state.pending
            arriving = amount * count if together else amount
            state = barrier.state
            before = state.counters
            flipped = operation(state, arriving)
            if arrives and told_at is not None:
                barrier.counts.arrived(warp.thread.number, told_at, before, state)
                if another:
                    check_arrival(warp, barrier, before[0])
            cta.after_barrier_operation(barrier, flipped)
            if together:
                break
        warp.thread.in_part = False
        if write and tokens is not None:
            write(warp, tokens)

    return execute


def _release(warp: Warp, barrier: TrackedBarrier, told: Ordering, what: str, *, own: bool) -> None:
    """Notes what the thread has observed at a barrier of its `own` CTA or of another one. It is collected until the phase completes: a
    wait acquires what all of its arrivals released, and nothing before the last of them."""
    # Without .sem an arrival releases; without .scope, to the threads of its own CTA.
    reach: Reach = "cta" if own else "cluster"
    releases = told.semantics != "relaxed" and reach in REACHES[told.scope or "cta"]
    if not own:
        # Nothing in its own CTA may see this before it exits.
        warp.thread.touched = True
    barrier.arrived(warp.thread.tell(releases, reach), own, warp.thread.began)
    warp.thread.signalled()
    if not own:
        barrier.remote[warp.thread.number] = Access(what, warp.thread, warp.fragment.pc, warp.thread.time - 1, True)


def _asked(warp: Warp, addresses: Addresses, values: LaneValues | None) -> list[tuple[int, int]]:
    """The address and the value of each active lane, in lane order; a single entry if a whole warp has the same ones."""
    places, numbers = addresses.tolist(), _ZEROS if values is None else values.tolist()
    if warp.mask is not None:
        return [(places[lane], numbers[lane]) for lane in warp.lanes()]
    if places.count(places[0]) == LANES and numbers.count(numbers[0]) == LANES:
        return [(places[0], numbers[0])]
    return list(zip(places, numbers, strict=True))


def complain_of_split(warp: Warp, barrier: TrackedBarrier, pc: int) -> None:
    """Lanes that arrive together, at the instruction at `pc`, must refer to the same phase."""
    findings, key = warp.cta.machine.findings, (pc, barrier.offset)
    if findings.again("split", key):
        return
    message = (
        f"some lanes arrive in phase {barrier.state.phase - 1} of the mbarrier at shared 0x{barrier.offset:x}, which is complete then, and "
        f"others in phase {barrier.state.phase}: it was initialised with a count of {barrier.state.expected}"
    )
    findings.add("split", key, warp.located(SimulationError("undefined", message), pc))


@instruction("mbarrier.expect_tx", "mbarrier.complete_tx")
def transaction(d: Decoder) -> Execute:
    generic, remote = _common(d)
    if ".expect_tx" in d.item.opcode:
        return _arriving(d, Mbarrier.expect_tx, 0, remote, generic, None, None, None)
    # A phase whose bytes a thread counts is not complete before the thread does so.
    return _arriving(d, Mbarrier.complete_tx, 0, remote, generic, None, None, Ordering("relaxed", "cluster"))


@instruction("mbarrier.arrive", "mbarrier.arrive_drop")
def arrive(d: Decoder) -> Execute:
    drop = d.item.opcode.startswith("mbarrier.arrive_drop")
    expecting = d.flag("expect_tx")
    d.ignore("noComplete")
    ordering = d.ordering()
    d.types()
    generic, remote = _space(d)
    table: dict[tuple[bool, bool], Callable[[Mbarrier, int], bool]] = {
        (False, False): Mbarrier.arrive,
        (True, False): Mbarrier.arrive_drop,
        (False, True): Mbarrier.arrive_expect_tx,
        (True, True): Mbarrier.arrive_drop_expect_tx,
    }
    # Older PTX and the cluster form may omit the destination.
    has_result = not isinstance(d.operand(0), Address)
    index = 1 if has_result else 0
    returns, default = 0 if has_result else None, None if expecting else 1
    return _arriving(d, table[drop, expecting], index, remote, generic, returns, default, ordering)


@instruction("mbarrier.pending_count")
def pending_count(d: Decoder) -> Execute:
    d.types()
    write, token = d.destination(0, TYPES["b32"]), d.source(1, TYPES["b64"])
    return lambda warp: write(warp, np.array([Mbarrier.pending_count(int(t)) for t in token(warp)], np.uint32))


@instruction("mbarrier.test_wait", "mbarrier.try_wait")
def wait(d: Decoder) -> Execute:
    """try_wait parks the warp until the phase completes. test_wait parks when it is repeated without any change in between, the
    signature of a spin loop."""
    blocking = d.item.opcode.startswith("mbarrier.try_wait")
    parity = d.flag("parity")
    ordering = d.ordering()
    acquired = None if ordering.semantics == "relaxed" else ordering.scope or "cta"
    d.types()
    generic, remote = _space(d)
    if remote:
        d.fail("waits are local only", "malformed")
    write, read = d.destination(0, TYPES["pred"]), shared_addresses(d, 1, generic)
    expected = d.source(2, TYPES["u32" if parity else "b64"])
    limit = d.source(3, TYPES["u32"]) if len(d.operands) > 3 else None

    def execute(warp: Warp) -> Outcome:
        asked = _asked(warp, read(warp), expected(warp))
        known: dict[tuple[int, int], tuple[bool, TrackedBarrier, int]] = {}
        # Under `--timing explore` every test that could have been executed earlier fails once, so that the wait behind a successful peek
        # runs as well.
        fails, failed = warp.cta.machine.schedule.fails or _fails_once(warp), False
        seen = warp.seen.copy() if fails else warp.seen
        for key in dict.fromkeys(asked):
            known[key] = _test(warp, *key, parity, d.item.opcode)
            failed = failed or (fails and known[key][0] and _may_fail(warp, known[key][1]))
        pending = [(barrier, phase) for done, barrier, phase in known.values() if not done]
        if failed:
            # As if the test had run before the phase completed.
            warp.cta.machine.failed_once.add((warp.thread.number, warp.fragment.pc))
            warp.seen = seen
            write(warp, _NONE)
            return None
        results = _NONE if pending else _ALL
        if pending and len(pending) < len(known):
            results = np.zeros(LANES, bool)
            results[warp.lanes()] = [known[key][0] for key in asked]
        for done, barrier, _ in known.values():
            if done:
                check_wait(warp, barrier)
                barrier.heard_by(warp.thread, acquired)
                warp.thread.lanes_met()
        fragment = warp.fragment
        nanoseconds = int(limit(warp)[warp.active].max()) if limit and blocking else None
        parked = _park(warp, blocking, pending, nanoseconds) if results is _NONE else None
        if parked is None:
            fragment.give_up = False
            warp.polls += bool(pending)
            write(warp, results)
        return parked

    return execute


def _test(warp: Warp, address: int, wanted: int, parity: bool, what: str) -> tuple[bool, TrackedBarrier, int]:
    """(phase complete, barrier, number of the awaited phase)."""
    barrier = local_barrier(warp, address, what)
    state = barrier.state
    warp.waited_on.add(barrier.offset)
    warp.thread.barrier_used = barrier.offset
    warp.cta.check_ready(warp, barrier, tests=True)
    done = state.test_parity(wanted) if parity else state.test_token(wanted)
    if not parity:
        return done, barrier, state.phase
    # A wait by parity that lags two phases sees the same parity again and succeeds or blocks wrongly; the warp's own history shows it.
    # This excludes phases that the warp has not waited for but knows to be complete through others: consumers that take turns skip them.
    last = warp.seen.get(barrier.offset)
    following = None if last is None else max(last + 1, warp.thread.knowledge.order.get(barrier.actor, 0))
    if following is not None and following & 1 == wanted & 1 and state.phase >= following + 2:
        raise SimulationError(
            "undefined",
            f"wait for phase {following} of the mbarrier at 0x{barrier.offset:x} (parity {wanted & 1}) "
            f"came late: phase {state.phase} is current, the parity means another phase",
            details={"address": barrier.offset},
        )
    awaited = state.phase - 1 if done else state.phase
    if warp.watched is not None and awaited > 0 and not knows(warp, barrier, awaited):
        _complain_of_parity(warp, barrier, awaited, wanted & 1)
    if done:
        warp.seen[barrier.offset] = state.phase - 1
        if warp.watched is not None:
            barrier.tested[warp.thread] = warp.thread.time, warp.fragment.pc
            warp.thread.tests += 1
    return done, barrier, awaited


def _complain_of_parity(warp: Warp, barrier: TrackedBarrier, awaited: int, parity: int) -> None:
    """A test by parity means the phase after those that the thread knows to be complete, or one of these. Of any later one, it is true
    while the phase before that is current, and false afterwards: what it says is a matter of timing."""
    findings, key = warp.cta.machine.findings, (warp.fragment.pc, barrier.offset)
    if findings.again("phase", key):
        return
    earlier = f"for phase {awaited - 2}" if awaited > 1 else "as it is for a new mbarrier"
    message = (
        f"test of the mbarrier at shared 0x{barrier.offset:x} for parity {parity}, which means phase {awaited} now: nothing has shown this "
        f"warp that phase {awaited - 1} is complete, and before that the same test is true, {earlier}"
    )
    findings.add("phase", key, warp.here(SimulationError("undefined", message, details={"address": barrier.offset})))


def _fails_once(warp: Warp) -> bool:
    """Whether this test is not one of a loop, and no such test of the warp has failed yet."""
    return (
        warp.fragment.pc in warp.cta.image.unlooped and (warp.thread.number, warp.fragment.pc) not in warp.cta.machine.failed_once
    )


def _may_fail(warp: Warp, barrier: TrackedBarrier) -> bool:
    """Whether the warp could have tested before the phase completed, and this test of it has not failed yet."""
    phase = barrier.state.phase
    if not phase or knows(warp, barrier, phase):
        return False
    # Once per phase and instruction, so that a polling loop still makes progress.
    failed, key = warp.cta.machine.failed, (warp.thread.number, warp.fragment.pc, barrier.actor, phase)
    if key in failed:
        return False
    failed.add(key)
    return True


def _park(warp: Warp, blocking: bool, pending: list[tuple[TrackedBarrier, int]], limit: int | None) -> Wait | None:
    fragment, machine = warp.fragment, warp.cta.machine
    if fragment.give_up:
        return None
    # try_wait may return false although the phase would complete soon: this exposes code that takes false for "not in this phase".
    if blocking and machine.events.timing == "random" and machine.events.random.random() < 0.1:
        return None
    if not blocking:
        seen = (fragment.pc, machine.progress)
        # (The program counter and the progress counter: the same test again, and nothing in the machine has changed in between.)
        repeated, fragment.polls = fragment.polls == seen, seen
        if not repeated:
            return None
    first, phase = pending[0]
    wait = Wait(
        "mbarrier",
        "an mbarrier",
        retry=True,
        may_fail=True,
        until=warp.cta.cluster.now + (SUSPENDED if limit is None else max(1, limit)) if blocking else None,
        awaited=AwaitedPhase(first.offset, phase, first.state.phase),
    )
    for barrier, _ in pending:
        if fragment not in barrier.waiting:
            barrier.waiting.append(fragment)
    return warp.park(wait)
