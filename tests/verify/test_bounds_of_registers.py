"""Where registers lie at most (reader/flow/bounds.py), beside what the machine makes of them, in random texts and for random operands."""

import random
import time
from collections.abc import Iterator

import pytest
from samples import volume

from pipec.verify.network import Unreadable
from pipec.verify.reader.flow.bounds import Bounds
from pipec.verify.reader.flow.graph import Graph
from pipec.verify.reader.flow.intervals import Interval, applied, compared, union, widened
from pipec.verify.reader.text.lexical import integer
from pipec.verify.reader.text.operations import number_of, operation
from pipec.verify.reader.text.statements import Kernel, kernel_of

VARIABLE, ALIGNED = 5 << 20, 1024  # where the machine has put it
OPCODES = [
    *("add.u32", "sub.s32", "and.b32", "or.b32", "xor.b32", "shl.b32", "shr.u32", "shr.s32"),
    *("mul.lo.u32", "mul.hi.u32", "mul.wide.u32", "mul.wide.s32", "mad.lo.s32", "mad.wide.u32", "min.u32", "min.s32"),
    *("max.u32", "max.s32", "div.u32", "div.s32", "rem.u32", "rem.s32", "bfe.u32", "mov.u32"),
    *("cvt.u64.u32", "cvt.s64.s32", "cvt.u32.u64", "add.u64", "sub.u64", "mov.b64", "selp.b32", "not.b32"),
    *("neg.s32", "cvt.u16.u32"),
]
COUNTS = dict.fromkeys(("mov", "cvt", "not", "neg"), 1) | dict.fromkeys(("mad", "bfe"), 3)
LITERALS = (
    0,
    1,
    2,
    3,
    5,
    7,
    15,
    16,
    31,
    32,
    64,
    112,
    127,
    1000,
    4096,
    1 << 30,
    (1 << 31) - 1,
    1 << 31,
    (1 << 32) - 16,
    -1,
    -8,
    -3,
)


def contains(one: Interval, value: int, bits: int) -> bool:
    root, low, high, step = one
    size = 1 << bits
    distance = value - (VARIABLE if root else 0)
    first = low + (distance - low) % size
    return any(low <= at <= high and at % step == 0 for at in (first, first - size))


