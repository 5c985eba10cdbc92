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
from .pending_loads import Bits, all_registers, pending_at, registers

_MULTIPLY, _WAIT = "wgmma.mma_async", "wgmma.wait_group"
# The registers that a move writes, and those that it reads.
Moved = tuple[frozenset[int], frozenset[int]]


def early_moves(items: Sequence[Instruction], successors: Sequence[Sequence[int]]) -> dict[int, Moved]:
    """For each move that may read accumulators, or copies of them, before a wait for all groups."""
    bits = Bits()
    multiplied = {
        index: bits.of(registers(one.operands[0])) for index, one in enumerate(items) if one.opcode.startswith(_MULTIPLY)
    }

    def after(index: int, before: int) -> int | None:
        item = items[index]
        if item.opcode.startswith(_WAIT) and item.operands[0] == Immediate(0):
            return None
        if index in multiplied:
            return before | multiplied[index]
        moved = _move(item)
        return before | bits.of(moved[0]) if moved and bits.common(before, moved[1]) else before

    moves = ((index, _move(items[index]), before) for index, before in pending_at(list(multiplied), successors, after).items())
    return {index: moved for index, moved, before in moves if moved and bits.common(before, moved[1])}


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
