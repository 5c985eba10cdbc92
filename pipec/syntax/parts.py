"""The values on the parser's stack: tokens, and the results of rules."""

from typing import Any


class Token(str):
    """A token of the text: its terminal in the grammar, and its position."""

    __slots__ = ("column", "end_column", "end_line", "line", "type")

    type: str
    line: int
    column: int
    end_line: int
    end_column: int


class Part:
    """The result of a rule, and the text it covers; `line` is 0 if it covers none. Children of a repetition are a list."""

    __slots__ = ("column", "end_column", "end_line", "line", "value")

    def __init__(self, parts: list[Any]) -> None:
        self.line = self.column = self.end_line = self.end_column = 0
        self.value: Any = None
        for first in parts:
            if first.line and first.column:
                self.line, self.column = first.line, first.column
                break
        for last in reversed(parts):
            if last.end_line and last.end_column:
                self.end_line, self.end_column = last.end_line, last.end_column
                break


Parts = list[Any]  # of Part and Token; a parser uses the attributes that both have
