"""All interleavings of a few processes that signal each other over barriers: does one of them get stuck, or go wrong?

This is the whole meaning of a hand-over, in one file, and shares no code with the proof, its checker or the simulator. For given
sizes a role is a list of events, since what it does next never depends on the others. A barrier is what hardware makes of it: it
completes phase after phase, each when `count` arrivals have come and as many bytes as were announced. A thread that waits sees
the parity of the phase alone.

`explore` goes from the start to every state that some order of events leads to, and looks for

- a deadlock: nobody can go on, and somebody has not ended;
- a confusion: a process comes to wait when the barrier is a phase too early or too late, which parity cannot tell, or an arrival
  meets another phase than its own;
- a race: two processes may touch a slot at the same time, and one of them writes;
- a rest: all have ended, and a barrier has some of the arrivals of a phase, or two rings that belong together have not come
  equally far.

A process here is whatever runs by itself: a role, one of its warps, a copy under way. As arrivals commute, a state is known by
how far each process has come.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field

Name = Hashable


@dataclass(frozen=True, slots=True)
class Event:
    """`wait`: blocks until phase `phase` of the barrier is complete (-1: before the first). Otherwise an arrival for that phase:
    `count` arrivals, `bytes` announced (or delivered, below 0). `touches`: slots that are touched between the event before and
    this one, and whether they are written."""

    barrier: Name
    phase: int
    wait: bool = False
    count: int = 0
    bytes: int = 0
    touches: frozenset[tuple[Name, bool]] = frozenset()


@dataclass(slots=True)
class Process:
    """`after`: the process begins when another one, by its number, has so many events behind it."""

    name: str
    events: list[Event] = field(default_factory=list)
    after: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """`kind`: "right", "deadlock", "confusion", "race", "rest", or "open" where there were more states than allowed."""

    kind: str
    text: str = ""
    states: int = 0


class _Fault(Exception):
    pass


_State = tuple[
    tuple[int, ...], tuple[tuple[int, int, int], ...]
]  # how far each process is; of each barrier: phase, arrivals, bytes


class _Explorer:
    def __init__(
        self, processes: Sequence[Process], counts: Mapping[Name, int], pairs: Sequence[tuple[Sequence[Name], Sequence[Name]]]
    ) -> None:
        self.processes, self.pairs = processes, pairs
        names = list(counts)
        self.number = {name: number for number, name in enumerate(names)}
        self.counts = [counts[name] for name in names]
        self.names = names
        self.begun_by: dict[int, list[int]] = {}
        for number, process in enumerate(processes):
            if process.after is not None:
                self.begun_by.setdefault(process.after[0], []).append(number)

    def begun(self, number: int, places: Sequence[int]) -> bool:
        after = self.processes[number].after
        return after is None or places[after[0]] >= after[1]

    def step(self, number: int, state: _State) -> _State | None:
        """The state after the next event of a process; None where it has to wait, or has ended. Raises _Fault."""
        places, barriers = state
        process, place = self.processes[number], places[number]
        if place == len(process.events) or not self.begun(number, places):
            return None
        event = process.events[place]
        at = self.number[event.barrier]
        phase, arrivals, bytes_ = barriers[at]
        moved = (*places[:number], place + 1, *places[number + 1 :])
        if event.wait:
            if not 0 <= phase - event.phase <= 1:
                raise _Fault("confusion", f"{process.name} waits for phase {event.phase} of {event.barrier}, now in {phase}")
            return (moved, barriers) if phase == event.phase + 1 else None
        if phase != event.phase:
            raise _Fault("confusion", f"{process.name} arrives for phase {event.phase} of {event.barrier}, now in {phase}")
        arrivals, bytes_ = arrivals + event.count, bytes_ + event.bytes
        if arrivals > self.counts[at]:
            raise _Fault("confusion", f"{process.name} is one arrival too many on {event.barrier}")
        if arrivals == self.counts[at] and bytes_ == 0:
            phase, arrivals = phase + 1, 0
        return moved, (*barriers[:at], (phase, arrivals, bytes_), *barriers[at + 1 :])

    def touching(self, number: int, places: Sequence[int]) -> frozenset[tuple[Name, bool]]:
        process, place = self.processes[number], places[number]
        return process.events[place].touches if place < len(process.events) and self.begun(number, places) else frozenset()

    def check_races(self, number: int, places: Sequence[int]) -> None:
        """A process has come to a new place, and with it those that begin there."""
        for one in (number, *self.begun_by.get(number, ())):
            for slot, writes in self.touching(one, places):
                for other in range(len(places)):
                    for its_slot, its_writes in self.touching(other, places) if other != one else ():
                        if its_slot == slot and (writes or its_writes):
                            mine, its = self.processes[one].name, self.processes[other].name
                            raise _Fault("race", f"{mine} and {its} touch {slot} at the same time")

    def check_end(self, state: _State) -> None:
        places, barriers = state
        stuck = [n for n, process in enumerate(self.processes) if places[n] < len(process.events)]
        if stuck:
            waits = [(self.processes[n].name, self.processes[n].events[places[n]]) for n in stuck if self.begun(n, places)]
            raise _Fault("deadlock", "; ".join(f"{name} waits for phase {e.phase} of {e.barrier}" for name, e in waits))
        for name, (_, arrivals, bytes_) in zip(self.names, barriers, strict=True):
            if arrivals or bytes_:
                raise _Fault("rest", f"{name} is left with some of its arrivals")
        for full, empty in self.pairs:
            filled, emptied = (sum(barriers[self.number[one]][0] for one in side) for side in (full, empty))
            if filled != emptied:
                raise _Fault("rest", f"{full[0]} was filled {filled} times and given back {emptied} times")

    def run(self, most: int) -> Finding:
        start: _State = ((0,) * len(self.processes), ((0, 0, 0),) * len(self.counts))
        seen, work = {start[0]}, [start]
        try:
            while work:
                state = work.pop()
                alive = False
                for number in range(len(self.processes)):
                    after = self.step(number, state)
                    if after is None:
                        continue
                    alive = True
                    if after[0] in seen:
                        continue
                    self.check_races(number, after[0])
                    seen.add(after[0])
                    work.append(after)
                if not alive:
                    self.check_end(state)
                if len(seen) > most:
                    return Finding("open", f"more than {most} states", len(seen))
        except _Fault as fault:
            return Finding(*fault.args, len(seen))
        return Finding("right", "", len(seen))


def explore(
    processes: Sequence[Process],
    counts: Mapping[Name, int],
    pairs: Sequence[tuple[Sequence[Name], Sequence[Name]]] = (),
    most: int = 20_000,
) -> Finding:
    """`counts`: arrivals that complete a phase, by barrier. `pairs`: rows of barriers that must have completed as many phases as
    other rows when all have ended."""
    return _Explorer(processes, counts, pairs).run(most)
