"""What variables hold, as values of LLVM IR: random programs of branches and loops, run from their text and directly."""

import random
import re

import pytest

from pipec.budgets import Meter
from pipec.lower.emit.llvm import Builder
from pipec.lower.emit.value import integer
from tests.samples import numbers

NAMES = 4
DEEPEST = 3
WORD = 1 << 32


class Program:
    """Writes a random program and runs it at once: `holds` is what its variables are worth where it is being written."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.statements = [self._statement(0) for _ in range(6)]

    def _statement(self, depth: int) -> tuple:
        kind = self.random.choice(["assign", "assign", "wait", *["if", "loop"] * (depth < DEEPEST)])
        some = self.random.randrange
        if kind == "assign":
            return kind, some(NAMES), some(NAMES), some(5)
        if kind == "wait":
            return (kind,)
        inside = [[self._statement(depth + 1) for _ in range(some(1, 4))] for _ in range(2 if kind == "if" else 1)]
        return kind, some(NAMES), inside if kind == "if" else (some(1, 4), inside[0])

    def written(self) -> str:
        builder = Builder(Meter("machine code"))
        slots = [builder.variable("i32", f"variable{number}") for number in range(NAMES)]
        for number, slot in enumerate(slots):
            slot.write(integer(number))
        self._write(builder, slots, self.statements)
        for slot in slots:
            builder.effect(f"out {slot.read()}")
        builder.returns()
        return builder.body()

    def _write(self, builder, slots, statements) -> None:
        for kind, *rest in statements:
            getattr(self, f"_write_{kind}")(builder, slots, *rest)

    def _write_assign(self, builder, slots, to, of, constant) -> None:
        slots[to].write(builder.binary("add", slots[of].read(), integer(constant)))

    def _write_wait(self, builder, slots) -> None:
        """A loop on itself, which writes nothing."""
        again, done = builder.label("again"), builder.label("done")
        builder.jump(again)
        builder.place(again, head=True)
        builder.branch(builder.result("i1", "look"), done, again)
        builder.place(done)

    def _write_if(self, builder, slots, name, ways) -> None:
        labels = [builder.label(hint) for hint in ("then", "else", "joined")]
        odd = builder.bits("and", slots[name].read(), 1)
        builder.branch(builder.compare("eq", odd, integer(1)), *labels[:2])
        for label, way in zip(labels, ways, strict=False):
            builder.place(label)
            self._write(builder, slots, way)
            builder.jump(labels[2])
        builder.place(labels[2])

    def _write_loop(self, builder, slots, name, loop) -> None:
        """As often as the constant says, whatever its variable is meanwhile used for."""
        turns, inside = loop
        counter = builder.variable("i32", "counter")
        counter.write(integer(0))
        head, body, done = (builder.label(hint) for hint in ("head", "body", "left"))
        builder.jump(head)
        builder.place(head, head=True)
        builder.branch(builder.compare("ult", counter.read(), integer(turns)), body, done)
        builder.place(body)
        self._write(builder, slots, inside)
        slots[name].write(builder.binary("add", slots[name].read(), counter.read()))
        counter.write(builder.binary("add", counter.read(), integer(1)))
        builder.jump(head)
        builder.place(done)

    def result(self) -> list[int]:
        holds = list(range(NAMES))
        self._run(holds, self.statements)
        return holds

    def _run(self, holds, statements) -> None:
        for kind, *rest in statements:
            if kind == "assign":
                to, of, constant = rest
                holds[to] = (holds[of] + constant) % WORD
            elif kind == "if":
                name, (then, otherwise) = rest
                self._run(holds, then if holds[name] & 1 else otherwise)
            elif kind == "loop":
                name, (turns, inside) = rest
                for turn in range(turns):
                    self._run(holds, inside)
                    holds[name] = (holds[name] + turn) % WORD


def run(text: str) -> list[int]:
    """What the text gives out, by a reader of its own: every look succeeds the second time."""
    blocks: dict[str, list[str]] = {"entry": []}
    label = "entry"
    for line in text.splitlines():
        if line[0] != " ":
            label = line[:-1]
            blocks[label] = []
        else:
            blocks[label].append(line.strip())
    values: dict[str, int] = {}
    out: list[int] = []
    before, here, looks = "", "entry", 0

    def value(name: str) -> int:
        return int(name) if name.isdigit() else {"true": 1, "false": 0}[name] if name in ("true", "false") else values[name]

    for _ in range(100_000):
        phis = {}
        following = ""
        for line in blocks[here]:
            name, _, operation = line.rpartition(" = ")
            kind, *operands = re.findall(r"[^\s,\[\]]+", operation)
            if kind == "phi":
                ways = {label.removeprefix("%"): one for one, label in zip(operands[1::2], operands[2::2], strict=True)}
                phis[name] = value(ways[before])
                continue
            values |= phis
            phis = {}
            if kind == "br":
                names = [one.removeprefix("%") for one in operands]
                following = names[-1] if len(names) == 2 else names[3] if value(operands[1]) else names[5]
            elif kind == "look":
                looks += 1
                values[name] = looks % 2 == 0
            elif kind == "out":
                out.append(value(operands[1]))
            elif kind == "icmp":
                left, right = value(operands[2]), value(operands[3])
                values[name] = {"eq": left == right, "ult": left < right}[operands[0]]
            elif kind in ("add", "and"):
                left, right = value(operands[1]), value(operands[2])
                values[name] = (left + right) % WORD if kind == "add" else left & right
            else:
                assert kind == "ret", line
                return out
        before, here = here, following
    raise AssertionError("it does not end")


@pytest.mark.parametrize("seed", numbers("variables", 40, 400))
def test_variables_hold_what_was_written_last(seed: int) -> None:
    program = Program(seed)
    assert run(program.written()) == program.result()


def test_a_variable_that_a_loop_only_reads_is_one_value() -> None:
    builder = Builder(Meter("machine code"))
    slot = builder.variable("i32", "kept")
    slot.write(builder.result("i32", "first"))
    builder.jump("head")
    builder.place("head", head=True)
    builder.effect(f"use {slot.read()}")
    builder.branch(builder.result("i1", "look"), "head", "done")
    builder.place("done")
    builder.effect(f"use {slot.read()}")
    builder.returns()
    text = builder.body()
    assert "phi" not in text
    assert text.count("use i32 %1") == 2


def test_what_is_known_on_every_way_is_computed_once() -> None:
    builder = Builder(Meter("machine code"))
    value = builder.result("i32", "first")
    early = builder.binary("mul", value, value)
    builder.branch(builder.result("i1", "look"), "then", "joined")
    builder.place("then")
    inside = builder.binary("add", value, value)
    assert builder.binary("mul", value, value) is early
    builder.jump("joined")
    builder.place("joined")
    assert builder.binary("mul", value, value) is early
    assert builder.binary("add", value, value) is not inside


def test_a_jump_back_to_a_block_that_is_no_head_is_refused() -> None:
    builder = Builder(Meter("machine code"))
    builder.jump("again")
    builder.place("again")
    with pytest.raises(AssertionError, match="head of a loop"):
        builder.jump("again")
