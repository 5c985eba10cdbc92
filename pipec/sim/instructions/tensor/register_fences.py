"""Registers of wgmma, and the wgmma.fence that orders other accesses to them (PTX ISA 9.7.15.7.1).

A fence is required before the first wgmma of a warpgroup, and between another access to a register and a wgmma that uses it as
accumulator or operand A, including another wgmma's access; only wgmma of one shape may follow each other on the same accumulator. Which
instructions come between a fence and a wgmma that uses their registers is known before the kernel runs, so only those are recorded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pipec.record import record

from ...errors import SimulationError
from ...machine.program import Execute
from ...machine.threads.cta import Warp
from ...machine.threads.divergence import Outcome
from ...ptx.tree import Instruction, Vector
from .pending_loads import all_registers, registers

_MULTIPLY, _FENCE = "wgmma.mma_async", "wgmma.fence"


def _used(item: Instruction) -> frozenset[int]:
    """The registers that a wgmma uses: its accumulator, and operand A where that is in registers."""
    vectors = [operand for operand in item.operands[:2] if isinstance(operand, Vector)]
    return frozenset(index for operand in vectors for index in registers(operand))


def unfenced_uses(items: Sequence[Instruction], successors: Sequence[Sequence[int]]) -> dict[int, frozenset[int]]:
    """For each instruction that touches registers which a wgmma uses without a fence in between on some path: these registers."""
    before: list[list[int]] = [[] for _ in range(len(items) + 1)]
    for index, following in enumerate(successors):
        for other in following:
            before[other].append(index)
    wanted: dict[int, frozenset[int]] = {}  # at exit of an instruction: what some wgmma uses before any fence
    work = [index for index, item in enumerate(items) if item.opcode.startswith(_MULTIPLY)]
    while work:
        index = work.pop()
        item, needed = items[index], wanted.get(index, frozenset())
        if item.opcode.startswith(_FENCE) and item.guard is None:
            continue
        if item.opcode.startswith(_MULTIPLY):
            needed |= _used(item)
        for earlier in before[index]:
            known = wanted.get(earlier)
            if known is None or not needed <= known:
                wanted[earlier] = needed | (known or frozenset())
                work.append(earlier)
    return dict(_touching(items, wanted))


def _touching(items: Sequence[Instruction], wanted: dict[int, frozenset[int]]) -> Iterator[tuple[int, frozenset[int]]]:
    for index, needed in wanted.items():
        touched = needed & all_registers(items[index])
        if touched and not items[index].opcode.startswith("wgmma."):
            yield index, touched


def telling(execute: Execute, touched: frozenset[int], item: Instruction) -> Execute:
    """`execute`, which also records accesses to registers that a wgmma may use before a fence."""
    noted = dict.fromkeys(touched, item.line)

    def tell(warp: Warp) -> Outcome:
        warp.unfenced.update(noted)
        return execute(warp)

    return tell


def fenced(warp: Warp) -> None:
    """wgmma.fence: register accesses so far are ordered before the following wgmma."""
    warp.fenced = True
    warp.unfenced.clear()
    warp.accumulators.clear()


@record
class RegisterUse:
    """The registers of a wgmma at a PTX line: an accumulator of a `shape`, and operand A (empty: it is in memory)."""

    opcode: str
    line: int
    shape: str
    accumulator: frozenset[int]
    operand: frozenset[int]


def check_fence(warp: Warp, use: RegisterUse) -> None:
    """Reports a wgmma that no fence orders after accesses to its registers."""
    machine, message, what = warp.cta.machine, "", use.opcode
    slots = (slot for slot in (*use.accumulator, *use.operand) if slot in warp.unfenced)
    line = next((warp.unfenced[slot] for slot in slots), None) if warp.unfenced else None
    if not warp.fenced:
        message = f"{what} is the first of its warp, and no wgmma.fence stands before it"
    elif line is not None and not machine.practised("registers behind wgmma.fence"):
        message = f"{what} works on a register that PTX line {line} has touched: no wgmma.fence stands between"
    elif (other := _other_shape(warp, use)) is not None:
        shape, line = other
        message = f"{what} works on accumulators of a wgmma of shape {shape} (PTX line {line}): no wgmma.fence stands between"
    warp.accumulators[use.accumulator] = use.shape, use.line
    if message:
        machine.findings.add("race", ("wgmma.fence", warp.fragment.pc), warp.here(SimulationError("race", message)))


def _other_shape(warp: Warp, use: RegisterUse) -> tuple[str, int] | None:
    """Shape and line of a wgmma since the last fence whose accumulator this one uses in another shape, or as operand A."""
    for accumulator, (shape, line) in warp.accumulators.items():
        mixed = shape != use.shape and not accumulator.isdisjoint(use.accumulator)
        if mixed or not accumulator.isdisjoint(use.operand):
            return shape, line
    return None
