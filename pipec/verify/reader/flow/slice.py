"""The slice of a kernel on which the protocol depends.

Most instructions of a kernel move data. What matters is the effect of events (waits, arrivals, synchronisations) and whether they are
reached: the events, the computations of their operands, the branches on which either depends, and so on backwards. A branch outside the
slice is skipped: both its paths meet again (at its immediate postdominator) without any event in between.
"""

from collections.abc import Callable, Sequence
from functools import cache, cached_property
from math import inf

from pipec.verify.network import Unreadable
from pipec.verify.reader.flow.addresses import check_addresses
from pipec.verify.reader.flow.graph import EXIT, Before, Block, Graph, Run, Step, coming_from, leading_to, natural_loops, reached
from pipec.verify.reader.flow.sections import Section, members, sections
from pipec.verify.reader.text.instructions import Instruction
from pipec.verify.reader.text.lexical import integer
from pipec.verify.reader.text.opcodes import COMPUTING, EVENTS, MEETINGS, Kind, deciding, defines
from pipec.verify.reader.text.operations import computable, operation, widths_of
from pipec.verify.reader.text.statements import registers

_MBARRIER = frozenset({Kind.TRY, Kind.ARRIVE, Kind.EXPECT, Kind.COPIES_ARRIVE, Kind.COMMIT, Kind.LOAD, Kind.ANSWER})


