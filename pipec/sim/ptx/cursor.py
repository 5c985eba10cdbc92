"""The parser's position in the tokens, and the operations that every part of it uses."""

from __future__ import annotations

from ..errors import malformed
from .tokens import Token, integer_value

_END = "the text ends in the middle of a statement"


class Cursor:
    def __init__(self, tokens: list[Token]) -> None:
        self.tokens = tokens
        self.position = 0

    @property
    def token(self) -> Token:
        return self.tokens[self.position]

    def ahead(self, count: int) -> Token:
        return self.tokens[min(self.position + count, len(self.tokens) - 1)]

    def take(self) -> Token:
        token = self.tokens[self.position]
        if token.kind == "end":
            raise malformed(_END, token.line)
        self.position += 1
        return token

    def accept(self, text: str) -> bool:
        if self.tokens[self.position].text == text:
            self.position += 1
            return True
        return False

    def expect(self, text: str) -> Token:
        token = self.take()
        if token.text != text:
            raise malformed(f"expected `{text}`, found `{token.text}`", token.line)
        return token

    def word(self) -> str:
        token = self.take()
        if token.kind != "word":
            raise malformed(f"expected a name, found `{token.text}`", token.line)
        return token.text

    def integer(self) -> int:
        sign = -1 if self.accept("-") else 1
        token = self.take()
        if token.kind != "integer":
            raise malformed(f"expected an integer, found `{token.text}`", token.line)
        return sign * integer_value(token.text, token.line)

    def integers(self) -> tuple[int, ...]:
        """Comma separated integers; none at all is allowed (directives without arguments)."""
        values = []
        while self.token.kind == "integer":
            values.append(self.integer())
            if not self.accept(","):
                break
        return tuple(values)

    def skip_past(self, text: str) -> None:
        while self.take().text != text:
            pass
