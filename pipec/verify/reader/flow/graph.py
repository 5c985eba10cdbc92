"""Control flow of a kernel: blocks of instructions, what must come after what, which branch decides about which block, loops."""

from collections.abc import Sequence
from functools import cached_property

from pipec.record import field, mutable
from pipec.verify.network import Unreadable
from pipec.verify.reader.text.opcodes import Kind, defines, kind_of
from pipec.verify.reader.text.statements import Instruction, Kernel

EXIT = -1
_NONE = -2


@mutable
class Stretch:
    """Instructions from `first` up to, not including, `last`, always executed together. `next`: the blocks that follow (taken branch
    first), EXIT for the end of the kernel. `branch`: the last instruction, if there are two ways on from it."""

    number: int
    first: int
    last: int
    next: tuple[int, ...] = ()
    branch: Instruction | None = None


@mutable
class Step:
    """An instruction of the slice. `defines`, `uses`: registers as bits of a number, see Flow.bit. `spin`: a wait, the whole loop."""

    instruction: Instruction
    kind: Kind
    defines: int
    uses: int
    spin: bool = False
    until: str = ""  # of a loop that looks at memory: the operand for which it waits
    partly: bool = False  # in a section (flow/sections.py), where some threads may be by themselves


@mutable
class Block(Stretch):
    """`steps`: what is left of it in the slice. `next`: one block only where the branch is outside of the slice; `test`: it is inside.
    `loop`, `carried`: for the first block of a loop, the blocks of the loop, and the registers defined in it."""

    steps: list[Step] = field(default_factory=list)
    test: bool = False
    live: int = 0
    loop: frozenset[int] = frozenset()
    carried: int = 0


