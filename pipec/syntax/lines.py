"""Splits text into logical lines without a parser, so that an error affects only its own line.

Brackets, strings, comments and backslashes are handled like in the lexer. An unclosed bracket ends its logical line at the first line
that is not indented deeper: another statement starts there.
"""

import re

from pipec.record import record
from pipec.source import Source, Span

_TAB = 8
_CLOSES = {")": "(", "]": "[", "}": "{"}
_LONG = ('"""', "'''")
_DEFINITION = re.compile(r"\s*(?:kernel|role|fn|comptime|with|while|for|return|pass|elif)\b")


@record
class Bracket:
    """An opening bracket: its character and position (line and column from 1)."""

    character: str
    line: int
    column: int


@record
class Logical:
    """Lines `first` to `last`, numbered from 1. `indent` in columns, with tabs expanded; `header`: it ends with a colon and opens a
    block.

    `open`: the unclosed brackets, the innermost last.
    """

    first: int
    last: int
    indent: int
    header: bool
    open: tuple[Bracket, ...]


def width(line: str) -> int:
    """The indentation of a line, in columns."""
    return len(line[: len(line) - len(line.lstrip())].expandtabs(_TAB))


def masked(line: str) -> str:
    """The line with comments and string contents blanked, with the same length."""
    out, at = [], 0
    while at < len(line):
        character = line[at]
        if character == "#":
            out.append(" " * (len(line) - at))
            break
        if character not in "\"'":
            out.append(character)
            at += 1
            continue
        end = _string_end(line, at)
        out.append(character + " " * (end - at - 2) + (character if end - at > 1 else ""))
        at = end
    return "".join(out)


def _string_end(line: str, start: int) -> int:
    """The position after the string that starts here; the end of the line for an unterminated one."""
    quotes = 3 if line.startswith(_LONG, start) else 1
    end = line.find(line[start] * quotes, start + quotes)
    return len(line) if end < 0 else end + quotes


def logical_lines(lines: list[str]) -> list[Logical]:
    """The logical lines with code, in order."""
    found: list[Logical] = []
    number = 1
    while number <= len(lines):
        if not masked(lines[number - 1]).strip():
            number += 1
            continue
        found.append(_logical(lines, number))
        number = found[-1].last + 1
    return found


def _logical(lines: list[str], first: int) -> Logical:
    stack: list[Bracket] = []
    indent = width(lines[first - 1])
    long = ""  # the quotes of an open multi-line string
    number = first
    while True:
        line = lines[number - 1].rstrip("\r")
        if long or _opens_long(line):
            long, rest = _after_long(line, long)
            code = masked(rest)
        else:
            code = masked(line)
            _follow(code, number, stack)
        header = code.rstrip().endswith(":")  # even with an open bracket: no line inside brackets ends in a colon
        continued = code.rstrip().endswith("\\") and not long
        if number == len(lines) or not (long or continued or (stack and not header and _goes_on(lines, number, indent))):
            return Logical(first, number, indent, header, tuple(stack))
        number += 1


def _opens_long(line: str) -> bool:
    return line.strip().startswith(_LONG)  # a docstring stands alone


def _after_long(line: str, long: str) -> tuple[str, str]:
    """The quotes open at the end of the line, and the text after a closed string."""
    at = 0
    if not long:
        at = len(line) - len(line.lstrip()) + 3
        long = line.strip()[:3]
    end = line.find(long, at)
    return (long, "") if end < 0 else ("", line[end + 3 :])


def _follow(code: str, number: int, stack: list[Bracket]) -> None:
    for column, character in enumerate(code, 1):
        if character in "([{":
            stack.append(Bracket(character, number, column))
        elif character in _CLOSES and any(one.character == _CLOSES[character] for one in stack):
            while stack.pop().character != _CLOSES[character]:
                pass


def _goes_on(lines: list[str], number: int, indent: int) -> bool:
    """Whether the line after an open bracket can belong to it."""
    following = next((line for line in lines[number:] if masked(line).strip()), "")
    if _DEFINITION.match(following):
        return False
    return width(following) > indent or following.strip()[:1] in ")]}"


def bracket_at(lines: list[str], logical: Logical, line: int, column: int) -> Bracket | None:
    """The innermost open bracket before a position of the logical line."""
    stack: list[Bracket] = []
    for number in range(logical.first, min(line, logical.last) + 1):
        code = masked(lines[number - 1])
        _follow(code[: column - 1] if number == line else code, number, stack)
    return stack[-1] if stack else None


def point(source: Source, line: int, column: int) -> Span:
    line, column = max(1, line), max(1, column)
    return Span(source, line, column, line, column + 1)


def shown(character: str) -> str:
    return character if character.isprintable() else f"U+{ord(character):04X}"
