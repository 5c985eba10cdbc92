"""Liveness of rings: which rings are still used after a place, since the position of a class on the others no longer matters there.

Consecutive loops that may each run zero times would otherwise double the states of everything that follows. The recorded uses may be
incomplete or wrong: the position on a dead ring is generalised to that of the cursor, which is always correct; a later use of such a
ring is then rejected.
"""

from collections.abc import Iterable, Mapping

from pipec.verify.reader.flow.graph import Block, Step, reached
from pipec.verify.reader.flow.slice import Flow, touches
from pipec.verify.reader.values.surroundings import Barriers

Used = dict[int, frozenset[int]]  # rings, by the number of an instruction


class RingLiveness:
    """`used`: the recorded uses; unrecorded instructions may use any of the rings. Sets of rings are bit sets."""

    def __init__(self, flow: Flow, barriers: Barriers, used: Mapping[int, Iterable[int]]) -> None:
        self.blocks = flow.blocks
        self.used = {number: _bits(rings, barriers) for number, rings in used.items()}
        self.all = 0
        for rings in self.used.values():
            self.all |= rings
        self.ahead = self._ahead()
        self._at: dict[tuple[int, int], tuple[int, ...]] = {}

    def at(self, block: Block, index: int) -> tuple[int, ...]:
        """The rings that are dead before this step."""
        found = self._at.get((block.number, index))
        if found is None:
            left = self.all & ~self._uses(block.steps[index:])
            for number in block.next:
                left &= ~self.ahead.get(number, 0)
            found = self._at[block.number, index] = tuple(ring for ring in range(left.bit_length()) if left >> ring & 1)
        return found

    def _ahead(self) -> dict[int, int]:
        """By block: the rings that it, or a block reachable from it, uses."""
        found = {number: self._uses(self.blocks[number].steps) for number in reached(self.blocks)}
        # Reverse text order is almost postorder, so few rounds are needed.
        order, changed = sorted(found, reverse=True), True
        while changed:
            changed = False
            for number in order:
                used = found[number]
                for after in self.blocks[number].next:
                    used |= found.get(after, 0)
                changed |= used != found[number]
                found[number] = used
        return found

    def _uses(self, steps: Iterable[Step]) -> int:
        used = 0
        for step in steps:
            if touches(step):
                used |= self.used.get(step.instruction.number, self.all)
        return used


def _bits(rings: Iterable[int], barriers: Barriers) -> int:
    """An arrival also needs the position on the other side."""
    made = 0
    for ring in rings:
        other = barriers.other[ring]
        made |= 1 << ring | (0 if other is None else 1 << other)
    return made
