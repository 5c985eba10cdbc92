"""Source text to syntax tree, or its syntax errors: an error costs its own statement, and the rest is still parsed (see recover)."""

import re
from functools import cache
from threading import Lock

from pipec.budgets import BUDGETS
from pipec.diag.catalogue.language import syntax as messages
from pipec.diag.message import Sink
from pipec.source import Source
from pipec.syntax import ast
from pipec.syntax.build import Builder
from pipec.syntax.lines import point, shown
from pipec.syntax.machine import Machine, Unread
from pipec.syntax.shape import reduction
from pipec.syntax.tables import tables

# Deeper nesting does not occur in real kernels; the limit keeps later recursive passes within Python's stack.
_DEEPEST_BRACKETS = BUDGETS["brackets"].limit
_DEEPEST_INDENT = BUDGETS["indentation"].limit
_LONGEST_LINE = BUDGETS["line"].limit
_CONTROL = re.compile(r"[\x00-\x1f](?<![\t\f\r])")
_BRACKET = re.compile(r"[()\[\]]")


def parse(source: Source, sink: Sink) -> ast.File | None:
    """The syntax tree of `source`; None if something was reported: errors in different statements are all reported."""
    if not _acceptable(source, sink):
        return None
    parsed = _read(source)
    if parsed is None:
        from pipec.syntax.faulty import parse_with_faults

        return parse_with_faults(source, sink)
    return parsed


def _read(source: Source) -> ast.File | None:
    with _ONE_AT_A_TIME:
        machine, builder = _machine()
        builder.source = source
        try:
            # The grammar ends every statement with a newline; the last line may lack its own.
            file: ast.File = machine.read(source.text + "\n").value
        except Unread:
            return None
        return file


_ONE_AT_A_TIME = Lock()  # the builder belongs to the running parse


@cache
def _machine() -> tuple[Machine, Builder]:
    builder = Builder(Source("", ""))
    return Machine(tables(), lambda shape: reduction(shape, builder)), builder


def _acceptable(source: Source, sink: Sink) -> bool:
    """Rejects text that should not be parsed: NUL bytes, excessive nesting."""
    for number, line in enumerate(source.lines, 1):
        control = _CONTROL.search(line)
        if control is not None:
            at = point(source, number, control.start() + 1)
            sink.report(messages.UnknownCharacter(character=shown(control[0]), advice="remove it", at=at))
            return False
        if len(line) > _LONGEST_LINE:
            sink.report(messages.TooDeep(what="line", limit=f"{_LONGEST_LINE} characters", at=point(source, number, 1)))
            return False
        indent = len(line) - len(line.lstrip())
        if line.strip() and len(line[:indent].expandtabs(8)) > _DEEPEST_INDENT * 8:
            sink.report(messages.TooDeep(what="block", limit=f"{_DEEPEST_INDENT} levels", at=point(source, number, 1)))
            return False
    return _brackets_acceptable(source, sink)


def _brackets_acceptable(source: Source, sink: Sink) -> bool:
    depth = 0
    for number, line in enumerate(source.lines, 1):
        for bracket in _BRACKET.finditer(line):
            depth = depth + 1 if bracket[0] in "([" else max(0, depth - 1)
            if depth > _DEEPEST_BRACKETS:
                at = point(source, number, bracket.start() + 1)
                sink.report(messages.TooDeep(what="expression", limit=f"{_DEEPEST_BRACKETS} brackets", at=at))
                return False
    return True
