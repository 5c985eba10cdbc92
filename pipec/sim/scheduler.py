"""Runs the warps of a cluster against the asynchronous hardware, in simulated time.

One unit of time is one instruction slot of every warp. Asynchronous operations are events on a heap; the timing mode
decides when they are due, never whether they are legal.
"""

from __future__ import annotations

import heapq
import random
from collections import deque
from collections.abc import Callable

import numpy as np

from .blame import blame
from .deadlock import deadlock_error, spinning_error
from .errors import SimulationError
from .execution import EXIT, Diverge, Fragment, Scatter, Wait, Warp
from .machine import Cluster
from .program import Program
from .units.errors import UnitError

QUANTUM = 32
FALSE_RETURN_ROUNDS = 3
# Random timing: how often a warp falls behind, and for at most how many rounds.
DOZE, LONGEST_DOZE = 0.03, 200
# Polls (failed compare-and-swaps, volatile loads) without any effect in the whole cluster.
PATIENCE, PATIENCE_AFTERWARDS = 64, 4
SPIN_ROUNDS = 4096  # without any effect, until warps that poll are told to wait for ever
_FAR = 1 << 60

# How the unit models' error kinds appear to the user.
UNIT_KINDS = {"illegal": "undefined"}


class Events:
    """Pending asynchronous operations. A channel keeps its operations in issue order (one tensor pipe per CTA pair).

    Late timing delays everything until no warp can run, then finishes the most recently issued operation whose channel
    allows it, stores after all else: whoever forgot to wait for an earlier one is found out.
    """

    def __init__(self, timing: str, seed: int) -> None:
        self.timing = timing
        self.random = random.Random(seed)
        self.heap: list[tuple[int, int, Callable[[], None]]] = []
        self.channels: dict[object, int] = {}
        self.queues: dict[object, deque] = {}
        self.issued = 0

    def schedule(
        self, now: int, latency: int, action: Callable[[], None], channel: object = None, busy: int = 1, storing: bool = False
    ) -> None:
        """`action` runs about `latency` later and, in a channel, at least `busy` after the one before it."""
        self.issued += 1
        if self.timing == "late":
            self._postpone(action, channel, _FAR if storing else 0)
            return
        if self.timing == "random":
            latency = self.random.randrange(1, 8 * latency + 64)
        due = now + latency
        if channel is not None:
            due = self.channels[channel] = max(due, self.channels.get(channel, 0) + busy)
        heapq.heappush(self.heap, (due, self.issued, action))

    def _postpone(self, action: Callable[[], None], channel: object, further: int) -> None:
        entry = (_FAR + further - self.issued, self.issued, action)
        if channel is None:
            heapq.heappush(self.heap, entry)
            return
        queue = self.queues.setdefault(channel, deque())
        queue.append((*entry[:2], lambda: self._finish_head(queue, action)))
        if len(queue) == 1:
            heapq.heappush(self.heap, queue[0])

    def _finish_head(self, queue: deque, action: Callable[[], None]) -> None:
        queue.popleft()
        if queue:
            heapq.heappush(self.heap, queue[0])
        action()

    def schedule_soon(self, now: int, latency: int, action: Callable[[], None]) -> None:
        """A timer, due when it says in every timing mode."""
        self.issued += 1
        heapq.heappush(self.heap, (now + latency, self.issued, action))

    def next_due(self) -> int | None:
        return self.heap[0][0] if self.heap else None

    def fire(self, now: int) -> None:
        while self.heap and self.heap[0][0] <= now:
            self.fire_one()

    def fire_one(self) -> None:
        heapq.heappop(self.heap)[2]()


