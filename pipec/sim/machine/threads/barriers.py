"""The barriers at which warps of a CTA wait."""

from __future__ import annotations

from collections.abc import Callable

from pipec.record import field, mutable, record

from ...errors import SimulationError
from ...ptx.types import Addresses, LaneMask
from ...units.mbarrier import Mbarrier
from ..memory.spaces import SharedMemory
from ..practice import PracticeName
from ..races.clocks import NOTHING, UNKNOWING, Arrival, Clock, Knowledge, gather, join, learned, merged, with_time
from ..races.ledger import Access
from ..races.thread import Thread
from .divergence import Fragment


@record(eq=False)
class Vote:
    """The votes of some threads at a reducing barrier, and the callback that delivers the result."""

    predicates: LaneMask
    hear: Callable[[int], None]


@mutable(eq=False)
class NamedBarrier:
    """bar.sync state: `arrived` threads of the current phase out of `expected` (None: all live threads of the CTA). `completed`: when the
    warps of the last phase arrived there, if any warp has ever arrived without waiting."""

    number: int
    arrived: int = 0
    expected: int | None = None
    waiting: list[Fragment] = field(default_factory=list)
    votes: list[Vote] = field(default_factory=list)
    arrivals: list[Arrival] = field(default_factory=list)
    hearing: list[tuple[Thread, Knowledge]] = field(default_factory=list)  # with the knowledge of each at its arrival
    completed: Clock = field(default_factory=dict)
    parted: bool = False  # whether a warp has ever arrived without waiting

    def arrive(self, threads: int, expected: int | None, who: Thread, hears: bool) -> None:
        if self.arrived and self.expected != expected:
            raise SimulationError(
                "undefined", f"barrier {self.number} is used with {expected} threads while others use it with {self.expected}"
            )
        self.expected = expected
        self.arrived += threads
        self.parted |= not hears
        if self.parted:
            who.touched = True  # so that this arrival is told from earlier signals
        # At the arrival, not when the barrier completes: what a warp does after bar.arrive is not covered.
        self.arrivals.append(who.arrive())
        if hears:
            self.hearing.append((who, who.knowledge))

    def may_arrive(self, who: Thread) -> bool:
        """Whether an arrival counts in the current phase whatever the timing: whether the warp knows all arrivals in the last one.
        Otherwise it may come before one of these, and count in its place."""
        return who.comes_behind(self.completed)

    def settle(self, live_threads: int) -> bool:
        """Completes the barrier if all expected threads have arrived; true if it did."""
        wanted = live_threads if self.expected is None else self.expected
        if not self.arrived or self.arrived < wanted:
            return False
        if self.arrived > wanted:
            raise SimulationError("undefined", f"barrier {self.number} expects {wanted} threads, {self.arrived} arrived")
        for fragment in self.waiting:
            fragment.wait = None
        self.waiting.clear()
        gathered = gather(self.arrivals)
        if self.parted:
            self.completed = {arrival.actor: arrival.past for arrival in self.arrivals}
        times = self.hearing[0][0].times_of_peers(gathered.values) if self.hearing else None
        for thread, knew in self.hearing:
            # Its releases since then are part of the gathered knowledge, unless other lanes of it have acquired more meanwhile.
            if thread.knowledge is knew:
                thread.knowledge = gathered
            else:
                thread.hear(gathered)
            thread.lanes_met()
            if times is not None:
                thread.comes_after(times)
        self.hearing.clear()
        self.arrivals.clear()
        self.arrived, self.expected = 0, None
        return True


class NamedBarriers(dict[int, NamedBarrier]):
    """A CTA's named barriers by number, created at first use: most kernels use one or two of all 16."""

    def __missing__(self, number: int) -> NamedBarrier:
        made = self[number] = NamedBarrier(number)
        return made


@mutable(eq=False)
class Counts:
    """Who has arrived in the `phase`, warps and the commits of warps: by number of the actor, when. `alone`: nobody and nothing else has,
    as far as `pending`. `completed`: the arrivals of phases that they alone completed, by how many phases were complete then."""

    phase: int = -1
    pending: int = 0
    alone: bool = True
    arrivals: Clock = field(default_factory=dict)
    completed: dict[int, Clock] = field(default_factory=dict)

    def arrived(self, actor: int, time: int, before: tuple[int, int, int, int], now: Mbarrier) -> None:
        """An actor has just arrived, which changed the barrier's state: phase, missing arrivals, expected ones, bytes."""
        phase, pending, expected, tx = before
        if phase != self.phase:
            self.phase, self.pending, self.alone = phase, expected, True
            self.arrivals = {}
        self.alone &= pending == self.pending and not tx
        self.pending = now.pending
        self.arrivals[actor] = time
        if now.phase > phase:
            self.completed.pop(now.phase - 2, None)
            if self.alone:
                self.completed[now.phase] = self.arrivals

    def shown(self, thread: Thread, phases: int) -> bool:
        """Whether a warp comes after all arrivals by which so many phases were complete."""
        return phases in self.completed and thread.comes_behind(self.completed[phases])


