"""Predicates that say whether a turn of a loop is not its first, taken from the test at the loop's end.

An MMA accumulates in all turns but the first. LLVM sets that predicate to true at the end of each turn, which ptxas does again in each. The
test whether the loop has ended is false in every turn behind one, so that, true in front of the loop, it says the same, and the MMA takes
its negation for nothing.
"""

import re
from collections.abc import Iterator

from pipec.record import record

_TEST = re.compile(r"\tsetp\.(\w+)\.([sub]\d+) \t(%p\d+), (\S+, \S+);")
_SET = re.compile(r"\tmov\.pred \t(%p\d+), (0|-1);")
_BACK = re.compile(r"\t@(%p\d+) bra \t(\S+);")
_NEVER_BACK = ("\tbra.uni", "\tret;")  # what follows is not reached from here
_TO = re.compile(r"\bbra(?:\.uni)? +\t?(\S+);")
_ENTRY = ".visible .entry "
_OPPOSITE = {"lt": "ge", "ge": "lt", "le": "gt", "gt": "le", "eq": "ne", "ne": "eq"}


@record
class _Loop:
    """By number of their lines: where `first` is cleared, in front of the loop; the test at its end, where `first` is set, the branch
    back; and where `first` is used."""

    first: str
    test: str
    cleared: int
    tested: int
    set: int
    back: int
    used: tuple[int, ...]


def from_tests(ptx: str) -> str:
    """The text with such predicates taken from the tests of their loops."""
    if "\tmov.pred \t" not in ptx:
        return ptx
    lines = ptx.split("\n")
    starts = [number for number, line in enumerate(lines) if line.startswith(_ENTRY)]
    changes: dict[int, list[str]] = {}
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        for loop in _loops(lines, start, end):
            changes |= _changed(lines, loop)
    if not changes:
        return ptx
    return "\n".join([one for number, line in enumerate(lines) for one in changes.get(number, [line])])


def _changed(lines: list[str], loop: _Loop) -> dict[int, list[str]]:
    """The lines in place of others."""
    test = _TEST.fullmatch(lines[loop.tested])
    assert test is not None
    return {
        loop.cleared: [f"\tmov.pred \t{loop.test}, -1;"],
        loop.tested: [f"\tsetp.{_OPPOSITE[test[1]]}.{test[2]} \t{loop.test}, {test[4]};"],
        loop.set: [],
        loop.back: [lines[loop.back].replace("@", "@!", 1)],
    } | {number: [f"\tnot.pred \t{loop.first}, {loop.test};", lines[number]] for number in loop.used}


def _loops(lines: list[str], start: int, end: int) -> Iterator[_Loop]:
    """Of one kernel. A predicate is taken if it is cleared and set at one place each, and if nobody reads it behind the loop."""
    for first, cleared, set_ in _set_twice(lines, start, end):
        others = tuple(number for number in _mentions(lines, start, end, first) if number not in (cleared, set_))
        ends = _end(lines, set_)
        if ends is None or any(_writes(lines[number], first) for number in others):
            continue
        tested, back = ends
        if any(tested < number < set_ for number in others):
            continue
        test = lines[back].partition("@")[2].partition(" ")[0]
        alone = _mentions(lines, start, end, test) == [tested, back]
        if alone and not _reads_behind(lines, (start, end), back + 1, {*others}, cleared):
            yield _Loop(first, test, cleared, tested, set_, back, others)


def _set_twice(lines: list[str], start: int, end: int) -> Iterator[tuple[str, int, int]]:
    """The predicates that one move clears and another one sets, and the lines of the two: few."""
    moves = dict[str, list[tuple[str, int]]]()
    for number in range(start, end):
        if lines[number].startswith("\tmov.pred") and (found := _SET.fullmatch(lines[number])):
            moves.setdefault(found[1], []).append((found[2], number))
    for name, made in moves.items():
        to = dict(made)
        if len(to) == len(made) == 2:
            yield name, to["0"], to["-1"]


def _mentions(lines: list[str], start: int, end: int, name: str) -> list[int]:
    """The instructions that have a register among their operands."""
    whole = re.compile(rf"{name}\b")
    return [
        number
        for number in range(start, end)
        if name in (line := lines[number]) and line[:1] == "\t" and not line.startswith("\t.loc") and whole.search(line)
    ]


def _writes(line: str, name: str) -> bool:
    return re.match(rf"\t(?:@!?%p\d+ )?[\w.:]+ +\t?(?:\S+\|)?{name}\b,", line) is not None


def _end(lines: list[str], number: int) -> tuple[int, int] | None:
    """The test and the branch back of the block in which a line is, if it ends a loop."""
    back = next((at for at in range(number + 1, len(lines)) if not lines[at].startswith("\t.loc")), number)
    found = _BACK.fullmatch(lines[back])
    if found is None:
        return None
    for at in range(number - 1, 0, -1):
        if not lines[at].startswith("\t") or _TO.search(lines[at]):
            return None
        test = _TEST.fullmatch(lines[at])
        if test is not None and test[3] == found[1]:
            return at, back
    return None


def _reads_behind(lines: list[str], kernel: tuple[int, int], place: int, reads: set[int], cleared: int) -> bool:
    """Whether a line of `reads` can be reached from a place in the kernel other than through `cleared`."""
    labels = {lines[number][:-1]: number for number in range(*kernel) if lines[number][:1] == "$"}
    seen, ways = set[int](), [place]
    while ways:
        at = ways.pop()
        while at < kernel[1] and at not in seen and at != cleared:
            seen.add(at)
            if at in reads:
                return True
            if "bra" in lines[at] and (found := _TO.search(lines[at])):
                ways.append(labels[found[1]])
            if lines[at].startswith(_NEVER_BACK):
                break
            at += 1
    return False
