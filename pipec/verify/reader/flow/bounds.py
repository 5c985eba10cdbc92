"""Where addresses that change lead: between which ends a register lies at a place of the text, whatever the thread and the time.

A register with one definition holds what that makes of its operands there; one that goes round a few numbers holds one of these. Others
with several definitions are followed through the blocks, and so is %tid.x, as branches tell more of them (`setp.lt.u32 %p, %r, 4; @%p
bra`). At the head of a loop a number is widened to the next one that something is compared with, so that few rounds are needed. What is
not understood may be any number.
"""

from bisect import bisect_left
from collections.abc import Collection

from pipec.verify.network import Unreadable
from pipec.verify.reader.flow.definitions import MOST_FOLLOWED, WORDS, Definition, Definitions
from pipec.verify.reader.flow.graph import EXIT, Graph
from pipec.verify.reader.flow.intervals import ANYTHING, Interval, applied, between, compared, number, union, variable_of, widened
from pipec.verify.reader.text.lexical import integer
from pipec.verify.reader.text.opcodes import Kind
from pipec.verify.reader.text.operations import Operation, operation

_HALF = 1 << 31
LANES = 32
_OF_A_WARP = 5  # bits of the number of a thread in its warp
_MOST_TURNS, _MOST_CHANGES = 20, 200
_MOST_ENDS = 100
_MOST_SUMS = 64
_DEEPEST = 100  # definitions that are looked through at once
_SUMS = frozenset({"add", "sub"})
_THREAD, _LANE = "%tid.x", "%laneid"
# What a way tells: which number that is followed, shifted down by how much; how that compares, with a sign or without, and with what.
_Told = tuple[int, int, str, bool, Interval]
_NOT = {"eq": "ne", "lt": "ge", "le": "gt", "lo": "hs", "ls": "hi"}
_NOT |= {how: other for other, how in _NOT.items()}
_TURNED = {"eq": "eq", "ne": "ne", "lt": "gt", "le": "ge", "lo": "hi", "ls": "hs"}
_TURNED |= {how: other for other, how in _TURNED.items()}


