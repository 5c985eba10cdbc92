"""Parses valid text: a lexer, Python's indentation and a loop over the LALR tables that Lark generates from the grammar.

Loading Lark takes longer than compiling a kernel, and its parser is three times as slow. So it only generates the tables, once
(pipec.syntax.grammar), and explains the errors in text that this loop rejects (pipec.syntax.faulty).
"""

import re
from collections.abc import Callable, Iterator
from typing import Any

from pipec.budgets import BUDGETS
from pipec.record import record
from pipec.syntax.parts import Part, Token
from pipec.syntax.shape import Reduce, Shape, only

_TAB = 8
_END = "$END"


class Unread(Exception):
    """The text is invalid."""


@record
class Tables:
    """`terminals` with their regular expressions, in the order in which they are tried; `words` are keywords in states where a name is
    not possible.

    A state's row maps a terminal, or the result of a reduction, to an action: shift to a state, or reduce rule n, encoded as ~n.
    """

    terminals: tuple[tuple[str, str], ...]
    ignored: tuple[str, ...]
    words: dict[str, str]
    states: list[dict[str, int]]
    rules: tuple[Shape, ...]
    start: int
    end: int


def scanner(found: Tables) -> Callable[[str, int], re.Match[str] | None]:
    """A word; its terminal is the last group. The group is empty and stands at the end: an alternative that begins with one could not be
    passed over by its first character."""
    return re.compile("|".join(f"(?:{text})(?P<{name}>)" for name, text in found.terminals)).match


class Machine:
    """The parser loop, with the action of each rule."""

    def __init__(self, found: Tables, reduce: Callable[[Shape], Reduce]) -> None:
        self._tables = found
        self._match = scanner(found)
        self._rules = [(rule.size, rule.origin, reduce(rule)) for rule in found.rules]

    def read(self, text: str) -> Part:
        """The result of parsing the whole text. Raises Unread if it is invalid."""
        found, rules = self._tables, self._rules
        states, end = found.states, found.end
        stack: list[int] = [found.start]
        values: list[Any] = []
        for token in self._tokens(text):
            kind = token.type
            while True:
                row = states[stack[-1]]
                action = row.get(kind)
                if action is None:
                    # A word like `where` is a name wherever a name is possible.
                    kind = found.words.get(token, "") if kind == "NAME" else ""
                    if kind not in row:
                        raise Unread
                    continue
                if action >= 0:
                    stack.append(action)
                    values.append(token)
                    break
                size, origin, reduce = rules[~action]
                if reduce is only:  # half of all reductions: a single operand represents its rule
                    stack[-1] = states[stack[-2]][origin]
                    continue
                parts: list[Any] = []
                if size:
                    parts = values[-size:]
                    del values[-size:], stack[-size:]
                stack.append(states[stack[-1]][origin])
                values.append(reduce(parts))
                # The start rule is reduced with $END as lookahead: only that is left to shift.
                if stack[-1] == end:
                    whole: Part = values[-1]
                    return whole
        raise Unread

    def _tokens(self, text: str) -> Iterator[Token]:
        """Adds `_INDENT` and `_DEDENT` after the newlines that begin and end blocks, and drops newlines in brackets."""
        indents, depth, longest = [0], 0, BUDGETS["word"].limit
        token = _token(_END, "", 1, 1, 1, 1)
        for token in self._words(text):
            kind = token.type
            if kind == "_NEWLINE":
                if not depth:
                    yield token
                    yield from _blocks(token, indents)
                continue
            if kind in _OPEN:
                depth += 1
            elif kind in _CLOSE:
                depth -= 1
            elif kind in _LIMITED and len(token) > longest:
                raise Unread
            if depth < 0:
                raise Unread
            yield token
        for _ in indents[1:]:
            yield _at("_DEDENT", token)
        yield _at(_END, token)

    def _words(self, text: str) -> Iterator[Token]:
        match, ignored = self._match, frozenset(self._tables.ignored)
        at, line, line_start, length = 0, 1, 0, len(text)
        while at < length:
            found = match(text, at)
            if found is None:
                raise Unread
            word, kind, first, column = found[0], found.lastgroup or "", line, at - line_start + 1
            at = found.end()
            if "\n" in word:
                line += word.count("\n")
                line_start = at - len(word) + word.rindex("\n") + 1
            if kind not in ignored:
                yield _token(kind, word, first, column, line, at - line_start + 1)


_OPEN, _CLOSE, _LIMITED = {"LPAR", "LSQB"}, {"RPAR", "RSQB"}, {"NAME", "INTEGER", "FLOAT"}


def _blocks(newline: Token, indents: list[int]) -> Iterator[Token]:
    """The blocks that the indentation of the next line begins or ends."""
    before = newline.rpartition("\n")[2]
    # Counted like Lark's Indenter, which parses the same text if this loop rejects it: both must see the same blocks.
    indent = before.count(" ") + before.count("\t") * _TAB
    if indent > indents[-1]:
        indents.append(indent)
        yield _at("_INDENT", newline)
    while indent < indents[-1]:
        indents.pop()
        yield _at("_DEDENT", newline)
    if indent != indents[-1]:
        raise Unread


def _at(kind: str, place: Token) -> Token:
    """An empty token at the position of another one."""
    return _token(kind, "", place.line, place.column, place.end_line, place.end_column)


def _token(kind: str, text: str, line: int, column: int, end_line: int, end_column: int) -> Token:
    token = Token(text)
    token.type, token.line, token.column, token.end_line, token.end_column = kind, line, column, end_line, end_column
    return token
