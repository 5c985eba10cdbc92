"""Source text and spans: the positions of tokens, nodes and messages.

Lines and columns count from 1. A source embedded in a Python file keeps the line and column of that file: `first_line` and `indent` are
the position of its first line and the number of columns removed from each line.
"""

from functools import cached_property

from pipec.record import record


class Source:
    """One compilation unit: `name` is what messages print (a path as the user gave it); `first_indent` is the first line's `indent`, if
    different."""

    def __init__(self, name: str, text: str, first_line: int = 1, indent: int = 0, first_indent: int | None = None) -> None:
        self.name = name
        self.text = text
        self.first_line = first_line
        self.indent = indent
        self.first_indent = first_indent

    def __repr__(self) -> str:
        return f"Source({self.name!r})"

    @cached_property
    def lines(self) -> list[str]:
        # Split like in the lexer: only a newline ends a line (str.splitlines also splits at form feeds and the like).
        return self.text.split("\n")

    def line(self, number: int) -> str:
        """The text of a line (numbered from 1 inside this source); empty past the end."""
        return self.lines[number - 1].rstrip("\r") if 0 < number <= len(self.lines) else ""

    def removed(self, line: int) -> int:
        """The columns removed before a line."""
        return self.first_indent if line == 1 and self.first_indent is not None else self.indent

    def span(self, line: int, column: int, end_line: int, end_column: int) -> "Span":
        return Span(self, line, column, end_line, end_column)


@record
class Span:
    """A region of the source: from (line, column) up to, excluding, (end_line, end_column); numbered inside the source."""

    source: Source
    line: int
    column: int
    end_line: int
    end_column: int

    @property
    def shown_line(self) -> int:
        """The line number a user sees (that of the enclosing Python file for embedded text)."""
        return self.line + self.source.first_line - 1

    @property
    def shown_column(self) -> int:
        return self.column + self.source.removed(self.line)

    @property
    def shown_end_line(self) -> int:
        return self.end_line + self.source.first_line - 1

    @property
    def shown_end_column(self) -> int:
        return self.end_column + self.source.removed(self.end_line)

    def location(self) -> str:
        return f"{self.source.name}:{self.shown_line}:{self.shown_column}"

    def text(self) -> str:
        """The source text covered, if it is on one line; else the rest of its first line."""
        line = self.source.line(self.line)
        end = self.end_column - 1 if self.end_line == self.line else len(line)
        return line[self.column - 1 : end]

    def to(self, other: "Span") -> "Span":
        """The region from the start of this span to the end of `other`."""
        return Span(self.source, self.line, self.column, other.end_line, other.end_column)