def drawn(at: random.Random, wide: bool) -> tuple[Interval, list[int]]:
    """An interval, and some of its numbers."""
    step = 1 << at.choice((0, 0, 2, 4, 7, 14, 30))
    low = at.choice((0, 0, 0, at.randrange(100), -at.randrange(1, 100), at.randrange(1 << 20), -(1 << 31), 1 << 31))
    low = -(-low // step) * step
    high = min(low + at.choice((0, 1, 3, 31, 127, 1 << 14, 1 << 31)) * step, (1 << 32) - 1)
    high -= (high - low) % step
    if not wide and at.random() < 0.2 and -(1 << 30) < low and high < 1 << 30:
        numbers = [VARIABLE + one for one in sampled(at, low, high, step)]
        return ("tile", low, high, step), numbers
    return ("", low, high, step), sampled(at, low, high, step)


def sampled(at: random.Random, low: int, high: int, step: int) -> list[int]:
    return [low, high, *(low + at.randrange((high - low) // step + 1) * step for _ in range(3))]


@pytest.mark.parametrize("opcode", OPCODES)
def test_operations_stay_in_their_intervals(opcode: str) -> None:
    at, op = random.Random(opcode), operation(opcode)
    assert op is not None
    useful = 0
    for _ in range(volume(1000, 3000)):
        count = COUNTS.get(op.name, 2)
        rows = [drawn(at, op.width == 64 and bool(number)) for number in range(count)]
        for which in range(count):
            if at.random() < 0.5 and which:
                literal = at.choice(LITERALS)
                rows[which] = ("", literal, literal, literal & -literal or 1 << 40), [literal]
        found = applied(op, [row[0] for row in rows], ALIGNED)
        useful += found[2] - found[1] < (1 << 32) - 1
        for _ in range(20):
            values = [at.choice(row[1]) for row in rows]
            given = [*values, at.randrange(2)] if op.name == "selp" else values
            made = number_of(op)(given)
            assert contains(found, made, min(op.to, 32) if op.to < 64 else 64), (opcode, rows, given, made, found)
    assert useful or opcode in ("not.b32", "neg.s32", "cvt.u16.u32")


@pytest.mark.parametrize("signed", [True, False])
def test_comparisons_leave_what_they_hold_of(signed: bool) -> None:
    at = random.Random(signed)
    for _ in range(20000):
        how = at.choice(("eq", "ne", "lt", "le", "gt", "ge") if signed else ("eq", "ne", "lo", "ls", "hi", "hs", "lt", "ge"))
        op = operation(f"setp.{how}.{'s' if signed else 'u'}32")
        assert op is not None
        (one, numbers), literal = drawn(at, False), at.choice(LITERALS)
        left = compared(one, how, ("", literal, literal, 1), signed) if not one[0] else one
        for number in numbers:
            if number_of(op)((number, literal)):
                assert left is not None and contains(left, number, 32), (how, one, literal, left, number)


def test_unions_and_what_grows_have_all_of_both() -> None:
    at = random.Random(0)
    for _ in range(10000):
        (one, numbers), (other, others) = drawn(at, False), drawn(at, False)
        for found in (union(one, other), widened(one, other, sorted(LITERALS))):
            assert all(contains(found, number, 32 if found[2] < 1 << 32 else 64) for number in (*numbers, *others)), (
                one,
                other,
                found,
            )


# ------------------------------------------------------------------------------------------------------------------------------ texts


class Drawn:
    """A random kernel of one thread's arithmetic: loops that count, stages that go round, ways that part by the thread."""

    def __init__(self, seed: int) -> None:
        self.at = random.Random(seed)
        self.lines: list[str] = []
        self.count = 0
        self.names = ["%r0", "%r1", "%r2"]

    def name(self) -> str:
        self.count += 1
        return f"%r{self.count + 2}"

    def text(self) -> str:
        self.add("mov.u32 %r0, %tid.x;", "mov.u32 %r1, tile;", "shr.u32 %r2, %r0, 5;")
        if self.at.random() < 0.5:
            self.add("shfl.sync.idx.b32 %r2, %r2, 0, 31, -1;")
        for _ in range(3):
            self.part(2)
        body = "\n".join(self.lines)
        registers = f".reg .b32 %r<{self.count + 9}>; .reg .pred %p<{self.count + 9}>;"
        return (
            ".version 8.7\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u32 n)\n.reqntid 96\n"
            f"{{\n{registers}\n.shared .align 1024 .b8 tile[65536];\n{body}\nret;\n}}\n"
        )

    def add(self, *lines: str) -> None:
        self.lines += lines

    def some(self) -> str:
        return self.at.choice(self.names) if self.at.random() < 0.7 else str(self.at.choice(LITERALS))

    def compute(self) -> None:
        opcode = self.at.choice(
            [one for one in OPCODES if "64" not in one and "wide" not in one and "16" not in one and one[:4] != "selp"]
        )
        head = opcode.partition(".")[0]
        count = COUNTS.get(head, 2)
        made = self.name() if self.at.random() < 0.8 else self.at.choice(self.names[3:] or [self.name()])
        operands = [self.at.choice(self.names), *(self.some() for _ in range(count - 1))]
        predicate = ""
        if self.at.random() < 0.1:
            predicate = f"@{self.ask(self.at.choice(self.names), str(self.at.choice(LITERALS)))} "
        self.add(f"{predicate}{opcode} {made}, {', '.join(operands)};")
        if not predicate:
            self.names.append(made)

    def ask(self, left: str, right: str) -> str:
        self.count += 1
        predicate = f"%p{self.count}"
        how, kind = self.at.choice(("lt", "ge", "eq", "ne", "le", "gt")), self.at.choice(("u32", "s32"))
        self.add(f"setp.{how}.{kind} {predicate}, {left}, {right};")
        if self.at.random() < 0.2:
            self.count += 1
            self.add(f"not.pred %p{self.count}, {predicate};")
            return f"%p{self.count}"
        return predicate

    def part(self, depth: int) -> None:
        for _ in range(self.at.randrange(1, 4)):
            self.compute()
        if not depth:
            return
        match self.at.randrange(4):
            case 0:
                self.branch(depth)
            case 1 | 2:
                self.loop(depth)
            case _:
                self.compute()

    def branch(self, depth: int) -> None:
        left = self.at.choice(("%r0", "%r2", *self.names))
        predicate = self.ask(left, str(self.at.choice((0, 1, 2, 31, 32, 64, 95))))
        label, before = f"L{self.count}", [*self.names]
        self.add(f"@{self.at.choice(('', '!'))}{predicate} bra {label};")
        self.part(depth - 1)
        self.names = [*before]
        if self.at.random() < 0.5:
            self.add(f"bra {label}E;", f"{label}:")
            self.part(depth - 1)
            self.names = [*before]
            self.add(f"{label}E:")
        else:
            self.add(f"{label}:")

    def loop(self, depth: int) -> None:
        counter, stage, spare = self.name(), self.name(), self.name()
        turns, stages = self.at.randrange(1, 9), self.at.choice((2, 3, 4, 6))
        self.add(f"mov.u32 {counter}, 0;", f"mov.u32 {stage}, {self.at.randrange(stages)};")
        label, before = f"L{counter[2:]}", [*self.names]
        self.add(f"{label}:")
        self.names += [counter, stage]
        top = self.at.random() < 0.3
        if top:
            self.add(f"setp.ge.u32 %p{self.count}, {counter}, {turns};", f"@%p{self.count} bra {label}E;")
        self.count += 1
        self.part(depth - 1)
        match self.at.randrange(6):
            case 5:
                # Made once, and handed on twice: the second time it has become the stage already.
                made = self.name()
                other = made if self.at.random() < 0.7 else spare
                self.add(f"add.u32 {spare}, {stage}, 1;", f"rem.u32 {made}, {spare}, {stages};", f"mov.u32 {stage}, {made};")
                asked = self.ask(self.at.choice(("%r0", counter)), str(self.at.randrange(4)))
                self.count += 1
                self.add(f"@{asked} bra M{self.count};", f"mov.u32 {stage}, {other};", f"M{self.count}:")
            case 0:
                self.add(f"xor.b32 {stage}, {stage}, 1;")
            case 1:
                self.add(f"add.u32 {spare}, {stage}, 1;", f"rem.u32 {stage}, {spare}, {stages};")
            case 2:
                self.add(f"add.u32 {spare}, {stage}, 1;", f"shr.u32 {self.name()}, {spare}, {1 + stages // 4};")
                self.add(f"mad.lo.s32 {stage}, %r{self.count + 2}, {-(2 << stages // 4) + self.at.randrange(2)}, {spare};")
            case 3:
                self.add(f"add.u32 {spare}, {stage}, 1;", f"setp.eq.u32 %p{self.count}, {spare}, {stages};")
                self.add(f"selp.b32 {stage}, 0, {spare}, %p{self.count};")
            case _:
                self.add(f"add.u32 {stage}, {stage}, {1 << 30};")
        self.count += 1
        self.add(f"add.u32 {counter}, {counter}, {self.at.choice((1, 1, 2))};")
        if top:
            self.add(f"bra {label};", f"{label}E:")
        else:
            self.add(f"setp.lt.u32 %p{self.count}, {counter}, {turns};", f"@%p{self.count} bra {label};")
        self.count += 1
        self.names = [*before, counter, stage]


def executed(kernel: Kernel, thread: int, most: int = 400) -> Iterator[tuple[int, str, int]]:
    """The register that each instruction defines, and its value, as one thread goes; the place is that behind the instruction."""
    held: dict[str, int] = {"%tid.x": thread, "tile": VARIABLE}

    def value(text: str) -> int:
        return held[text] if text in held else integer(text)  # type: ignore[return-value]

    at = 0
    for _ in range(most):
        one = kernel.code[at]
        at += 1
        if one.head == "ret":
            return
        taken = one.predicate is None or bool(held[one.predicate]) != one.negated
        if one.head == "bra":
            at = kernel.labels[one.text] if taken else at
        elif taken:
            name, *words = one.operands
            if one.head == "shfl":
                held[name] = thread // 32
            elif one.opcode == "not.pred":
                held[name] = 1 - held[words[0]]
            else:
                op = operation(one.opcode)
                assert op is not None
                held[name] = number_of(op)([value(word) for word in words])
            if name[1] == "r":
                yield at, name, held[name]


def test_lanes_exchange_what_is_not_theirs() -> None:
    lines = "mov.u32 %r0, %laneid; shfl.sync.idx.b32 %r1, %r0, 20, 31, -1; add.u32 %r2, %r0, %r1;"
    text = Drawn(0).text()
    kernel = kernel_of(f"{text.partition('mov.u32 %r0')[0]} {lines} ret; }}", "k")
    bounds = Bounds(Graph(kernel), (96, 1, 1), 1, ["%r0", "%r1", "%r2"])
    # Of a matrix of 16 rows only the first lanes have addresses.
    assert [bounds.at(name, 3, 16) for name in ("%r0", "%r1", "%r2")] == [("", 0, 15, 1), ("", 0, 31, 1), ("", 0, 46, 1)]


@pytest.mark.parametrize("name", ["%laneid", "%tid", "%cluster_ctarank"])
def test_a_register_that_hides_a_special_one(name: str) -> None:
    text = Drawn(0).text().replace(".reg .pred", f".reg .b32 {name}; .reg .pred")
    with pytest.raises(Unreadable, match="hides the special one"):
        Bounds(Graph(kernel_of(text, "k")), (96, 1, 1), 1, ["%r0"])


@pytest.mark.parametrize("seed", range(40))
def test_random_texts_stay_in_their_bounds(seed: int) -> None:
    bounded = 0
    for number in range(10):
        text = Drawn(10 * seed + number).text()
        kernel = kernel_of(text, "k")
        names = {name for name in kernel.code.defined if name[:2] == "%r"}
        bounds = Bounds(Graph(kernel), (96, 1, 1), 1, sorted(names))
        for thread in (0, 1, 31, 32, 63, 64, 95):
            for at, name, value in executed(kernel, thread):
                found = bounds.at(name, at)
                assert found is not None and contains(found, value, 32), (text, kernel.code[at - 1], thread, name, value, found)
                bounded += found[2] - found[1] < 1 << 20
    assert bounded


LONG = {
    "a chain": lambda n: [f"add.u32 %r{at + 1}, %r{at}, 4;" for at in range(1, n)],
    "sums of sums": lambda n: [f"add.u32 %r{at + 1}, %r{at}, %r{at};" for at in range(1, n)],
    "sums that are taken away": lambda n: [f"{'sub' if at % 2 else 'add'}.u32 %r{at + 1}, %r{at}, %r{at - 1};" for at in range(1, n)],
    "one register": lambda n: ["add.u32 %r1, %r1, 4;"] * n,
    "one register in many blocks": lambda n: [f"add.u32 %r1, %r1, 4; @%p0 bra L{at}; L{at}:" for at in range(n)],
    "many registers": lambda n: [f"mov.u32 %r{at}, %r{at - 1}; xor.b32 %r{at}, %r{at}, 1;" for at in range(2, n)],
    "many that go round": lambda n: [
        "BACK:", *(f"xor.b32 %r{at}, %r{at - 1}, 1; @%p0 mov.u32 %r{at}, 1;" for at in range(2, n)), "@%p0 bra BACK;"
    ],
    "many comparisons": lambda n: [
        "BACK:", *(f"setp.lt.u32 %p0, %r1, {7 * at}; @%p0 add.u32 %r1, %r1, 1; @%p0 bra BACK;" for at in range(n))
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", LONG)
def test_bounds_of_long_texts_are_found_soon(name: str) -> None:
    """In at most about the time that is proportional to the length of the text."""
    took = []
    for length in (200, 800):
        lines = "\n".join(LONG[name](length))
        body = f"mov.u32 %r0, %tid.x; mov.u32 %r1, %tid.x; setp.eq.u32 %p0, %r1, 3;\n{lines}\n"
        head = Drawn(0).text().partition("{")[0]
        text = f"{head}{{ .reg .b32 %r<{length + 9}>; .reg .pred %p<9>; .shared .align 1024 .b8 tile[64];\n{body} ret; }}"
        kernel = kernel_of(text, "k")
        graph, names = Graph(kernel), {one for one in kernel.code.defined if one[:2] == "%r"}
        begin = time.process_time()
        bounds = Bounds(graph, (96, 1, 1), 1, sorted(names))
        for one in sorted(names):
            bounds.at(one, len(kernel.code) - 1)
        took.append(time.process_time() - begin)
    assert took[1] < max(8 * took[0], 0.3), took
