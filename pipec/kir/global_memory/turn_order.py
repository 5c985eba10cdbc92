"""Happens-before among blocks, by the turns that they take: who passes a turn on comes before whoever takes a later one of its counter."""

from collections.abc import Iterable

from pipec.kir.global_memory.runs import Turn
from pipec.record import record


@record
class PassedOn:
    """A turn that a block passes on. `held`: those that the block had waited for by then."""

    turn: Turn
    held: frozenset[Turn]


class TurnOrder:
    """`passed`: what all blocks of a launch pass on, if there are several counters; one counter orders all of its turns by itself."""

    def __init__(self, passed: Iterable[PassedOn]) -> None:
        self._passed = tuple(passed)
        self._behind: dict[Turn, frozenset[Turn]] = {}

    def comes_before(self, passed: frozenset[Turn], held: frozenset[Turn]) -> bool:
        """Whether what is complete when its block passes on these turns comes before what follows its block's wait for those, directly or
        through turns of other blocks."""
        return any(_later(one, other) for turn in passed for one in self._reached(turn) for other in held)

    def _reached(self, turn: Turn) -> frozenset[Turn]:
        """The turn, and all that are passed on only after it."""
        if turn not in self._behind:
            reached, unseen = {turn}, [turn]
            while unseen:
                here = unseen.pop()
                found = {one.turn for one in self._passed if any(_later(here, held) for held in one.held)} - reached
                reached |= found
                unseen += found
            self._behind[turn] = frozenset(reached)
        return self._behind[turn]


def _later(one: Turn, other: Turn) -> bool:
    (counter, turn), (same, later) = one, other
    return counter == same and turn < later
