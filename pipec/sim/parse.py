"""PTX text -> Module. Hand written: PTX is statements ended by semicolons inside braces (PTX ISA sections 4, 5, 11)."""

from __future__ import annotations

import re
import struct

from .errors import malformed
from .tokens import Token, kernel_metadata, tokenize
from .tree import (
    Address,
    Function,
    Guard,
    Immediate,
    Instruction,
    Module,
    Negated,
    Pair,
    Register,
    Sink,
    Special,
    Symbol,
    Variable,
    Vector,
)
from .types import TYPES

_LINKAGE = frozenset({".visible", ".extern", ".weak", ".common"})
_SPACES = frozenset({".shared", ".global", ".const", ".local", ".param"})
_TUNING = frozenset(
    {
        ".reqntid",
        ".maxntid",
        ".minnctapersm",
        ".maxnctapersm",
        ".maxnreg",
        ".reqnctapercluster",
        ".explicitcluster",
        ".maxclusterrank",
        ".blocksareclusters",
        ".noreturn",
        ".abi_preserve",
        ".abi_preserve_control",
    }
)
_NUMBERED = re.compile(r"^(.*?)(0|[1-9]\d*)$")


def parse(text: str) -> Module:
    """Reads a whole PTX module. Raises SimulationError("malformed") with the line, for cut-off text too."""
    module = Module(metadata=kernel_metadata(text))
    parser = _Parser(tokenize(text), module)
    try:
        parser.module_body()
    except (IndexError, ValueError, struct.error) as error:
        raise malformed(f"cannot read this: {error}", parser.token.line) from None
    return module