class Flow:
    """The slice of a kernel with the given `roots`. `prologue`: only up to the first synchronisation of all threads of a CTA."""

    def __init__(self, graph: Graph, roots: frozenset[Kind] = EVENTS, *, prologue: bool = False) -> None:
        self.graph, self.roots = graph, roots
        self.kernel, self.code, self.kinds = graph.kernel, graph.code, graph.kinds
        self.bits: dict[str, int] = {}
        self.names: list[str] = []
        self._named: dict[int, tuple[str, ...]] = {}
        self.blocks = [Block(one.number, one.first, one.last, one.next, one.branch, [], {}) for one in graph.blocks]
        if prologue:
            for number in {
                graph.place[at] for at, what in graph.notable.items() if what is Kind.SYNC and meets_all(self.code[at])
            }:
                self.blocks[number].next = (EXIT,)
        self._slice(roots, reached(self.blocks) if prologue else graph.reached)
        self.left = left = reached(self.blocks)
        self._liveness(left)
        for number in left:
            self._runs(self.blocks[number])
        self.within = check_addresses(self.blocks, self.kernel.alignments, self.bits)
        before = coming_from(self.blocks, left)
        self._loops(left, before)
        self.sections = sections(self.blocks, graph.after, left)
        for section in self.sections.values():
            self._mark(section)
        self._live: dict[int, list[int]] = {}
        # By block and step: the questions that this step or a later one of the block answers, as a bit set.
        self._answered = {number: _answered(self.blocks[number].steps) for number in left}
        self.leading: dict[Question, set[int]] = {
            asks: leading_to(before, {number for number in left if self._answered[number][0] & bit})
            for asks, bit in QUESTIONS.items()
        }

    @cached_property
    def waiting(self) -> dict[int, tuple[bool, bool]]:
        """By loop header: whether a barrier is waited for in the loop, and whether lanes of warps synchronise."""
        found = {}
        for block in self.blocks:
            kinds = {step.kind for inner in block.loop for step in self.blocks[inner].steps if step.spin or step.kind in MEETINGS}
            found[block.number] = Kind.TRY in kinds, not kinds.isdisjoint(MEETINGS)
        return found

    @cached_property
    def depths(self) -> dict[int, int]:
        """By block, in how many loops it is."""
        found = dict.fromkeys((EXIT, *range(len(self.blocks))), 0)
        for block in self.blocks:
            for inner in block.loop:
                found[inner] += 1
        return found

    def _mark(self, section: Section) -> None:
        for number in members(self.blocks, section):
            for step in self.blocks[number].steps:
                step.partly = True

    def mask(self, names: Sequence[str]) -> int:
        """The relevant ones of the registers, as a bit set."""
        made = 0
        for name in names:
            made |= self.bits.get(name, 0)
        return made

    def _slice(self, roots: frozenset[Kind], among: set[int]) -> None:
        graph, bits, kinds, code = self.graph, self.bits, self.kinds, self.code
        # Each with whether its result matters: that of a shuffle, at which lanes meet, often does not.
        work = [(at, False) for at, what in graph.notable.items() if what in roots and graph.place[at] in among]
        uses: dict[int, int] = {}
        known: set[tuple[int, bool]] = set()
        seen: set[int] = set()
        tests: set[int] = set()
        while work:
            one = at, matters = work.pop()
            if one in known:
                continue
            known.add(one)
            used, key = uses.get(at, 0), (at, kinds[at] in roots, matters)
            sources = graph.sources.get(key)
            if sources is None:
                sources = graph.sources[key] = _sources(code[at], kinds[at], *key[1:])
            for name in sources:
                bit = bits.get(name)
                if bit is None:
                    bit = bits[name] = 1 << len(self.names)
                    self.names.append(name)
                    work += ((definition, True) for definition in graph.definitions(name))
                used |= bit
            uses[at] = used
            place = graph.place[at]
            if place in seen:
                continue
            seen.add(place)
            for decider in graph.decides.get(place, ()):
                if decider not in tests:
                    tests.add(decider)
                    work.append((self.blocks[decider].last - 1, False))
        for at in sorted(uses):
            if kinds[at] is not Kind.BRANCH and kinds[at] is not Kind.END:
                _check_operands(code[at], kinds[at])
                step = Step(code[at], kinds[at], self.mask(graph.defined(at)), uses[at])
                self.blocks[graph.place[at]].steps.append(step)
        for block in self.blocks:
            if block.number not in among:
                continue
            block.test = block.number in tests and block.next != (EXIT,)
            # Nothing relevant depends on this branch: skip to the join. Otherwise each such branch would double the states of the walk.
            if len(block.next) > 1 and not block.test:
                block.next = (graph.after[block.number],)
        for block in self.blocks:
            if block.number in among and block.test:
                _spin(block, [self._past_empty(number) for number in block.next])
                _poll(block)

    def _past_empty(self, number: int) -> int:
        """The block that a way leads to, past blocks in which nothing relevant happens: `@%p bra DONE; bra AGAIN` loops as
        `@!%p bra AGAIN` does."""
        seen = set[int]()
        while number != EXIT and number not in seen:
            block = self.blocks[number]
            if block.steps or block.test or len(block.next) != 1:
                break
            seen.add(number)
            number = block.next[0]
        return number

    def _runs(self, block: Block) -> None:
        """Records the computations between events."""
        first, used, made = 0, 0, 0
        for at, step in enumerate((*block.steps, None)):
            if step is not None and _computes(step):
                # If its predicate is false, a register keeps its value.
                needs = step.uses | (step.defines if step.instruction.predicate else 0)
                used, made = used | needs & ~made, made | step.defines
                continue
            if at > first:
                block.runs[first] = Run(block.steps[first:at], self.named(used), self.named(made))
            first, used, made = at + 1, 0, 0

    def named(self, mask: int) -> tuple[str, ...]:
        """The registers of a bit set."""
        found = self._named.get(mask)
        if found is None:
            names, left = [], mask
            while left:
                lowest = left & -left
                names.append(self.names[lowest.bit_length() - 1])
                left ^= lowest
            found = self._named[mask] = tuple(names)
        return found

    def _loops(self, reached: set[int], before: Before) -> None:
        made = {number: _all(self.blocks[number]) for number in reached}
        for first, body in natural_loops(self.blocks, before).items():
            self.blocks[first].loop = body
        for number in reached:
            for inner in self.blocks[number].loop:
                self.blocks[number].carried |= made[inner]

    def _liveness(self, reached: set[int]) -> None:
        """Liveness at the start of each block; removes steps whose results are dead.

        The slice follows names: if it needs a register in one place, it includes all its definitions, even those that do not reach that
        place. Registers that only feed themselves, iteration after iteration, would distinguish equivalent states. So a step makes its
        operands live only where its result is.
        """
        behind = dict.fromkeys(reached, -1)
        # Reverse text order is almost postorder, so few rounds are needed.
        order = sorted(reached, reverse=True)
        changed = True
        while changed:
            changed = False
            for number in order:
                block = self.blocks[number]
                live = self.live_after(block)
                if live == behind[number]:
                    continue
                behind[number] = live
                for step in reversed(block.steps):
                    live = live_before(step, live)
                if live != block.live:
                    block.live, changed = live, True
        for number in reached:
            self._without_dead(self.blocks[number], behind[number])

    @staticmethod
    def _without_dead(block: Block, live: int) -> None:
        kept = []
        for step in reversed(block.steps):
            if not _is_dead(step, live):
                kept.append(step)
                live = live_before(step, live)
        block.steps = kept[::-1]

    def comes_to(self, wanted: "Question", block: Block, index: int) -> bool:
        """Whether such a step is reachable from a place."""
        return bool(self._answered[block.number][index] & QUESTIONS[wanted]) or not self.leading[wanted].isdisjoint(block.next)

    def live_at(self, block: Block) -> list[int]:
        """The registers live before each step of a block, and at its end."""
        found = self._live.get(block.number)
        if found is None:
            found = self._live[block.number] = [self.live_after(block)]
            for step in reversed(block.steps):
                found.append(live_before(step, found[-1]))
            found.reverse()
        return found

    def live_after(self, block: Block) -> int:
        """The registers live at the end of a block, before its branch."""
        live = self.bits[block.branch.predicate] if block.test and block.branch and block.branch.predicate else 0
        for number in block.next:
            if number != EXIT:
                live |= self.blocks[number].live
        return live


