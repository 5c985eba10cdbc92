"""What to parse after a syntax error: the same text with the invalid statement replaced by a valid one without meaning.

Lines keep their numbers and columns, so that errors in the rest are reported at the right position. A header becomes `if True:`, and its
block is still parsed; other statements become `pass`. The resulting tree is never used, since an error was reported.
"""

import re

from pipec.diag.catalogue.language.syntax import Unexpected
from pipec.syntax.faults import Fault, Kind
from pipec.syntax.lines import Logical, logical_lines, width

_FOLLOWS_IF = re.compile(r"\s*(?:elif|else)\b")
_OF_OTHERS = re.compile(r"\s*(?:except|finally|case)\b")
_CONTINUES = re.compile(r"\s*(?:elif|else|except|finally|case)\b")
_FIRST_WORD = re.compile(r"\s*(\w+)")


def repaired(lines: list[str], kind: Kind, line: int) -> list[str] | None:
    """The lines without the error in `line`; None if it is unclear where the next statement starts."""
    logical = logical_lines(lines)
    index = next((n for n, one in enumerate(logical) if one.first <= line <= one.last), None)
    if index is None or kind == "end":
        return None
    one, following = logical[index], logical[index + 1] if index + 1 < len(logical) else None
    if kind == "dedent":
        return _without_run(lines, logical, index)
    if kind == "indent":
        return _with_header(lines, logical, index)
    deeper = following is not None and following.indent > one.indent
    if kind == "body" and deeper:
        lines = _blank(lines, one.last + 1, _end_of_block(logical, index))
        deeper = False
    return _replaced(lines, one, _stand_in(lines, logical, index, deeper and kind != "block"))


def continues_a_fault(lines: list[str], fault: Fault, faults: list[int]) -> bool:
    """Whether the only error is that the line is an `else`, `except` or `case` of a statement that was reported."""
    line = lines[fault.line - 1]
    if not (_CONTINUES.match(line) if isinstance(fault.message, Unexpected) else _OF_OTHERS.match(line)):
        return False
    # What is wrong behind the word is an error of its own: `else = 1:`.
    if isinstance(fault.message, Unexpected) and fault.message.fields["at"].column > width(line) + 1:
        return False
    above = next((n for n in range(fault.line - 1, 0, -1) if lines[n - 1].strip() and width(lines[n - 1]) <= width(line)), None)
    return above in faults


def _stand_in(lines: list[str], logical: list[Logical], index: int, deeper: bool) -> str:
    """A replacement for the invalid statement."""
    one = logical[index]
    text = lines[one.first - 1]
    word = _FIRST_WORD.match(text)
    if one.indent == 0:
        return ("kernel _():" if word and word[1] == "kernel" else "fn _():") if deeper else ""
    before_else = any(
        _FOLLOWS_IF.match(lines[other.first - 1]) for other in _next_at(logical, index, one.indent) if other.indent == one.indent
    )
    start = "elif True:" if word and word[1] == "elif" and _after_if(lines, logical, index) else "if True:"
    return start if deeper else f"{start} pass" if before_else else "pass"


def _next_at(logical: list[Logical], index: int, indent: int) -> list[Logical]:
    """The first logical line after the block of this one, if any."""
    return next(([other] for other in logical[index + 1 :] if other.indent <= indent), [])


def _after_if(lines: list[str], logical: list[Logical], index: int) -> bool:
    indent = logical[index].indent
    earlier = next((other for other in reversed(logical[:index]) if other.indent <= indent), None)
    return (
        earlier is not None and earlier.indent == indent and re.match(r"\s*(?:if|elif)\b", lines[earlier.first - 1]) is not None
    )


def _end_of_block(logical: list[Logical], index: int) -> int:
    """The last line of the block that the logical line opens."""
    last = logical[index].last
    for other in logical[index + 1 :]:
        if other.indent <= logical[index].indent:
            break
        last = other.last
    return last


def _with_header(lines: list[str], logical: list[Logical], index: int) -> list[str] | None:
    """Gives a block without a header one in place of the statement before it."""
    if index == 0:
        return None
    before = logical[index - 1]
    return _replaced(lines, before, "if True:" if before.indent else "fn _():")


def _without_run(lines: list[str], logical: list[Logical], index: int) -> list[str] | None:
    """Drops the lines from the one that matches no block up to where an open block continues."""
    open_blocks = [0]
    for one in logical[:index]:
        while one.indent < open_blocks[-1]:
            open_blocks.pop()
        if one.indent > open_blocks[-1]:
            open_blocks.append(one.indent)
    end = next((n for n in range(index, len(logical)) if logical[n].indent in open_blocks), len(logical))
    return _blank(lines, logical[index].first, logical[end - 1].last) if end > index else None


def _replaced(lines: list[str], one: Logical, text: str) -> list[str]:
    out = _blank(lines, one.first, one.last)
    first = lines[one.first - 1]
    out[one.first - 1] = first[: len(first) - len(first.lstrip())] + text
    return out


def _blank(lines: list[str], first: int, last: int) -> list[str]:
    return lines[: first - 1] + [""] * (last - first + 1) + lines[last:]
