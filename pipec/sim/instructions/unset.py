"""Registers that an instruction may read before any has written them: a path leads there without a write."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from pipec.record import record

from ..ptx.tree import Instruction, Operand, Pair, Part, Register, Vector
from .tensor.pending_loads import Bits, pending_at, registers

# Their first operand is no destination.
_NO_DESTINATION = frozenset(
    (
        "bar",
        "barrier",
        "bra",
        "brx",
        "call",
        "cp",
        "discard",
        "fence",
        "griddepcontrol",
        "membar",
        "nanosleep",
        "pmevent",
        "prefetch",
    )
    + ("red", "ret", "setmaxnreg", "st", "stmatrix", "tensormap", "trap", "exit", "applypriority", "multimem")
)
_DESTINATION = ("bar.red", "barrier.red", "bar.cta.red", "barrier.cta.red", "multimem.ld")


_SUMS = "wgmma.mma_async"


@record
class Unset:
    """What may be read unset. `reads`: by register, the first instruction that may. `sums`: by wgmma, registers of its accumulator: whether
    it adds to them the text alone does not say."""

    reads: dict[int, int]
    sums: dict[int, frozenset[int]]


def unset_reads(items: Sequence[Instruction], successors: Sequence[Sequence[int]]) -> Unset:
    """A guarded write counts as one: mostly another one has the opposite guard, or what reads the register has the same."""
    bits = Bits()
    written = [bits.of(_indices(_destination(item))) for item in items]
    read = [frozenset(_read(item)) for item in items]
    sums = {index: frozenset(_indices(item.operands[:1])) for index, item in enumerate(items) if item.opcode.startswith(_SUMS)}
    everything = bits.of({index for found in (*read, *sums.values()) for index in found})
    if not items:
        return Unset({}, {})
    before = {0: everything} | pending_at(
        [0], successors, lambda index, unset: (unset | (0 if index else everything)) & ~written[index]
    )
    found: dict[int, int] = {}
    for index in sorted(before):
        for register in bits.common(before[index] | (0 if index else everything), read[index]):
            found.setdefault(register, index)
    unset = {index: bits.common(before.get(index, 0) | (0 if index else everything), summed) for index, summed in sums.items()}
    return Unset(found, {index: summed for index, summed in unset.items() if summed})


def _destination(item: Instruction) -> tuple[Operand, ...]:
    first = item.operands[:1]
    written = item.root not in _NO_DESTINATION or item.opcode.startswith(_DESTINATION)
    registers_alone = all(isinstance(one, (Register, Vector, Pair, Part)) for one in first)
    return first if written and registers_alone and not item.opcode.startswith(("tcgen05.mma", "tcgen05.dealloc")) else ()


def _read(item: Instruction) -> Iterator[int]:
    if item.guard is not None:
        yield item.guard.register.index
    yield from _indices(item.operands[len(_destination(item)) :])


def _indices(operands: Iterable[Operand]) -> Iterator[int]:
    for operand in operands:
        yield from registers(operand)