def meets_all(one: Instruction) -> bool:
    """For a named barrier: whether all threads of the CTA synchronise."""
    return one.predicate is None and len(one.operands) == 1


def touches(step: Step) -> bool:
    """Whether the step uses an mbarrier."""
    return step.kind in _MBARRIER


def signals_in_part(step: Step) -> bool:
    """Whether some threads of a class may signal an mbarrier, and others not."""
    return step.kind in _MBARRIER and (step.partly or step.instruction.predicate is not None)


def initialises(step: Step) -> bool:
    """Whether the step initialises an mbarrier."""
    return step.kind is Kind.INIT


def gives_up(step: Step) -> bool:
    """Whether the step invalidates an mbarrier."""
    return step.kind is Kind.GIVE_UP


def shuffles(step: Step) -> bool:
    """Whether a lane reads a register of another one in a way that can be tracked."""
    return step.instruction.opcode.startswith("shfl.sync.idx")


Question = Callable[[Step], bool]
QUESTIONS: dict[Question, int] = {
    asks: 1 << number for number, asks in enumerate((touches, signals_in_part, initialises, gives_up, shuffles))
}


def _answered(steps: Sequence[Step]) -> list[int]:
    """By step, and behind the last one: the questions that a step from there on answers, as a bit set."""
    found = [0]
    for step in reversed(steps):
        found.append(found[-1] | sum([bit for asks, bit in QUESTIONS.items() if asks(step)]))
    return found[::-1]


def _computes(step: Step) -> bool:
    """Whether the result depends only on registers: what memory returns depends on the reader and the time."""
    opcode = step.instruction.opcode
    return step.kind is Kind.COMPUTE and (opcode[:3] != "ld." or opcode[:9] == "ld.param.")


def _is_dead(step: Step, live: int) -> bool:
    return step.kind is Kind.COMPUTE and not step.defines & live


def live_before(step: Step, live: int) -> int:
    if _is_dead(step, live):
        return live
    return (live if step.instruction.predicate else live & ~step.defines) | step.uses


def _sources(one: Instruction, what: Kind, event: bool, matters: bool) -> list[str]:
    """The registers on which the relevant effect of an instruction depends. `matters`: its result, too."""
    found = [one.predicate] if one.predicate else []
    if what is Kind.BRANCH or what is Kind.END:
        return found
    if event:
        found += registers(" ".join(deciding(one, what)))
    if matters and (what is Kind.COMPUTE or what is Kind.MEET_COMPUTE) and computable(one.opcode):
        text = one.text
        found += registers(text[text.find("}") + 1 :] if text[:1] == "{" else text.partition(",")[2])
        if one.predicate:
            # If the predicate is false the register keeps its value, which then matters as well.
            found += defines(one, what)
    return found


