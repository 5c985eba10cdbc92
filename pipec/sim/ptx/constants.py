"""Constant expressions of PTX (PTX ISA 4.5): literals, unary and binary operators, casts, the conditional."""

from __future__ import annotations

import struct
from collections.abc import Callable

import numpy as np

from ..errors import malformed, unsupported
from .cursor import Cursor
from .tokens import integer_value
from .tree import Immediate
from .types import Type, unsigned

_U64 = (1 << 64) - 1


def _divided(a: int, b: int) -> int:
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


# By precedence, loosest first (PTX ISA table 4).
_BINARY: tuple[dict[str, Callable[[int, int], int]], ...] = (
    {"||": lambda a, b: int(bool(a or b))},
    {"&&": lambda a, b: int(bool(a and b))},
    {"|": lambda a, b: a | b},
    {"^": lambda a, b: a ^ b},
    {"&": lambda a, b: a & b},
    {"==": lambda a, b: int(a == b), "!=": lambda a, b: int(a != b)},
    {
        "<": lambda a, b: int(a < b),
        "<=": lambda a, b: int(a <= b),
        ">": lambda a, b: int(a > b),
        ">=": lambda a, b: int(a >= b),
    },
    {"<<": lambda a, b: a << b if b < 64 else 0, ">>": lambda a, b: a >> b},
    {"+": lambda a, b: a + b, "-": lambda a, b: a - b},
    {"*": lambda a, b: a * b, "/": _divided, "%": lambda a, b: a - b * _divided(a, b)},
)
_UNARY: dict[str, Callable[[int], int]] = {"+": lambda a: a, "~": lambda a: ~a, "!": lambda a: int(not a)}
# What can continue an expression after a literal; anything else ends it.
OPERATORS = frozenset({"?", *(name for level in _BINARY for name in level)})


def literal(tokens: Cursor) -> Immediate:
    """One literal with an optional minus: the form of nearly every constant."""
    negative = tokens.accept("-")
    token = tokens.take()
    if token.kind == "integer":
        value = integer_value(token.text, token.line)
        return Immediate(-value if negative else value)
    if token.kind != "float":
        raise malformed(f"expected a number, found `{token.text}`", token.line)
    prefix = token.text[:2].lower()
    bits = {"0f": 32, "0d": 64}.get(prefix, 64)
    if prefix in ("0f", "0d"):
        pattern = int.from_bytes(bytes.fromhex(token.text[2:]))
    else:
        pattern = struct.unpack("<Q", struct.pack("<d", float(token.text)))[0]
    return Immediate(pattern ^ (1 << (bits - 1)) if negative else pattern, bits)


def expression(tokens: Cursor) -> Immediate:
    """A literal, or an integer expression, which is evaluated in 64 bits. Raises SimulationError("malformed")."""
    if tokens.token.kind in ("integer", "float") or tokens.token.text == "-" and tokens.ahead(1).kind in ("integer", "float"):
        simple = literal(tokens)
        if simple.float_bits or tokens.token.text not in OPERATORS:
            return simple
        return Immediate(_wrapped(_conditional(tokens, simple.value)))
    return Immediate(_wrapped(_conditional(tokens, None)))


def _wrapped(value: int) -> int:
    return value if -(1 << 63) <= value < 1 << 64 else value & _U64


def _conditional(tokens: Cursor, first: int | None) -> int:
    value = _binary(tokens, 0, first)
    if not tokens.accept("?"):
        return value
    yes = _conditional(tokens, None)
    tokens.expect(":")
    no = _conditional(tokens, None)
    return yes if value else no


def _binary(tokens: Cursor, level: int, first: int | None) -> int:
    if level == len(_BINARY):
        return _unary(tokens) if first is None else first
    value = _binary(tokens, level + 1, first)
    while (operator := _BINARY[level].get(tokens.token.text)) is not None:
        line = tokens.take().line
        right = _binary(tokens, level + 1, None)
        try:
            value = operator(value, right)
        except (ZeroDivisionError, ValueError):
            raise malformed(f"the constant expression has no value: {value} and {right}", line) from None
    return value


def _unary(tokens: Cursor) -> int:
    token = tokens.token
    if token.text in _UNARY:
        tokens.take()
        return _UNARY[token.text](_unary(tokens))
    if token.text == "-":
        tokens.take()
        return -_unary(tokens)
    if tokens.accept("("):
        return _parenthesised(tokens)
    if token.text == "WARP_SZ":
        tokens.take()
        return 32
    if token.kind == "float":
        raise unsupported("floating-point constant expressions are not evaluated", token.line)
    return literal(tokens).value


def _parenthesised(tokens: Cursor) -> int:
    cast = tokens.token.text
    if cast in (".s64", ".u64"):
        tokens.take()
        tokens.expect(")")
        value = _unary(tokens) & _U64
        return value - (1 << 64) if cast == ".s64" and value >> 63 else value
    value = _conditional(tokens, None)
    tokens.expect(")")
    return value


_FLOATS = {16: np.float16, 32: np.float32, 64: np.float64}


def immediate_bits(operand: Immediate, type_: Type) -> int:
    """The bit pattern of a literal in an operand of `type_`."""
    bits = type_.bits
    if not operand.float_bits:
        return int(bool(operand.value)) if bits == 1 else operand.value & ((1 << bits) - 1)
    if operand.float_bits == bits:
        return operand.value
    if operand.float_bits == 64:
        value = np.uint64(operand.value).view(np.float64)
    else:
        value = np.float64(np.uint32(operand.value).view(np.float32))
    if bits not in _FLOATS:
        raise malformed(f"a floating-point number does not fit {bits} bits", 0)
    narrow = np.asarray(value, _FLOATS[bits])
    return int(narrow.view(unsigned(bits).dtype))
