"""Faults of order in PTX: an instruction that stands on the wrong side of another one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_USE = r"(ld|st)\.shared|(ld|st)matrix|wgmma\.mma_async|tcgen05\.(mma|ld|st|cp)\.|cp\.(reduce\.)?async|mma\.sync"
_SIGNAL = r"(bar|barrier)(\.cta)?\.(sync|arrive)|mbarrier\.arrive|tcgen05\.commit|barrier\.cluster\.arrive"
_COPY = r"cp\.(reduce\.)?async\.bulk\.(tensor\S*\.)?(shared|global)"


@dataclass(frozen=True)
class Move:
    """`what` goes to the other side of the next instruction (or of the one before it) that matches `past`."""

    kind: str
    what: str
    past: str
    forward: bool
    change: str


MOVES = (
    Move(
        "commit",
        r"tcgen05\.commit|wgmma\.commit_group",
        r"(tcgen05\.mma|wgmma\.mma_async|tcgen05\.cp)",
        False,
        "before the product",
    ),
    Move("commit", r"cp\.async(\.bulk)?\.commit_group", r"cp\.(reduce\.)?async\.(c[ag]|bulk\.)", False, "before the copy"),
    Move("wait of a group", r"(wgmma|cp\.async(\.bulk)?)\.wait_(group|all)", rf"{_SIGNAL}|{_USE}", True, "behind what follows"),
    Move("wait of tensor memory", r"tcgen05\.wait", rf"{_SIGNAL}|tcgen05\.fence|{_USE}", True, "behind what follows"),
    Move("proxy fence", r"fence\.proxy", rf"{_SIGNAL}|{_COPY}", True, "behind what follows"),
    Move("proxy fence", r"fence\.proxy", r"st\.shared|stmatrix|st\.global", False, "before the stores"),
    Move("fence of tensor memory", r"tcgen05\.fence::before", _SIGNAL, True, "behind the signal"),
    Move("fence of tensor memory", r"tcgen05\.fence::after", r"tcgen05\.(ld|st|mma)\.", True, "behind the use"),
    Move("arrival", r"mbarrier\.arrive(?!\.expect_tx)", _USE, False, "before the use"),
    Move("barrier of the CTA", r"(bar|barrier)(\.cta)?\.sync", _USE, True, "behind the use"),
    Move("barrier of the CTA", r"(bar|barrier)(\.cta)?\.sync", _USE, False, "before the use"),
    Move("initialisation", r"mbarrier\.init", r"(bar|barrier)(\.cta)?\.sync|barrier\.cluster\.wait", True, "behind the barrier"),
    Move("tensor memory", r"tcgen05\.dealloc", r"(bar|barrier)(\.cta)?\.sync|tcgen05\.ld\.", False, "before what precedes"),
)
# A wait for an mbarrier is a loop, and goes as a whole.
WAIT = re.compile(r"mbarrier\.(try|test)_wait")
_AFTER_WAIT = re.compile(_USE)


@dataclass(frozen=True)
class Placed:
    """An instruction, where it stands in the text, and in which straight part of it."""

    opcode: str
    guard: str
    start: int
    end: int
    block: int


def moves(ptx: str, placed: Sequence[Placed]) -> Iterator[tuple[str, str, int, str]]:
    """(kind, change, where it stood, the text)."""
    for move in MOVES:
        what, past = re.compile(move.what), re.compile(move.past)
        for number, one in enumerate(placed):
            if not what.match(one.opcode):
                continue
            others = placed[number + 1 :] if move.forward else placed[number - 1 :: -1] if number else ()
            for other in others:
                if other.block != one.block or what.match(other.opcode):
                    break
                if past.match(other.opcode):
                    yield move.kind, move.change, one.start, _moved(ptx, one, other.end if move.forward else other.start)
                    break
    yield from _late_waits(ptx, placed)


def _moved(ptx: str, one: Placed, to: int) -> str:
    text = re.sub(r"\s*(//[^\n]*)?\n\s*", " ", ptx[one.start : one.end])
    blank = re.sub(r"[^\n]", " ", ptx[one.start : one.end])
    if to >= one.end:
        return f"{ptx[: one.start]}{blank}{ptx[one.end : to]} {text} {ptx[to:]}"
    return f"{ptx[:to]} {text} {ptx[to : one.start]}{blank}{ptx[one.end :]}"


def _late_waits(ptx: str, placed: Sequence[Placed]) -> Iterator[tuple[str, str, int, str]]:
    """The test succeeds at once, and the loop stands behind the first use after it."""
    for number, one in enumerate(placed):
        if not WAIT.match(one.opcode):
            continue
        use = next((other for other in placed[number + 1 : number + 40] if _AFTER_WAIT.match(other.opcode)), None)
        if use is None:
            continue
        text = re.sub(r"\s+", " ", ptx[one.start : one.end])
        found = re.match(r"(@!?[%\w$]+\s+)?(\S+)\s+([%\w$]+)(?:\|[%\w$]+)?\s*,(.*);", text)
        if found is None:
            continue
        guard, opcode, done, rest = found.groups()
        leave = f"{_inverted(guard)} bra MOVED_END; " if guard else ""
        loop = f"{{ .reg .pred %own; {leave}MOVED: {opcode} %own,{rest}; @!%own bra MOVED; MOVED_END: }}"
        passed = f"{guard or ''}setp.eq.u32 {done}, 0, 0;" + "\n" * ptx.count("\n", one.start, one.end)
        yield (
            "wait for an mbarrier",
            "behind the use",
            one.start,
            f"{ptx[: one.start]}{passed}{ptx[one.end : use.end]} {loop} {ptx[use.end :]}",
        )


def _inverted(guard: str) -> str:
    return guard.strip().replace("@!", "@") if "!" in guard else guard.strip().replace("@", "@!")
