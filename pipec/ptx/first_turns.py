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
_JUMP = re.compile(r"\tbra\.uni \t(\S+);")
_TO = re.compile(r"\bbra(?:\.uni)? +\t?(\S+);")
_LABEL = re.compile(r"(\$\w+):")
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
    mentioned = dict[str, list[int]]()
    for number in range(start, end):
        line = lines[number]
        if "%p" in line and line[:1] == "\t" and not line.startswith("\t.loc"):
            for name in {*re.findall(r"%p\d+\b", line)}:
                mentioned.setdefault(name, []).append(number)
    for first, places in mentioned.items():
        written = {found[2]: number for number in places if (found := _SET.fullmatch(lines[number])) and found[1] == first}
        others = tuple(number for number in places if number not in written.values())
        if len(written) != 2 or len(others) + 2 != len(places) or any(_writes(lines[number], first) for number in others):
            continue
        cleared, set_ = written["0"], written["-1"]
        ends = _end(lines, set_)
        if ends is None:
            continue
        tested, back = ends
        if any(tested < number < set_ for number in others):
            continue
        test = lines[back].partition("@")[2].partition(" ")[0]
        if mentioned[test] == [tested, back] and not _reads_behind(lines, (start, end), back + 1, {*others}, cleared):
            yield _Loop(first, test, cleared, tested, set_, back, others)


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
    labels = {found[1]: number for number in range(*kernel) if (found := _LABEL.match(lines[number]))}
    seen, ways = set[int](), [place]
    while ways:
        at = ways.pop()
        while at < kernel[1] and at not in seen and at != cleared:
            seen.add(at)
            if at in reads:
                return True
            if found := _TO.search(lines[at]):
                ways.append(labels[found[1]])
            if _JUMP.fullmatch(lines[at]) or lines[at] == "\tret;":
                break
            at += 1
    return False