def _poll(block: Block) -> None:
    """Recognises a block that loads from memory and loops until it finds a number."""
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
        or operation(test.instruction.opcode) is None  # floats may be equal that have not the same bits, and no NaN is
        or len(operands) != 3
        or operands[0] != block.branch.predicate
        or found not in operands[1:]
    ):
        return
    how, until = test.instruction.parts[1], operands[1] if operands[2] == found else operands[2]
    goes_on_when_true = (block.next[0] == block.number) != block.branch.negated
    # Only "until it equals": a loop that ends on an inequality may miss a value between two iterations.
    if how not in ("eq", "ne") or goes_on_when_true == (how == "eq") or until in look.instruction.first:
        return
    look.until, block.steps, block.test = until, [look], False
    look.uses |= test.uses & ~look.defines
    block.next = tuple(number for number in block.next if number != block.number)


def _spin(block: Block, ways: Sequence[int]) -> None:
    """Recognises a block that tries a barrier and only loops while it is not ready: a wait. `ways`: where its branch leads."""
    if block.number not in ways or block.branch is None:
        return
    tries = [step for step in block.steps if step.kind is Kind.TRY]
    if len(tries) != 1 or any(step.kind not in (Kind.TRY, Kind.COMPUTE) for step in block.steps):
        return
    defined = 0
    for step in block.steps:
        # A value carried between tries (such as a counter that gives up) makes it more than a wait.
        if step.uses & ~defined & _all(block) or step.instruction.predicate:
            return
        defined |= step.defines
    (wait,) = tries
    ready = {wait.instruction.first[0]: True}
    for step in block.steps[block.steps.index(wait) + 1 :]:
        one = step.instruction
        turned = not ready[one.operands[1]] if one.opcode == "not.pred" and one.operands[1] in ready else None
        # Anything else written no longer reflects the barrier.
        for name in defines(one, step.kind):
            ready.pop(name, None)
        if turned is not None:
            ready[one.operands[0]] = turned
    way = ready.get(block.branch.predicate or "")
    if way is None:
        return
    taken_when_ready = way != block.branch.negated
    if ways[0 if taken_when_ready else 1] == block.number:
        # A spin loop with inverted condition must not be read as a wait.
        raise Unreadable(wait.instruction.line, "a loop that goes on while the barrier is complete is not understood")
    wait.spin, block.test = True, False
    block.next = (block.next[0 if taken_when_ready else 1],)


def _check_operands(one: Instruction, what: Kind) -> None:
    """Arithmetic takes as many operands as its operation, and whatever else is followed, one at least."""
    if what not in COMPUTING:
        return
    (least, most), predicates, count = _operands_of(one.opcode), _predicates_of(one.opcode), len(one.operands)
    if not least <= count <= most:
        raise Unreadable(one.line, f"{one.opcode} with {count} operands is not understood")
    for at in predicates:
        # As in C any other number than 0 is true, and not its lowest bit.
        if (number := integer(one.operands[at])) and number % 2 == 0:
            raise Unreadable(one.line, f"the predicate {one.operands[at][:40]} is not understood")


@cache
def _operands_of(opcode: str) -> tuple[int, float]:
    """The least and the largest number of operands, with the result."""
    op = operation(opcode)
    if op is not None:
        return 1 + len(widths_of(op)), 1 + len(widths_of(op))
    return (2, inf) if computable(opcode) else (0, inf)


@cache
def _predicates_of(opcode: str) -> tuple[int, ...]:
    """The places of operands that are predicates."""
    op = operation(opcode)
    return () if op is None else tuple(at for at, width in enumerate(widths_of(op), 1) if width == 1)


def _all(block: Block) -> int:
    made = 0
    for step in block.steps:
        made |= step.defines
    return made
