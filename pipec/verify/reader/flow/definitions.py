"""What registers are made of, as far as that is arithmetic; and those that go round a few numbers, as the stages of a ring do."""

import re
from bisect import bisect_left
from collections.abc import Collection, Iterable
from itertools import product

from pipec.verify.reader.flow.graph import EXIT, Graph
from pipec.verify.reader.text.lexical import integer
from pipec.verify.reader.text.operations import Operation, number_of, operation

WORDS = re.compile(r"[^\s,]+")
_SHUFFLE = "shfl.sync.idx.b32"
_SHUFFLED = Operation("shfl", "idx", 32, False, 32)
# How many operands an operation takes, if not two.
_COUNTS = {**dict.fromkeys(("mov", "cvt", "neg", "abs", "not"), 1), **dict.fromkeys(("mad", "bfe", "selp"), 3)}
_ELSEWHERE = frozenset({"mapa", "shfl"})  # make of numbers what is none of them
_MOST = 32  # numbers that a register goes round
_MOST_TOGETHER = 256
_MOST_DEFINED = 32  # definitions of such a register
MOST_FOLLOWED = 100  # registers with several definitions

# An instruction that defines a register: its number, what it does (None: not understood), its operands, and its predicate.
Definition = tuple[int, Operation | None, list[str], str]


def _number_of(row: Definition) -> int:
    return row[0]


class _Rule:
    """What a definition makes of `leaves`, registers that go round. `done`: the numbers of these that have been looked at."""

    def __init__(self, row: Definition, leaves: tuple[str, ...]) -> None:
        self.row, self.leaves = row, leaves
        self.done: set[tuple[int, ...]] = set()


