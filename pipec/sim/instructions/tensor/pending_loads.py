"""Registers with a pending tcgen05.ld: they may not be used before tcgen05.wait::ld (PTX ISA 9.7.16.8.1).

Which instructions could do so is known before the kernel runs, so only those check.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...errors import SimulationError
from ...machine.program import Execute
from ...machine.threads.cta import Warp
from ...machine.threads.divergence import Outcome
from ...ptx.tree import Address, Instruction, Negated, Operand, Pair, Register, Vector

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
        case Negated():
            yield from registers(operand.operand)


def all_registers(item: Instruction) -> frozenset[int]:
    guard = [item.guard.register.index] if item.guard else []
    return frozenset([*guard, *(index for operand in item.operands for index in registers(operand))])


def early_uses(items: Sequence[Instruction], successors: Sequence[Sequence[int]]) -> dict[int, frozenset[int]]:
    """For each instruction that may come between a load and its wait: the loaded registers that it uses."""
    starts = [index for index, item in enumerate(items) if item.opcode.startswith(_LOAD)]
    pending: dict[int, frozenset[int]] = {}  # at entry to an instruction
    found: dict[int, frozenset[int]] = {}
    work = list(starts)
    while work:
        index = work.pop()
        item, before = items[index], pending.get(index, frozenset())
        after = before
        if item.opcode.startswith(_WAIT) and item.guard is None:
            continue
        if item.opcode.startswith(_LOAD):
            after = before | frozenset(registers(item.operands[0]))
        for following in successors[index]:
            known = pending.get(following)
            if following < len(items) and after and (known is None or not after <= known):
                pending[following] = after | (known or frozenset())
                work.append(following)
    for index, before in pending.items():
        used = before & all_registers(items[index])
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
