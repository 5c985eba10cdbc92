"""Registers with a pending tcgen05.ld: they may not be used before tcgen05.wait::ld (PTX ISA 9.7.16.8.1).

Which instructions could do so is known before the kernel runs, so only those check.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import heappop, heappush

from ...errors import SimulationError
from ...machine.program import Execute
from ...machine.threads.cta import Warp
from ...machine.threads.divergence import Outcome
from ...ptx.tree import Address, Instruction, Negated, Operand, Pair, Part, Register, Vector

_LOAD, _WAIT = "tcgen05.ld.", "tcgen05.wait::ld"
NOTHING_HELD: frozenset[int] = frozenset()


def registers(operand: Operand | int) -> Iterator[int]:
    """Indices of the registers that an operand names."""
    match operand:
        case Register():
            yield operand.index
        case Address():
            yield from registers(operand.base)
            for item in operand.coordinates:
                yield from registers(item)
        case Vector():
            for item in operand.items:
                yield from registers(item)
        case Pair():
            yield from registers(operand.first)
            yield from registers(operand.second)
        case Negated() | Part():
            yield from registers(operand.operand)


def all_registers(item: Instruction) -> frozenset[int]:
    guard = [item.guard.register.index] if item.guard else []
    return frozenset([*guard, *(index for operand in item.operands for index in registers(operand))])


class Bits:
    """Sets of registers as bits of one number, of which thousands are kept; a register gets its bit when it first occurs."""

    def __init__(self) -> None:
        self.places: dict[int, int] = {}

    def of(self, found: Iterable[int]) -> int:
        bits = 0
        for register in found:
            bits |= 1 << self.places.setdefault(register, len(self.places))
        return bits

    def common(self, bits: int, found: frozenset[int]) -> frozenset[int]:
        return frozenset(one for one in found if one in self.places and bits >> self.places[one] & 1)


def pending_at(
    starts: Sequence[int], successors: Sequence[Sequence[int]], after: Callable[[int, int], int | None]
) -> dict[int, int]:
    """What is pending at entry to each instruction that is reached from `starts`, as bits; `after(index, before)` is what one leaves
    pending, None where everything ends. In the order of the text, so that straight text is visited once."""
    pending: dict[int, int] = {}
    work = sorted(starts)
    waiting = set(work)
    while work:
        index = heappop(work)
        waiting.discard(index)
        left = after(index, pending.get(index, 0))
        if not left:
            continue
        for following in successors[index]:
            known = pending.get(following, 0)
            if following < len(successors) and left & ~known:
                pending[following] = left | known
                if following not in waiting:
                    waiting.add(following)
                    heappush(work, following)
    return pending


def early_uses(items: Sequence[Instruction], successors: Sequence[Sequence[int]]) -> dict[int, frozenset[int]]:
    """For each instruction that may come between a load and its wait: the loaded registers that it uses."""
    bits = Bits()
    loaded = {index: bits.of(registers(item.operands[0])) for index, item in enumerate(items) if item.opcode.startswith(_LOAD)}

    def after(index: int, before: int) -> int | None:
        ends = items[index].opcode.startswith(_WAIT) and items[index].guard is None
        return None if ends else before | loaded.get(index, 0)

    found: dict[int, frozenset[int]] = {}
    for index, before in pending_at(list(loaded), successors, after).items():
        used = bits.common(before, all_registers(items[index]))
        if used and not items[index].opcode.startswith(_WAIT):
            found[index] = used
    return found


def looking(execute: Execute, used: frozenset[int], item: Instruction) -> Execute:
    """`execute` with a check that reports registers whose load has not been waited for."""

    def look(warp: Warp) -> Outcome:
        loads = [warp.loading[slot] for slot in used if slot in warp.loading]
        machine = warp.cta.machine
        if loads and machine.practised("registers before tcgen05.wait::ld"):
            warp.thread.use_loads(max(number for _, number in loads))
            # Further uses need no check, so machine code may execute them.
            if warp.thread.used_loads == warp.thread.count("ld"):
                warp.held = NOTHING_HELD
        elif loads:
            line = loads[0][0]
            message = f"`{item.opcode}` uses a register that the tcgen05.ld of PTX line {line} loads: no tcgen05.wait::ld stands between"
            machine.findings.add("race", ("wait::ld", warp.fragment.pc), warp.here(SimulationError("race", message)))
        return execute(warp)

    return look