class Bounds:
    """`block`: the threads of a CTA along its axes; `asked`: the registers of which `at` is asked."""

    def __init__(self, graph: Graph, block: tuple[int, int, int], ranks: int, asked: Collection[str]) -> None:
        self.graph, self.outlines = graph, graph.code.outlines
        self.in_rows = block[0] % LANES == 0  # whether the threads of a warp follow each other along x
        fixed: dict[str, Interval] = {name: (name, 0, 0, 1 << 40) for name in graph.kernel.shared}
        for axis, count in zip("xyz", block, strict=True):
            fixed[f"%ntid.{axis}"], fixed[f"%tid.{axis}"] = number(count), between(0, count - 1)
        fixed |= {_LANE: between(0, LANES - 1), "%cluster_ctarank": between(0, ranks - 1)}
        if hidden := [name for name in fixed if name.partition(".")[0] in graph.kernel.widths]:
            raise Unreadable(graph.kernel.line, f"a register that hides the special one {hidden[0]} is not understood")
        made = self.definitions = Definitions(graph, fixed)
        made.find(asked)
        self.rounds = {name: _around(numbers) for name, numbers in made.rounds().items()}
        threads, lanes = fixed.pop(_THREAD), fixed.pop(_LANE)
        self.constants = fixed | {name: number(value) for name, value in made.literals.items()}
        self.followed = {_THREAD: 0, _LANE: 1}
        # By block: the definitions of what is followed.
        self.changes: list[list[tuple[Definition, int]]] = [[] for _ in graph.blocks]
        others = [row for row in made.several.items() if row[0] not in self.rounds]
        if len(others) > MOST_FOLLOWED:
            self.constants |= {name: ANYTHING for name, _ in others}
            others = []
        for name, rows in others:
            which = self.followed[name] = len(self.followed)
            for row in rows:
                self.changes[graph.place[row[0]]].append((row, which))
        for found in self.changes:
            if found:
                found.sort(key=_by_number)
        self.changing = self._made_of({*self.followed} - {_THREAD, _LANE})
        only = made.only
        taken = {name for name, (_, op, words, _) in only.items() if op and op.name == "sub" and words[1] in only}
        # Of what part is taken away again; and, beside these, what is the same as long as a thread lives.
        self.taken = self._made_of(taken) if taken else taken
        self.varying = self._made_of({*made.several, *[name for name, row in only.items() if row[1] is None]}) if taken else taken
        self.known: dict[tuple[str, Interval, Interval], Interval] = {}
        self.moving: dict[str, Interval] = {}  # of what changes, at its definition, until more comes there
        self.depth = 0
        self.defined: dict[str, list[int]] = {}  # by which instructions
        self.begins: dict[int, list[Interval]] = {0: [threads, lanes] + [ANYTHING] * (len(self.followed) - 2)}
        self._follow()

    def at(self, name: str, place: int, lanes: int = LANES) -> Interval | None:
        """The interval of a register or variable in front of an instruction, in the first lanes; None if no thread comes there."""
        if self.graph.place[place] not in self.begins:
            return None
        held = self._held(place)
        return self._value(name, place, held if lanes == LANES else [held[0], between(0, lanes - 1), *held[2:]])

    def may_lead_to_variable(self, name: str) -> bool:
        """Whether a generic address may be made of that of a variable in shared memory, however: not if it is made of parameters alone."""
        work, seen, only = [name], set[str](), self.definitions.only
        while work:
            one = work.pop()
            if one in self.graph.kernel.shared:
                return True
            if one not in seen:
                seen.add(one)
                rows = [only[one]] if one in only else self.definitions.several.get(one, [])
                if any(self._brings_back(*row[:2]) for row in rows):
                    return True
                work += [word for row in rows for word in row[2]]
        return False

    def _brings_back(self, at: int, op: Operation | None) -> bool:
        """Whether an instruction may give an address in shared memory: of a number, or one that has been in memory."""
        opcode = self.graph.code.opcodes[at]
        return opcode.startswith("cvta.shared") or op is None and not opcode.startswith("ld.param")

    def _made_of(self, names: set[str]) -> set[str]:
        """These registers, and those with one definition that are made of them."""
        users: dict[str, list[str]] = {}
        for name, row in self.definitions.only.items() if names else ():
            for word in row[2]:
                if word in users:
                    users[word] += [name]
                else:
                    users[word] = [name]
        found, work = {*names}, [*names]
        for word in work:
            for name in users.get(word, ()):
                if name not in found:
                    found |= {name}
                    work += [name]
        return found

    # Values.

    def _value(self, text: str, place: int, held: list[Interval]) -> Interval:
        """`held`: what is followed, in front of the instruction."""
        if text in self.constants:
            return self.constants[text]
        if text in self.followed:
            return held[self.followed[text]]
        if not self.definitions.assigned(text, place):
            return ANYTHING
        if text in self.rounds:
            return self.rounds[text]
        row = self.definitions.only[text]
        if text in self.changing:
            if text not in self.moving:
                self.moving[text] = self._made(row, self._held(row[0]))
            return self.moving[text]
        # What no loop changes is the same wherever it is read, where more may be known of the thread.
        key = text, held[0], held[1]
        if key not in self.known:
            self.known[key] = self._made(row, held)
        return self.known[key]

    def _made(self, row: Definition, held: list[Interval]) -> Interval:
        at, op, words, _ = row
        if op is None or self.depth > _DEEPEST:
            return ANYTHING
        if op.name == "shfl":
            if not self.in_rows:
                return ANYTHING
            _, low, high, _ = held[0]
            held = [between(low - low % LANES, high | LANES - 1), between(0, LANES - 1), *held[2:]]
        self.depth += 1
        alignment, operands = 0, [self._value(word, at, held) for word in words]
        self.depth -= 1
        for one in operands:
            alignment = self.graph.kernel.alignments[variable_of(one[0])] if one[0] else alignment
        found = applied(op, operands, alignment)
        if self.taken and op.name in _SUMS and not self.taken.isdisjoint(words):
            found = self._less(found, row, held)
        return found

    def _less(self, found: Interval, row: Definition, held: list[Interval]) -> Interval:
        """The interval of a sum where what is added in one place is taken away in another."""
        sums: dict[str, int] = {}
        self._add(row, 1, sums, held, [_MOST_SUMS])
        root, low, high, step = "", sums.pop("", 0), 0, 1 << 40
        step, high = low & -low or step, low
        for name, times in sums.items():
            one = self._value(name, row[0], held)
            if one[0] and (times != 1 or root):
                return found
            root = root or one[0]
            low += min(times * one[1], times * one[2])
            high += max(times * one[1], times * one[2])
            step = min(step, one[3] * (times & -times))
        better = root == found[0] and -_HALF <= low and high < _HALF and high - low < found[2] - found[1]
        return (root, low, high, step) if better else found

    def _add(self, row: Definition, times: int, sums: dict[str, int], held: list[Interval], left: list[int]) -> None:
        """`left`: how many further sums may be looked into."""
        _, op, words, _ = row
        left[0] -= 1
        assert op is not None
        signs, only = (times, -times if op.name == "sub" else times), self.definitions.only
        if op.name == "shl":
            words, signs = words[:1], (times << self.constants[words[1]][1], 0)
        for word, by in zip(words, signs, strict=False):
            if word in self.definitions.literals:
                sums[""] = sums.get("", 0) + by * self.definitions.literals[word]
            elif word not in self.varying and word in only and left[0] > 0 and self._sums(only[word], held):
                self._add(only[word], by, sums, held, left)
            else:
                sums[word] = sums.get(word, 0) + by
                if not sums[word]:
                    del sums[word]

    def _sums(self, row: Definition, held: list[Interval]) -> bool:
        """Whether an instruction adds its operands, or takes one away."""
        at, op, words, _ = row
        if op is None or op.width != 32:
            return False
        if op.name in ("or", "xor"):
            one, other = (self._value(word, at, held) for word in words)
            return self._has_room(one, other) or self._has_room(other, one)
        return op.name in ("add", "sub") or op.name == "shl" and 0 <= self.definitions.literals.get(words[1], -1) < 32

    def _has_room(self, one: Interval, other: Interval) -> bool:
        """Whether two numbers have no bit in common, as the other one lies below all bits of the first."""
        root, _, _, step = one
        room = min(step, self.graph.kernel.alignments[variable_of(root)]) if root else step
        return not other[0] and 0 <= other[1] and other[2] < room

    def _held(self, place: int) -> list[Interval]:
        """What is followed, in front of an instruction."""
        block = self.graph.place[place]
        held = self.begins[block]
        for row, which in self.changes[block]:
            if row[0] < place:
                held = self._behind(row, which, held)
        return held

    def _behind(self, row: Definition, which: int, held: list[Interval]) -> list[Interval]:
        value = self._made(row, held)
        return [*held[:which], union(value, held[which]) if row[3] else value, *held[which + 1 :]]

    # The flow.

    def _follow(self) -> None:
        blocks, begins, told = self.graph.blocks, self.begins, self._tells()
        ends = sorted({row[4][1] + by for ways in told.values() for rows in ways for row in rows for by in (-1, 0, 1)})[
            :_MOST_ENDS
        ]
        apart = self._made_elsewhere()
        changed = [0] * len(blocks)
        waiting = [not at for at in range(len(blocks))]
        again = True
        while again:
            again = False
            for block in blocks:
                if not waiting[block.number]:
                    continue
                waiting[block.number] = False
                held = begins[block.number]
                for row, which in self.changes[block.number]:
                    held = self._behind(row, which, held)
                for way, after in enumerate(block.next):
                    found = _refined(held, told[block.number][way]) if block.number in told else held
                    if found is None or after == EXIT:
                        continue
                    there = found
                    if after in begins:
                        known = begins[after]
                        if known is there or known == there:
                            continue
                        changed[after] += 1
                        how = widened if after <= block.number or changed[after] > _MOST_TURNS else union
                        upto = ends if changed[after] < _MOST_CHANGES else ()
                        there = [one if one == other else how(one, other, upto) for one, other in zip(known, there, strict=True)]
                        if there == known:
                            continue
                    begins[after] = there
                    self.moving = {}
                    waiting[after] = again = True
                    for other in apart:
                        waiting[other] = other in begins

    def _made_elsewhere(self) -> set[int]:
        """The blocks with changes that are made of what changes, in another block."""
        only, place = self.definitions.only, self.graph.place
        found = set()
        for home, rows in enumerate(self.changes):
            work = [word for row, _ in rows for word in row[2]]
            while work:
                word = work.pop()
                if word in self.changing and word in only:
                    work += only[word][2]
                    if place[only[word][0]] != home:
                        found.add(home)
        return found

    def _tells(self) -> dict[int, tuple[list[_Told], list[_Told]]]:
        """By block with a branch: what its ways tell."""
        found = {}
        for block in self.graph.blocks:
            # (The result of a wait tells nothing.)
            waits = Kind.TRY in self.graph.kinds[block.first : block.last]
            if block.branch is not None and block.number in self.graph.reached and not waits:
                assert block.branch.predicate is not None
                taken, past = self._told(block.branch.predicate, block.last - 1, block.number)
                if taken or past:
                    found[block.number] = (past, taken) if block.branch.negated else (taken, past)
        return found

    def _told(self, name: str, at: int, home: int) -> tuple[list[_Told], list[_Told]]:
        """What is told in front of an instruction by a predicate that holds, and by one that does not. `home`: the block of the branch."""
        where = self._definition(name, at)
        if where is None:
            return [], []
        _, predicate, opcode, _, text, *_ = self.outlines[where]
        if predicate or "|" in text:
            return [], []
        words = WORDS.findall(text)
        if opcode == "not.pred":
            return self._told(words[1], where, home)[::-1]
        if opcode in ("and.pred", "or.pred"):
            left, right = (self._told(word, where, home) for word in words[1:3])
            return (left[0] + right[0], []) if opcode == "and.pred" else ([], left[1] + right[1])
        op = operation(opcode)
        if op is None or op.name != "setp" or op.width != 32 or len(words) != 3:
            return [], []
        for one, other, how in ((words[1], words[2], op.how), (words[2], words[1], _TURNED[op.how])):
            literal = None if other[0] == "%" else integer(other)
            base = self._base(one, where, home) if literal is not None else None
            if literal is not None and base is not None:
                return [(*base, how, op.signed, number(literal))], [(*base, _NOT[how], op.signed, number(literal))]
        return [], []

    def _definition(self, name: str, at: int) -> int | None:
        """The instruction that gives a register its value in front of another one, if that is always the same."""
        place = self.graph.place
        if name not in self.defined:
            self.defined[name] = self.graph.definitions(name)
        rows = self.defined[name]
        before = bisect_left(rows, at)
        if before and place[rows[before - 1]] == place[at]:
            return rows[before - 1]
        for row in rows[:1] if not rows[1:] else ():
            if (not place[row] and place[at]) or name in self.definitions.only and self.definitions.assigned(name, at):
                return row
        return None

    def _base(self, text: str, at: int, home: int) -> tuple[int, int] | None:
        """Of what is compared: what it is made of, which is followed, and by how much that is shifted down."""
        by, whole = 0, 0  # `whole`: at least so much, where lanes have exchanged their numbers
        while text not in self.followed:
            where = self._definition(text, at)
            if where is None or text in self.definitions.several:
                return None
            _, op, words, predicate = self.definitions.definition(where)
            if op is None or predicate:
                return None
            if (
                op.name == "shr"
                and not op.signed
                and op.width == 32
                and (shift := integer(words[1])) is not None
                and 0 <= shift < 32
            ):
                by += shift
            elif op.name == "shfl":
                whole = by + _OF_A_WARP
            elif op.name != "mov" or op.width != 32:
                return None
            text, at = words[0], where
        which = self.followed[text]
        if not which:
            return (which, by) if by >= whole and (self.in_rows or not whole) else None
        if by or self.graph.place[at] != home:
            return None
        return None if any(one == which and row[0] > at for row, one in self.changes[home]) else (which, by)


def _by_number(change: tuple[Definition, int]) -> int:
    return change[0][0]


def _around(numbers: Collection[int]) -> Interval:
    step = 0
    for one in numbers:
        step |= one & -one
    return "", min(numbers), max(numbers), step & -step or 1 << 40


def _refined(held: list[Interval], told: list[_Told]) -> list[Interval] | None:
    """What is followed behind a way; None if nobody goes that way."""
    for which, by, how, signed, other in told:
        one = held[which]
        if by and (one[0] or one[1] < 0):
            continue
        part = compared((one[0], one[1] >> by, one[2] >> by, 1) if by else one, how, other, signed)
        if part is None:
            return None
        if by:
            low, high = max(one[1], part[1] << by), min(one[2], (part[2] + 1 << by) - 1)
            part = one[0], low, high, one[3]
        if part != one:
            held = [*held[:which], part, *held[which + 1 :]]
    return held
