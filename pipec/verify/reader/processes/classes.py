"""The threads of a CTA in classes that behave alike: each is walked, and divided where its threads turn out to differ."""

from collections import Counter
from contextlib import suppress

from pipec.record import mutable
from pipec.verify.network import Unreadable
from pipec.verify.reader.flow.slice import Flow
from pipec.verify.reader.processes.ring_liveness import Used
from pipec.verify.reader.processes.walk import TooManyStates, Walk
from pipec.verify.reader.values.machine import Machine
from pipec.verify.reader.values.surroundings import Later, Surroundings, ThreadsDiffer
from pipec.verify.reader.values.tables import Hints
from pipec.verify.reader.values.values import Table

Threads = tuple[int, ...]


@mutable
class ThreadClass:
    """Threads with the same behaviour, and their automaton."""

    threads: Threads
    machine: Machine
    walk: Walk


@mutable
class Cta:
    """The classes of one CTA of the cluster, and the arrival counts of its mbarrier rings."""

    rank: int
    classes: list[ThreadClass]
    counts: tuple[int, ...]


class Classes:
    """The walks through a text. What one of them has found out about the same threads of another CTA is used again."""

    def __init__(self, flow: Flow, around: Surroundings) -> None:
        self.flow, self.around = flow, around
        # The generalisations that the same threads of another CTA of the cluster required.
        self.hints: dict[tuple[str, Threads, frozenset[int] | None], Hints] = {}
        # By CTA and threads: the rings that they signal at barriers of one CTA after the other.
        self.parted: dict[tuple[int, Threads], frozenset[int]] = {}
        self.crowded: set[Threads] = set()  # threads whose walk had many states
        self.used: dict[Threads, Used | None] = {}  # the rings that their instructions use, if that helps

    def of(self, rank: int) -> list[ThreadClass]:
        """Those of a CTA, by their first threads."""
        classes: list[ThreadClass] = []
        work, waiting = self._by_roles(), self.around.threads + 1
        later: list[Threads] = []
        while work:
            # In the order of their first threads, so that the number of a class is that of its process.
            work.sort(reverse=True)
            group = work.pop()
            try:
                classes.append(self._walked(group, rank, f"{len(classes)}"))
            except ThreadsDiffer as split:
                work += split.groups
            except Later:
                later.append(group)
            if not work and later and len(later) < waiting:
                work, later, waiting = later, [], len(later)
        if later:
            raise Unreadable(self.around.kernel.line, "where the answers of the scheduler are read from is not understood")
        return sorted(classes, key=lambda one: one.threads)

    def _by_roles(self) -> list[Threads]:
        """Roles usually behave differently: they are walked separately from the start. Classes need not be maximal."""
        named: dict[str | None, list[int]] = {}
        role_of = {
            warp: name
            for name, first, count in self.around.interface.roles
            for warp in range(max(first, 0), min(first + count, 32))
        }
        for thread in range(self.around.threads):
            named.setdefault(role_of.get(thread // 32), []).append(thread)
        return [tuple(threads) for threads in named.values()]

    def _walked(self, threads: Threads, rank: int, name: str) -> ThreadClass:
        self._same_kind_of_warps(threads)
        waited: frozenset[int] | None = None
        before: Hints = {}
        while True:
            hints = self.hints.get((name, threads, waited), before)
            machine, walk, failure = self._attempt(threads, rank, name, waited, hints)
            if failure is not None and hints:
                machine, walk, failure = self._attempt(threads, rank, name, waited, {})
            if parted := {ring for ring, ranks in machine.signals.items() if len(ranks) > 1} - machine.parted:
                self.parted[rank, threads] = machine.parted | parted
                continue
            self.hints.setdefault((name, threads, waited), walk.hints())
            # If the class signals a ring without waiting for its other side, its arrivals are counted separately.
            found = frozenset(machine.waits) | (waited or frozenset())
            if failure is None and (machine.relied <= machine.waits or found == waited):
                return ThreadClass(threads, machine, walk)
            if found == waited or failure is not None and machine.relied <= machine.waits:
                raise failure or Unreadable(self.around.kernel.line, "what the threads wait for is not understood")
            waited = frozenset(found)
            before = _with_waited(walk.hints(), waited)

    def _attempt(
        self, threads: Threads, rank: int, name: str, waited: frozenset[int] | None, hints: Hints
    ) -> tuple[Machine, Walk, Unreadable | None]:
        machine = self._machine(threads, rank, name, waited)
        used = self.used.get(threads)
        walk = Walk(self.flow, machine, name, hints, remembering=threads in self.crowded, used=used)
        try:
            walk.run()
        except TooManyStates:
            self.crowded.add(threads)
            self.used[threads] = self._used(threads, rank, name, waited)
            return self._attempt(threads, rank, name, waited, {})
        except Unreadable as failure:
            if used:
                self.used[threads] = None
                return self._attempt(threads, rank, name, waited, {})
            return machine, walk, failure
        return machine, walk, None

    def _machine(self, threads: Threads, rank: int, name: str, waited: frozenset[int] | None) -> Machine:
        machine = Machine(self.around, threads, rank, name)
        machine.waited, machine.parted = waited, self.parted.get((rank, threads), frozenset())
        return machine

    def _used(self, threads: Threads, rank: int, name: str, waited: frozenset[int] | None) -> Used:
        """The rings that the instructions of a class use, as far as one visit of each determines."""
        machine = self._machine(threads, rank, name, waited)
        scout = Walk(self.flow, machine, name, scouting=True)
        with suppress(Unreadable, ThreadsDiffer, Later):
            scout.run()
        return scout.used

    def _same_kind_of_warps(self, threads: Threads) -> None:
        """Separates warps of which the class has all lanes from those of which it has some."""
        count = Counter([thread // 32 for thread in threads])
        whole = {warp for warp, lanes in count.items() if lanes == min(32, self.around.threads - 32 * warp)}
        if 0 < len(whole) < len(count):
            raise ThreadsDiffer([tuple(one for one in threads if (one // 32 in whole) == together) for together in (True, False)])


def _with_waited(hints: Hints, waited: frozenset[int]) -> Hints:
    """Without the registers that cycle with a ring whose arrivals are counted separately: they have another period now. Loops that count,
    or turn with a ring that is waited for, do so as before."""
    return {
        block: {name: one for name, one in found.items() if not isinstance(one, Table) or one.cursor in waited}
        for block, found in hints.items()
    }
