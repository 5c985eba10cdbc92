"""Checks that nothing depends on the addresses of variables in shared memory.

The reader assigns addresses arbitrarily: before assembly only distances within a variable and alignments are known. So an address may be
offset, changed and read in the bits below its alignment, selected, mapped to another CTA and used as an address; and none is 0 (the
system reserves the first kilobyte of shared memory), so that 0 may represent none. Anything else computed from an address would be a
different number on the machine. How an address compares with 0, which of two is the larger one, and what it is with more bits, may
differ, too, if it has left its variable: that is seen where its value is known.

A generic address and one in shared memory are different numbers for the same place: only `cvta` leads from one to the other, and an
instruction takes the kind that its opcode says (PTX ISA, Generic Addressing). The reader's numbers are the same for both.
"""

from collections.abc import Callable, Mapping, Sequence

from pipec.record import record, replace
from pipec.verify.network import Unreadable
from pipec.verify.reader.flow.graph import EXIT, Block, Step
from pipec.verify.reader.text.instructions import Instruction
from pipec.verify.reader.text.lexical import integer
from pipec.verify.reader.text.opcodes import COMPUTING, Kind, defines
from pipec.verify.reader.text.operations import computable, operation
from pipec.verify.reader.text.statements import registers


@record(remember=True)
class Root:
    """What an address is derived from: a variable, or (`elsewhere`) that of another CTA of the cluster. `generic`: it is a generic
    address."""

    variable: str
    elsewhere: bool = False
    generic: bool = False


# What an address may be derived from.
Roots = frozenset[Root]
# By name of a variable or register.
State = Mapping[str, Roots]
_NONE: Roots = frozenset()
# The lowest bit of a CTA's rank: clearing it selects the barrier of a pair's leader.
_FOLLOWS = 1 << 24
_PASSES = frozenset({"mov", "cvt", "shfl"})
_SHARED = ("shared", "shared::cta", "shared::cluster")


def check_addresses(blocks: Sequence[Block], alignments: Mapping[str, int], bits: Mapping[str, int]) -> set[int]:
    """Raises Unreadable if an address is used as a number. `alignments`: of the variables; `bits`: see Flow.bits. The numbers of the
    instructions whose results are right only for addresses within a variable, or 0."""
    variables: State = {name: frozenset((Root(name),)) for name in alignments}
    handling = _handling(blocks, alignments, bits)
    before: dict[int, State] = {0: {}}
    within: set[int] = set()
    work = [0]
    while work:
        block = blocks[work.pop()]
        steps = handling.get(block.number)
        after = _behind(steps, before[block.number], variables, alignments, within) if steps else before[block.number]
        for number in block.next:
            if number == EXIT:
                continue
            live, known = blocks[number].live, before.get(number)
            kept = {name: roots for name, roots in after.items() if bits.get(name, 0) & live}
            joined = kept if known is None else _joined(known, kept)
            if joined != known:
                before[number] = joined
                work.append(number)
    return within


def _handling(blocks: Sequence[Block], variables: Mapping[str, object], bits: Mapping[str, int]) -> dict[int, list[Step]]:
    """By block, the steps with a register that may hold an address: few of all computations. `bits`: of registers and variables in the
    sets of defined and used ones."""
    held = 0
    for name in variables:
        held |= bits.get(name, 0)
    others = [step for block in blocks for step in block.steps if step.kind in COMPUTING and step.defines]
    found = True
    while found:
        left = []
        for step in others:
            if step.uses & held:
                held |= step.defines
            else:
                left.append(step)
        found, others = len(left) < len(others), left
    names = {*variables, *(name for name, bit in bits.items() if bit & held)}
    handling: dict[int, list[Step]] = {}
    for block in blocks:
        for step in block.steps:
            # (Data operands of an event decide nothing, and are not uses of the step.)
            met = step.kind not in COMPUTING and not names.isdisjoint(registers(step.instruction.text))
            if met or (step.uses | step.defines) & held:
                handling.setdefault(block.number, []).append(step)
    return handling


def _behind(steps: Sequence[Step], before: State, variables: State, alignments: Mapping[str, int], within: set[int]) -> State:
    """The contents of registers after the steps of a block; numbers have no entry. (No register has the name of a variable.) `within`:
    see check_addresses."""
    known = dict(before)

    def held(name: str) -> Roots:
        return known.get(name) or variables.get(name, _NONE)

    for step in steps:
        found = _made(step, held, alignments)
        if step.kind in COMPUTING and any(map(held, step.instruction.operands[1:])) and _needs_whole(step.instruction):
            within.add(step.instruction.number)
        for name in defines(step.instruction, step.kind):
            if step.instruction.predicate:
                # If the predicate is false, the register keeps its value.
                found |= held(name)
            if found:
                known[name] = found
            else:
                known.pop(name, None)
    return known


