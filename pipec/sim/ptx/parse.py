"""PTX text -> Module. Hand written: PTX is statements ended by semicolons inside braces (PTX ISA sections 4, 5, 11)."""

from __future__ import annotations

import struct
from collections.abc import Callable

from ..errors import malformed, unsupported
from .body import Body
from .cursor import Cursor
from .tokens import Token, kernel_metadata, tokenize
from .tree import Function, Module, Register, Variable
from .types import TYPES
from .variables import SPACES, variable, variables

_LINKAGE = frozenset({".visible", ".extern", ".weak", ".common"})
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
        ".unified",
        ".abi_preserve",
        ".abi_preserve_control",
    }
)


def parse(text: str) -> Module:
    """Reads a whole PTX module. Raises SimulationError("malformed") with the line, also for truncated text, and "unsupported" for parts
    of PTX that the simulator does not support."""
    module = Module(metadata=kernel_metadata(text))
    parser = _Parser(tokenize(text), module)
    try:
        while parser.cursor.token.kind != "end":
            parser.item()
    except (IndexError, ValueError, struct.error) as error:
        raise malformed(f"cannot read this: {error}", parser.cursor.token.line) from None
    except RecursionError:
        raise malformed("brackets are nested too deeply", parser.cursor.token.line) from None
    return module


class _Parser:
    """The module level; `Body` parses a function's braces."""

    def __init__(self, tokens: list[Token], module: Module) -> None:
        self.cursor = Cursor(tokens)
        self.module = module

    def item(self) -> None:
        cursor = self.cursor
        text = cursor.token.text
        if text in _LINKAGE or text in SPACES or text in (".entry", ".func"):
            self.linked_item()
        elif text in _MODULE_ITEMS:
            cursor.take()
            _MODULE_ITEMS[text](self)
        elif text.startswith(".") and cursor.token.kind == "word":
            raise unsupported(f"directive `{text}` is not known to the simulator", cursor.token.line)
        elif not cursor.accept(";"):
            raise malformed(f"unexpected `{text}` outside a function", cursor.token.line)

    def linked_item(self) -> None:
        cursor, external = self.cursor, False
        while cursor.token.text in _LINKAGE:
            external |= cursor.take().text == ".extern"
        text = cursor.token.text
        if text in (".entry", ".func"):
            self.function(cursor.take())
        elif text in SPACES:
            self.module.variables.extend(variables(cursor, external))
        else:
            raise malformed(f"unexpected `{text}` after a linkage directive", cursor.token.line)

    def version(self) -> None:
        self.module.version = self.cursor.take().text

    def target(self) -> None:
        names = [self.cursor.word()]
        while self.cursor.accept(","):
            names.append(self.cursor.word())
        self.module.target = tuple(names)

    def address_size(self) -> None:
        token = self.cursor.token
        self.module.address_size = self.cursor.integer()
        if self.module.address_size != 64:
            raise unsupported(f"addresses of {self.module.address_size} bits are not simulated", token.line)

    def file(self) -> None:
        number = self.cursor.integer()
        token = self.cursor.take()
        self.module.files[number] = token.text.strip('"')
        while self.cursor.accept(","):
            self.cursor.take()

    def section(self) -> None:
        self.cursor.word()
        self.cursor.expect("{")
        self.cursor.skip_past("}")

    def pragma(self) -> None:
        self.cursor.skip_past(";")

    def alias(self) -> None:
        name = self.cursor.word()
        self.cursor.expect(",")
        self.module.aliases[name] = self.cursor.word()
        self.cursor.expect(";")

    # ---- functions

    def function(self, head: Token) -> None:
        cursor = self.cursor
        registers: list[Register] = []
        if cursor.accept(".attribute"):
            cursor.skip_past(")")
        results = self.parameters(registers) if cursor.token.text == "(" else []
        function = Function(cursor.word(), head.text == ".entry", head.line, registers=registers, results=results)
        if cursor.token.text == "(":
            function.parameters = self.parameters(registers)
        while cursor.token.text in _TUNING or cursor.token.text == ".pragma":
            name = cursor.take().text[1:]
            if name == "pragma":
                self.pragma()
            else:
                function.directives[name] = cursor.integers()
        known = self.module.functions.get(function.name)
        if cursor.accept(";"):
            function.has_body = False
            self.module.functions.setdefault(function.name, function)
            return
        if known is not None and known.has_body:
            raise malformed(f"function `{function.name}` is defined twice", head.line)
        if cursor.token.text.startswith(".") and cursor.token.kind == "word":
            raise unsupported(f"directive `{cursor.token.text}` is not known to the simulator", cursor.token.line)
        cursor.expect("{")
        Body(cursor, function, (*self.module.variables, *function.parameters, *function.results)).read()
        self.module.functions[function.name] = function

    def parameters(self, registers: list[Register]) -> list[Variable]:
        """`.param` variables, or the registers of a function in the old style, which are added to `registers`."""
        cursor = self.cursor
        cursor.expect("(")
        found: list[Variable] = []
        while not cursor.accept(")"):
            token = cursor.take()
            if token.text == ".reg":
                found.append(self.register_parameter(registers))
            elif token.text == ".param":
                found.append(variable(cursor, "param"))
            else:
                raise malformed(f"expected `.param`, found `{token.text}`", token.line)
            if cursor.token.text != ")":
                cursor.expect(",")
        return found

    def register_parameter(self, registers: list[Register]) -> Variable:
        type_name, line = self.cursor.word()[1:], self.cursor.token.line
        if type_name not in TYPES:
            raise malformed(f"unknown register type `.{type_name}`", line)
        register = Register(self.cursor.word(), len(registers), type_name)
        registers.append(register)
        return Variable(register.name, "reg", type_name, 1, TYPES[type_name].bytes, line=line, register=register)


_MODULE_ITEMS: dict[str, Callable[[_Parser], None]] = {
    ".version": _Parser.version,
    ".target": _Parser.target,
    ".address_size": _Parser.address_size,
    ".file": _Parser.file,
    ".section": _Parser.section,
    ".pragma": _Parser.pragma,
    ".alias": _Parser.alias,
}
