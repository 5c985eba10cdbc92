"""That nothing depends on where variables lie in shared memory.

The reader places them as it likes: only distances within one variable are known before the text is assembled, and how variables are
aligned. So an address may be moved on by a number, changed and read in the bits below its alignment, chosen, mapped to another CTA and used
as an address; and none is 0 (where shared memory begins, the system has a kilobyte), so that 0 may stand for none. Whatever else is made of
one is another number on the machine.
"""

from collections.abc import Mapping, Sequence

from pipec.verify.network import Unreadable
from pipec.verify.reader.flow.graph import EXIT, Block, Step
from pipec.verify.reader.text.instructions import Instruction
from pipec.verify.reader.text.lexical import integer
from pipec.verify.reader.text.opcodes import COMPUTING, Kind, defines
from pipec.verify.reader.text.operations import computable
from pipec.verify.reader.text.statements import registers

# The variables from which an address may come; in another CTA of the cluster it is another variable.
Roots = frozenset[str]
# By name of a variable or register.
State = Mapping[str, Roots]
_NONE: Roots = frozenset()
# The lowest bit of a CTA's rank: without it, the barrier of a pair's leader.
_FOLLOWS = 1 << 24
_PASSES = frozenset({"mov", "cvta", "cvt", "shfl"})


def check_addresses(blocks: Sequence[Block], alignments: Mapping[str, int]) -> None:
    """Raises Unreadable where an address is taken for a number. `alignments`: of the variables."""
    variables: State = {name: frozenset((name,)) for name in alignments}
    handling = _handling(blocks, {*alignments})
    before: dict[int, State] = {0: {}}
    work = [0]
    while work:
        block = blocks[work.pop()]
        steps = handling.get(block.number)
        after = _behind(steps, before[block.number], variables, alignments) if steps else before[block.number]
        for number in block.next:
            known = before.get(number)
            joined = after if known is None or known is after else _joined(known, after)
            if number != EXIT and joined != known:
                before[number] = joined
                work.append(number)


def _handling(blocks: Sequence[Block], names: set[str]) -> dict[int, list[Step]]:
    """By block, the steps that have to do with a register that may hold an address: few of all that compute. `names`: of variables."""
    steps = [(block.number, step) for block in blocks for step in block.steps]
    others = [step for _, step in steps if step.kind in COMPUTING]
    found = True
    while found:
        left = []
        for step in others:
            if names.isdisjoint(step.instruction.operands[1:]):
                left.append(step)
            else:
                names.update(step.instruction.first)
        found, others = len(left) < len(others), left
    handling: dict[int, list[Step]] = {}
    for number, step in steps:
        one = step.instruction
        if not names.isdisjoint((*one.first, *one.operands[1:]) if step.kind in COMPUTING else registers(one.text)):
            handling.setdefault(number, []).append(step)
    return handling


def _behind(steps: Sequence[Step], before: State, variables: State, alignments: Mapping[str, int]) -> State:
    """What registers hold behind the steps of a block; there is no entry for numbers."""
    known = {**variables, **before}
    for step in steps:
        found = _made(step, known, alignments)
        for name in defines(step.instruction, step.kind):
            if step.instruction.predicate:
                # Where it does not hold, the register keeps what it had.
                found |= known.get(name, _NONE)
            if found:
                known[name] = found
            else:
                known.pop(name, None)
    return {name: roots for name, roots in known.items() if name not in variables}


def _joined(one: State, other: State) -> State:
    return {name: one.get(name, _NONE) | other.get(name, _NONE) for name in one.keys() | other.keys()}


def _made(step: Step, known: State, alignments: Mapping[str, int]) -> Roots:
    """The variables whose address the result may be."""
    one = step.instruction
    if step.kind not in COMPUTING:
        if any(name in known for text in one.operands if text[:1] != "[" for name in registers(text)):
            raise _refused(one)
        return _NONE
    if not computable(one.opcode):
        return _NONE
    operands = [known.get(text, _NONE) for text in one.operands[1:]]
    if not any(operands) or step.kind is Kind.OBSERVE:
        return _NONE
    addresses = [roots for roots in operands if roots]
    match one.head:
        case head if head in _PASSES and operands[0] and len(addresses) == 1:
            return addresses[0]
        case "mapa" if operands[0] and len(addresses) == 1:
            return frozenset(f"{root} of another CTA" for root in addresses[0])
        case "add" if len(addresses) == 1:
            return addresses[0]
        case "sub" if len(addresses) == 1 and operands[0]:
            return addresses[0]
        case "mad" if len(addresses) == 1 and operands[2]:
            return addresses[0]
        case "selp":
            return _NONE.union(*addresses)
        case "and" | "or" | "xor" if len(addresses) == 1 and (number := _constant(one)) is not None:
            alignment = min(alignments[root.partition(" ")[0]] for root in addresses[0])
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


def _constant(one: Instruction) -> int | None:
    """The number among the operands, as a signed one of 32 bits where it has no more."""
    numbers = [number for text in one.operands[1:] if (number := integer(text)) is not None]
    if len(numbers) != 1:
        return None
    return numbers[0] - (1 << 32) if one.parts[-1] == "b32" and numbers[0] >= 1 << 31 else numbers[0]


def _refused(one: Instruction) -> Unreadable:
    return Unreadable(one.line, f"what {one.opcode} makes of an address depends on where the variable lies in shared memory")
