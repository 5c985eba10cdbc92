"""Sections: code that some threads execute after a branch while the others skip it, and in which nothing waits.

A branch around such a section acts as a predicate on its instructions: threads that reach it together need not be analysed separately.
"""

from collections.abc import Sequence

from pipec.record import record
from pipec.verify.reader.flow.graph import EXIT, Block, Step
from pipec.verify.reader.text.opcodes import MEETINGS, Kind

# Kinds that never block.
_QUIET = frozenset(
    {Kind.COMPUTE, Kind.INIT, Kind.GIVE_UP, Kind.ARRIVE, Kind.EXPECT, Kind.COPIES_ARRIVE, Kind.COMMIT, Kind.LOAD, Kind.ANSWER},
)


@record
class Section:
    """After the branch of `block`: `way`, the index of the successor with events (the other path has none); `join`, where both paths
    meet. `defines`: the registers written on either path, as a bit set; `others`: on the other one. `meets`: whether lanes of warps
    synchronise."""

    block: int
    way: int
    join: int
    defines: int
    others: int
    meets: bool


def sections(blocks: Sequence[Block], after: dict[int, int], left: set[int]) -> dict[int, Section]:
    """By the block whose branch they follow. `left`: the blocks of the slice; `after`: their immediate postdominators."""
    found = {}
    for number in left:
        block = blocks[number]
        if block.test and len(block.next) == 2 and (section := _section(blocks, block, after[number])) is not None:
            found[number] = section
    return found


def _section(blocks: Sequence[Block], block: Block, join: int) -> Section | None:
    ways = [between(blocks, first, join) for first in block.next]
    steps = [[step for number in way for step in blocks[number].steps] for way in ways]
    if any(block.number in way for way in ways) or not all(map(_quiet, steps[0] + steps[1])):
        return None
    acting = [at for at in (0, 1) if any(step.kind is not Kind.COMPUTE for step in steps[at])]
    # A loop on the other path would have to be proved to terminate.
    if len(acting) != 1 or any(blocks[number].loop for number in ways[1 - acting[0]]):
        return None
    mine, others = (_defined(steps[at]) for at in (acting[0], 1 - acting[0]))
    return Section(block.number, acting[0], join, mine | others, others, any(step.kind in MEETINGS for step in steps[acting[0]]))


def _defined(steps: Sequence[Step]) -> int:
    made = 0
    for step in steps:
        made |= step.defines
    return made


def members(blocks: Sequence[Block], section: Section) -> set[int]:
    """The blocks on the path with events."""
    return between(blocks, blocks[section.block].next[section.way], section.join)


def between(blocks: Sequence[Block], first: int, join: int) -> set[int]:
    """The blocks on the way from the first one to the join."""
    found: set[int] = set()
    work = [first]
    while work:
        number = work.pop()
        if number not in (join, EXIT) and number not in found:
            found.add(number)
            work += blocks[number].next
    return found


def _quiet(step: Step) -> bool:
    return step.kind in _QUIET or step.kind in MEETINGS
