"""Lays out source lines with labels under them.

A label on one line is underlined (`^^^` primary, `---` secondary); its text stands behind the last underline of the line,
the texts of the others hang below on `|`. A label over several lines is a bracket in the margin:

     4 |   input = Pipeline(
       |  _________^
     5 | |     stages=4,
     6 | | )
       | |_^ declared here
"""

import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

from pipec.diag.message import Label
from pipec.source import Source, Span

_TAB = "    "
_WIDEST = 160  # columns of source shown; longer lines are cut around their first label
_CONTEXT = 40  # columns kept before the first label of a cut line
_MOST_LINES = 6  # lines of a bracket shown in full; longer ones are cut in the middle


@dataclass(frozen=True, slots=True)
class _Mark:
    """An underline in display columns (from 0) with its text."""

    start: int
    end: int
    text: str
    primary: bool

    @property
    def sign(self) -> str:
        return "^" if self.primary else "-"


@dataclass(frozen=True, slots=True)
class _Bracket:
    """A label over several lines, drawn in margin column `depth`."""

    span: Span
    text: str
    primary: bool
    depth: int


def snippet_rows(source: Source, labels: list[Label], width: int) -> Iterator[str]:
    """The rows of one source's snippet; `width` is that of the widest line number."""
    short = [label for label in labels if label.span.line == label.span.end_line]
    long = sorted((label for label in labels if label.span.line != label.span.end_line), key=_extent, reverse=True)
    brackets = [_Bracket(label.span, label.text, label.primary, depth) for depth, label in enumerate(long)]
    empty = f"{' ' * (width + 2)}| "
    previous = None
    for number in _shown_lines(short, brackets):
        if previous is not None and number > previous + 1:
            yield "..."
        previous = number
        text, columns = _display(source, number, [label.span for label in labels])
        marks = [_mark(label, columns) for label in short if label.span.line == number]
        margin = _margin(brackets, number)
        yield f" {number + source.first_line - 1:>{width}} | {margin}{text}".rstrip()
        for row in _mark_rows(marks):
            yield (empty + margin + row).rstrip()
        yield from _bracket_rows(brackets, number, columns, empty)


def _extent(label: Label) -> int:
    return label.span.end_line - label.span.line


def _shown_lines(labels: list[Label], brackets: list[_Bracket]) -> list[int]:
    """Labelled lines, the lines of brackets (without the middle of long ones), and single lines between two shown ones."""
    lines = {label.span.line for label in labels}
    for bracket in brackets:
        first, last = bracket.span.line, bracket.span.end_line
        inside = range(first, last + 1)
        lines.update(inside if len(inside) <= _MOST_LINES else (first, first + 1, last))
    return sorted(lines | {line + 1 for line in lines if line + 2 in lines})


# ---------------------------------------------------------------------------------------------------------- source lines


def _display(source: Source, number: int, spans: list[Span]) -> tuple[str, "_Columns"]:
    """A line as printed, and where its characters stand: tabs widened, wide characters counted, control characters replaced."""
    pieces = [_TAB if character == "\t" else _visible(character) for character in source.line(number)]
    starts = [source.indent]
    for piece in pieces:
        starts.append(starts[-1] + _width(piece))
    if starts[-1] <= _WIDEST:
        return " " * source.indent + "".join(pieces), _Columns(starts, 0)
    firsts = [span.column for span in spans if span.line == number] or [1]
    first = max(0, min(min(firsts) - 1, len(pieces)) - _CONTEXT)
    last = min(len(pieces), first + _WIDEST)
    head, tail = "..." if first else "", "..." if last < len(pieces) else ""
    return head + "".join(pieces[first:last]) + tail, _Columns(starts[: last + 1], starts[first] - len(head))


class _Columns:
    """Display columns of a line's characters; columns past its end map to the position after its last character."""

    def __init__(self, starts: list[int], cut: int) -> None:
        self._starts = starts
        self._cut = cut

    def at(self, column: int) -> int:
        """`column` counts characters from 1, as spans do."""
        index = min(max(column - 1, 0), len(self._starts) - 1)
        return max(0, self._starts[index] - self._cut)


def _visible(character: str) -> str:
    # Control and direction-changing characters would garble the terminal.
    return "\N{REPLACEMENT CHARACTER}" if unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp") else character


def _width(text: str) -> int:
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(one) else 2 if unicodedata.east_asian_width(one) in "WF" else 1 for one in text)


# ------------------------------------------------------------------------------------------------------- one-line labels


def _mark(label: Label, columns: _Columns) -> _Mark:
    start = columns.at(label.span.column)
    return _Mark(start, max(start + 1, columns.at(label.span.end_column)), label.text, label.primary)


def _mark_rows(marks: list[_Mark]) -> Iterator[str]:
    if not marks:
        return
    # Right to left: the last text stands behind the underlines, the others hang below their first column.
    hanging = sorted(marks, key=lambda mark: (mark.start, mark.end, mark.primary))
    underline = _underline(marks)
    last = hanging[-1]
    if last.end == len(underline) and all(mark.end <= last.start for mark in hanging[:-1]):
        hanging.pop()
        yield f"{underline} {last.text}"
    else:
        yield underline
    if hanging:
        yield _bars(hanging)
    while hanging:
        mark = hanging.pop()
        left = [other for other in hanging if other.start < mark.start]
        yield _bars(left).ljust(mark.start) + mark.text


def _underline(marks: list[_Mark]) -> str:
    row = [" "] * max(mark.end for mark in marks)
    for mark in sorted(marks, key=lambda mark: mark.primary):
        row[mark.start : mark.end] = mark.sign * (mark.end - mark.start)
    return "".join(row)


def _bars(marks: list[_Mark]) -> str:
    row = [" "] * (max((mark.start for mark in marks), default=-1) + 1)
    for mark in marks:
        row[mark.start] = "|"
    return "".join(row)


# ------------------------------------------------------------------------------------------------------------- brackets


def _margin(brackets: list[_Bracket], number: int) -> str:
    """Two columns per bracket: a bar where the bracket began above line `number` and has not ended."""
    return "".join("| " if bracket.span.line < number <= bracket.span.end_line else "  " for bracket in brackets)


def _bracket_rows(brackets: list[_Bracket], number: int, columns: _Columns, empty: str) -> Iterator[str]:
    """The rows that open the brackets starting on this line and close those ending on it."""
    opened = {bracket.depth for bracket in brackets if bracket.span.line < number <= bracket.span.end_line}
    for bracket in brackets:
        if bracket.span.line == number:
            yield (empty + _reach(brackets, opened, bracket, columns.at(bracket.span.column), " ")).rstrip()
            opened.add(bracket.depth)
    for bracket in reversed(brackets):
        if bracket.span.end_line == number:
            end = columns.at(max(bracket.span.end_column - 1, 1))
            yield (empty + _reach(brackets, opened, bracket, end, "|") + f" {bracket.text}").rstrip()
            opened.discard(bracket.depth)


def _reach(brackets: list[_Bracket], opened: set[int], bracket: _Bracket, column: int, corner: str) -> str:
    """A line from the bracket's margin column to `column` of the source."""
    row = ""
    for other in brackets:
        if other.depth < bracket.depth:
            row += "| " if other.depth in opened else "  "
    row += corner
    return row + "_" * (2 * len(brackets) - len(row) + column) + ("^" if bracket.primary else "-")