class _Parser:
    def __init__(self, tokens: list[Token], module: Module) -> None:
        self.tokens = tokens
        self.position = 0
        self.module = module
        self.location: tuple[int, int, int] | None = None

    # ---- tokens

    @property
    def token(self) -> Token:
        return self.tokens[self.position]

    def take(self) -> Token:
        token = self.tokens[self.position]
        if token.kind == "end":
            raise malformed("the text ends in the middle of a statement", token.line)
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
        return sign * integer_value(token.text)

    def integers(self) -> tuple[int, ...]:
        """Comma separated integers; none at all is allowed (directives without arguments)."""
        values = []
        while self.token.kind == "integer":
            values.append(self.integer())
            if not self.accept(","):
                break
        return tuple(values)

    # ---- module level

    def module_body(self) -> None:
        while self.token.kind != "end":
            self.module_item()

    def module_item(self) -> None:
        text = self.token.text
        if text in _LINKAGE or text in _SPACES or text in (".entry", ".func"):
            self.linked_item()
        elif text in _MODULE_ITEMS:
            self.take()
            _MODULE_ITEMS[text](self)
        elif not self.accept(";"):
            raise malformed(f"unexpected `{text}` outside a function", self.token.line)

    def linked_item(self) -> None:
        external = False
        while self.token.text in _LINKAGE:
            external |= self.take().text == ".extern"
        text = self.token.text
        if text in (".entry", ".func"):
            self.function(self.take())
        elif text in _SPACES:
            self.module.variables.extend(self.variables(external))
        else:
            raise malformed(f"unexpected `{text}` after a linkage directive", self.token.line)

    def version(self) -> None:
        self.module.version = self.take().text

    def target(self) -> None:
        names = [self.word()]
        while self.accept(","):
            names.append(self.word())
        self.module.target = tuple(names)

    def address_size(self) -> None:
        self.module.address_size = self.integer()

    def file(self) -> None:
        number = self.integer()
        token = self.take()
        self.module.files[number] = token.text.strip('"')
        while self.accept(","):
            self.take()

    def section(self) -> None:
        self.word()
        self.expect("{")
        while self.take().text != "}":
            pass

    def pragma(self) -> None:
        while self.take().text != ";":
            pass

    # ---- variables

    def variables(self, external: bool = False) -> list[Variable]:
        """`.shared .align 16 .b8 a[128] = {..}, b;` with its semicolon."""
        space = self.take().text[1:]
        found = [self.variable(space, external)]
        while self.accept(","):
            found.append(self.variable(space, external, found[0]))
        self.expect(";")
        return found

    def variable(self, space: str, external: bool = False, like: Variable | None = None) -> Variable:
        line = self.token.line
        alignment, type_name, lanes = (like.alignment, like.type, 1) if like else (0, "", 1)
        while self.token.text.startswith(".") and self.token.kind == "word":
            directive = self.take().text
            if directive == ".align":
                alignment = self.integer()
            elif directive in (".v2", ".v4", ".v8"):
                lanes = int(directive[2:])
            elif directive[1:] in TYPES:
                type_name = directive[1:]
            elif directive not in (".ptr", ".global", ".shared", ".const", ".local", ".managed", ".param"):
                raise malformed(f"unknown type or attribute `{directive}`", line)
        if not type_name:
            raise malformed("a variable needs a type", line)
        name = self.word()
        element = TYPES[type_name].bytes * lanes
        count, unsized = 1, False
        while self.accept("["):
            if self.accept("]"):
                unsized = True
                continue
            count *= self.integer()
            self.expect("]")
        initial, length = self.initialiser(element) if self.accept("=") else ((), 0)
        size = length if unsized else element * count
        return Variable(name, space, type_name, alignment or element, size, external, initial, line)

    def initialiser(self, element: int) -> tuple[tuple, int]:
        if not self.accept("{"):
            return ((0, element, self.constant()),), element
        items, offset = [], 0
        while not self.accept("}"):
            if self.token.text == "{":
                self.take()
                while not self.accept("}"):
                    items.append((offset, element, self.constant()))
                    offset += element
                    self.accept(",")
            else:
                items.append((offset, element, self.constant()))
                offset += element
            self.accept(",")
        return tuple(items), offset

    def constant(self):
        if self.token.kind != "word":
            return self.number().value
        name = self.word()
        if name == "generic":
            self.expect("(")
            name = self.word()
            self.expect(")")
        return Symbol(name, self.integer() if self.accept("+") else 0)

    def number(self) -> Immediate:
        negative = self.accept("-")
        token = self.take()
        if token.kind == "integer":
            return Immediate(-integer_value(token.text) if negative else integer_value(token.text))
        if token.kind != "float":
            raise malformed(f"expected a number, found `{token.text}`", token.line)
        prefix = token.text[:2].lower()
        bits = {"0f": 32, "0d": 64}.get(prefix, 64)
        if prefix in ("0f", "0d"):
            pattern = int.from_bytes(bytes.fromhex(token.text[2:]))
        else:
            pattern = struct.unpack("<Q", struct.pack("<d", float(token.text)))[0]
        return Immediate(pattern ^ (1 << (bits - 1)) if negative else pattern, bits)

    # ---- functions

    def function(self, head: Token) -> None:
        if self.token.text == "(":
            self.parameters()
        function = Function(self.word(), head.text == ".entry", head.line)
        if self.token.text == "(":
            function.parameters = self.parameters()
        while self.token.text in _TUNING:
            name = self.take().text[1:]
            function.directives[name] = self.integers()
        if self.accept(";"):
            return
        if self.token.text == ".pragma":
            self.take()
            self.pragma()
        self.expect("{")
        self.location = None
        _Body(self, function).read()
        self.module.functions[function.name] = function

    def parameters(self) -> list[Variable]:
        self.expect("(")
        found: list[Variable] = []
        while not self.accept(")"):
            space = self.take().text
            if space not in (".param", ".reg"):
                raise malformed(f"expected `.param`, found `{space}`", self.token.line)
            found.append(self.variable("param"))
            if self.token.text != ")":
                self.expect(",")
        return found


