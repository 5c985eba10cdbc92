"""Lexical preprocessing: comments, strings, and number formats."""

import re

from pipec.verify.network import Unreadable

# Whichever starts first: a comment marker in a string is none, nor is a quote in a comment. (One that does not end is looked at once.)
_SET_ASIDE = re.compile(r'"(?:[^"\\\n]|\\[^"\n])*"|//[^\n]*|/\*.*?(?:\*/|\Z)', re.DOTALL)
_OCTAL = re.compile(r"-?0[0-7]+")
# What assemblers do not take, or take for the end of the text; and lines for a preprocessor.
_STRANGE = re.compile(r"[^\t\n\f\r -~]|#")
_LEAST, _MOST = -(1 << 63), (1 << 64) - 1  # numbers have 64 bits


def plain(ptx: str) -> str:
    """The text without comments and string contents, with the same number of lines."""
    text = _SET_ASIDE.sub(_instead, ptx)
    strange = _STRANGE.search(text)
    if strange or "\0" in ptx:
        line = text.count("\n", 0, strange.start()) if strange else ptx.count("\n", 0, ptx.index("\0"))
        raise Unreadable(line + 1, f"the character {strange[0] if strange else chr(0)!r} is not understood")
    # An unterminated string, or one with an ambiguous quote: it is unclear where statements resume.
    unclear = [at for at in (text.find('"'), text.find("/*")) if at >= 0]
    if unclear:
        raise Unreadable(text.count("\n", 0, min(unclear)) + 1, "a string or a comment that does not end is not understood")
    return text


def _instead(found: re.Match[str]) -> str:
    text = found[0]
    if text[0] == "/":
        if text[1] == "*" and (len(text) < len("/**/") or not text.endswith("*/")):
            return text
        # A comment inside a line separates two words.
        return "" if text[1] == "/" else " " + "\n" * text.count("\n")
    return "$string"


def integer(text: str) -> int | None:
    """An integer as PTX writes it, or None."""
    if text[:1] in ("%", "[", "{"):
        return None
    body = text[:-1] if text[-1:] in "Uu" else text
    try:
        number = int(body, 0)
    except ValueError:
        if not _OCTAL.fullmatch(body):
            return None
        number = int(body, 8)
    return number if _LEAST <= number <= _MOST else None