def _joined(one: State, other: State) -> State:
    return {name: one.get(name, _NONE) | other.get(name, _NONE) for name in one.keys() | other.keys()}


def _made(step: Step, held: Callable[[str], Roots], alignments: Mapping[str, int]) -> Roots:
    """The variables whose address the result may be."""
    one = step.instruction
    _check_spaces(one, held)
    if step.kind not in COMPUTING:
        if any(held(name) for text in one.operands if text[:1] != "[" for name in registers(text)):
            raise _refused(one)
        return _NONE
    if not computable(one.opcode):
        return _NONE
    operands = [held(text) for text in one.operands[1:]]
    if not any(operands) or step.kind is Kind.OBSERVE:
        return _NONE
    addresses = [roots for roots in operands if roots]
    match one.head:
        case "cvta" if operands[0]:
            return _converted(one, operands[0])
        case head if head in _PASSES and operands[0] and len(addresses) == 1 and _whole(one, addresses[0]):
            return addresses[0]
        case "mapa" if operands[0] and len(addresses) == 1 and _in_space(one, addresses[0]):
            return _all(addresses[0], elsewhere=True)
        case "add" if len(addresses) == 1:
            return addresses[0]
        case "sub" if len(addresses) == 1 and operands[0]:
            return addresses[0]
        case "mad" if len(addresses) == 1 and operands[2]:
            return addresses[0]
        case "selp":
            return _NONE.union(*addresses)
        case "and" | "or" | "xor" if len(addresses) == 1 and (number := _constant(one)) is not None:
            alignment = min(alignments[root.variable] for root in addresses[0])
            if one.head == "and" and 0 <= number < alignment:
                return _NONE
            changed = ~number & ~_FOLLOWS if one.head == "and" else number
            if 0 <= changed < alignment:
                return addresses[0]
            raise _refused(one)
        case "setp" if len(addresses) == 1 and "0" in one.operands and one.parts[1] in ("eq", "ne"):
            return _NONE
        case "sub" | "setp" if len(addresses) == 2 and len(addresses[0] | addresses[1]) == 1:
            return _NONE
        case _:
            raise _refused(one)


def _all(roots: Roots, **changed: bool) -> Roots:
    return frozenset(replace(root, **changed) for root in roots)


def _needs_whole(one: Instruction) -> bool:
    """Whether what the instruction makes of addresses that wrap around is not what it makes of others."""
    done = operation(one.opcode)
    return one.head in ("setp", "cvta") or one.head == "cvt" and done is not None and done.to > done.width


def _whole(one: Instruction, roots: Roots) -> bool:
    """Whether the result has all bits of an address: a part of them may be 0."""
    done, generic = operation(one.opcode), any(root.generic for root in roots)
    if one.operands[0][:1] == "{":
        return False
    return not generic if done is None else min(done.width, done.to) >= (64 if generic else 32)


def _in_space(one: Instruction, roots: Roots) -> bool:
    """Whether addresses are of the kind that the instruction takes: those in shared memory, if it names that, else generic ones."""
    generic = not any(part in _SHARED for part in one.parts)
    return all(root.generic == generic for root in roots)


def _check_spaces(one: Instruction, held: Callable[[str], Roots]) -> None:
    """Raises Unreadable if the place of a barrier or of an answer is not the kind of address that the instruction takes."""
    for text in one.operands:
        if text[:1] == "[" and not all(_in_space(one, held(name)) for name in registers(text)):
            raise Unreadable(one.line, f"{one.opcode} takes another kind of address: generic ones are not those in shared memory")


def _converted(one: Instruction, roots: Roots) -> Roots:
    """`cvta.shared` makes generic addresses, `cvta.to.shared` takes them."""
    back = one.parts[1] == "to"
    if one.parts[2 if back else 1] not in _SHARED or one.parts[-1] != "u64" or any(root.generic != back for root in roots):
        raise _refused(one)
    return _all(roots, generic=not back)


def _constant(one: Instruction) -> int | None:
    """The constant among the operands, signed if it has 32 bits."""
    numbers = [number for text in one.operands[1:] if (number := integer(text)) is not None]
    if len(numbers) != 1:
        return None
    return numbers[0] - (1 << 32) if one.parts[-1] == "b32" and numbers[0] >= 1 << 31 else numbers[0]


def _refused(one: Instruction) -> Unreadable:
    return Unreadable(one.line, f"what {one.opcode} makes of an address depends on where the variable lies in shared memory")
