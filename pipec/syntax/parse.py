"""Source text to syntax tree, or one diagnostic: after a syntax error the rest of the file has no certain meaning."""

import os
import pkgutil
import sys
from functools import cache
from hashlib import sha256
from pathlib import Path
from tempfile import NamedTemporaryFile
from threading import Lock
from typing import Any, ClassVar

from lark import Lark, Token, UnexpectedCharacters, UnexpectedInput
from lark import __version__ as lark_version
from lark.exceptions import UnexpectedEOF, UnexpectedToken
from lark.indenter import DedentError, Indenter

from pipec.diag.catalogue import syntax as messages
from pipec.diag.message import Sink
from pipec.source import Source, Span
from pipec.syntax import ast
from pipec.syntax.build import Builder
from pipec.syntax.shape import shape
from pipec.syntax.words import expected, word

# Deeper nesting than this is no kernel anybody wrote; the limit keeps later recursive passes inside Python's stack.
_DEEPEST_BRACKETS = 60
_DEEPEST_INDENT = 30
_LONGEST_LINE = 20_000


class _Indenter(Indenter):
    NL_type = "_NEWLINE"
    OPEN_PAREN_types: ClassVar[list[str]] = ["LPAR", "LSQB"]
    CLOSE_PAREN_types: ClassVar[list[str]] = ["RPAR", "RSQB"]
    INDENT_type = "_INDENT"
    DEDENT_type = "_DEDENT"
    tab_len = 8

    def process(self, stream):
        # A closing bracket without an opening one would end in an assertion of the base class; the parser reports it better.
        yield from super().process(self._balanced(stream))

    def _balanced(self, stream):
        depth = 0
        for token in stream:
            if token.type in self.OPEN_PAREN_types:
                depth += 1
            elif token.type in self.CLOSE_PAREN_types:
                depth -= 1
                if depth < 0:
                    raise _Unbalanced(token)
            yield token


class _Unbalanced(Exception):
    def __init__(self, token: Token) -> None:
        super().__init__(str(token))
        self.token = token


@cache
def parser() -> Lark:
    """The parser, built once per process; its tables are kept in the user's cache, since building them takes longer than a compile."""
    grammar = pkgutil.get_data("pipec.grammar", "pipec.lark")
    assert grammar is not None
    tables = _cache_file(grammar)
    return _loaded(tables) or _built(grammar.decode(), tables)


def _cache_file(grammar: bytes) -> Path:
    """Named after everything the tables depend on."""
    made_of = (grammar, lark_version.encode(), sys.version.encode())
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(home, "pipec", f"grammar-{sha256(b'|'.join(made_of)).hexdigest()[:16]}.tables")


def _loaded(tables: Path) -> Lark | None:
    try:
        with tables.open("rb") as file:
            return Lark.load(file)
    except Exception:  # noqa: BLE001 - a pickle that was cut off or is something else fails in many ways, and all mean: no tables
        return None


def _built(grammar: str, tables: Path) -> Lark:
    built = Lark(grammar, parser="lalr", start="file", postlex=_Indenter(), maybe_placeholders=True)
    try:
        tables.parent.mkdir(parents=True, exist_ok=True)
        # Complete before it gets its name: other processes may be reading and writing.
        with NamedTemporaryFile(dir=tables.parent, prefix=tables.name, delete=False) as file:
            built.save(file)
        os.replace(file.name, tables)
    except OSError:
        pass  # nowhere to write: the next run builds them again
    return built


def parse(source: Source, sink: Sink) -> ast.File | None:
    """The syntax tree of `source`; None when a message was reported."""
    if not _acceptable(source, sink):
        return None
    # The grammar ends every statement with a newline; the last line may lack its own.
    text = source.text + "\n"
    try:
        file = _file(text, source)
    except _Unbalanced as error:
        span = _token_span(source, error.token)
        sink.report(messages.Unbalanced(bracket=str(error.token), at=span))
    except DedentError:
        sink.report(messages.BadDedent(at=_bad_dedent(source)))
    except (UnexpectedToken, UnexpectedEOF) as error:
        _report_token(source, error, sink)
    except UnexpectedCharacters as error:
        _report_character(source, error, sink)
    except UnexpectedInput as error:
        sink.report(messages.Unexpected(found="this", expected="a statement", at=_point(source, error.line, error.column)))
    else:
        return file
    return None


_ONE_AT_A_TIME = Lock()  # the indenter and the builder belong to the parse that runs


@cache
def _shaped() -> tuple[Lark, Builder]:
    builder = Builder(Source("", ""))
    shape(parser(), builder)
    return parser(), builder


