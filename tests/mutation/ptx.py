"""Faults planted into PTX of any compiler, one at a time: waits, arrivals, counts, fences, scopes, and the fields of descriptors."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

# With its guard, where comments are blanks: vectors in braces are operands, other braces begin and end blocks.
_INSTRUCTION = re.compile(
    r"(?P<guard>@!?[%\w$]+\s+)?(?<![\w.%$])(?P<opcode>[a-z]\w*(?:\.[\w:]+)+)(?P<rest>[^;{}]*(?:\{[^;{}]*\}[^;{}]*)*);"
)
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_CLUSTER_BARRIER = re.compile(r"(?:@!?[%\w$]+\s+)?barrier\.cluster\.(arrive|wait)[\w.:]*\s*;")


@dataclass(frozen=True)
class Mutant:
    """The whole text with one fault, on `line` (from 1)."""

    kind: str
    change: str
    line: int
    text: str


@dataclass(frozen=True)
class Instruction:
    guard: str
    opcode: str
    operands: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.guard}{self.opcode} {', '.join(self.operands)};"

    def replaced(self, place: int, operand: str) -> Instruction:
        operands = list(self.operands)
        operands[place] = operand
        return replace(self, operands=tuple(operands))

    def computed(self, place: int, type_: str, code: str) -> str:
        """With another operand, which `code` makes in %own of the one that it has."""
        return f"{{ .reg .{type_} %own; mov.{type_} %own, {self.operands[place]}; {code} {self.replaced(place, '%own')} }}"


# What is done, and what stands in place of the instruction.
Change = tuple[str, str]
Changes = Callable[[Instruction], Iterator[Change]]


def _removed(one: Instruction) -> Iterator[Change]:
    yield "removed", ""


def _doubled(one: Instruction) -> Iterator[Change]:
    yield "doubled", f"{one} {one}"


def _not_waited(one: Instruction) -> Iterator[Change]:
    yield "removed", f"{one.guard}setp.eq.u32 {one.operands[0].partition('|')[0]}, 0, 0;"


def _parity(one: Instruction) -> Iterator[Change]:
    if ".parity" in one.opcode:
        yield "the other parity", one.computed(2, "b32", "xor.b32 %own, %own, 1;")


def _next_barrier(one: Instruction) -> Iterator[Change]:
    for place, operand in enumerate(one.operands):
        if operand.startswith("[") and "+" not in operand:
            yield "the next barrier", str(one.replaced(place, f"{operand[:-1]}+8]"))
            return


def _count(place: int, *steps: int) -> Changes:
    def changes(one: Instruction) -> Iterator[Change]:
        for step in steps:
            yield f"count {step:+}", one.computed(place, "b32", f"add.s32 %own, %own, {step};")

    return changes


def _more_groups(one: Instruction) -> Iterator[Change]:
    if one.operands and one.operands[-1].isdigit():
        yield "one group more", str(one.replaced(-1, str(int(one.operands[-1]) + 1)))


# PTX ISA 9.7.15.5.1 and 9.7.16.4.1: the start in bits 0 to 13, the offsets from 16 and 32 on, the base offset in 49 to 51, the swizzle
# in 61 to 63 (62 and 63 for wgmma).
_FIELDS = {
    "start + 32 bytes": "add.s64 %own, %own, 2;",
    "start + 1024 bytes": "add.s64 %own, %own, 64;",
    "leading offset": "xor.b64 %own, %own, 0x10000;",
    "stride offset": "xor.b64 %own, %own, 0x4000000000;",
    "base offset": "xor.b64 %own, %own, 0x2000000000000;",
    "another swizzle": "xor.b64 %own, %own, 0x4000000000000000;",
    "no swizzle": "and.b64 %own, %own, 0x1FFFFFFFFFFFFFFF;",
}


def _descriptor(one: Instruction) -> Iterator[Change]:
    for place in (1,) if one.opcode.startswith("tcgen05.cp") else (1, 2):
        if one.operands[place][0] not in "[{":
            for field, code in _FIELDS.items():
                yield field, one.computed(place, "b64", code)


# PTX ISA 9.7.16.4.2: of kind f16, and of most of its fields in the others.
_BITS = {
    "type of D": 4,
    "type of A": 7,
    "type of B": 10,
    "sign of A": 13,
    "transposed A": 15,
    "transposed B": 16,
    "N": 17,
    "M": 27,
}


def _instruction_descriptor(one: Instruction) -> Iterator[Change]:
    for field, bit in _BITS.items():
        yield field, one.computed(3, "b32", f"xor.b32 %own, %own, {1 << bit:#x};")


def _transposed(one: Instruction) -> Iterator[Change]:
    for place, name in ((-2, "A"), (-1, "B")):
        if len(one.operands) == 8 and one.operands[place] in ("0", "1"):
            yield f"transposed {name}", str(one.replaced(place, str(1 - int(one.operands[place]))))


def _mask(one: Instruction) -> Iterator[Change]:
    if "multicast" in one.opcode:
        for value in (1, 2):
            yield f"mask {value}", one.computed(1 if "commit" in one.opcode else 3, "b16", f"mov.b16 %own, {value};")


def _narrower(one: Instruction) -> Iterator[Change]:
    """The scope of the CTA, and no order at all."""
    if (
        narrow := re.sub(r"\.(cluster|gpu|sys)(?![\w:])", ".cta", one.opcode)
    ) != one.opcode and "barrier.cluster" not in one.opcode:
        yield "scope cta", str(replace(one, opcode=narrow))
    if one.opcode.startswith("barrier.cluster.arrive") and "relaxed" not in one.opcode:
        weak = one.opcode.replace(".release", "").replace("arrive", "arrive.relaxed")
        yield "relaxed", str(replace(one, opcode=weak))
    elif re.search(r"\.(release|acquire|acq_rel)", one.opcode) and not one.opcode.startswith(("fence", "barrier")):
        yield "relaxed", str(replace(one, opcode=re.sub(r"\.(release|acquire|acq_rel)", ".relaxed", one.opcode)))


def _other_rank(one: Instruction) -> Iterator[Change]:
    yield "the other rank", one.computed(2, "b32", "xor.b32 %own, %own, 1;")


def _half(one: Instruction) -> Iterator[Change]:
    yield "half the columns", one.computed(1, "b32", "shr.u32 %own, %own, 1;")


def _source_alone(one: Instruction) -> Iterator[Change]:
    if "bulk" in one.opcode and not one.opcode.endswith(".read"):
        yield "of the source alone", str(replace(one, opcode=f"{one.opcode}.read"))


def _other_memory(one: Instruction) -> Iterator[Change]:
    """The proxy fence is for memory of the other kind."""
    if one.opcode.startswith("fence.proxy.async"):
        other = "shared::cta" if one.opcode.endswith(".global") else "global"
        yield "other memory", f"{one.guard}fence.proxy.async.{other};"


def _fewer_warps(one: Instruction) -> Iterator[Change]:
    if len(one.operands) > 1 and one.operands[1].isdigit():
        yield "a warp less", str(one.replaced(1, str(int(one.operands[1]) - 32)))


def _registers(one: Instruction) -> Iterator[Change]:
    if ".inc" in one.opcode and one.operands[0] != "256":
        yield "8 more", str(one.replaced(0, str(int(one.operands[0]) + 8)))
    if ".dec" in one.opcode:
        yield from _removed(one)


def _everybody(one: Instruction) -> Iterator[Change]:
    """Every lane takes itself for the one that was elected."""
    _, _, elected = one.operands[0].partition("|")
    yield "all lanes", f"{one} {one.guard}setp.eq.u32 {elected.strip()}, 0, 0;"


def _kept_phase(one: Instruction) -> Iterator[Change]:
    if one.operands[-1] == "1":
        yield "kept", f"{one.guard}mov.b32 {one.operands[0]}, {one.operands[1]};"


_RULES: tuple[tuple[str, str, tuple[Changes, ...]], ...] = (
    ("wait for an mbarrier", r"mbarrier\.(try|test)_wait", (_not_waited, _parity, _next_barrier)),
    ("announced bytes", r"mbarrier\.(arrive\.)?expect_tx", (_count(-1, -16, 16), _removed, _doubled)),
    ("arrival", r"mbarrier\.arrive(?!\.expect_tx)|cp\.async\.mbarrier", (_removed, _doubled, _next_barrier)),
    ("initialisation", r"mbarrier\.init", (_count(1, -1, 1), _removed)),
    ("commit", r"tcgen05\.commit", (_removed, _doubled, _next_barrier)),
    ("commit", r"(wgmma|cp\.async(\.bulk)?)\.commit_group", (_removed,)),
    ("wait of a group", r"(wgmma|cp\.async(\.bulk)?)\.wait_(group|all)", (_removed, _more_groups, _source_alone)),
    ("wait of tensor memory", r"tcgen05\.wait", (_removed,)),
    ("proxy fence", r"fence\.proxy", (_removed, _other_memory)),
    ("fence of barriers", r"fence\.mbarrier_init", (_removed,)),
    ("fence of tensor memory", r"tcgen05\.fence", (_removed,)),
    ("fence of wgmma", r"wgmma\.fence", (_removed,)),
    ("fence of memory", r"fence\.(acq_rel|sc|acquire|release)|membar", (_removed,)),
    ("barrier of the CTA", r"(bar|barrier)(\.cta)?\.(sync|arrive)", (_removed, _fewer_warps)),
    ("election", r"elect\.sync", (_everybody,)),
    ("parity", r"xor\.b32", (_kept_phase,)),
    ("registers", r"setmaxnreg", (_registers,)),
    ("barrier of the warp", r"bar\.warp\.sync", (_removed,)),
    ("scope and order", r"(mbarrier|fence|barrier\.cluster|ld|st|atom|red)\.", (_narrower,)),
    ("matrix descriptor", r"tcgen05\.(mma|cp)\.|wgmma\.mma_async", (_descriptor,)),
    ("instruction descriptor", r"tcgen05\.mma\.", (_instruction_descriptor,)),
    ("instruction descriptor", r"wgmma\.mma_async", (_transposed,)),
    ("multicast", r"tcgen05\.commit|cp\.async\.bulk", (_mask,)),
    ("rank", r"mapa", (_other_rank,)),
    ("tensor memory", r"tcgen05\.alloc", (_half,)),
    ("tensor memory", r"tcgen05\.dealloc", (_removed, _doubled)),
)
_COMPILED = tuple((kind, re.compile(pattern), changes) for kind, pattern, changes in _RULES)
KINDS = (*dict.fromkeys(kind for kind, _, _ in _RULES), "barrier of the cluster")


def mutants(ptx: str) -> Iterator[Mutant]:
    """All of them, in the order of lines."""
    blank = _COMMENT.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), ptx)
    for found in _INSTRUCTION.finditer(blank):
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


def trapped(ptx: str, line: int) -> str:
    """With a trap in front of the first instruction of a line that could be changed: whether it runs at all."""
    start = sum(len(one) + 1 for one in ptx.split("\n")[: line - 1])
    found = next(one for one in _INSTRUCTION.finditer(ptx, start) if any(rule.match(one["opcode"]) for _, rule, _ in _COMPILED))
    return f"{ptx[: found.start()]}{found['guard'] or ''}trap; {ptx[found.start() :]}"


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
