"""What the roles of a block know of each other when they use global memory, in one run of all of them (vector clocks)."""

from pipec.kir.global_memory.runs import Event, HandOver, Touch
from pipec.record import record
from pipec.sema import tree
from pipec.vocabulary import OTHER_SIDE, Side

_Use = tuple[tree.Pipeline, Side, int]


@record(eq=False)
class Stamped:
    """`clock`: by role the last step that is known to be done."""

    touch: Touch
    clock: tuple[int, ...]


class Clocks:
    """Every signal is taken to pass on all that its role knows, so that two uses without an order here have none.

    `ended`: every role has come to its end, in one order of their steps.
    """

    def __init__(self, events: list[list[Event]]) -> None:
        self.touches: list[tuple[int, Stamped]] = []
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

    def _goes_on(self, number: int) -> bool:
        """Whether a role does anything before it waits in vain."""
        start, known = self._next[number], self._known[number]
        for event in self._events[number][start:]:
            known[number] = event.step
            if isinstance(event, Touch):
                self.touches.append((number, Stamped(event, tuple(known))))
            elif isinstance(event, HandOver) and not self._hand_over(event, known):
                break
            self._next[number] += 1
        return self._next[number] > start

    def _hand_over(self, event: HandOver, known: list[int]) -> bool:
        use = event.pipeline, event.side, event.use
        if not event.waits:
            self._missing[use] -= 1
            self._told[use] = list(map(max, known, self._told.get(use, known)))
            return True
        # The producer's first uses of the stages wait for nobody.
        awaited = event.use - (event.pipeline.stages if event.side == "producer" else 0)
        use = event.pipeline, OTHER_SIDE[event.side], awaited
        if awaited >= 0 and self._missing.get(use, 1):
            return False
        known[:] = map(max, known, self._told.get(use, known))
        return True