_MODULE_ITEMS = {
    ".version": _Parser.version,
    ".target": _Parser.target,
    ".address_size": _Parser.address_size,
    ".file": _Parser.file,
    ".section": _Parser.section,
    ".pragma": _Parser.pragma,
    ".alias": _Parser.pragma,
}


class _Body:
    """Statements of one function. Scopes are numbered; a name is looked up from its scope outwards."""

    def __init__(self, parser: _Parser, function: Function) -> None:
        self.parser = parser
        self.function = function
        self.scope = 0
        self.named: dict[tuple[int, str], Register] = {}
        self.ranges: dict[tuple[int, str], tuple[int, str]] = {}

    def read(self) -> None:
        parser, depth = self.parser, 1
        while depth:
            token = parser.take()
            if token.text == "{":
                depth += 1
                self.function.scope_parents.append(self.scope)
                self.scope = len(self.function.scope_parents) - 1
            elif token.text == "}":
                depth -= 1
                self.scope = self.function.scope_parents[self.scope]
            elif token.text in _STATEMENTS:
                _STATEMENTS[token.text](self, token)
            elif token.text != ";":
                self.labelled_or_instruction(token)

    def labelled_or_instruction(self, token: Token) -> None:
        parser = self.parser
        if token.kind == "word" and parser.accept(":"):
            if parser.accept(".branchtargets"):
                self.function.tables[self.scope, token.text] = tuple(self.names())
            elif parser.token.text in (".callprototype", ".calltargets"):
                parser.pragma()
            else:
                self.function.labels[self.scope, token.text] = len(self.function.instructions)
            return
        guard = None
        if token.text == "@":
            negated = parser.accept("!")
            register = self.name(parser.word(), token.line)
            if not isinstance(register, Register):
                raise malformed("a guard must be a predicate register", token.line)
            guard = Guard(register, negated)
            token = parser.take()
        if token.kind != "word" or token.text[0] in ".%":
            raise malformed(f"expected an instruction, found `{token.text}`", token.line)
        self.function.instructions.append(
            Instruction(token.text, self.operands(), guard, token.line, parser.location, self.scope)
        )

    def names(self) -> list[str]:
        names = [self.parser.word()]
        while self.parser.accept(","):
            names.append(self.parser.word())
        self.parser.expect(";")
        return names

    # ---- declarations

    def registers(self, _: Token) -> None:
        parser = self.parser
        directive = parser.word()
        if directive in (".v2", ".v4"):
            raise malformed("vector registers are not supported", parser.token.line)
        if directive[1:] not in TYPES:
            raise malformed(f"unknown register type `{directive}`", parser.token.line)
        while True:
            name = parser.word()
            if parser.accept("<"):
                self.ranges[self.scope, name] = (parser.integer(), directive[1:])
                parser.expect(">")
            else:
                self.declare(self.scope, name, directive[1:])
            if not parser.accept(","):
                break
        parser.expect(";")

    def declare(self, scope: int, name: str, type_name: str) -> Register:
        register = Register(name, len(self.function.registers), type_name)
        self.function.registers.append(register)
        self.named[scope, name] = register
        return register

    def variable(self, _: Token) -> None:
        self.parser.position -= 1
        self.function.variables.extend(self.parser.variables())

    def loc(self, _: Token) -> None:
        file, line, column = (self.parser.integer() for _ in range(3))
        self.parser.location = (file, line, column)
        while self.parser.accept(","):
            if self.parser.word() == "inlined_at":
                for _position in range(3):
                    self.parser.integer()
            else:
                self.parser.word()
                if self.parser.accept("+"):
                    self.parser.integer()

    def pragma(self, _: Token) -> None:
        self.parser.pragma()

    # ---- operands

    def operands(self) -> tuple:
        parser, found = self.parser, []
        while not parser.accept(";"):
            found.append(self.operand())
            if parser.token.text in (",", "|"):
                if parser.take().text == "|":
                    found[-1] = Pair(found[-1], self.operand())
                    parser.accept(",")
            elif parser.token.text != ";":
                raise malformed(f"expected `,` or `;`, found `{parser.token.text or 'the end of the text'}`", parser.token.line)
        return tuple(found)

    def operand(self):
        parser = self.parser
        token = parser.token
        if token.text == "{":
            parser.take()
            return Vector(self.listed("}"))
        if token.text == "(":
            parser.take()
            return Vector(self.listed(")"))
        if token.text == "[":
            parser.take()
            return self.address()
        if token.text == "!":
            parser.take()
            return Negated(self.operand())
        if token.kind in ("integer", "float") or token.text == "-":
            return parser.number()
        return self.reference()

    def listed(self, closing: str) -> tuple:
        items = []
        while not self.parser.accept(closing):
            items.append(self.operand())
            if self.parser.token.text != closing:
                self.parser.expect(",")
        return tuple(items)

    def reference(self):
        parser = self.parser
        line = parser.token.line
        operand = self.name(parser.word(), line)
        if isinstance(operand, Symbol) and parser.token.text in "+-" and parser.token.text:
            sign = -1 if parser.take().text == "-" else 1
            return Symbol(operand.name, sign * parser.integer())
        return operand

    def address(self) -> Address:
        parser = self.parser
        base = parser.number().value if parser.token.kind == "integer" else self.reference()
        offset, coordinates = 0, ()
        if parser.token.text in ("+", "-"):
            sign = -1 if parser.take().text == "-" else 1
            offset = sign * parser.integer()
        if isinstance(base, Symbol):
            base, offset = Symbol(base.name), offset + base.offset
        if parser.accept(","):
            parser.expect("{")
            coordinates = self.listed("}")
        parser.expect("]")
        return Address(base, offset, coordinates)

    def name(self, text: str, line: int):
        """A register, special register, symbol or sink; registers of a range come into being on first use."""
        if text == "_":
            return Sink()
        numbered = _NUMBERED.match(text)
        scope = self.scope
        while scope >= 0:
            register = self.named.get((scope, text))
            if register is not None:
                return register
            if numbered:
                count, type_name = self.ranges.get((scope, numbered[1]), (0, ""))
                if int(numbered[2]) < count:
                    return self.declare(scope, text, type_name)
            scope = self.function.scope_parents[scope]
        if text.startswith("%"):
            if text.split(".")[0] not in SPECIAL_ROOTS and not text.startswith(("%envreg", "%pm")):
                raise malformed(f"register `{text}` is not declared", line)
            return Special(text)
        return Symbol(text)


