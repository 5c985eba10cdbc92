"""Runs the warps of a cluster against the asynchronous hardware, in simulated time.

One unit of time is one instruction slot of every warp.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

import numpy as np

from ...compiled import blocks as native
from ...compiled import forms
from ...compiled.runner import runner
from ...errors import SimulationError
from ...units.errors import UnitError
from ..machine import Machine
from ..program import Program
from ..threads.cta import Cluster, Warp
from ..threads.divergence import EXIT, Diverge, Fragment, Outcome, Scatter, Wait
from ..threads.ending import check_end
from .deadlock import deadlock_error, spinning_error
from .events import FAR

_NOTHING_HELD: frozenset[int] = frozenset()
_EXECUTED, _PROGRESS = native.EXECUTED // 8, native.PROGRESS // 8
# Instructions of a warp before the next one runs. Its turn ends earlier where it has signalled to others or polls in vain, so that a warp
# that others wait for wrongly, or not at all, does not run far ahead.
QUANTUM = 256
# A try_wait may return false at any time, and a kernel may do something useful then. After this many rounds without any effect the warps
# count as permanently blocked.
FALSE_RETURN_ROUNDS = 3
# Random timing: how often a warp falls behind, and for at most how many rounds.
DOZE, LONGEST_DOZE = 0.03, 200
# Polls (failed compare-and-swaps, volatile loads) without any effect in the whole cluster.
PATIENCE, PATIENCE_AFTERWARDS = 64, 4
# Rounds without any effect until more clusters are started for polling warps, and until all of them together are reported as waiting
# forever.
START_ROUNDS, SPIN_ROUNDS = 64, 4096


class Scheduler:
    """Runs all clusters of a grid. Raises SimulationError.

    Clusters run one after another, which is cheapest and a legal schedule on a slow enough device. Only where warps poll memory that
    does not change, up to `most` clusters run together, the number resident on the device; `start` creates the next one.
    """

    def __init__(self, program: Program, machine: Machine, start: Callable[[], Cluster], most: int, together: bool) -> None:
        self.machine, self.events = machine, machine.events
        self.start, self.most, self.together = start, most, together
        self.program, self.code = program, program.code
        self.run_rows = runner()
        self.meeting = program.meeting
        self.clusters: list[Cluster] = []

    def run(self) -> None:
        total = self.machine.pending_clusters.left
        while self.machine.pending_clusters:
            self._run_group()
            if self.machine.options.progress is not None:
                self.machine.options.progress(total - self.machine.pending_clusters.left, total)

    def _run_group(self) -> None:
        """One cluster, and those that turn out to be needed beside it."""
        machine, events = self.machine, self.events
        self.patience: dict[int, int] = {}
        self.spin_progress, self.spin_rounds = -1, 0
        self.spin_polls: dict[Warp, tuple[int, int]] = {}
        self.dozing: dict[Warp, int] = {}
        self.clusters = [self.start()]
        self.warps = self.clusters[0].warps
        self._fill()
        stuck_rounds, seen_progress, clock_reads = 0, -1, 0
        while True:
            warps = self._alive()
            if not warps:
                break
            events.fire(machine.now)
            order = warps if events.timing != "random" else self.events.random.sample(warps, len(warps))
            if machine.schedule.late >= 0:
                order = [warp for warp in order if not warp.cta.delayed]
            if self._run_round(order):
                self._limit_spinning(warps)
                continue
            due = events.next_due()
            if (due is None or due >= FAR // 2) and self._start_delayed():
                continue
            # No warp can run, so time jumps to the next completion; a try_wait whose time limit expires before that returns false first.
            if due is not None:
                if not self._time_out(warps, before=due):
                    self._skip_to_next_event(due)
                continue
            if machine.clock_reads != clock_reads and self._time_out(warps, before=FAR // 2):
                clock_reads = machine.clock_reads
                continue  # a warp that reads the clock may take another path later
            stuck_rounds = stuck_rounds + 1 if machine.progress == seen_progress else 0
            seen_progress = machine.progress
            if stuck_rounds < FALSE_RETURN_ROUNDS and self._return_false(warps):
                continue
            # Lanes that wait at a reconvergence point for blocked lanes: hardware with independent thread scheduling lets them continue.
            released = [warp.force_joins() for warp in warps]
            if any(released):
                continue
            # Nothing is runnable, nothing is in flight, no wait can time out and no lane waits for others of its warp: a deadlock in every
            # schedule that reaches this state.
            raise deadlock_error(self.clusters, machine.now)
        # Operations in flight after the last exit have to finish before the checks at the cluster's end: bytes that arrive late are an
        # error of the kernel.
        self._drain()
        for cluster in self.clusters:
            check_end(cluster)

    def _start_delayed(self) -> bool:
        """Starts the CTAs that the schedule has delayed; returns whether there were any."""
        delayed = [cta for cluster in self.clusters for cta in cluster.ctas if cta.delayed]
        for cta in delayed:
            cta.delayed = False
        return bool(delayed)

    # ---- clusters beside each other

    def _alive(self) -> list[Warp]:
        """The live warps; where others have exited, a cluster may make room for another."""
        alive = [warp for warp in self.warps if warp.fragments or warp.joins]
        ended = len(alive) != len(self.warps)
        self.warps = alive
        if ended and self.together:
            self._retire()
            self._fill()
        return self.warps

    def _retire(self) -> None:
        for cluster in list(self.clusters):
            if not cluster.outstanding and all(cta.exited for cta in cluster.ctas):
                check_end(cluster)
                self.clusters.remove(cluster)

    def _fill(self) -> None:
        """Fills the device with clusters, where they run together."""
        while self.together and self.machine.pending_clusters and len(self.clusters) < self.most:
            self.clusters.append(self.start())
            self.warps = self.warps + self.clusters[-1].warps

    def _start_others(self) -> bool:
        """From now on clusters run together; returns whether that starts one."""
        before, self.together = len(self.clusters), True
        self._retire()
        self._fill()
        return len(self.clusters) > before

    # ---- rounds

    def _run_round(self, warps: list[Warp]) -> bool:
        ran, longest = False, 0
        dozing: Collection[Warp] = self._doze(warps) if self.events.timing == "random" else ()
        for warp in warps:
            fragment = warp.runnable() if warp not in dozing else None
            if fragment is None:
                continue
            ran = True
            quantum = QUANTUM if self.events.timing != "random" else self.events.random.randrange(1, 2 * QUANTUM)
            longest = max(longest, self.run_fragment(warp, fragment, quantum))
            if warp.joins:
                self._limit_patience(warp)
        if ran:
            self.machine.now += max(1, longest)
            self.machine.check_limit()
        return ran

    def _limit_spinning(self, warps: list[Warp]) -> None:
        """Warps that poll memory while nothing changes wait for a cluster that has not started. Raises SimulationError where none can
        start. Arrivals at barriers of a CTA do not count as changes: often one warp polls, and the others wait for its result."""
        changes = self.machine.progress - self.machine.meetings
        if changes != self.spin_progress or self.events.pending:
            self.spin_progress, self.spin_rounds = changes, 0
            return
        self.spin_rounds += 1
        if self.spin_rounds % START_ROUNDS == 0 and self._start_delayed():
            self.spin_rounds = 0
            return
        if self.spin_rounds == 1:
            self.spin_polls = {warp: (warp.polls, warp.meetings) for warp in warps}
        if self.spin_rounds % START_ROUNDS:
            return
        running = [warp for warp in warps if any(_runs_or_sleeps(fragment) for fragment in warp.fragments)]
        polling = {warp.cta for warp in warps if warp in self.spin_polls and warp.polls > self.spin_polls[warp][0]}
        spinning = [warp for warp in running if warp.cta in polling and self.spin_polls.get(warp) != (warp.polls, warp.meetings)]
        if running and len(spinning) == len(running):
            if self._start_others():
                self.spin_rounds = 0
            elif self.spin_rounds * len(running) >= SPIN_ROUNDS:
                raise spinning_error(running, len(self.clusters))
        elif self.spin_rounds >= SPIN_ROUNDS:
            # They may compute, or poll by loads that are not recognised as polls.
            self._start_others()
            self.spin_rounds = 0

    def _doze(self, warps: list[Warp]) -> set[Warp]:
        """The warps that skip this round: now and then one falls far behind, as when the hardware prefers others.

        If no other warp can run, the last to doze off is woken.
        """
        if self.events.random.random() < DOZE:
            self.dozing[self.events.random.choice(warps)] = self.events.random.randrange(1, LONGEST_DOZE)
        for warp in list(self.dozing):
            self.dozing[warp] -= 1
            if not self.dozing[warp]:
                del self.dozing[warp]
        if self.events.heap or any(not warp.blocked for warp in warps if warp not in self.dozing):
            return set(self.dozing)
        self.dozing.clear()
        return set()

    def _limit_patience(self, warp: Warp) -> None:
        """Lanes that wait at a join while the rest of the warp polls without effect may hold what the others spin for (a lock), so they
        continue. A place where that happened once has less patience afterwards."""
        for join in list(warp.joins):
            if not join.arrived.any():
                continue
            if join.progress != self.machine.progress:
                join.since, join.progress = warp.polls, self.machine.progress
            elif warp.polls - join.since > self.patience.get(join.pc, PATIENCE):
                # (A spin lock inside a warp would otherwise cost the full patience at each turn.)
                self.patience[join.pc] = PATIENCE_AFTERWARDS
                warp.try_release(join, force=True)

    def _skip_to_next_event(self, due: int) -> None:
        if due < FAR // 2:
            self.machine.now = max(self.machine.now, due)
        else:
            self.machine.now += 1
            self.events.fire_one()

    def _time_out(self, warps: list[Warp], before: int) -> bool:
        """Time advances to the first time limit of a wait, which returns false, unless an event with a definite time comes earlier; late
        operations have none (they come before any limit)."""
        waiting = [
            (fragment.wait.until, fragment)
            for warp in warps
            for fragment in warp.fragments
            if fragment.wait is not None and fragment.wait.until is not None
        ]
        first = min((until for until, _ in waiting), default=FAR)
        if before > FAR // 2 or first >= before:
            return False
        self.machine.now = max(self.machine.now, first)
        for until, fragment in waiting:
            if until <= self.machine.now:
                fragment.wait, fragment.give_up = None, True
        return True

    def _return_false(self, warps: list[Warp]) -> bool:
        """Hardware's try_wait gives up after some microseconds: the parked ones return false."""
        found = False
        for warp in warps:
            for fragment in warp.fragments:
                if fragment.wait is not None and fragment.wait.may_fail:
                    fragment.wait, fragment.give_up, found = None, True, True
        return found

    def _drain(self) -> None:
        """Everything has exited: late operations still finish."""
        while (due := self.events.next_due()) is not None:
            self.machine.now = max(self.machine.now, min(due, self.machine.now + 1))
            self.events.fire_one()
        # Channels keep operations of one kind in order; the next cluster starts with new ones.
        self.events.channels.clear()

    # ---- instructions

    def run_fragment(self, warp: Warp, fragment: Fragment, quantum: int) -> int:
        """Executes up to `quantum` instructions; returns how many."""
        code, registers, executed = self.code, warp.registers, 0
        # Local names, since the loop below runs for every instruction that is not compiled.
        thread = warp.thread
        table, held, words, state = self.program.table, _NOTHING_HELD, thread.words, thread.address
        warp.fragment, told, polls = fragment, thread.told, warp.polls
        self.machine.acting, self.machine.thread = warp.here, thread
        try:
            while executed < quantum and thread.told == told and warp.polls == polls:
                pc = fragment.pc
                if pc == fragment.join_pc:
                    warp.arrive_at_join(fragment, self.machine.progress)
                    break
                if warp.held is not held:
                    # Machine code ignores that wgmma is using a register.
                    held = warp.held
                    table = self.program.leaving_alone(held) if held else self.program.table
                if table.known[pc]:
                    budget = quantum - executed
                    fragment.pc = pc = self.run_rows(
                        warp.file.address, fragment.address, table.address, pc, fragment.join_pc, budget, state
                    )
                    executed += words[_EXECUTED]
                    if words[_PROGRESS]:
                        self.machine.progress += words[_PROGRESS]
                        words[_PROGRESS] = 0
                    if executed >= quantum or pc == fragment.join_pc:
                        continue
                step = code[pc]
                executed += 1
                if step.form is not None:
                    self._count(step.form)
                # Most instructions have no predicate, and most warps no inactive lane: testing both here saves copying a mask in the
                # common case.
                if step.guard < 0:
                    warp.active = fragment.active
                    warp.mask = None if fragment.full else fragment.active
                else:
                    chosen = ~registers[step.guard] if step.negated else registers[step.guard].copy()
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
            raise warp.located(error, fragment.pc) from error.__cause__
        # Unit models have no access to warps and lines: the location is added here.
        except UnitError as error:
            raise warp.located(SimulationError.of_unit(error), fragment.pc) from error
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            item = self.code[fragment.pc].item
            # A bug of the simulator is reported at the instruction that triggered it, not as a traceback.
            message = f"the simulator failed on `{item.opcode if item else 'end'}`: {type(error).__name__}: {error}"
            raise warp.located(SimulationError("internal", message), fragment.pc) from error
        self.machine.warp_instructions += executed
        self.machine.thread_instructions += executed * fragment.count
        return executed

    def _count(self, form: forms.Form) -> None:
        """Counts one more execution of a form that is not compiled; compiles it once that pays."""
        form.runs += 1
        if form.runs >= forms.HOT and not form.tried:
            self.program.compile()

    def _control(self, warp: Warp, fragment: Fragment, pc: int, outcome: Outcome) -> bool:
        """Applies a control outcome; true if the fragment cannot continue in this turn."""
        if outcome is EXIT:
            lanes = warp.live_count
            warp.exit(fragment, warp.active)
            if warp.cluster_ahead is not None and not warp.live_count:
                raise warp.cluster_ahead[1]
            self.machine.progress += 1
            if not warp.live_count:
                warp.cta.warpgroups.exit(warp.index)
            warp.cta.cluster.after_exit(warp.cta, lanes - warp.live_count)
        elif isinstance(outcome, Wait):
            if not outcome.retry:
                fragment.pc = pc + 1
        elif isinstance(outcome, Diverge):
            rest = fragment.active & ~outcome.taken
            warp.split(fragment, [(outcome.target, outcome.taken), (pc + 1, rest)], self.meeting[pc])
        elif isinstance(outcome, Scatter):
            targets = outcome.targets
            parts = [(int(target), fragment.active & (targets == target)) for target in np.unique(targets[fragment.active])]
            warp.split(fragment, parts, self.meeting[pc])
        return True


def _runs_or_sleeps(fragment: Fragment) -> bool:
    """Not blocked by others; a fragment that sleeps between two reads of memory still polls."""
    return fragment.wait is None or fragment.wait.kind == "sleep"
