"""Instructions of the text, created and parsed on demand."""

import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Generic, TypeVar

from pipec.record import mutable

_REGISTER = re.compile(r"[%$A-Za-z_][\w$.]*")
_MARKS = re.compile(r"[\[\](){},]")

_Made = TypeVar("_Made")


class once(Generic[_Made]):
    """A value computed on first use. (functools.cached_property takes a lock, which costs more than most of them.)"""

    def __init__(self, rule: Callable[["Instruction"], _Made]) -> None:
        self.rule, self.name = rule, rule.__name__

    def __get__(self, owner: "Instruction", kind: type) -> _Made:
        made = owner.__dict__[self.name] = self.rule(owner)
        return made


_parts = cache(lambda opcode: tuple(opcode.split(".")))


@mutable(caches=True)
class Instruction:
    """`number`: its index in the kernel. `predicate`: the register that must be true (false if `negated`) for it to execute; `text`: the
    operands, as written."""

    number: int
    line: int
    opcode: str
    predicate: str | None
    negated: bool
    text: str

    @once
    def parts(self) -> tuple[str, ...]:
        return _parts(self.opcode)

    @once
    def head(self) -> str:
        return self.parts[0]

    @once
    def operands(self) -> tuple[str, ...]:
        """Split at commas outside brackets and braces."""
        if "{" not in self.text and "[" not in self.text:
            return tuple(map(str.strip, self.text.split(","))) if self.text else ()
        return tuple(_split(self.text))

    @once
    def first(self) -> tuple[str, ...]:
        """The registers of the first operand: what a computing instruction defines."""
        return _first(self.text)


def _first(text: str) -> tuple[str, ...]:
    if text.startswith("{"):
        values, _, rest = text.partition("}")
        rest = rest.lstrip()
        # A predicate after a bar: for `tex`, whether the texel is resident.
        return tuple(_REGISTER.findall(values + rest.partition(",")[0] if rest[:1] == "|" else values))
    one = text.partition(",")[0]
    return (one.strip(),) if "|" not in one else tuple(part.strip() for part in one.split("|"))


# A statement: the groups of `_LINES` up to `operands`.
Outline = tuple[str, str, str, str, str, *tuple[str, ...]]


class Code:
    """The instructions of a kernel, in order. Most of them move data: each is created on demand. By number: `opcodes`, in `defined`
    the first operand if it is a plain name, else "", and `outlines`."""

    def __init__(self, outlines: list[Outline], lines: list[int]) -> None:
        self.outlines, self._lines = outlines, lines
        self.opcodes = [outline[2] for outline in outlines]
        self.defined = [outline[3] for outline in outlines]
        self.elects = any(opcode.partition(".")[0] == "elect" for opcode in {*self.opcodes})
        self._made: dict[int, Instruction] = {}

    def first(self, number: int) -> tuple[str, ...]:
        """The registers of the first operand of an instruction."""
        name = self.defined[number]
        return (name,) if name else _first(self.outlines[number][4].strip())

    def __len__(self) -> int:
        return len(self.opcodes)

    def __getitem__(self, number: int) -> Instruction:
        found = self._made.get(number)
        if found is None:
            negated, predicate, opcode, _, operands, *_ = self.outlines[number]
            text, line = operands.strip(), self._lines[number]
            found = self._made[number] = Instruction(number, line, opcode, predicate or None, negated == "!", text)
        return found

    def __iter__(self) -> Iterator[Instruction]:
        return map(self.__getitem__, range(len(self.opcodes)))


def _split(text: str) -> list[str]:
    parts, depth, start = [], 0, 0
    for mark in _MARKS.finditer(text):
        char = mark[0]
        if char in "{[(":
            depth += 1
        elif char != ",":
            depth -= 1
        elif not depth:
            parts.append(text[start : mark.start()].strip())
            start = mark.end()
    return [*parts, text[start:].strip()]