@mutable(eq=False)
class TrackedBarrier:
    """An mbarrier with the fragments parked on it. `gathers` is what arrivals have released, `tells` what observers of a completed phase
    acquire at cluster scope, and `near` of both what they acquire at CTA scope (None: the same). `behind` is what was complete when
    operations of other CTAs began that have counted their bytes, `came` that of completed phases; `began` is the same with what only
    relaxed cluster barriers show, what preceded copies of its own CTA whose warps have not arrived, and what warps that have arrived know
    so. `landing` is what warps knew when they asked for arrivals behind their cp.async, `landed` that of completed phases. `issued`: the
    copies of its own CTA that have counted bytes in the current phase, `landing_last` the last one of all phases. `tested`: the time and
    place of each warp's last test by parity in the current phase that found the one before complete. `latest`: the phase of each warp's
    last arrival, `doubtful` the arrivals that may count in the phase named with them, with their place, `waited` the last phase that a
    test has found complete. `made` is its initialisation, `announced` whether a fence.mbarrier_init has followed it, `invalidated` its
    end, `overwritten` what has been issued over it."""

    state: Mbarrier
    offset: int
    actor: int
    made: Access
    announced: bool = False
    invalidated: Access | None = None
    overwritten: Access | None = None
    waiting: list[Fragment] = field(default_factory=list)
    uses: dict[Thread, tuple[int, int]] = field(default_factory=dict)  # the time and place of each warp's last operation on it
    remote: dict[int, Access] = field(default_factory=dict)  # the last arrivals of warps of other CTAs, by warp number
    gathers: Knowledge = UNKNOWING
    tells: Knowledge = UNKNOWING
    near: tuple[Knowledge, Knowledge] | None = None
    behind: Clock = NOTHING
    came: Clock = NOTHING
    began: Clock = NOTHING
    landing: Clock = NOTHING
    landed: Clock = NOTHING
    counts: Counts = field(default_factory=Counts)
    tested: dict[Thread, tuple[int, int]] = field(default_factory=dict)
    issued: list[Access] = field(default_factory=list)
    landing_last: Access | None = None
    latest: dict[Thread, int] = field(default_factory=dict)
    doubtful: list[tuple[int, int, SimulationError]] = field(default_factory=list)
    waited: int = -1

    @property
    def end(self) -> tuple[tuple[int, int], ...]:
        """The event that shows the completion of an operation tracked by the current phase."""
        return ((self.actor, self.state.phase + 1),)

    @property
    def in_use(self) -> bool:
        """Whether a fragment waits on it, or bytes are outstanding."""
        return bool(self.waiting or self.state.tx)

    def used_by(self, thread: Thread, pc: int, tests: bool) -> None:
        # Whoever ends its life has to come after that.
        if tests:
            thread.tested()
        else:
            thread.touched = True
        self.uses[thread] = thread.time, pc

    def comes_after(self, thread: Thread, time: int) -> bool:
        """Whether what has completed the current phase comes after what a warp did at that time."""
        reached, number = thread.actors.reached, thread.number
        if reached(self.gathers.order, number, time) or reached(self.began, number, time):
            return True
        return any(
            one.behind is not None and (reached(one.behind.order, number, time) or (one.thread is thread and one.time >= time))
            for one in self.issued
        )

    def publish(self) -> None:
        """A phase is complete."""
        for copy in self.issued:
            # Where another warp has announced the bytes, only the copies show what their own warp had done before.
            number = copy.thread.number
            if copy.behind is not None and not copy.thread.actors.reached(self.gathers.order, number, copy.time - 1):
                self.began = join(self.began, with_time(copy.behind.order, number, copy.time))
        self.issued.clear()
        self.gathers = self.tells = learned(self.gathers, self.actor, self.state.phase)
        self.came, self.landed = self.behind, self.landing
        if self.near is not None:
            told = learned(self.near[0], self.actor, self.state.phase)
            self.near = told, told

    def arrived(self, told: Knowledge, here: bool, began: Clock) -> None:
        """Somebody of its own CTA (`here`) or another one has released `told`, and comes after what has `began`."""
        if began:
            self.began = join(self.began, began)
        if not here or self.near is not None:
            gathers, tells = self.near or (self.gathers, self.tells)
            self.near = merged(gathers, told, values=here), tells
        self.gathers = merged(self.gathers, told)

    def heard_by(self, thread: Thread, scope: str | None) -> None:
        """A wait has found a phase complete; `scope`: that of its acquire, None for a relaxed one."""
        if self.came:
            thread.came = join(thread.came, self.came)
        if self.landed:
            thread.landed = join(thread.landed, self.landed)
        if self.began:
            thread.began = join(thread.began, self.began)
        if scope != "cta" or self.near is None:
            thread.hear_signal(self.tells, scope is not None, "cluster")
            return
        thread.hear_signal(self.near[1], True, "cta")
        # The rest takes a fence.
        thread.hear_signal(self.tells, False, "cluster")


def reclaim(
    barriers: dict[int, TrackedBarrier],
    shared: SharedMemory,
    practised: Callable[[PracticeName], bool],
    places: Addresses,
    message: str,
) -> None:
    """Invalidates the mbarriers at these places, which are about to be written. Raises SimulationError with `message`."""
    offsets = sorted({place // 8 * 8 for place in places.tolist()})
    if any(barriers[offset].in_use for offset in offsets) or not practised("barriers that are left"):
        raise SimulationError("undefined", message)
    for offset in offsets:
        del barriers[offset]
        shared.mark_barrier(offset, live=False)
