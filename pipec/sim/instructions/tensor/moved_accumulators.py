"""Accumulators of wgmma that a `mov` reads before the wait for them.

Triton unpacks 16-bit accumulators right after the commit and then waits. ptxas makes the move wait for the wgmma. Here the destinations
of such moves are in flight themselves, and the moves are made when a wait covers the completion of the wgmma. Which moves are concerned
is known before the kernel runs, so only those check.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...machine.program import Execute
from ...machine.threads.cta import Warp
from ...machine.threads.divergence import Outcome
from ...machine.threads.in_flight import InFlight
from ...ptx.tree import Immediate, Instruction
from .held_registers import hold
from .pending_loads import all_registers, registers

_MULTIPLY, _WAIT = "wgmma.mma_async", "wgmma.wait_group"
# The registers that a move writes, and those that it reads.
Moved = tuple[frozenset[int], frozenset[int]]


def early_moves(items: Sequence[Instruction], successors: Sequence[Sequence[int]]) -> dict[int, Moved]:
    """For each move that may read accumulators, or copies of them, before a wait for all groups."""
    pending: dict[int, frozenset[int]] = {}  # at entry to an instruction
    work = [index for index, item in enumerate(items) if item.opcode.startswith(_MULTIPLY)]
    while work:
        index = work.pop()
        item, after = items[index], pending.get(index, frozenset())
        if item.opcode.startswith(_WAIT) and item.operands[0] == Immediate(0):
            continue
        if item.opcode.startswith(_MULTIPLY):
            after |= frozenset(registers(item.operands[0]))
        elif moved := _move(item):
            after |= moved[0] if moved[1] & after else frozenset()
        for following in successors[index]:
            known = pending.get(following)
            if following < len(items) and after and (known is None or not after <= known):
                pending[following] = after | (known or frozenset())
                work.append(following)
    moves = ((index, _move(items[index]), before) for index, before in pending.items())
    return {index: moved for index, moved, before in moves if moved and moved[1] & before}


def unread_copies(items: Sequence[Instruction]) -> frozenset[int]:
    """Registers that are read only by moves into registers which are not read either."""
    sources: dict[int, set[int]] = {}  # by register that only moves write: the sources of these moves
    used, written = set[int](), set[int]()
    for item in items:
        moved = _move(item)
        if moved is None:
            used |= all_registers(item)
            continue
        written |= moved[0]
        for target in moved[0]:
            sources.setdefault(target, set()).update(moved[1])
    work = [target for target in written if target in used]
    while work:
        for source in sources.get(work.pop(), ()):
            if source not in used:
                used.add(source)
                work.append(source)
    return frozenset(written - used)


def _move(item: Instruction) -> Moved | None:
    if item.root != "mov" or item.guard is not None:
        return None
    into, out_of = (frozenset(registers(operand)) for operand in item.operands)
    return into, out_of


def following(execute: Execute, moved: Moved, unread: bool) -> Execute:
    """`execute`, or in practice mode its deferral, where a wgmma still uses what is moved. `unread`: nothing reads what it writes."""
    into, out_of = moved

    def move(warp: Warp) -> Outcome:
        early = {slot: warp.in_flight[slot] for slot in out_of if slot in warp.in_flight}
        whole = warp.mask is None and not any(slot in warp.in_flight for slot in into)
        if not early or not whole or not warp.cta.machine.practised("moves before wgmma.wait_group"):
            return execute(warp)
        if unread:
            return None
        held = dict.fromkeys(early.values())
        users = [user for one in held for user in one.users]
        for one in held:
            one.moved |= out_of.intersection(one.slots)
        for slot in into:
            copy = InFlight((slot,), [warp.registers[slot]], "a copy of an accumulator", next(iter(held)).line, users)
            copy.move = execute
            hold(warp, copy)
        return None

    return move
