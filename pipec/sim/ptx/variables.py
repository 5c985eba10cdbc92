"""Declarations of variables and parameters with their initial values (PTX ISA 5.4, 5.1.6)."""

from __future__ import annotations

from ..errors import malformed, unsupported
from .constants import expression, immediate_bits
from .cursor import Cursor
from .tree import Symbol, Variable, VariableSpace
from .types import TYPES, Type

SPACES: dict[str, VariableSpace] = {
    ".shared": "shared",
    ".global": "global",
    ".const": "const",
    ".local": "local",
    ".param": "param",
}
_OPAQUE = frozenset({".texref", ".samplerref", ".surfref"})
_ATTRIBUTES = frozenset({".ptr", ".global", ".shared", ".const", ".local", ".param"})
_VECTORS = {".v2": 2, ".v4": 4, ".v8": 8}
# Larger than any GPU's memory: rejected rather than allocated.
_LARGEST = 1 << 38

Value = int | Symbol
Initial = tuple[tuple[int, int, Value], ...]


def variables(cursor: Cursor, external: bool = False) -> list[Variable]:
    """`.shared .align 16 .b8 a[128] = {..}, b;` with its semicolon."""
    space = SPACES[cursor.take().text]
    found = [variable(cursor, space, external)]
    while cursor.accept(","):
        found.append(variable(cursor, space, external, found[0]))
    cursor.expect(";")
    return found


def variable(cursor: Cursor, space: VariableSpace, external: bool = False, like: Variable | None = None) -> Variable:
    line = cursor.token.line
    alignment, type_name, lanes = (like.alignment, like.type, like.lanes) if like else (0, "", 1)
    pointer = False  # an alignment after `.ptr` is that of the memory pointed to
    while cursor.token.kind == "word" and cursor.token.text.startswith("."):
        directive = cursor.take().text
        pointer = pointer or directive == ".ptr"
        if directive == ".align":
            stated = cursor.integer()
            alignment = alignment if pointer else stated
        elif directive in _VECTORS:
            lanes = _VECTORS[directive]
        elif directive[1:] in TYPES:
            type_name = directive[1:]
        elif directive == ".attribute":
            cursor.expect("(")
            cursor.skip_past(")")
        elif directive in _OPAQUE:
            raise unsupported(f"textures and surfaces (`{directive}`) are not simulated", line)
        elif directive not in _ATTRIBUTES:
            raise malformed(f"unknown type or attribute `{directive}`", line)
    if not type_name:
        raise malformed("a variable needs a type", line)
    if alignment < 0 or alignment & (alignment - 1):
        raise malformed(f"an alignment is a power of two, not {alignment}", line)
    name = cursor.word()
    element = TYPES[type_name].bytes * lanes
    extents, unsized = _extents(cursor)
    initial: Initial = ()
    length = 0
    if cursor.accept("="):
        initial, length = _initialiser(cursor, TYPES[type_name], [*extents, lanes] if lanes > 1 else extents, element)
    size = element
    for extent in extents:
        size *= extent
    size = length if unsized else size
    if not 0 <= size < _LARGEST or length > max(size, element):
        raise malformed(f"variable `{name}` has {size} bytes and {length} bytes of initial values", line)
    return Variable(name, space, type_name, alignment or element, size, external, initial, line, lanes=lanes)


def _extents(cursor: Cursor) -> tuple[list[int], bool]:
    """The sizes in brackets, and whether the first is left out."""
    extents, unsized = [], False
    while cursor.accept("["):
        if cursor.accept("]"):
            unsized = True
            continue
        extents.append(expression(cursor).value)
        cursor.expect("]")
    return extents, unsized


def _initialiser(cursor: Cursor, type_: Type, extents: list[int], element: int) -> tuple[Initial, int]:
    """(byte offset, byte count, value) of each initial value, and the bytes that they span. Incomplete rows are filled with zeros."""
    items: list[tuple[int, int, Value]] = []
    part = type_.bytes

    def level(offset: int, depth: int) -> int:
        row = part
        for extent in extents[depth + 1 :]:
            row *= extent
        while not cursor.accept("}"):
            if cursor.accept("{"):
                level(offset, depth + 1)
                offset += row
            else:
                items.append((offset, part, _constant(cursor, type_)))
                offset += part
            if cursor.token.text != "}":
                cursor.expect(",")
        return offset

    if not cursor.accept("{"):
        items.append((0, part, _constant(cursor, type_)))
        return tuple(items), element
    reach = level(0, 0)
    return tuple(items), reach


def _constant(cursor: Cursor, type_: Type) -> Value:
    """A number, or the address of a variable or function: `a`, `a+4`, `generic(a)+4`, `0xFF00(a)`."""
    if cursor.token.kind != "word" or cursor.token.text == "WARP_SZ":
        line = cursor.token.line
        value = expression(cursor)
        if cursor.token.text == "(":
            raise unsupported("initial values that are some bytes of an address are not simulated", line)
        return immediate_bits(value, type_)
    name = cursor.word()
    generic = name == "generic" and cursor.accept("(")
    if generic:
        name = cursor.word()
        cursor.expect(")")
    offset = 0
    if cursor.token.text in ("+", "-"):
        sign = 1 if cursor.take().text == "+" else -1
        offset = sign * expression(cursor).value
    return Symbol(name, offset, generic)
