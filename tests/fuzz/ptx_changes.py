"""Changes of a PTX text at a place or two: what a tired programmer, or a compiler with a bug, makes of it."""

import random
import re
from collections.abc import Callable

_NUMBER = re.compile(r"(?<![\w%.])-?\d+(?!\w)")
_REGISTER = re.compile(r"%(r|p)\d+")
_DEFINES = re.compile(r"\s+(@!?\S+ )?(mov|add|sub|and|or|xor|shr|shl|selp|rem|div|bfe|mad|min|max|cvt|mul|setp|elect)")
_EVENT = re.compile(r"\s+(@!?\S+ )?(mbarrier|bar|cp\.async|bra|elect|shfl|@)")
_NUMBERS = ("0", "1", "2", "3", "16", "31", "32", "33", "48", "64", "128", "1048575", "1048576", "-1", "4294967295")
# What takes the place of something, where that is legal more often than not.
_INSTEAD: tuple[tuple[str, tuple[str, ...]], ...] = (
    (r"setp\.lt", ("setp.le", "setp.ne")),
    (r"setp\.ge", ("setp.gt", "setp.ne", "setp.eq")),
    (r"setp\.eq", ("setp.ne", "setp.ge")),
    (r"setp\.(\w+)\.u32", (r"setp.\1.s32",)),
    (r"setp\.(\w+)\.s32", (r"setp.\1.u32",)),
    (r"@!", ("@",)),
    (r"@(?!!)", ("@!",)),
    (r"xor\.b32", ("or.b32", "and.b32")),
    (r"bar\.sync 0;", ("bar.sync 1;", "bar.warp.sync -1;", "barrier.sync 0, 64;")),
    (r"bar\.warp\.sync -1", ("bar.sync 0", "elect.sync _|%p1, -1", "bar.warp.sync 65535")),
    (r"elect\.sync (\S+)\|(\S+), -1", (r"setp.eq.u32 \2, %laneid, 0", r"setp.lt.u32 \2, %laneid, 2")),
    (r"test_wait", ("try_wait",)),
    (r"mbarrier\.arrive\.shared::cta\.b64 _, (\[.*\]);", (r"mbarrier.arrive.expect_tx.shared::cta.b64 _, \1, 16;",)),
    (r"div\.u32", ("rem.u32", "shr.u32")),
    (r"%laneid", ("%tid.x", "%warpid")),
    (r"%cluster_ctarank", ("%ctaid.x",)),
)


def changed(ptx: str, draw: random.Random) -> str:
    """The text with one change, or two."""
    lines = ptx.split("\n")
    first = next(number for number, line in enumerate(lines) if ".reg .b32 %n" in line) + 2
    for _ in range(draw.choice((1, 1, 2))):
        for _ in range(20):
            at = draw.randrange(first, len(lines) - 3)
            # What waits or signals, three times out of four.
            if lines[at].endswith(":") or not _EVENT.match(lines[at]) and draw.random() < 0.75:
                continue
            before = list(lines)
            draw.choice(_CHANGES)(lines, at, draw)
            if lines != before:
                break
    return "\n".join(lines)


def _removed(lines: list[str], at: int, draw: random.Random) -> None:
    del lines[at]


def _twice(lines: list[str], at: int, draw: random.Random) -> None:
    lines.insert(at, lines[at])


def _moved(lines: list[str], at: int, draw: random.Random) -> None:
    line = lines.pop(at)
    lines.insert(max(8, min(len(lines) - 3, at + draw.choice((-6, -3, -2, -1, 1, 2, 3, 6)))), line)


def _numbered(lines: list[str], at: int, draw: random.Random) -> None:
    found = [*_NUMBER.finditer(lines[at])]
    if found:
        one = draw.choice(found)
        near = str(int(one[0]) + draw.choice((-1, 1)))
        lines[at] = lines[at][: one.start()] + draw.choice((near, near, *_NUMBERS)) + lines[at][one.end() :]


def _other_register(lines: list[str], at: int, draw: random.Random) -> None:
    """One that an instruction above writes, of the same kind."""
    found = [*_REGISTER.finditer(lines[at])]
    if not found:
        return
    one = draw.choice(found)
    kinds = [two[0] for line in lines[:at] if _DEFINES.match(line) for two in _REGISTER.finditer(line) if two[1] == one[1]]
    if kinds:
        lines[at] = lines[at][: one.start()] + draw.choice(kinds[-12:]) + lines[at][one.end() :]


def _instead(lines: list[str], at: int, draw: random.Random) -> None:
    rows = [row for row in _INSTEAD if re.search(row[0], lines[at])]
    if rows:
        pattern, others = draw.choice(rows)
        lines[at] = re.sub(pattern, draw.choice(others), lines[at], count=1)


def _predicated(lines: list[str], at: int, draw: random.Random) -> None:
    """Another predicate, or none."""
    if found := re.match(r"(\s+)@!?\S+ (?!bra)(.*)", lines[at]):
        lines[at] = found[1] + found[2]
        return
    flags = [two[0] for line in lines[:at] if _DEFINES.match(line) for two in _REGISTER.finditer(line) if two[1] == "p"]
    if flags and "bra " not in lines[at]:
        lines[at] = f"  @{draw.choice(('', '!'))}{draw.choice(flags[-8:])} {lines[at].strip()}"


def _relabelled(lines: list[str], at: int, draw: random.Random) -> None:
    """A label, and what comes to it, a line further down or up."""
    labels = [number for number, line in enumerate(lines) if line.endswith(":") and abs(number - at) < 8]
    if labels:
        number = draw.choice(labels)
        line = lines.pop(number)
        lines.insert(max(20, min(len(lines) - 3, number + draw.choice((-2, -1, 1, 2)))), line)


_CHANGES: tuple[Callable[[list[str], int, random.Random], None], ...] = (
    _removed, _twice, _moved, _numbered, _numbered, _other_register, _instead, _instead, _predicated, _relabelled,
)  # fmt: skip
