"""A syntax error, as a message and in the form that recovery needs."""

import re
import unicodedata
from typing import Literal

from lark import Token, UnexpectedCharacters, UnexpectedInput
from lark.exceptions import UnexpectedEOF, UnexpectedToken

from pipec.budgets import BUDGETS
from pipec.diag.catalogue.language import syntax as messages
from pipec.diag.message import Message
from pipec.record import record
from pipec.source import Source, Span
from pipec.syntax.lines import Bracket, Logical, bracket_at, logical_lines, masked, point, shown
from pipec.syntax.other_forms import other_form
from pipec.syntax.terminal_names import expected, word

# "statement": a statement is invalid; "body": it is dropped with its block; "block": a header lacks its block; "indent": a block lacks its
# header; "dedent": a line matches no block; "end": nothing after it can be parsed.
Kind = Literal["statement", "body", "block", "indent", "dedent", "end"]


@record
class Fault:
    """`line`: a line of the statement with the error."""

    message: Message
    line: int
    kind: Kind


class _AtToken(Exception):
    def __init__(self, token: Token) -> None:
        super().__init__(str(token))
        self.token = token


class Unbalanced(_AtToken):
    """A closing bracket without an opening one."""


class Overlong(_AtToken):
    """A name or number too long for later tools: LLVM truncates names, and Python refuses to print the number."""


def fault_of(error: Exception, source: Source, lines: list[str], in_brackets: bool) -> Fault:
    """`lines` is what was parsed; `in_brackets`: a bracket was open in the parser."""
    match error:
        case Unbalanced(token=token):
            span = _token_span(source, token)
            return Fault(messages.Unbalanced(bracket=str(token), at=span), span.line, "statement")
        case Overlong(token=token):
            what = "name" if token.type == "NAME" else "number"
            span = point(source, token.line or 1, token.column or 1)
            limit = f"{BUDGETS['word'].limit} characters"
            return Fault(messages.TooDeep(what=what, limit=limit, at=span), span.line, "statement")
        case UnexpectedCharacters():
            return _character_fault(source, lines, error)
        case UnexpectedToken() | UnexpectedEOF():
            return _token_fault(source, lines, error, in_brackets)
        case UnexpectedInput():
            span = point(source, error.line, error.column)
            return Fault(messages.Unexpected(found="this", expected="a statement", at=span), span.line, "end")
        case _:
            span = _bad_dedent(source, lines)
            return Fault(messages.BadDedent(at=span), span.line, "dedent")


def _token_fault(source: Source, lines: list[str], error: UnexpectedToken | UnexpectedEOF, in_brackets: bool) -> Fault:
    token = error.token
    # Lark's `accepts` is what can follow here; `expected` are all look-aheads of the state, some of which are only valid in other
    # contexts.
    accepts = set(getattr(error, "accepts", None) or error.expected or ())
    invisible = token.type in ("_NEWLINE", "_DEDENT", "$END")
    if token.type == "_INDENT":
        span = _first_word(source, token)
        return Fault(messages.UnexpectedIndent(at=span), span.line, "indent")
    last = len(lines) if token.type == "$END" else token.line or len(lines)
    # Tokens without text are reported at the end of the line before: that is where something is missing.
    span = _end_of_line_before(source, lines, last) if invisible else _token_span(source, token)
    logical = logical_lines(lines)
    if in_brackets:
        unclosed = _unclosed(lines, logical, span, token)
        if unclosed is not None:
            at = point(source, unclosed.line, unclosed.column)
            behind = None if invisible else span
            closing = {"(": ")", "[": "]"}.get(unclosed.character, "")
            return Fault(
                messages.Unclosed(bracket=unclosed.character, closing=closing, at=at, behind=behind), unclosed.line, "statement"
            )
    if accepts == {"_INDENT"}:
        span = span if invisible else _end_of_line_before(source, lines, span.line - 1)
        return Fault(messages.MissingBlock(at=span), span.line, "block")
    other = _other(source, lines, logical, span)
    if other is not None:
        return other
    # If the line could end as it is, it does not lack a colon.
    if invisible and "COLON" in accepts and (accepts == {"COLON"} or "_NEWLINE" not in accepts):
        return Fault(messages.MissingColon(at=span), span.line, "statement")
    found = word(token.type) if invisible or "\n" in token else f"`{token}`"
    return Fault(messages.Unexpected(found=found, expected=expected(accepts), at=span), span.line, "statement")


def _other(source: Source, lines: list[str], logical: list[Logical], span: Span) -> Fault | None:
    """The error as a construct of another language, if it is one."""
    one = _logical_at(logical, span.line)
    bracket = bracket_at(lines, one, span.line, span.column) if one is not None else None
    found = other_form(lines[span.line - 1].rstrip("\r"), span.column, bracket)
    if found is None:
        return None
    at = Span(source, span.line, found.column, span.line, found.end_column)
    message = messages.OtherForm(what=found.what, why=found.form.why, instead=found.instead, edit=found.edit, at=at)
    return Fault(message, span.line, "body" if found.form.body else "statement")


def _logical_at(logical: list[Logical], line: int) -> Logical | None:
    return next((one for one in reversed(logical) if one.first <= line), None)