class Graph:
    """All of a kernel's control flow. By instruction: `kinds`, and `place`, its block; by register: `definitions`. `notable`: the kinds of
    what does more than compute or store."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel, self.code = kernel, kernel.code
        self.blocks = _blocks(kernel)
        if not self.blocks:
            raise Unreadable(kernel.line, "the kernel has no instructions")
        self.reached = reached(self.blocks)
        self.kinds: dict[int, Kind] = {}
        self.place = [0] * len(self.code)
        self._ahead: dict[frozenset[Kind], tuple[list[int], set[int]]] = {}
        self.definitions: dict[str, list[int]] = {}
        known = {opcode: kind_of(opcode) for opcode in {one.opcode for one in self.code}}
        for block in self.blocks:
            if block.number not in self.reached:
                continue
            self.place[block.first : block.last] = [block.number] * (block.last - block.first)
            for at in range(block.first, block.last):
                one = self.code[at]
                what = self.kinds[at] = known[one.opcode]
                for name in defines(one, what):
                    self.definitions.setdefault(name, []).append(at)
        self.notable = {at: what for at, what in self.kinds.items() if what is not Kind.COMPUTE and what is not Kind.EFFECT}
        for at, what in self.notable.items():
            if what is Kind.UNREAD:
                raise Unreadable(self.code[at].line, f"{self.code[at].opcode} is not understood")
        self.after = _post_dominators(self.blocks, self.reached)
        self.decides = _control(self.blocks, self.after, self.reached)

    def defined(self, at: int) -> tuple[str, ...]:
        """The registers that an instruction writes."""
        return defines(self.code[at], self.kinds[at])

    def coming_to(self, places: Sequence[int], kinds: frozenset[Kind]) -> list[int]:
        """The instructions among `places` from which a way leads on to one of these kinds."""
        if not places:
            return []
        if kinds not in self._ahead:
            there = [at for at, kind in self.notable.items() if kind in kinds]
            self._ahead[kinds] = there, leading_to(self.blocks, self.reached, {self.place[at] for at in there})
        there, leads = self._ahead[kinds]
        found = []
        for at in places:
            block = self.blocks[self.place[at]]
            if any(at < one < block.last for one in there) or not leads.isdisjoint(block.next):
                found.append(at)
        return found

    @cached_property
    def loops(self) -> dict[int, frozenset[int]]:
        return natural_loops(self.blocks)


def _blocks(kernel: Kernel) -> list[Stretch]:
    code = kernel.code
    starts = {0, *kernel.labels.values()}
    ends = {opcode for opcode in {one.opcode for one in code} if opcode.partition(".")[0] in ("bra", "ret", "exit", "trap")}
    starts.update([at for at, one in enumerate(code, 1) if one.opcode in ends])
    bounds = sorted(at for at in starts if at < len(code))
    number_of = {at: number for number, at in enumerate(bounds)}
    blocks = []
    for number, first in enumerate(bounds):
        last = bounds[number + 1] if number + 1 < len(bounds) else len(code)
        block = Stretch(number, first, last)
        falls = number + 1 if number + 1 < len(bounds) else EXIT
        block.next = (falls,)
        end = code[last - 1]
        if end.head == "bra":
            target = number_of.get(kernel.labels.get(end.text.strip(), -1), EXIT)
            if end.text.strip() not in kernel.labels:
                raise Unreadable(end.line, f"the label {end.text[:40]} does not exist")
            block.next = (target, falls) if end.predicate and target != falls else (target,)
        elif end.head in ("ret", "exit"):
            block.next = (EXIT, falls) if end.predicate and falls != EXIT else (EXIT,)
        if len(block.next) > 1:
            block.branch = end
        blocks.append(block)
    return blocks


def reached(blocks: Sequence[Stretch]) -> set[int]:
    seen: set[int] = set()
    work = [0] if blocks else []
    while work:
        number = work.pop()
        if number != EXIT and number not in seen:
            seen.add(number)
            work += blocks[number].next
    return seen


def leading_to(blocks: Sequence[Stretch], among: set[int], wanted: set[int]) -> set[int]:
    """The blocks among some that are wanted, or from which one of these is come to."""
    found, work = set(wanted), [*wanted]
    before = _before(blocks, among) if work else {}
    while work:
        for one in before.get(work.pop(), ()):
            if one not in found:
                found.add(one)
                work.append(one)
    return found


def _before(blocks: Sequence[Stretch], among: set[int]) -> dict[int, list[int]]:
    """By block: those from which it is come to at once."""
    before: dict[int, list[int]] = {}
    for number in among:
        for after in blocks[number].next:
            before.setdefault(after, []).append(number)
    return before


def _post_dominators(blocks: Sequence[Stretch], among: set[int]) -> dict[int, int]:
    """The immediate post-dominator of each block: where all ways from it come together first. Blocks that never end have none but EXIT."""
    order = _order(blocks)
    rank = {number: at for at, number in enumerate(order)}
    rank[EXIT] = -1
    after: dict[int, int] = {EXIT: EXIT}
    changed = True
    while changed:
        changed = False
        for number in order:
            found: int | None = None
            for one in blocks[number].next:
                if one in after:
                    found = one if found is None else _meet(found, one, after, rank)
            if found is not None and after.get(number) != found:
                after[number], changed = found, True
    for number in among:
        if number not in after:
            raise Unreadable(0, "a loop that never ends is not understood")
    return after


def _meet(left: int, right: int, after: dict[int, int], rank: dict[int, int]) -> int:
    while left != right:
        while rank[left] > rank[right]:
            left = after[left]
        while rank[right] > rank[left]:
            right = after[right]
    return left


def _order(blocks: Sequence[Stretch]) -> list[int]:
    """Blocks, those later on every way first: post-order of the flow turned round, beginning at the exit."""
    before: dict[int, list[int]] = {}
    for block in blocks:
        for one in block.next:
            before.setdefault(one, []).append(block.number)
    seen = {EXIT}
    order: list[int] = []
    work = [(EXIT, iter(before.get(EXIT, ())))]
    while work:
        number, rest = work[-1]
        one = next((one for one in rest if one not in seen), EXIT)
        if one == EXIT:
            work.pop()
            order.append(number)
        else:
            seen.add(one)
            work.append((one, iter(before.get(one, ()))))
    return [number for number in reversed(order) if number != EXIT]


def _control(blocks: Sequence[Stretch], after: dict[int, int], among: set[int]) -> dict[int, list[int]]:
    """For each block, the blocks whose branch decides whether it is executed."""
    decides: dict[int, list[int]] = {}
    for number in among:
        if len(blocks[number].next) < 2:
            continue
        for one in blocks[number].next:
            while one != after[number] and one != EXIT:
                if number not in decides.setdefault(one, []):
                    decides[one].append(number)
                one = after[one]
    return decides


def _back_edges(blocks: Sequence[Stretch]) -> list[tuple[int, int]]:
    found, state = [], {0: 1}
    work = [(0, iter(blocks[0].next))]
    while work:
        number, rest = work[-1]
        one = next(rest, _NONE)
        if one == _NONE:
            state[number] = 2
            work.pop()
        elif one != EXIT and one not in state:
            state[one] = 1
            work.append((one, iter(blocks[one].next)))
        elif one != EXIT and state[one] == 1:
            found.append((number, one))
    return found


def natural_loops(blocks: Sequence[Stretch]) -> dict[int, frozenset[int]]:
    """By first block: of each jump back to it, the blocks from which that is reached without passing its target."""
    before = _before(blocks, reached(blocks))
    found: dict[int, frozenset[int]] = {}
    for source, target in _back_edges(blocks):
        body, work = {*found.get(target, ()), target}, [source]
        while work:
            number = work.pop()
            if number not in body:
                body.add(number)
                work += before.get(number, ())
        found[target] = frozenset(body)
    return found