class Definitions:
    """The definitions of registers, and of what these are made of. `given`: names that need none. `literals`: among the operands. `only`:
    of registers with one definition; `several`: of others."""

    def __init__(self, graph: Graph, given: Collection[str]) -> None:
        self.graph, self.given = graph, given
        self.literals: dict[str, int] = {}
        self.only: dict[str, Definition] = {}
        self.several: dict[str, list[Definition]] = {}
        self._bits: dict[str, int] = {}
        self._ahead: dict[int, int] = {}  # by block: which registers have a value when it begins

    def find(self, names: Iterable[str]) -> None:
        """Once, before anything is asked."""
        work, bit = [*names], 1
        for text in work:
            if text in self._bits or text in self.literals or text in self.given:
                continue
            if text[0] != "%" and (literal := integer(text)) is not None:
                self.literals[text] = literal
                continue
            self._bits[text] = bit
            bit <<= 1
            rows = [self.definition(at) for at in self.graph.definitions(text)]
            if len(rows) == 1 and not rows[0][3]:
                self.only[text] = rows[0]
                work += rows[0][2]
            else:
                self.several[text] = rows
                for row in rows:
                    work += row[2]
        if self.several:
            self._name_apart()
        self._assign()

    def _name_apart(self) -> None:
        """What a register has been given before in a block is known there by a name of its own."""
        place = self.graph.place
        for at, _, words, _ in (*self.only.values(), *[row for rows in self.several.values() for row in rows]):
            for which, word in enumerate(words):
                if word in self.several:
                    before = bisect_left(self.several[word], at, key=_number_of)
                    row = self.several[word][before - 1] if before else None
                    if row is not None and place[row[0]] == place[at] and not row[3]:
                        words[which] = f"{word} at {row[0]}"
                        self.only[words[which]], self._bits[words[which]] = row, 0

    def definition(self, at: int) -> Definition:
        """What an instruction makes of what."""
        _, predicate, opcode, _, text, *_ = self.graph.code.outlines[at]
        op = operation(opcode)
        if op is not None and "{" not in text and "|" not in text:
            words = WORDS.findall(text)
            if len(words) == _COUNTS.get(op.name, 2) + 1:
                return at, op, words[1:], predicate
        elif opcode == _SHUFFLE and not predicate and not self.graph.place[at] and not self.graph.before.get(0):
            # All lanes of a warp are at this very instruction, as no way has parted yet.
            return at, _SHUFFLED, WORDS.findall(text)[1:2], ""
        return at, None, [], predicate

    def _assign(self) -> None:
        """Finds which registers have been given a value on every way to each block."""
        blocks, place, gives = self.graph.blocks, self.graph.place, [0] * len(self.graph.blocks)
        for name, row in self.only.items():
            gives[place[row[0]]] |= self._bits[name]
        for name, rows in self.several.items():
            for row in rows:
                gives[place[row[0]]] |= 0 if row[3] else self._bits[name]
        ahead = self._ahead = dict.fromkeys(self.graph.reached, -1)
        ahead[0], changed = 0, True
        while changed:
            changed = False
            for number in ahead:
                behind = ahead[number] | gives[number]
                for after in blocks[number].next:
                    if after != EXIT and ahead[after] & ~behind:
                        ahead[after] &= behind
                        changed = True

    def assigned(self, name: str, at: int) -> bool:
        """Whether a register has been given a value on every way to an instruction."""
        place = self.graph.place
        if self._ahead[place[at]] & self._bits[name]:
            return True
        rows = [self.only[name]] if name in self.only else self.several[name]
        for number in range(bisect_left(rows, at, key=_number_of) - 1, -1, -1):
            if place[rows[number][0]] != place[at]:
                return False
            if not rows[number][3]:
                return True
        return False

    def rounds(self) -> dict[str, set[int]]:
        """The numbers of registers with several definitions, if they are few, and made of no others than such ones and literals."""
        rules: dict[str, list[_Rule]] = {}
        few = [row for row in self.several.items() if len(row[1]) <= _MOST_DEFINED]
        for name, rows in few if len(few) <= MOST_FOLLOWED else ():
            found = [self._rule(name, row) for row in rows]
            if rows and None not in found:
                rules[name] = found  # type: ignore[assignment]
        numbers: dict[str, set[int]] = {name: set() for name in rules}
        while True:
            before = sum(map(len, numbers.values()))
            lost = [name for name in numbers if not all(self._goes_round(name, rule, numbers) for rule in rules[name])]
            for name in lost:
                del numbers[name]
            if not lost and before == sum(map(len, numbers.values())):
                return numbers

    def _goes_round(self, name: str, rule: _Rule, found: dict[str, set[int]]) -> bool:
        """Adds what a definition makes of the numbers so far, unless they become many."""
        _, op, words, _ = rule.row
        assert op is not None
        count = 1
        for leaf in rule.leaves:
            if leaf not in found:
                return False
            count *= len(found[leaf])
        if count > _MOST_TOGETHER:
            return False
        if count > len(rule.done):
            for numbers in {*product(*[found[leaf] for leaf in rule.leaves])} - rule.done:
                known = {**self.literals, **dict(zip(rule.leaves, numbers, strict=True))}
                found[name].add(number_of(op)([self._number(word, known) for word in words]))
                rule.done.add(numbers)
        return len(found[name]) <= _MOST

    def _number(self, text: str, known: dict[str, int]) -> int:
        if text not in known:
            _, op, words, _ = self.only[text]
            assert op is not None
            known[text] = number_of(op)([self._number(word, known) for word in words])
        return known[text]

    def _rule(self, name: str, row: Definition) -> _Rule | None:
        at, op, words, predicate = row
        if op is None or predicate:
            return None
        if op.name == "add" and name in words:
            # What grows by the same from turn to turn goes round many, or by a large part of all numbers.
            by = next((self.literals[word] for word in words if word in self.literals), 1)
            if 0 < by & -by < (1 << 32) // _MOST:
                return None
        leaves: set[str] = set()
        steps: dict[tuple[int, int], None] = {}  # from what makes a number to what uses it
        work = [(word, at) for word in words]
        for text, user in work:
            if text in self.literals:
                continue
            if text in self.given or not self.assigned(text, user):
                return None
            if text in self.several:
                leaves.add(text)
                continue
            number, made, more, _ = self.only[text]
            if made is None or made.name in _ELSEWHERE:
                return None
            if (number, user) not in steps:
                steps[number, user] = None
                work += [(word, number) for word in more]
        changes = [change for leaf in leaves for change, *_ in self.several[leaf]]
        # All that it is made of has been made behind the last change of a leaf. (What is handed on as a whole may have been made before: it
        # is a number that its definition has made of the leaves at that time.)
        handed = self._handed_on(row)
        fresh = not any(self._comes_past(change, user, made) for made, user in steps if user not in handed for change in changes)
        return _Rule(row, tuple(sorted(leaves))) if fresh else None

    def _handed_on(self, row: Definition) -> set[int]:
        """The instructions, from a definition on, that make their number of a single register with one definition."""
        found = set[int]()
        while row[0] not in found:
            words = {word for word in row[2] if word not in self.literals}
            if len(words) != 1 or not words <= self.only.keys():
                break
            found.add(row[0])
            row = self.only[words.pop()]
        return found

    def _comes_past(self, start: int, to: int, past: int) -> bool:
        """Whether a thread may come from behind an instruction to another one, past a third."""
        blocks, place = self.graph.blocks, self.graph.place
        if past < to and place[past] == place[to] and not past < start < to:
            return False
        work, seen = [(place[start], start + 1)], set[int]()
        for number, first in work:
            block = blocks[number]
            ends = past if first <= past < block.last else block.last
            if first <= to < ends:
                return True
            if ends == block.last:
                onwards = [one for one in block.next if one != EXIT and one not in seen]
                seen.update(onwards)
                work += [(one, blocks[one].first) for one in onwards]
        return False
