"""The statements of one function: declarations, labels, instructions and their operands (PTX ISA 4.3, 5, 6)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from pipec.record import replace

from ..errors import malformed, unsupported
from .constants import expression
from .cursor import Cursor
from .specials import SPECIAL_ROOTS
from .tokens import Token
from .tree import (
    Address,
    Function,
    Guard,
    Instruction,
    Named,
    Negated,
    Operand,
    Pair,
    Part,
    Register,
    Sink,
    Special,
    Symbol,
    Variable,
    Vector,
)
from .types import TYPES
from .variables import SPACES, variables

# Which of them take an element of an array as the memory there; the others take its address.
_ACCESSES = frozenset({"ld", "ldu", "st"})
# A name, and the bytes or halfwords of it that a video instruction selects.
_SELECTED = re.compile(r"(.+)\.[bh][0-7]{1,4}")
_NUMBERED = re.compile(r"^(.*?)(0|[1-9]\d*)$")
_VECTORS = {".v2": 2, ".v4": 4}
_COMPONENTS = ("xr", "yg", "zb", "wa")


class Body:
    """Scopes are numbered; a name is looked up from its scope outwards. `outside` are variables that may be shadowed: those here with
    such a name are renamed."""

    def __init__(self, cursor: Cursor, function: Function, outside: Iterable[Variable]) -> None:
        self.cursor = cursor
        self.function = function
        self.elements = {variable.name: _element_bytes(variable) for variable in outside}
        self.scope = 0
        self.location: tuple[int, int, int] | None = None
        self.named: dict[tuple[int, str], Register | Vector] = {}
        self.ranges: dict[tuple[int, str], tuple[int, str, int]] = {}
        self.symbols: dict[tuple[int, str], str] = {}
        for parameter in (*function.parameters, *function.results):
            if parameter.register is not None:
                self.named[0, parameter.name] = parameter.register

    def read(self) -> None:
        cursor, depth = self.cursor, 1
        while depth:
            token = cursor.take()
            if token.text == "{":
                depth += 1
                self.function.scope_parents.append(self.scope)
                self.scope = len(self.function.scope_parents) - 1
            elif token.text == "}":
                depth -= 1
                self.scope = self.function.scope_parents[self.scope]
            elif token.text in _STATEMENTS:
                _STATEMENTS[token.text](self)
            elif token.text != ";":
                self.labelled_or_instruction(token)

    def labelled_or_instruction(self, token: Token) -> None:
        cursor = self.cursor
        if token.kind == "word" and cursor.accept(":"):
            self.label(token.text)
            return
        guard = None
        if token.text == "@":
            negated = cursor.accept("!")
            register = self.name(cursor.word(), token.line)
            if not isinstance(register, Register) or register.type != "pred":
                raise malformed("a guard must be a predicate register", token.line)
            guard = Guard(register, negated)
            token = cursor.take()
        if token.kind == "word" and token.text[0] == "." and guard is None:
            raise unsupported(f"directive `{token.text}` is not known to the simulator", token.line)
        if token.kind != "word" or token.text[0] in ".%":
            raise malformed(f"expected an instruction, found `{token.text}`", token.line)
        opcode = token.text
        # Handwritten assembly may contain spaces before a modifier; no operand starts with a dot.
        while cursor.token.kind == "word" and cursor.token.text[0] == ".":
            opcode += cursor.word()
        operands = self.operands(opcode.split(".")[0])
        self.function.instructions.append(Instruction(opcode, operands, guard, token.line, self.location, self.scope))

    def label(self, name: str) -> None:
        cursor = self.cursor
        if cursor.token.text in (".branchtargets", ".calltargets"):
            cursor.take()
            self.function.tables[self.scope, name] = tuple(self.names())
        elif cursor.token.text == ".callprototype":
            cursor.skip_past(";")
        else:
            self.function.labels[self.scope, name] = len(self.function.instructions)

    def names(self) -> list[str]:
        names = [self.cursor.word()]
        while self.cursor.accept(","):
            names.append(self.cursor.word())
        self.cursor.expect(";")
        return names

    # ---- declarations

    def registers(self) -> None:
        cursor = self.cursor
        directive, lanes = cursor.word(), 1
        if directive in _VECTORS:
            lanes, directive = _VECTORS[directive], cursor.word()
        if directive[1:] not in TYPES:
            raise malformed(f"unknown register type `{directive}`", cursor.token.line)
        while True:
            name = cursor.word()
            if cursor.accept("<"):
                self.ranges[self.scope, name] = (cursor.integer(), directive[1:], lanes)
                cursor.expect(">")
            else:
                self.declare(self.scope, name, directive[1:], lanes)
            if not cursor.accept(","):
                break
        cursor.expect(";")

    def declare(self, scope: int, name: str, type_name: str, lanes: int) -> Register | Vector:
        parts = []
        for part in range(lanes):
            register = Register(f"{name}.{_COMPONENTS[part][0]}" if lanes > 1 else name, len(self.function.registers), type_name)
            self.function.registers.append(register)
            parts.append(register)
            if lanes > 1:
                self.named |= {(scope, f"{name}.{letter}"): register for letter in _COMPONENTS[part]}
        self.named[scope, name] = Vector(tuple(parts)) if lanes > 1 else parts[0]
        return self.named[scope, name]

    def variable(self) -> None:
        """A `.param` variable of a function body belongs to a call and is private to each thread."""
        self.cursor.position -= 1
        for variable in variables(self.cursor):
            self.function.variables.append(self.placed(variable))

    def placed(self, variable: Variable) -> Variable:
        name, number = variable.name, 1
        while name in self.elements:
            number += 1
            name = f"{variable.name}@{number}"
        self.elements[name] = _element_bytes(variable)
        self.symbols[self.scope, variable.name] = name
        return replace(variable, name=name, space="local" if variable.space == "param" else variable.space)

    def external(self) -> None:
        if self.cursor.token.text not in SPACES:
            raise malformed(f"expected a variable, found `{self.cursor.token.text}`", self.cursor.token.line)
        self.cursor.position += 1
        self.variable()

    def loc(self) -> None:
        cursor = self.cursor
        file, line, column = (cursor.integer() for _ in range(3))
        self.location = (file, line, column)
        while cursor.accept(","):
            if cursor.word() == "inlined_at":
                for _position in range(3):
                    cursor.integer()
            else:
                cursor.word()
                if cursor.accept("+"):
                    cursor.integer()

    def pragma(self) -> None:
        self.cursor.skip_past(";")

    # ---- operands

    def operands(self, root: str) -> tuple[Operand, ...]:
        cursor = self.cursor
        found: list[Operand] = []
        while not cursor.accept(";"):
            if root == "call" and cursor.accept("("):
                found.append(Vector(self.listed(")")))
            elif cursor.token.kind == "word" and cursor.ahead(1).text == "[":
                element = self.element()
                found.append(Address(Symbol(element.name), element.offset) if root in _ACCESSES else element)
            else:
                found.append(self.operand())
            if cursor.token.text in (",", "|"):
                if cursor.take().text == "|":
                    found[-1] = Pair(found[-1], self.operand())
                    cursor.accept(",")
            elif cursor.token.text != ";":
                raise malformed(f"expected `,` or `;`, found `{cursor.token.text or 'the end of the text'}`", cursor.token.line)
        return tuple(found)

    def operand(self) -> Operand:
        cursor = self.cursor
        token = cursor.token
        if token.text == "{":
            cursor.take()
            return Vector(self.listed("}"))
        if token.text == "[":
            cursor.take()
            return self.address()
        if token.text == "!" and cursor.ahead(1).kind == "word":
            cursor.take()
            return Negated(self.operand())
        if token.text == "-" and cursor.ahead(1).kind == "word" and isinstance(self.whole(cursor.ahead(1).text), Register):
            cursor.take()
            return Part(*self.part(cursor.word(), token.line), minus=True)
        if token.kind == "word" and token.text != "WARP_SZ":
            if isinstance(self.whole(token.text), Register) and self.declared(token.text) is None:
                return Part(*self.part(cursor.word(), token.line))
            return self.reference()
        return expression(cursor)

    def whole(self, text: str) -> Register | Vector | Symbol | None:
        """What is declared under the name, but for a selector of its parts."""
        found = _SELECTED.fullmatch(text)
        return self.declared(text) or (self.declared(found[1]) if found else None)

    def part(self, text: str, line: int) -> tuple[Operand, str]:
        """A register, and the parts of it that are selected."""
        if self.declared(text) is not None:
            return self.name(text, line), ""
        name, _, selector = text.rpartition(".")
        return self.name(name, line), selector

    def listed(self, closing: str) -> tuple[Operand, ...]:
        items = []
        while not self.cursor.accept(closing):
            items.append(self.operand())
            if self.cursor.token.text != closing:
                self.cursor.expect(",")
        return tuple(items)

    def reference(self) -> Named:
        cursor = self.cursor
        line = cursor.token.line
        operand = self.name(cursor.word(), line)
        if isinstance(operand, Symbol) and cursor.token.text in ("+", "-"):
            return Symbol(operand.name, self.offset())
        return operand

    def element(self) -> Symbol:
        """`a[3]`, where `a` is an array (PTX ISA 6.4.1.2): its size scales the index."""
        cursor = self.cursor
        array, bracket = self.name(cursor.word(), cursor.token.line), cursor.take()
        if not isinstance(array, Symbol) or array.name not in self.elements:
            raise malformed("only an array has elements", bracket.line)
        if cursor.token.kind == "word":
            raise unsupported(f"`{array.name}` is indexed by a register", bracket.line)
        index = expression(cursor).value
        cursor.expect("]")
        return Symbol(array.name, _signed(index * self.elements[array.name]))

    def offset(self) -> int:
        """`+4`, `-4`, `+-4`, `+(2*8)`."""
        sign = -1 if self.cursor.take().text == "-" else 1
        return sign * expression(self.cursor).value

    def address(self) -> Address:
        cursor = self.cursor
        base = self.reference() if cursor.token.kind == "word" else expression(cursor).value
        coordinates: tuple[Operand, ...] = ()
        offset = 0
        if cursor.token.text in ("+", "-"):
            offset = self.offset()
        if isinstance(base, Symbol):
            base, offset = Symbol(base.name), offset + base.offset
        offset = _signed(offset)
        if isinstance(base, int):
            base, offset = _signed(base + offset), 0
        if cursor.accept(","):
            cursor.expect("{")
            coordinates = self.listed("}")
        cursor.expect("]")
        return Address(base, offset, coordinates)

    def name(self, text: str, line: int) -> Named:
        """A register, special register, symbol or sink; registers of a range are created at first use."""
        if text == "_":
            return Sink()
        found = self.declared(text)
        if found is None and "." in text and isinstance(self.declared(text.rpartition(".")[0]), Vector):
            found = self.declared(text)  # the vector of a range has just been created, with its components
        if found is not None:
            return found
        if text.startswith("%"):
            if text.split(".")[0] not in SPECIAL_ROOTS:
                raise malformed(f"register `{text}` is not declared", line)
            return Special(text)
        return Symbol(text)

    def declared(self, text: str) -> Register | Vector | Symbol | None:
        numbered = _NUMBERED.match(text)
        scope = self.scope
        while scope >= 0:
            found = self.named.get((scope, text))
            if found is not None:
                return found
            if (scope, text) in self.symbols:
                return Symbol(self.symbols[scope, text])
            if numbered:
                count, type_name, lanes = self.ranges.get((scope, numbered[1]), (0, "", 1))
                if int(numbered[2]) < count:
                    return self.declare(scope, text, type_name, lanes)
            scope = self.function.scope_parents[scope]
        return None


def _element_bytes(variable: Variable) -> int:
    return TYPES[variable.type].bytes * variable.lanes


def _signed(value: int) -> int:
    """Addresses are added in 64 bits."""
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)


_STATEMENTS: dict[str, Callable[[Body], None]] = {
    ".reg": Body.registers,
    ".shared": Body.variable,
    ".local": Body.variable,
    ".const": Body.variable,
    ".global": Body.variable,
    ".param": Body.variable,
    ".extern": Body.external,
    ".loc": Body.loc,
    ".pragma": Body.pragma,
}
