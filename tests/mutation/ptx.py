"""Faults planted into PTX of any compiler, one at a time: waits, arrivals, counts, fences, scopes, descriptors, places, bounds, and
the order of instructions."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass

from .ptx_changes import RULES, Instruction
from .ptx_moves import MOVES, Placed, moves

# With its guard, where comments are blanks: vectors in braces are operands, other braces begin and end blocks.
_INSTRUCTION = re.compile(
    r"(?P<guard>@!?[%\w$]+\s+)?(?<![\w.%$])(?P<opcode>[a-z]\w*(?:\.[\w:]+)+)(?P<rest>[^;{}]*(?:\{[^;{}]*\}[^;{}]*)*);"
)
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_CLUSTER_BARRIER = re.compile(r"(?:@!?[%\w$]+\s+)?barrier\.cluster\.(arrive|wait)[\w.:]*\s*;")
# What ends a straight part of the text: a label, a branch or a block. Labels of the assembler's own debugging information do not.
_EDGE = re.compile(r"^\s*(?!\$L__tmp)[$%\w]+:|\b(?:bra|brx|ret|exit)\b|[{}]\s*$|^\s*[{}]", re.MULTILINE)
# Shared memory that begins at a constant distance from a symbol.
_SYMBOL = re.compile(r"\.shared\s+(?:\.align\s+\d+\s+)?\.b8\s+([\w$]+)")


@dataclass(frozen=True)
class Mutant:
    """The whole text with one fault, on `line` (from 1)."""

    kind: str
    change: str
    line: int
    text: str


_COMPILED = tuple((kind, re.compile(pattern), changes) for kind, pattern, changes in RULES)
_ANY = re.compile(
    "|".join(f"(?:{pattern})" for pattern in [*(pattern for _, pattern, _ in RULES), *(move.what for move in MOVES)])
)
KINDS = (*dict.fromkeys([kind for kind, _, _ in RULES] + [move.kind for move in MOVES]), "barrier of the cluster", "overlap")


def mutants(ptx: str) -> Iterator[Mutant]:
    """All of them; those of one instruction in the order of lines, and then those of several."""
    blank = _COMMENT.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), ptx)
    instructions = list(_INSTRUCTION.finditer(blank))
    for found in instructions:
        one = Instruction(found["guard"] or "", found["opcode"], _operands(found["rest"]))
        for kind, pattern, changes in _COMPILED:
            if pattern.match(one.opcode):
                for made, text in (change for each in changes for change in each(one)):
                    yield _planted(ptx, kind, made, found.span(), text)
    both = list(_CLUSTER_BARRIER.finditer(blank))
    for arrival, wait in itertools.pairwise(both):
        if (arrival[1], wait[1]) == ("arrive", "wait"):
            between = ptx[arrival.end() : wait.start()]
            yield _planted(ptx, "barrier of the cluster", "removed", (arrival.start(), wait.end()), between)
    for kind, change, start, text in moves(ptx, _placed(blank, instructions)):
        yield Mutant(kind, change, ptx.count("\n", 0, start) + 1, text)
    yield from _overlaps(ptx, blank)


def trapped(ptx: str, line: int) -> str:
    """With a trap in front of the first instruction of a line that could be changed: whether it runs at all."""
    start = sum(len(one) + 1 for one in ptx.split("\n")[: line - 1])
    found = next(one for one in _INSTRUCTION.finditer(ptx, start) if _ANY.match(one["opcode"]))
    return f"{ptx[: found.start()]}{found['guard'] or ''}trap; {ptx[found.start() :]}"


def _placed(blank: str, instructions: list[re.Match[str]]) -> list[Placed]:
    edges = [found.start() for found in _EDGE.finditer(blank)]
    placed, block = [], 0
    for found in instructions:
        while block < len(edges) and edges[block] <= found.start():
            block += 1
        placed.append(Placed(found["opcode"], found["guard"] or "", found.start(), found.end(), block))
    return placed


def _overlaps(ptx: str, blank: str) -> Iterator[Mutant]:
    """A buffer or barrier begins 16 or 1024 bytes before its place in shared memory, where another one is."""
    bases = {
        found[1]
        for symbol in _SYMBOL.findall(blank)
        for found in re.finditer(rf"mov\.[bu](?:32|64)\s+(%\w+),\s*{re.escape(symbol)}\s*;", blank)
    }
    for found in re.finditer(r"add\.[su](?:32|64)\s+%\w+,\s*(%\w+),\s*(\d+)\s*;", blank):
        if found[1] in bases and int(found[2]) >= 16:
            for step in (16, 1024):
                if int(found[2]) >= step:
                    text = blank[found.start() : found.start(2)] + str(int(found[2]) - step) + ";"
                    yield _planted(ptx, "overlap", f"{step} bytes earlier", found.span(), text)


def _planted(ptx: str, kind: str, change: str, span: tuple[int, int], text: str) -> Mutant:
    """Lines keep their numbers."""
    start, end = span
    lost = ptx.count("\n", start, end) - text.count("\n")
    return Mutant(kind, change, ptx.count("\n", 0, start) + 1, ptx[:start] + text + "\n" * lost + ptx[end:])


def _operands(rest: str) -> tuple[str, ...]:
    parts, depth, start = [], 0, 0
    for place, letter in enumerate(rest):
        depth += (letter in "[{(") - (letter in "]})")
        if letter == "," and not depth:
            parts.append(rest[start:place].strip())
            start = place + 1
    last = rest[start:].strip()
    return tuple([*parts, last] if last else parts)
