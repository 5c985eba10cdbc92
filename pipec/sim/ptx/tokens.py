"""Splits PTX text into tokens; the only module that knows PTX's lexical rules (PTX ISA section 4)."""

from __future__ import annotations

import json
import re
from typing import Any, Literal, NamedTuple, get_args

from ..errors import malformed

METADATA_PREFIX = "// pipec.kernel "

_BLANKS = " \t\r"
# Words first, since most tokens are words; a comment comes before the operator that it begins with. Directives and types need no blank
# between them (`.reg.pred`), while a dot inside another word is part of it.
_TOKEN = re.compile(
    r"""
    [ \t\r]*(?:
    (?P<word>[%$_A-Za-z][\w$.]*(?:::[\w$.]+)* | \.[\w$]*(?:::[\w$]+)*)
  | (?P<newline>\n)
  | (?P<comment>//[^\n]* | /\*.*?(?:\*/|\Z))
  | (?P<mark><<|>>|<=|>=|==|!=|&&|\|\||[{}()\[\],;:@!|+\-*/%&^~?=<>])
  | (?P<float>0[fF][0-9a-fA-F]{8}(?![0-9a-zA-Z]) | 0[dD][0-9a-fA-F]{16}(?![0-9a-zA-Z]) | \d+\.\d*(?:[eE][+-]?\d+)? | \d+[eE][+-]?\d+)
  | (?P<integer>0[xX][0-9a-fA-F]+U? | 0[bB][01]+U? | \d+U?)
  | (?P<string>"(?:[^"\\\n]|\\.)*")
    )
""",
    re.VERBOSE | re.DOTALL | re.ASCII,
)


# LLVM numbers the lines of inline assembly as if they followed the source line that contains it. All of them get the preceding line number
# instead.
_INLINE = ("// begin inline asm", "// end inline asm")

TokenKind = Literal["string", "float", "integer", "word", "mark", "end"]
# The groups of the regular expression that are tokens.
_KINDS: dict[str | None, TokenKind] = {kind: kind for kind in get_args(TokenKind)}


class Token(NamedTuple):
    kind: TokenKind
    text: str
    line: int


def tokenize(text: str) -> list[Token]:
    """All tokens with 1-based lines, followed by one "end" token."""
    tokens: list[Token] = []
    # Compilers that emit PTX as C strings may include the terminating NUL (NVIDIA's Warp).
    position, line, length = 0, 1, len(text.rstrip("\0"))
    inline = skipping = False
    for found in _TOKEN.finditer(text, 0, length):
        if found.start() > position:
            break  # an unknown character
        kind, lexeme = found.lastgroup, found[found.lastindex or 0]
        position = found.end()
        if kind == "newline":
            line, skipping = line + 1, False
        elif kind == "comment":
            if lexeme[1] == "*" and (len(lexeme) < len("/**/") or not lexeme.endswith("*/")):
                raise malformed("a comment that does not end", line)
            line += lexeme.count("\n")
            if lexeme.startswith(_INLINE):
                inline = lexeme.startswith(_INLINE[0])
        elif inline and lexeme == ".loc":
            skipping = True
        elif not skipping:
            tokens.append(Token(_KINDS[kind], lexeme, line))
    if rest := text[position:length].lstrip(_BLANKS):
        raise malformed(f"unexpected character {rest[0]!r}", line)
    tokens.append(Token("end", "", line))
    return tokens


def integer_value(text: str, line: int) -> int:
    """The value of a token of kind "integer"; a leading zero means octal. Raises SimulationError beyond 64 bits (PTX ISA 4.5.1)."""
    value = _integer(text.rstrip("U"))
    if value >> 64:
        raise malformed(f"the number `{text}` has more than 64 bits", line)
    return value


def _integer(text: str) -> int:
    if text[:2] in ("0x", "0X"):
        return int(text, 16)
    if text[:2] in ("0b", "0B"):
        return int(text, 2)
    return int(text, 8) if len(text) > 1 and text[0] == "0" else int(text)


def kernel_metadata(text: str) -> dict[str, dict[str, Any]]:
    """The JSON objects that pipec writes into comments, by kernel name."""
    found: dict[str, dict[str, Any]] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.startswith(METADATA_PREFIX):
            continue
        try:
            entry = json.loads(line[len(METADATA_PREFIX) :])
        except ValueError as error:  # also of numbers with thousands of digits
            raise malformed(f"kernel metadata is not JSON: {error}", number) from None
        if isinstance(entry, dict) and isinstance(entry.get("kernel"), str):
            found[entry["kernel"]] = entry
    return found