_SPECIAL_NAMES = """
    tid ntid laneid warpid nwarpid ctaid nctaid smid nsmid gridid clusterid nclusterid cluster_ctaid cluster_nctaid
    cluster_ctarank cluster_nctarank is_explicit_cluster lanemask_eq lanemask_le lanemask_lt lanemask_ge lanemask_gt
    clock clock_hi clock64 globaltimer globaltimer_lo globaltimer_hi reserved_smem_offset_begin
    reserved_smem_offset_end reserved_smem_offset_cap total_smem_size aggr_smem_size dynamic_smem_size current_graph_exec
"""
SPECIAL_ROOTS = frozenset("%" + name for name in _SPECIAL_NAMES.split())

_STATEMENTS = {
    ".reg": _Body.registers,
    ".shared": _Body.variable,
    ".local": _Body.variable,
    ".const": _Body.variable,
    ".global": _Body.variable,
    ".param": _Body.variable,
    ".loc": _Body.loc,
    ".pragma": _Body.pragma,
}


def integer_value(text: str) -> int:
    text = text.rstrip("U")
    if text[:2] in ("0x", "0X"):
        return int(text, 16)
    if text[:2] in ("0b", "0B"):
        return int(text, 2)
    return int(text, 8) if len(text) > 1 and text[0] == "0" else int(text)
