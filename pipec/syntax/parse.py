"""Source text to syntax tree, or what is wrong with it: an error costs its own statement, and the rest is still read (see recover)."""

import json
import pkgutil
import sys
from collections.abc import Iterator
from functools import cache
from threading import Lock
from typing import Any, ClassVar

from lark import Lark, Token, UnexpectedInput
from lark import __version__ as lark_version
from lark.grammar import Rule
from lark.indenter import DedentError, Indenter
from lark.lexer import TerminalDef

from pipec import cache as kept
from pipec.budgets import BUDGETS
from pipec.diag.catalogue.language import syntax as messages
from pipec.diag.message import Sink
from pipec.source import Source
from pipec.syntax import ast
from pipec.syntax.build import Builder
from pipec.syntax.faults import Fault, Overlong, Unbalanced, fault_of, point, shown
from pipec.syntax.recover import continues_a_fault, repaired
from pipec.syntax.shape import shape

# Deeper nesting than this is no kernel anybody wrote; the limit keeps later recursive passes inside Python's stack.
_DEEPEST_BRACKETS = BUDGETS["brackets"].limit
_DEEPEST_INDENT = BUDGETS["indentation"].limit
_LONGEST_LINE = BUDGETS["line"].limit
# After each fault the text is parsed once more, so this also bounds the time.
_MOST_FAULTS = 20

_TABLES = "tables"  # the kind of entry in the cache


class _Indenter(Indenter):
    NL_type = "_NEWLINE"
    OPEN_PAREN_types: ClassVar[list[str]] = ["LPAR", "LSQB"]
    CLOSE_PAREN_types: ClassVar[list[str]] = ["RPAR", "RSQB"]
    WORD_types: ClassVar[list[str]] = ["NAME", "INTEGER", "FLOAT"]
    INDENT_type = "_INDENT"
    DEDENT_type = "_DEDENT"
    tab_len = 8

    def process(self, stream: Iterator[Token]) -> Iterator[Token]:
        # A closing bracket without an opening one would end in an assertion of the base class; the parser reports it better.
        yield from super().process(self._balanced(stream))  # type: ignore[no-untyped-call]  # Lark's has no types

    def _balanced(self, stream: Iterator[Token]) -> Iterator[Token]:
        depth = 0
        for token in stream:
            if token.type in self.OPEN_PAREN_types:
                depth += 1
            elif token.type in self.CLOSE_PAREN_types:
                depth -= 1
                if depth < 0:
                    raise Unbalanced(token)
            elif token.type in self.WORD_types and len(token) > BUDGETS["word"].limit:
                raise Overlong(token)
            yield token


@cache
def parser() -> Lark:
    """The parser, built once per process; its tables are kept in the user's cache, since building them takes longer than a compile."""
    grammar = pkgutil.get_data("pipec.grammar", "pipec.lark")
    assert grammar is not None
    key = kept.key_of(grammar, lark_version, sys.version)
    return _loaded(key) or _built(grammar.decode(), key)


def _loaded(key: str) -> Lark | None:
    """The parser from its tables, which are JSON."""
    content = kept.read(_TABLES, key)
    if content is None:
        return None
    try:
        tables = json.loads(content)
        tables["memo"] = _by_number(tables["memo"])
        automaton = tables["data"]["parser"]["parser"]
        automaton["tokens"] = _by_number(automaton["tokens"])
        automaton["states"] = {int(state): _by_number(actions) for state, actions in automaton["states"].items()}
        tables["data"]["options"]["postlex"] = _Indenter()
        return Lark.load(tables)
    except Exception:  # noqa: BLE001 - the user's own file with other contents fails in many ways, and all mean: no tables
        return None


def _by_number(rows: dict[str, Any]) -> dict[int, Any]:
    return {int(number): row for number, row in rows.items()}


def _built(grammar: str, key: str) -> Lark:
    built = Lark(grammar, parser="lalr", start="file", postlex=_Indenter(), maybe_placeholders=True)
    data, memo = built.memo_serialize([TerminalDef, Rule])
    tables = {"data": data | {"options": data["options"] | {"postlex": None}}, "memo": memo}
    kept.write(_TABLES, key, json.dumps(tables, separators=(",", ":")).encode())
    return built


def parse(source: Source, sink: Sink) -> ast.File | None:
    """The syntax tree of `source`; None when something was reported: errors in different statements are all told."""
    if not _acceptable(source, sink):
        return None
    lines, faults = source.lines, list[int]()
    for _ in range(_MOST_FAULTS):
        parsed = _attempt(source, lines)
        if isinstance(parsed, ast.File):
            return None if faults else parsed
        if not continues_a_fault(source.lines, parsed, faults):
            if faults and parsed.line <= max(faults):
                return None  # a consequence of what was reported
            sink.report(parsed.message)
        faults.append(parsed.line)
        repair = repaired(lines, parsed.kind, parsed.line)
        if repair is None:
            return None
        lines = repair
    return None


def _attempt(source: Source, lines: list[str]) -> ast.File | Fault:
    """Parses the lines, which are those of the source or what recovery made of them."""
    with _ONE_AT_A_TIME:
        lark, builder = _shaped()
        builder.source = source
        try:
            # The grammar ends every statement with a newline; the last line may lack its own.
            whole: Any = lark.parse("\n".join(lines) + "\n")  # a Part, see shape
        except (Overlong, Unbalanced, DedentError, UnexpectedInput) as error:
            indenter: Any = lark.options.postlex
            return fault_of(error, source, lines, indenter.paren_level > 0)
        file: ast.File = whole.value
        return file


_ONE_AT_A_TIME = Lock()  # the indenter and the builder belong to the parse that runs


@cache
def _shaped() -> tuple[Lark, Builder]:
    builder = Builder(Source("", ""))
    shape(parser(), builder)
    return parser(), builder


def _acceptable(source: Source, sink: Sink) -> bool:
    """Refuses text that no parser should be asked to read: NUL bytes, absurd nesting."""
    for number, line in enumerate(source.lines, 1):
        for column, character in enumerate(line, 1):
            if character < " " and character not in "\t\f\r":
                sink.report(
                    messages.UnknownCharacter(character=shown(character), advice="remove it", at=point(source, number, column))
                )
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
        for column, character in enumerate(line, 1):
            if character in "([":
                depth += 1
            elif character in ")]":
                depth = max(0, depth - 1)
            if depth > _DEEPEST_BRACKETS:
                sink.report(
                    messages.TooDeep(what="expression", limit=f"{_DEEPEST_BRACKETS} brackets", at=point(source, number, column))
                )
                return False
    return True