class Scheduler:
    """Runs one cluster to its end. Raises SimulationError."""

    def __init__(self, machine, program: Program, cluster: Cluster) -> None:
        self.machine, self.program, self.cluster = machine, program, cluster
        self.events = machine.events
        self.random = machine.events.random
        self.code = program.code
        self.meeting = program.meeting
        self.patience: dict[int, int] = {}
        self.spin_progress, self.spin_rounds = -1, 0
        self.spin_polls: dict[Warp, int] = {}
        self.dozing: dict[Warp, int] = {}

    def run(self) -> None:
        cluster, events = self.cluster, self.events
        warps = cluster.warps
        stuck_rounds, seen_progress, clock_reads = 0, -1, 0
        while True:
            warps = [warp for warp in warps if warp.alive]
            if not warps:
                break
            events.fire(cluster.now)
            order = warps if events.timing != "random" else self.random.sample(warps, len(warps))
            if self._run_round(order):
                self._limit_spinning(warps)
                continue
            if events.heap:
                if not self._time_out(warps, before=events.next_due()):
                    self._skip_to_next_event()
                continue
            if self.machine.clock_reads != clock_reads and self._time_out(warps, before=_FAR // 2):
                clock_reads = self.machine.clock_reads
                continue  # who looks at the clock may do something else later
            stuck_rounds = stuck_rounds + 1 if self.machine.progress == seen_progress else 0
            seen_progress = self.machine.progress
            if stuck_rounds < FALSE_RETURN_ROUNDS and self._return_false(warps):
                continue
            released = [warp.force_joins() for warp in warps]
            if any(released):
                continue
            raise deadlock_error(self.program, cluster)
        self._drain()

    def _run_round(self, warps: list[Warp]) -> bool:
        ran, longest = False, 0
        dozing = self._doze(warps) if self.events.timing == "random" else frozenset()
        for warp in warps:
            fragment = warp.runnable() if warp not in dozing else None
            if fragment is None:
                continue
            ran = True
            quantum = QUANTUM if self.events.timing != "random" else self.random.randrange(1, 2 * QUANTUM)
            longest = max(longest, self.run_fragment(warp, fragment, quantum))
            if warp.joins:
                self._limit_patience(warp)
        if ran:
            self.cluster.now += max(1, longest)
            self.machine.check_limit()
        return ran

    def _limit_spinning(self, warps: list[Warp]) -> None:
        """Warps that poll memory while nothing in the cluster changes wait for a block that has not started: blocks run one cluster
        after another. Raises SimulationError."""
        if self.machine.progress != self.spin_progress or self.events.heap:
            self.spin_progress, self.spin_rounds = self.machine.progress, 0
            return
        self.spin_rounds += 1
        if self.spin_rounds == 1:
            self.spin_polls = {warp: warp.polls for warp in warps}
        if self.spin_rounds % SPIN_ROUNDS:
            return
        running = [warp for warp in warps if any(fragment.wait is None for fragment in warp.fragments)]
        if running and all(warp.polls > self.spin_polls.get(warp, warp.polls) for warp in running):
            raise spinning_error(self.program, self.cluster, running)
        self.spin_rounds = 0

    def _doze(self, warps: list[Warp]) -> set[Warp]:
        """The warps that sit this round out: now and then one falls far behind, as when the hardware prefers others.

        Somebody must run, so the last to doze off is woken when nobody else can.
        """
        if self.random.random() < DOZE:
            self.dozing[self.random.choice(warps)] = self.random.randrange(1, LONGEST_DOZE)
        for warp in list(self.dozing):
            self.dozing[warp] -= 1
            if not self.dozing[warp]:
                del self.dozing[warp]
        if self.events.heap or any(not warp.blocked for warp in warps if warp not in self.dozing):
            return set(self.dozing)
        self.dozing.clear()
        return set()

    def _limit_patience(self, warp: Warp) -> None:
        """Lanes that wait at a join while the rest of the warp polls without effect may hold what the others spin for
        (a lock), so they go on. A place where that happened once is less patient afterwards."""
        for join in list(warp.joins):
            if not join.arrived.any():
                continue
            if join.progress != self.machine.progress:
                join.since, join.progress = warp.polls, self.machine.progress
            elif warp.polls - join.since > self.patience.get(join.pc, PATIENCE):
                self.patience[join.pc] = PATIENCE_AFTERWARDS
                warp.try_release(join, force=True)

    def _skip_to_next_event(self) -> None:
        due = self.events.next_due()
        if due < _FAR // 2:
            self.cluster.now = max(self.cluster.now, due)
        else:
            self.cluster.now += 1
            self.events.fire_one()

    def _time_out(self, warps: list[Warp], before: int) -> bool:
        """Time passes up to the first limit of a wait, which returns false. Not if that is later than an event with a time of its
        own; late operations have none (they come before any limit)."""
        waiting = [
            (fragment.wait.until, fragment)
            for warp in warps
            for fragment in warp.fragments
            if fragment.wait is not None and fragment.wait.until is not None
        ]
        first = min((until for until, _ in waiting), default=_FAR)
        if before > _FAR // 2 or first >= before:
            return False
        self.cluster.now = max(self.cluster.now, first)
        for until, fragment in waiting:
            if until <= self.cluster.now:
                fragment.wait, fragment.give_up = None, True
        return True

    def _return_false(self, warps: list[Warp]) -> bool:
        """Hardware's try_wait gives up after some microseconds: let the parked ones return false."""
        found = False
        for warp in warps:
            for fragment in warp.fragments:
                if fragment.wait is not None and fragment.wait.may_fail:
                    fragment.wait, fragment.give_up, found = None, True, True
        return found

    def _drain(self) -> None:
        """Everything has exited: late operations still finish (bulk stores without a wait are legal)."""
        while self.events.heap:
            self.cluster.now = max(self.cluster.now, min(self.events.next_due(), self.cluster.now + 1))
            self.events.fire_one()

    # ---- instructions

    def run_fragment(self, warp: Warp, fragment: Fragment, quantum: int) -> int:
        """Executes up to `quantum` instructions; returns how many."""
        code, registers, executed = self.code, warp.registers, 0
        warp.fragment = fragment
        try:
            while executed < quantum:
                pc = fragment.pc
                if pc == fragment.join_pc:
                    warp.arrive_at_join(fragment)
                    break
                step = code[pc]
                executed += 1
                if step.guard < 0:
                    warp.active = fragment.active
                    warp.mask = None if fragment.full else fragment.active
                else:
                    chosen = ~registers[step.guard] if step.negated else registers[step.guard]
                    if not fragment.full:
                        chosen = chosen & fragment.active
                    lanes = np.count_nonzero(chosen)
                    if not lanes:
                        fragment.pc = pc + 1
                        continue
                    warp.active = chosen
                    warp.mask = None if lanes == 32 else chosen
                outcome = step.execute(warp)
                if outcome is None:
                    fragment.pc = pc + 1
                elif type(outcome) is int:
                    fragment.pc = outcome
                elif self._control(warp, fragment, pc, outcome):
                    break
        except SimulationError as error:
            raise self._located(error, warp, fragment.pc) from error.__cause__
        except UnitError as error:
            kind = UNIT_KINDS.get(error.kind, error.kind)
            raise self._located(SimulationError(kind, error.message), warp, fragment.pc) from error
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            item = self.code[fragment.pc].item
            message = f"the simulator failed on `{item.opcode if item else 'end'}`: {type(error).__name__}: {error}"
            raise self._located(SimulationError("internal", message), warp, fragment.pc) from error
        self.machine.warp_instructions += executed
        self.machine.thread_instructions += executed * fragment.count
        return executed

    def _control(self, warp: Warp, fragment: Fragment, pc: int, outcome) -> bool:
        """Applies a control outcome; true if the fragment cannot go on in this turn."""
        if isinstance(outcome, Wait):
            if not outcome.retry:
                fragment.pc = pc + 1
            return True
        if isinstance(outcome, Diverge):
            rest = fragment.active & ~outcome.taken
            warp.split(fragment, [(outcome.target, outcome.taken), (pc + 1, rest)], self.meeting[pc])
        elif isinstance(outcome, Scatter):
            targets = outcome.targets
            parts = [(int(target), fragment.active & (targets == target)) for target in np.unique(targets[fragment.active])]
            warp.split(fragment, parts, self.meeting[pc])
        elif outcome is EXIT:
            warp.exit(fragment, warp.active)
            self.machine.progress += 1
            self.machine.after_exit(warp)
        return True

    def _located(self, error: SimulationError, warp: Warp, pc: int) -> SimulationError:
        item = self.code[pc].item if pc < len(self.code) else None
        who = blame(self.program, warp, error.details)
        return error.located(item.line if item else 0, self.program.source(item), **who)