def _unclosed(lines: list[str], logical: list[Logical], span: Span, token: Token) -> Bracket | None:
    """The bracket whose missing end caused the error at `token`: another statement starts there, or another bracket is closed."""
    one = _logical_at(logical, span.line)
    if one is not None and token.type not in ("_NEWLINE", "_DEDENT", "$END"):
        inner = bracket_at(lines, one, span.line, span.column)
        if inner is not None and str(token) in (")", "]") and (inner.character, str(token)) not in (("(", ")"), ("[", "]")):
            return inner
        if one.open and span.line == one.first:
            return None  # the error precedes whatever else is missing
        if inner is not None and not one.open:
            return None
    earlier = next((other for other in reversed(logical) if other.first <= span.line and other.open), None)
    if earlier is None or (earlier is one and token.type not in ("_DEDENT", "$END") and span.line == earlier.first):
        return None
    return earlier.open[-1]


def _character_fault(source: Source, lines: list[str], error: UnexpectedCharacters) -> Fault:
    span = point(source, error.line, error.column)
    character = error.char
    long = lines[span.line - 1].startswith(('"""', "'''"), span.column - 1)
    if character == '"' or long:
        unclosed = messages.UnclosedString(end="the file" if long else "its line", at=span)
        return Fault(unclosed, span.line, "end" if long else "statement")
    if character == "'":
        return Fault(_single_quotes(source, span), span.line, "statement")
    other = _other(source, lines, logical_lines(lines), span)
    if other is not None:
        return other
    quoted = _QUOTED.match(source.line(span.line), span.column - 1)
    if quoted is not None:
        at = Span(source, span.line, span.column, span.line, quoted.end() + 1)
        name = "typographic quotes"
        return Fault(messages.LooksLike(found=quoted[0], right=f'"{quoted[1]}"', name=name, at=at), span.line, "statement")
    run = _run(source.line(span.line), span.column)
    ascii_text = "".join(_ASCII.get(one, str(unicodedata.decimal(one, "")) or one) for one in run)
    span = Span(source, span.line, span.column, span.line, span.column + len(run))
    if ascii_text.isascii() and not run.isascii():
        name = unicodedata.name(run[0], "").lower()
        return Fault(messages.LooksLike(found=run, right=ascii_text, name=name, at=span), span.line, "statement")
    advice = "remove it"
    if character.isalpha():
        advice = "names take the letters a to z and A to Z, digits and underscores"
    return Fault(messages.UnknownCharacter(character=shown(character), advice=advice, at=span), span.line, "statement")


_QUOTED = re.compile('[\u201c\u201d\u201e\u00ab]([^"\u201c\u201d\u00bb]*)[\u201c\u201d\u00bb]')
# Replacements of ASCII characters by editors, word processors and web pages.
_ASCII = {
    **dict.fromkeys("\u201c\u201d\u201e\u00ab\u00bb\uff02", '"'),
    **dict.fromkeys("\u2018\u2019\u201a\uff07", '"'),
    **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2212\uff0d", "-"),
    **dict.fromkeys("\u00a0\u2002\u2003\u2009\u202f\u3000", " "),
    "\u00d7": "*",
    "\u22c5": "*",
    "\u00f7": "/",
    "\u2264": "<=",
    "\u2265": ">=",
    "\u2260": "!=",
    "\u2026": "...",
    "\uff08": "(",
    "\uff09": ")",
    "\uff0c": ",",
    "\uff1a": ":",
    "\uff1d": "=",
    "\u3010": "[",
    "\u3011": "]",
    "\uff0b": "+",
}


def _run(line: str, column: int) -> str:
    """The non-ASCII characters of one kind from `column` on."""
    first = line[column - 1 : column]
    end = column
    while end < len(line) and not line[end].isascii() and line[end].isdecimal() and first.isdecimal():
        end += 1
    return line[column - 1 : end]


def _single_quotes(source: Source, span: Span) -> Message:
    line = source.line(span.line)
    end = line.find("'", span.column)
    text = line[span.column : end] if end > 0 and '"' not in line[span.column : end] else None
    width = len(text) + 2 if text is not None else 1
    at = Span(source, span.line, span.column, span.line, span.column + width)
    return messages.SingleQuotes(text=text, at=at)


def _token_span(source: Source, token: Token) -> Span:
    line, column = token.line or 1, token.column or 1
    return Span(source, line, column, line, column + max(1, len(str(token).split("\n")[0])))


def _end_of_line_before(source: Source, lines: list[str], line: int) -> Span:
    """After the last text before a line."""
    line = min(line, len(lines))
    while line > 1 and not masked(lines[line - 1]).strip():
        line -= 1
    return point(source, line, len(masked(lines[line - 1]).rstrip()) + 1)


def _first_word(source: Source, token: Token) -> Span:
    line = token.end_line or token.line or 1
    text = source.line(line)
    return point(source, line, len(text) - len(text.lstrip()) + 1)


def _bad_dedent(source: Source, lines: list[str]) -> Span:
    """The first line whose indentation matches no open block."""
    stack = [0]
    for one in logical_lines(lines):
        if one.indent > stack[-1]:
            stack.append(one.indent)
        while one.indent < stack[-1]:
            stack.pop()
        if one.indent != stack[-1]:
            text = source.line(one.first)
            return point(source, one.first, len(text) - len(text.lstrip()) + 1)
    return point(source, 1, 1)
