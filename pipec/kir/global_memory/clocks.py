"""Happens-before among the roles of a block for accesses to global memory, in one execution of all roles (vector clocks)."""

from collections.abc import Callable, Iterator
from typing import Literal

from pipec.kir.global_memory.accesses import Access, RoleAccesses
from pipec.kir.global_memory.courses import Course
from pipec.kir.global_memory.runs import Event, HandOver, Passed, RecordedAccess, Run, Taken, Turn
from pipec.kir.ir import Kernel
from pipec.record import record
from pipec.sema import tree
from pipec.vocabulary import OTHER_SIDE, Side

_Use = tuple[tree.Pipeline, Side, int]
# What a role's signals of a side tell of its accesses: those before the signal, those before the stage was obtained, or nothing.
Telling = Literal["signalled", "obtained", "nothing"]
Tells = Callable[[str, tree.Pipeline, Side], Telling]  # by the name of the role


@record(eq=False)
class Stamped:
    """`clock`: per role, the last step that is known to have completed."""

    touch: RecordedAccess
    clock: tuple[int, ...]


class Clocks:
    """Every signal transfers the clock of its role, or what `tells` says of it: two uses without an order are concurrent.

    `ended`: every role has reached its end, in some interleaving of their steps. `taken`: the turns that a role waited for, and at which
    step; `passed`: the turns that were passed on, with the clock at that time. `obtained`: which role waited for a full stage, and at
    which step.
    """

    def __init__(
        self, events: list[list[Event]], tells: Callable[[int, tree.Pipeline, Side], Telling] = lambda *_: "signalled"
    ) -> None:
        """`tells`: by the number of the role."""
        self._tells = tells
        self._at_obtained: dict[tuple[int, _Use], tuple[int, ...]] = {}
        self.touches: list[tuple[int, Stamped]] = []
        self.taken: list[tuple[int, Turn, int]] = []
        self.passed: list[tuple[Turn, tuple[int, ...]]] = []
        self.obtained: dict[tuple[tree.Pipeline, int], list[tuple[int, int]]] = {}
        self._events = events
        self._next = [0] * len(events)
        self._known = [[0] * len(events) for _ in events]
        self._missing: dict[_Use, int] = {}
        self._told: dict[_Use, list[int]] = {}
        for role in events:
            for one in role:
                if isinstance(one, HandOver) and not one.waits:
                    use = one.pipeline, one.side, one.use
                    self._missing[use] = self._missing.get(use, 0) + 1
        while any(self._goes_on(number) for number in range(len(events))):
            pass
        self.ended = all(place == len(role) for place, role in zip(self._next, events, strict=True))

    def complete(self, number: int, touch: RecordedAccess, clock: tuple[int, ...]) -> bool:
        """Whether an access of a role is known to be complete at this clock: of a copy into shared memory, whether somebody has waited for
        the stage, which its role's clock does not tell."""
        if touch.access.handle is None or touch.use is None:
            return clock[number] >= touch.step
        waits = self.obtained.get((touch.access.handle.pipeline, touch.use), ())
        return any(clock[role] >= step for role, step in waits)

    def _goes_on(self, number: int) -> bool:
        """Advances a role until it blocks; returns whether it made progress."""
        start, known = self._next[number], self._known[number]
        for event in self._events[number][start:]:
            known[number] = event.step
            if isinstance(event, RecordedAccess):
                self.touches.append((number, Stamped(event, tuple(known))))
            elif isinstance(event, Taken):
                self.taken.append((number, event.turn, event.step))
            elif isinstance(event, Passed):
                self.passed.append((event.turn, tuple(known)))
            elif not self._hand_over(number, event, known):
                break
            elif event.waits and event.side == "consumer":
                self.obtained.setdefault((event.pipeline, event.use), []).append((number, event.step))
            self._next[number] += 1
        return self._next[number] > start

    def _hand_over(self, number: int, event: HandOver, known: list[int]) -> bool:
        use = event.pipeline, event.side, event.use
        if not event.waits:
            self._missing[use] -= 1
            match self._tells(number, event.pipeline, event.side):
                case "signalled":
                    self._told[use] = list(map(max, known, self._told.get(use, known)))
                case "obtained" if (before := self._at_obtained.get((number, use))) is not None:
                    self._told[use] = list(map(max, before, self._told.get(use, before)))
                case _:
                    pass
            return True
        mine = number, use
        # The producer's first uses of the stages do not wait.
        awaited = event.use - (event.pipeline.stages if event.side == "producer" else 0)
        use = event.pipeline, OTHER_SIDE[event.side], awaited
        if awaited >= 0 and self._missing.get(use, 1):
            return False
        known[:] = map(max, known, self._told.get(use, known))
        self._at_obtained.setdefault(mine, tuple(known))
        return True


class _Marks(Run):
    """Records only that a tensor is used, not where."""

    def _touches(self, accesses: tuple[Access, ...]) -> Iterator[RecordedAccess]:
        for access in accesses:
            yield RecordedAccess(access, (), self._step, self._held)


def _signalled_once(events: Iterator[Event]) -> Iterator[Event]:
    """Drops the signal of a release if the stage has been signalled before."""
    told: set[_Use] = set()
    for one in events:
        if isinstance(one, HandOver) and not one.waits:
            if (one.pipeline, one.side, one.use) in told:
                continue
            told.add((one.pipeline, one.side, one.use))
        yield one


def only_order(
    kernel: Kernel, rows: tuple[RoleAccesses, ...], speak: Callable[[tree.Pipeline, Side], bool]
) -> Callable[[Access, Access], bool]:
    """Whether two uses have the same order in every launch, if no role depends on sizes: there is only one execution then."""
    touching = {row.role.name: row for row in rows}
    runs = [_Marks(Course(touching.get(role.name, RoleAccesses(role, ()))), {}) for role in kernel.roles]
    clocks = Clocks(
        [list(_signalled_once(run.events())) for run in runs],
        lambda _, pipeline, side: "signalled" if speak(pipeline, side) else "nothing",
    )
    whole = kernel.cluster.size == 1 and clocks.ended and all(run.ended for run in runs)

    def ordered(one: Access, other: Access) -> bool:
        # A copy into shared memory completes later than its step.
        if not whole or one.handle is not None or other.handle is not None:
            return False
        first, second = ([use for use in clocks.touches if use[1].touch.access is access] for access in (one, other))
        return all(
            there.clock[role] >= here.touch.step or here.clock[partner] >= there.touch.step
            for role, here in first
            for partner, there in second
        )

    return ordered
