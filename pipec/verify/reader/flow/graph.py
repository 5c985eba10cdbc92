"""Control flow of a kernel: basic blocks, postdominators, control dependence, loops."""

from collections.abc import Callable, Collection, Sequence
from functools import cached_property
from typing import Any

from pipec.record import field, mutable
from pipec.verify.network import Unreadable
from pipec.verify.reader.text.instructions import Instruction
from pipec.verify.reader.text.opcodes import DEFINING, LEAST, Kind, kind_of
from pipec.verify.reader.text.statements import Kernel

EXIT = -1
_NONE = -2
Before = dict[int, list[int]]
_PLAIN = frozenset({Kind.COMPUTE, Kind.EFFECT})


@mutable
class Stretch:
    """A basic block: instructions from `first` up to, excluding, `last`. `next`: its successors (taken branch first), EXIT for the end
    of the kernel. `branch`: the last instruction, if there are two successors."""

    number: int
    first: int
    last: int
    next: tuple[int, ...]
    branch: Instruction | None


@mutable
class Step:
    """An instruction of the slice. `defines`, `uses`: registers as a bit set, see Flow.bit. `spin`: a wait, including its loop."""

    instruction: Instruction
    kind: Kind
    defines: int
    uses: int
    spin: bool = False
    until: str = ""  # for a loop that polls memory: the operand that it waits for
    partly: bool = False  # in a section (flow/sections.py), where some threads may be alone

    @property
    def passes(self) -> bool:
        """Whether it marks a wait that is skipped if it is not executed: nothing depends on its result."""
        return self.kind is Kind.TRY and not self.spin and not self.defines and self.instruction.predicate is not None


@mutable
class Run:
    """Consecutive steps that only compute register values from others. `uses`: the live-in registers, `defines` the results. `plans`:
    how to execute the steps, by rank. `made`: a cache from threads and inputs to results and requirements."""

    steps: list[Step]
    uses: tuple[str, ...]
    defines: tuple[str, ...]
    plans: dict[int, list[Callable[..., None]]] = field(default_factory=dict)
    made: dict[tuple[object, ...], tuple[dict[Any, Any], tuple[Any, ...]]] = field(default_factory=dict)


@mutable
class Block(Stretch):
    """`steps`: those in the slice. `next`: a single block if the branch is not in the slice; `test`: it is. `loop`, `carried`: for a
    loop header, the blocks of the loop, and the registers defined in it. `runs`: by the index of their first step."""

    steps: list[Step]
    runs: dict[int, Run]
    test: bool = False
    live: int = 0
    loop: frozenset[int] = frozenset()
    carried: int = 0


