"""Loads of values that an atomic operation then checks: whether a value is the latest one does not matter there.

CUDA has no atomic operations on many types, and its programming guide makes them of an ordinary load and a loop around a
compare-and-swap. Programs also load a minimum first, to see whether an atomic minimum is worth its time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..ptx.tree import Address, Instruction, Operand, Register, Vector

# Those that change nothing where the loaded value was too old.
_REPEATABLE = frozenset({"min", "max", "and", "or", "cas"})
_STRONG = frozenset({"relaxed", "acquire", "volatile"})
_BARRIERS = frozenset({"bar", "barrier", "mbarrier"})


def guesses(instructions: Sequence[Instruction]) -> frozenset[int]:
    """The ordinary loads, by program counter, of what a compare-and-swap expects, or of what decides whether such an operation on the
    same address follows."""
    copies = _copies(instructions)
    expected = {operand for item in instructions if "cas" in _parts(item) for operand in item.operands[2:3]}
    tested = {operand for item in instructions if item.root == "setp" for operand in item.operands[1:]}
    found = set[int]()
    for pc, item in enumerate(instructions):
        if item.root != "ld" or _STRONG.intersection(_parts(item)) or not isinstance(item.operands[0], Register):
            continue
        values = _reached(item.operands[0], copies)
        if values & expected or (values & tested and _followed(instructions, pc)):
            found.add(pc)
    return frozenset(found)


def _parts(item: Instruction) -> list[str]:
    return item.opcode.split(".")


def _copies(instructions: Sequence[Instruction]) -> dict[Operand, list[Operand]]:
    """By register, those that `mov` gives its value."""
    found: dict[Operand, list[Operand]] = {}
    for item in instructions:
        if item.root == "mov" and not any(isinstance(operand, Vector) for operand in item.operands):
            found.setdefault(item.operands[1], []).append(item.operands[0])
    return found


def _reached(start: Operand, copies: dict[Operand, list[Operand]]) -> set[Operand]:
    found, fresh = {start}, [start]
    while fresh:
        for copy in copies.get(fresh.pop(), ()):
            if copy not in found:
                found.add(copy)
                fresh.append(copy)
    return found


def _followed(instructions: Sequence[Instruction], pc: int) -> bool:
    """Whether a repeatable operation on the address of this load comes before the next barrier in the text."""
    address = instructions[pc].operands[1]
    return any(
        item.root in ("atom", "red") and address in item.operands and _REPEATABLE.intersection(_parts(item))
        for item in _up_to_barrier(instructions, pc)
        if isinstance(address, Address)
    )


def _up_to_barrier(instructions: Sequence[Instruction], pc: int) -> Iterator[Instruction]:
    for item in instructions[pc + 1 :]:
        if item.root in _BARRIERS:
            return
        yield item
