"""Branches around meetings alone, as between two ways to store a tile: which way is taken decides nothing in the end, and neither does
whether the arithmetic fits that only they look at (`docs/proof.md`, "Loaded numbers that fit").
"""

from collections.abc import Collection, Iterable

from pipec.record import record
from pipec.verify.network import Network, Test
from pipec.verify.reader.flow.graph import EXIT, Block
from pipec.verify.reader.flow.sections import between
from pipec.verify.reader.flow.slice import Flow
from pipec.verify.reader.text.opcodes import Kind

_MEETING = frozenset({Kind.COMPUTE, Kind.MEET, Kind.MEET_COMPUTE, Kind.SYNC})


class Decides(Exception):
    """Branches that were taken for idle decide something, or may: their lines; none if it is not known of which that is so."""

    def __init__(self, lines: Iterable[int] = ()) -> None:
        super().__init__()
        self.lines = {*lines}


@record
class Idle:
    """`branches`: by block the lines of branches on which both ways are followed, whatever is asked, and which have to drop out of the
    network; `unasked`: the instructions whose results nothing else depends on, of which nothing is required."""

    branches: dict[int, int]
    unasked: frozenset[int]


NOTHING_IDLE = Idle({}, frozenset())


def idle(flow: Flow, deciding: Collection[int]) -> Idle:
    """`deciding`: lines of branches that are known to decide something."""
    branches = {}
    for block in flow.blocks:
        if block.number in flow.left and block.branch is not None and block.branch.line not in deciding and _is_idle(flow, block):
            branches[block.number] = block.branch.line
    return Idle(branches, _unasked(flow, branches)) if branches else NOTHING_IDLE


def check_idle(found: Idle, network: Network) -> None:
    """Raises Decides unless all idle branches have dropped out of the network."""
    lines = {*found.branches.values()}
    left = {
        state.line
        for process in network.processes
        for state in process.states
        if isinstance(state.action, Test) and state.line in lines
    }
    if left:
        raise Decides(left)


def _is_idle(flow: Flow, block: Block) -> bool:
    join = flow.graph.after[block.number]
    if not block.test or len(block.next) != 2 or join == EXIT or block.number in flow.sections:
        return False
    ways = [between(flow.blocks, first, join) for first in block.next]
    steps = [step for way in ways for number in way for step in flow.blocks[number].steps]
    return not any(block.number in way for way in ways) and all(step.kind in _MEETING and not step.partly for step in steps)


def _unasked(flow: Flow, branches: Collection[int]) -> frozenset[int]:
    steps = [step for number in flow.left for step in flow.blocks[number].steps]
    matters, before = 0, -1
    for number in flow.left:
        block = flow.blocks[number]
        if block.test and number not in branches and block.branch is not None and block.branch.predicate:
            matters |= flow.bits[block.branch.predicate]
    while matters != before:
        before = matters
        for step in steps:
            if step.kind is not Kind.COMPUTE or step.defines & matters:
                matters |= step.uses
    return frozenset(step.instruction.number for step in steps if step.kind is Kind.COMPUTE and not step.defines & matters)