class Graph:
    """The control flow of a kernel. By instruction: `kinds`, and `place`, its block, or EXIT if it is unreachable. `notable`: the kinds
    of instructions that do more than compute or store."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel, self.code = kernel, kernel.code
        self.blocks = _blocks(kernel)
        if not self.blocks:
            raise Unreadable(kernel.line, "the kernel has no instructions")
        self.reached = reached(self.blocks)
        known = {opcode: kind_of(opcode) for opcode in {*self.code.opcodes}}
        self.kinds = [known[opcode] for opcode in self.code.opcodes]
        self.place = [EXIT] * len(self.code)
        for number in self.reached:
            block = self.blocks[number]
            self.place[block.first : block.last] = [number] * (block.last - block.first)
        # The registers on which an instruction depends, as an event or not: slices ask for the same ones.
        self.sources: dict[tuple[int, bool, bool], list[str]] = {}
        self._ahead: dict[frozenset[Kind], tuple[list[int], set[int]]] = {}
        self.notable = {at: what for at, what in enumerate(self.kinds) if what not in _PLAIN and self.place[at] != EXIT}
        for at, what in self.notable.items():
            if what is Kind.UNREAD:
                raise Unreadable(self.code[at].line, f"{self.code[at].opcode} is not understood")
            if what in LEAST and len(self.code[at].operands) < LEAST[what]:
                raise Unreadable(self.code[at].line, f"{self.code[at].opcode} has too few operands")
        self.after = _post_dominators(self.blocks, self.reached)
        self.decides = _control(self.blocks, self.after, self.reached)

    def definitions(self, register: str) -> list[int]:
        """The instructions that write a register."""
        only, several = self._definitions
        if register in several:
            return [at for at in several[register] if self.kinds[at] in DEFINING and self.place[at] != EXIT]
        if register not in only:
            return []
        at = only[register]
        return [at] if self.kinds[at] in DEFINING and self.place[at] != EXIT else []

    @cached_property
    def _definitions(self) -> tuple[dict[str, int], dict[str, list[int]]]:
        """By name: the first definition, the only one of almost all registers; and all definitions, if there are several."""
        only: dict[str, int] = {}
        several: dict[str, list[int]] = {}
        for at, name in enumerate(self.code.defined):
            for one in (name,) if name else self.defined(at):
                if one in only:
                    several.setdefault(one, [only[one]]).append(at)
                else:
                    only[one] = at
        return only, several

    def defined(self, at: int) -> tuple[str, ...]:
        """The registers that an instruction writes."""
        if self.kinds[at] not in DEFINING:
            return ()
        first = self.code.first(at)
        return () if first[:1] and first[0][:1] in ("[", "") else first

    def coming_to(self, places: Sequence[int], kinds: frozenset[Kind]) -> list[int]:
        """The instructions among `places` from which one of these kinds is reachable."""
        if not places:
            return []
        if kinds not in self._ahead:
            there = [at for at, kind in self.notable.items() if kind in kinds]
            self._ahead[kinds] = there, leading_to(self.before, {self.place[at] for at in there})
        there, leads = self._ahead[kinds]
        found = []
        for at in places:
            block = self.blocks[self.place[at]]
            if any(at < one < block.last for one in there) or not leads.isdisjoint(block.next):
                found.append(at)
        return found

    def comes_to(self, number: int, start: int | None, without: Collection[Kind] = ()) -> bool:
        """Whether a thread may come to an instruction from another one, or from the begin, without executing one of these kinds."""
        seen = set[int]()
        work = [(0, 0)] if start is None else [(self.place[start], start + 1)]
        while work:
            place, first = work.pop()
            block = self.blocks[place]
            stops = [at for at in range(first, block.last) if self.kinds[at] in without]
            if first <= number < (stops[0] if stops else block.last):
                return True
            onwards = [] if stops else [one for one in block.next if one != EXIT and one not in seen]
            seen.update(onwards)
            work += [(one, self.blocks[one].first) for one in onwards]
        return False

    @cached_property
    def before(self) -> Before:
        """By block, those from which it is reached directly."""
        return coming_from(self.blocks, self.reached)

    @cached_property
    def loops(self) -> dict[int, frozenset[int]]:
        return natural_loops(self.blocks, self.before)


def _blocks(kernel: Kernel) -> list[Stretch]:
    code = kernel.code
    starts = {0, *kernel.labels.values()}
    ends = {opcode for opcode in {*code.opcodes} if opcode.partition(".")[0] in ("bra", "ret", "exit", "trap")}
    starts.update([at for at, opcode in enumerate(code.opcodes, 1) if opcode in ends])
    bounds = sorted(at for at in starts if at < len(code))
    number_of = {at: number for number, at in enumerate(bounds)}
    blocks = []
    for number, first in enumerate(bounds):
        last = bounds[number + 1] if number + 1 < len(bounds) else len(code)
        falls = number + 1 if number + 1 < len(bounds) else EXIT
        block = Stretch(number, first, last, (falls,), None)
        blocks.append(block)
        if code.opcodes[last - 1] not in ends:
            continue
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


def leading_to(before: Before, wanted: set[int]) -> set[int]:
    """The blocks that are wanted, or from which one of these is reachable."""
    found, work = set(wanted), [*wanted]
    while work:
        for one in before.get(work.pop(), ()):
            if one not in found:
                found.add(one)
                work.append(one)
    return found


def coming_from(blocks: Sequence[Stretch], among: set[int]) -> Before:
    """By block: its predecessors among some blocks."""
    before: Before = {}
    for number in among:
        for after in blocks[number].next:
            before.setdefault(after, []).append(number)
    return before


def _post_dominators(blocks: Sequence[Stretch], among: set[int]) -> dict[int, int]:
    """The immediate postdominator of each block. Blocks that never exit have only EXIT."""
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
    """Postorder of the reversed control flow, starting at the exit."""
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
    """For each block, the blocks on whose branch it is control-dependent."""
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


def natural_loops(blocks: Sequence[Stretch], before: Before) -> dict[int, frozenset[int]]:
    """By header: the natural loop of each back edge, that is, the blocks from which its source is reachable without passing the header.
    `before`: of all reachable blocks."""
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
