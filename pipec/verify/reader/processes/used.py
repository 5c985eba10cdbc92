"""Which rings are used from a place on: where a class stands on the others does not matter there any more.

Loops one after the other, each of which may have had no turn, would else double the states of all that follows. What is known of uses may
be incomplete, or wrong: of the position on a ring that is left behind no more is said than that it is that of the cursor, which it always
is. A use of such a ring is then not understood.
"""

from collections.abc import Iterable, Mapping

from pipec.verify.reader.flow.graph import Block, Step, reached
from pipec.verify.reader.flow.slice import Flow, touches
from pipec.verify.reader.values.surroundings import Barriers

Used = dict[int, frozenset[int]]  # rings, by the number of an instruction


class LeftBehind:
    """`used`: as far as it was seen; what was not looked at may use any of the rings. Sets of rings are bits of a number."""

    def __init__(self, flow: Flow, barriers: Barriers, used: Mapping[int, Iterable[int]]) -> None:
        self.blocks = flow.blocks
        self.used = {number: _bits(rings, barriers) for number, rings in used.items()}
        self.all = 0
        for rings in self.used.values():
            self.all |= rings
        self.ahead = self._ahead()
        self._at: dict[tuple[int, int], tuple[int, ...]] = {}

    def at(self, block: Block, index: int) -> tuple[int, ...]:
        """The rings that neither this step uses nor any to which a way leads from it."""
        found = self._at.get((block.number, index))
        if found is None:
            left = self.all & ~self._uses(block.steps[index:])
            for number in block.next:
                left &= ~self.ahead.get(number, 0)
            found = self._at[block.number, index] = tuple(ring for ring in range(left.bit_length()) if left >> ring & 1)
        return found

    def _ahead(self) -> dict[int, int]:
        """By block: what it uses, or one to which a way leads from it."""
        found = {number: self._uses(self.blocks[number].steps) for number in reached(self.blocks)}
        # Backwards in the text is nearly post-order, so few rounds are needed.
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
    """An arrival also asks where the class stands on the other side."""
    made = 0
    for ring in rings:
        other = barriers.other[ring]
        made |= 1 << ring | (0 if other is None else 1 << other)
    return made