def _file(text: str, source: Source) -> ast.File:
    with _ONE_AT_A_TIME:
        lark, builder = _shaped()
        builder.source = source
        whole: Any = lark.parse(text)  # a Part, see shape
        return whole.value


def _acceptable(source: Source, sink: Sink) -> bool:
    """Refuses text that no parser should be asked to read: NUL bytes, absurd nesting."""
    for number, line in enumerate(source.lines, 1):
        for column, character in enumerate(line, 1):
            if character < " " and character not in "\t\f\r":
                sink.report(messages.UnknownCharacter(character=_shown(character), advice="remove it", at=_point(source, number, column)))
                return False
        if len(line) > _LONGEST_LINE:
            sink.report(messages.TooDeep(what="line", limit=f"{_LONGEST_LINE} characters", at=_point(source, number, 1)))
            return False
        indent = len(line) - len(line.lstrip())
        if line.strip() and len(line[:indent].expandtabs(8)) > _DEEPEST_INDENT * 8:
            sink.report(messages.TooDeep(what="block", limit=f"{_DEEPEST_INDENT} levels", at=_point(source, number, 1)))
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
                    messages.TooDeep(what="expression", limit=f"{_DEEPEST_BRACKETS} brackets", at=_point(source, number, column))
                )
                return False
    return True


def _report_token(source: Source, error: UnexpectedToken | UnexpectedEOF, sink: Sink) -> None:
    token = error.token
    accepts = set(getattr(error, "accepts", None) or error.expected or ())
    wanted = expected(accepts)
    if token.type in ("_NEWLINE", "_DEDENT", "$END"):
        span = _end_of_line_before(source, token)
        if "_INDENT" in accepts:
            sink.report(messages.MissingBlock(at=span))
        elif accepts == {"COLON"} or ("COLON" in accepts and "_NEWLINE" not in accepts):
            sink.report(messages.MissingColon(at=span))
        else:
            sink.report(messages.Unexpected(found=word(token.type), expected=wanted, at=span))
        return
    if token.type == "_INDENT":
        sink.report(messages.UnexpectedIndent(at=_first_word(source, token)))
        return
    span = _token_span(source, token)
    found = f"`{token}`" if "\n" not in token else word(token.type)
    sink.report(messages.Unexpected(found=found, expected=wanted, at=span))


def _report_character(source: Source, error: UnexpectedCharacters, sink: Sink) -> None:
    span = _point(source, error.line, error.column)
    character = error.char
    long = source.line(span.line).startswith(('"""', "'''"), span.column - 1)
    if character == '"' or long:
        sink.report(messages.UnclosedString(end="the file" if long else "its line", at=span))
        return
    advice = "remove it"
    if character == "'":
        advice = "a string takes double quotes"
    elif character.isalpha():
        advice = "names take the letters a to z and A to Z, digits and underscores"
    sink.report(messages.UnknownCharacter(character=_shown(character), advice=advice, at=span))


def _shown(character: str) -> str:
    return character if character.isprintable() else f"U+{ord(character):04X}"


def _token_span(source: Source, token: Token) -> Span:
    if token.line is None or "\n" in token:
        return _end_of_line_before(source, token)
    column = token.column or 1
    return Span(source, token.line, column, token.line, column + max(1, len(token)))


def _point(source: Source, line: int, column: int) -> Span:
    line = max(1, line)
    column = max(1, column)
    return Span(source, line, column, line, column + 1)


def _end_of_line_before(source: Source, token: Token) -> Span:
    """Just behind the last text before a token that stands for nothing visible."""
    last = len(source.lines)
    line = min(token.line or last, last) if token.type != "$END" else last
    while line > 1 and not _code(source.line(line)):
        line -= 1
    return _point(source, line, len(_code(source.line(line))) + 1)


def _code(line: str) -> str:
    return line.split("#", 1)[0].rstrip()


def _first_word(source: Source, token: Token) -> Span:
    line = token.end_line or token.line or 1
    text = source.line(line)
    column = len(text) - len(text.lstrip()) + 1
    return _point(source, line, column)


def _bad_dedent(source: Source) -> Span:
    """The first line whose indentation matches no open block."""
    stack = [0]
    for number, line in enumerate(source.lines, 1):
        code = _code(line)
        if not code.strip():
            continue
        width = len(line[: len(line) - len(line.lstrip())].expandtabs(8))
        if width > stack[-1]:
            stack.append(width)
        while width < stack[-1]:
            stack.pop()
        if width != stack[-1]:
            return _point(source, number, len(line) - len(line.lstrip()) + 1)
    return _point(source, 1, 1)
