"""Control flow of a kernel, and the slice of it that the protocol depends on.

Most instructions of a kernel move data. What matters is what an event (a wait, an arrival, a meeting) does and whether it is reached:
the events, what computes the operands that decide, the branches on which either depends, and so on backwards. A branch outside of the
slice is passed over: both its sides come together again (at its immediate post-dominator) without any event on the way.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

from pipec.verify.network import Unreadable
from pipec.verify.reader_opcodes import EVENTS, Kind, deciding, defines, kind
from pipec.verify.reader_text import Instruction, Kernel, registers
from pipec.verify.reader_values import computable

EXIT = -1
NONE = -2
_MBARRIER = frozenset({Kind.TRY, Kind.ARRIVE, Kind.EXPECT, Kind.COPIES_ARRIVE, Kind.COMMIT, Kind.LOAD, Kind.ANSWER})


@dataclass
class Step:
    """An instruction of the slice. `defines`, `uses`: registers as bits of a number, see Flow.bit. `spin`: a wait, the whole loop."""

    instruction: Instruction
    kind: Kind
    defines: int
    uses: int
    spin: bool = False
    until: str = ""  # of a loop that looks at memory: the operand for which it waits


@dataclass
class Block:
    """`steps`: what is left of it in the slice. `ends`: its last instruction if it is a branch with a predicate. `next`: the blocks that
    follow (taken branch first), EXIT for the end of the kernel; one only where the branch is outside of the slice."""

    number: int
    first: int
    last: int
    next: tuple[int, ...] = ()
    branch: Instruction | None = None
    steps: list[Step] = field(default_factory=list)
    test: bool = False
    live: int = 0
    # For the first block of a loop: the blocks of the loop, and the registers defined in it.
    loop: frozenset[int] = frozenset()
    carried: int = 0


class Flow:
    """The slice of a kernel."""

    def __init__(self, kernel: Kernel, roots: frozenset[Kind] = EVENTS) -> None:
        self.kernel = kernel
        self.code = kernel.code
        self.bits: dict[str, int] = {}
        self.names: list[str] = []
        self.blocks = _blocks(kernel)
        reached = _reached(self.blocks)
        self.kinds: dict[int, Kind] = {}
        if not self.blocks:
            raise Unreadable(kernel.line, "the kernel has no instructions")
        for block in self.blocks:
            if block.number in reached:
                self.kinds.update((at, kind(self.code[at])) for at in range(block.first, block.last))
        self._slice(roots, reached)
        reached = _reached(self.blocks)
        self._loops(reached)
        self._liveness(reached)
        self.leading: dict[Question, set[int]] = {asks: self._leading_to(reached, asks) for asks in QUESTIONS}

    def bit(self, name: str) -> int:
        found = self.bits.get(name)
        if found is None:
            found = self.bits[name] = 1 << len(self.names)
            self.names.append(name)
        return found

    def mask(self, names: list[str] | tuple[str, ...]) -> int:
        made = 0
        for name in names:
            made |= self.bit(name)
        return made

    def _slice(self, roots: frozenset[Kind], reached: set[int]) -> None:
        after = _post_dominators(self.blocks, reached)
        decides = _control(self.blocks, after, reached)
        definitions: dict[str, list[int]] = {}
        place: dict[int, int] = {}
        work: list[int] = []
        for block in self.blocks:
            if block.number not in reached:
                continue
            for at in range(block.first, block.last):
                place[at] = block.number
                what = self.kinds[at]
                for name in defines(self.code[at], what):
                    definitions.setdefault(name, []).append(at)
                if what in roots or what is Kind.END and self.code[at].predicate:
                    work.append(at)
        wanted: set[int] = set()
        tests: set[int] = set()
        known: set[str] = set()
        while work:
            at = work.pop()
            if at in wanted:
                continue
            wanted.add(at)
            for name in _sources(self.code[at], self.kinds[at], self.kinds[at] in roots):
                if name not in known:
                    known.add(name)
                    work += definitions.get(name, ())
            for decider in decides.get(place[at], ()):
                if decider not in tests:
                    tests.add(decider)
                    work.append(self.blocks[decider].last - 1)
        for block in self.blocks:
            if block.number not in reached:
                continue
            block.steps = [
                self._step(at, self.kinds[at] in roots)
                for at in range(block.first, block.last)
                if at in wanted and self.kinds[at] is not Kind.BRANCH
            ]
            block.test = block.number in tests
            if len(block.next) > 1 and not block.test:
                block.next = (after[block.number],)
            if block.test:
                _spin(block)
                _poll(block)

    def _step(self, at: int, event: bool) -> Step:
        one, what = self.code[at], self.kinds[at]
        return Step(one, what, self.mask(defines(one, what)), self.mask(_sources(one, what, event)))

    @cached_property
    def whole(self) -> list[Block]:
        """The blocks with all ways between them, none left out."""
        return _blocks(self.kernel)

    def defined(self, at: int) -> tuple[str, ...]:
        """The registers that an instruction writes."""
        return defines(self.code[at], self.kinds[at])

    def _loops(self, reached: set[int]) -> None:
        for first, body in natural_loops(self.blocks).items():
            self.blocks[first].loop = body
        for number in reached:
            for inner in self.blocks[number].loop:
                for step in self.blocks[inner].steps:
                    self.blocks[number].carried |= step.defines

    def _liveness(self, reached: set[int]) -> None:
        order = sorted(reached, reverse=True)
        changed = True
        while changed:
            changed = False
            for number in order:
                block = self.blocks[number]
                live = self.live_after(block)
                for step in reversed(block.steps):
                    live = live_before(step, live)
                if live != block.live:
                    block.live, changed = live, True

    def _leading_to(self, reached: set[int], wanted: "Question") -> set[int]:
        """The blocks from which such a step can still be come to."""
        found = {number for number in reached if any(map(wanted, self.blocks[number].steps))}
        changed = True
        while changed:
            more = {number for number in reached - found if not found.isdisjoint(self.blocks[number].next)}
            found |= more
            changed = bool(more)
        return found

    def comes_to(self, wanted: "Question", block: Block, index: int) -> bool:
        """Whether such a step can still be come to from a place."""
        return not self.leading[wanted].isdisjoint(block.next) or any(map(wanted, block.steps[index:]))

    def live_after(self, block: Block) -> int:
        """The registers live at the end of a block, before its branch."""
        live = self.bit(block.branch.predicate) if block.test and block.branch and block.branch.predicate else 0
        for number in block.next:
            if number != EXIT:
                live |= self.blocks[number].live
        return live


def touches(step: Step) -> bool:
    """Whether the step uses an mbarrier."""
    return step.kind in _MBARRIER


def signals_in_part(step: Step) -> bool:
    """Whether some threads of a class may signal an mbarrier, and others not."""
    return step.kind in _MBARRIER and step.instruction.predicate is not None


def shuffles(step: Step) -> bool:
    """Whether a lane reads a register of another one, where that can be followed."""
    return step.instruction.opcode.startswith("shfl.sync.idx")


Question = Callable[[Step], bool]
QUESTIONS: tuple[Question, ...] = (touches, signals_in_part, shuffles)


def live_before(step: Step, live: int) -> int:
    return (live if step.instruction.predicate else live & ~step.defines) | step.uses


def _sources(one: Instruction, what: Kind, event: bool) -> list[str]:
    """The registers from which comes what matters of an instruction."""
    found = [one.predicate] if one.predicate else []
    if what is Kind.BRANCH or what is Kind.END:
        return found
    if event:
        for operand in deciding(one, what):
            found += registers(operand)
    if what in (Kind.COMPUTE, Kind.MEET_COMPUTE) and computable(one):
        for operand in one.operands[1:]:
            found += registers(operand)
        if one.predicate:
            found += defines(one, what)
    return found


def _blocks(kernel: Kernel) -> list[Block]:
    code = kernel.code
    starts = {0, *kernel.labels.values()}
    starts.update(at + 1 for at, one in enumerate(code) if one.head in ("bra", "ret", "exit", "trap"))
    bounds = sorted(at for at in starts if at < len(code))
    number_of = {at: number for number, at in enumerate(bounds)}
    blocks = []
    for number, first in enumerate(bounds):
        last = bounds[number + 1] if number + 1 < len(bounds) else len(code)
        block = Block(number, first, last)
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


def _reached(blocks: list[Block]) -> set[int]:
    seen: set[int] = set()
    work = [0] if blocks else []
    while work:
        number = work.pop()
        if number != EXIT and number not in seen:
            seen.add(number)
            work += blocks[number].next
    return seen


def _post_dominators(blocks: list[Block], reached: set[int]) -> dict[int, int]:
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
    for number in reached:
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


def _order(blocks: list[Block]) -> list[int]:
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


def _control(blocks: list[Block], after: dict[int, int], reached: set[int]) -> dict[int, list[int]]:
    """For each block, the blocks whose branch decides whether it is executed."""
    decides: dict[int, list[int]] = {}
    for number in reached:
        if len(blocks[number].next) < 2:
            continue
        for one in blocks[number].next:
            while one != after[number] and one != EXIT:
                if number not in decides.setdefault(one, []):
                    decides[one].append(number)
                one = after[one]
    return decides


def _back_edges(blocks: list[Block]) -> list[tuple[int, int]]:
    found, state = [], {0: 1}
    work = [(0, iter(blocks[0].next))]
    while work:
        number, rest = work[-1]
        one = next(rest, NONE)
        if one == NONE:
            state[number] = 2
            work.pop()
        elif one != EXIT and one not in state:
            state[one] = 1
            work.append((one, iter(blocks[one].next)))
        elif one != EXIT and state[one] == 1:
            found.append((number, one))
    return found


def natural_loops(blocks: list[Block]) -> dict[int, frozenset[int]]:
    """By first block: of each jump back to it, the blocks from which that is reached without passing its target."""
    before: dict[int, list[int]] = {}
    for number in _reached(blocks):
        for after in blocks[number].next:
            before.setdefault(after, []).append(number)
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


def _poll(block: Block) -> None:
    """A block that looks at memory and comes back to itself until it finds a number."""
    if block.number not in block.next or block.branch is None:
        return
    if [step.kind for step in block.steps] != [Kind.OBSERVE, Kind.COMPUTE] or any(
        one.instruction.predicate for one in block.steps
    ):
        return
    look, test = block.steps
    found, operands = look.instruction.first[0], test.instruction.operands
    if (
        test.instruction.head != "setp"
        or len(operands) != 3
        or operands[0] != block.branch.predicate
        or found not in operands[1:]
    ):
        return
    how, until = test.instruction.parts[1], operands[1] if operands[2] == found else operands[2]
    goes_on_when_true = (block.next[0] == block.number) != block.branch.negated
    if how not in ("eq", "ne") or goes_on_when_true == (how == "eq") or until == found:
        return
    look.until, block.steps, block.test = until, [look], False
    look.uses |= test.uses & ~look.defines
    block.next = tuple(number for number in block.next if number != block.number)


def _spin(block: Block) -> None:
    """A block that tries a barrier and, while it is not ready, does nothing but come back to itself: a wait."""
    if block.number not in block.next or block.branch is None:
        return
    tries = [step for step in block.steps if step.kind is Kind.TRY]
    if len(tries) != 1 or any(step.kind not in (Kind.TRY, Kind.COMPUTE) for step in block.steps):
        return
    defined = 0
    for step in block.steps:
        if step.uses & ~defined & _all(block) or step.instruction.predicate:
            return
        defined |= step.defines
    (wait,) = tries
    ready = {wait.instruction.first[0]: True}
    for step in block.steps[block.steps.index(wait) + 1 :]:
        one = step.instruction
        if one.opcode == "not.pred" and one.operands[1] in ready:
            ready[one.operands[0]] = not ready[one.operands[1]]
    way = ready.get(block.branch.predicate or "")
    if way is None:
        return
    taken_when_ready = way != block.branch.negated
    if block.next[0 if taken_when_ready else 1] == block.number:
        raise Unreadable(wait.instruction.line, "a loop that goes on while the barrier is complete is not understood")
    wait.spin, block.test = True, False
    block.next = (block.next[0 if taken_when_ready else 1],)


def _all(block: Block) -> int:
    made = 0
    for step in block.steps:
        made |= step.defines
    return made
