"""The output of a kernel compiled with time stamps, and its interpretation as a timeline.

Its last argument is a tensor of 64-bit words, zero before the launch. Each role of each block has room for `EACH` records of two words:
the clock of its multiprocessor, and twice the number of the mark in the interface, plus 1 before it and 2 after it. Blocks beyond the
end of the tensor write nothing. Written by `pipec.lower.synchronisation.timestamps`.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from pipec.interface import KernelInterface

EACH = 512  # records of a role
WORDS = 2  # of a record
ARGUMENT, DIMENSION = "timestamps", "TIMESTAMPS"


class Stamped(NamedTuple):
    """What a role did between two time stamps, in cycles after the first stamp of its block."""

    block: int
    role: str
    what: str
    line: int
    start: float
    end: float


def words(interface: KernelInterface, blocks: int) -> int:
    """The number of words required for this many blocks."""
    assert interface.timestamps is not None
    return blocks * len(interface.timestamps.roles) * EACH * WORDS


def stamped(interface: KernelInterface, found: Sequence[int]) -> Iterator[Stamped]:
    """By block and role; records beyond the available space are missing."""
    table = interface.timestamps
    assert table is not None
    each = len(table.roles) * EACH * WORDS
    for block in range(len(found) // each):
        here = found[block * each : (block + 1) * each]
        times = [int(here[place]) for place in range(0, each, WORDS) if here[place + 1]]
        if times:
            yield from _of_block(table.marks, table.roles, block, here, min(times))


def _of_block(
    marks: Sequence[tuple[str, str, int]], roles: Sequence[str], block: int, here: Sequence[int], first: int
) -> Iterator[Stamped]:
    for number, role in enumerate(roles):
        begun: dict[int, int] = {}
        for place in range(number * EACH, (number + 1) * EACH):
            time, code = int(here[WORDS * place]), int(here[WORDS * place + 1])
            if not code:
                break
            mark, behind = divmod(code - 1, 2)
            if not behind:
                begun[mark] = time
            elif mark in begun:
                _, what, line = marks[mark]
                yield Stamped(block, role, what, line, begun.pop(mark) - first, time - first)
