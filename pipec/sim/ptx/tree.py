"""Parsed PTX: plain data with register names resolved and labels unresolved."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, Literal, TypeVar

from pipec.record import field, mutable, record

VariableSpace = Literal["shared", "global", "const", "local", "param", "reg"]
Found = TypeVar("Found")


@record
class Register:
    """One virtual register; `index` counts within the function, `type` is the declared type ("b32", "pred", ...)."""

    name: str
    index: int
    type: str


@record
class Special:
    """A special register, with its leading per cent sign: "%tid.x"."""

    name: str


@record
class Immediate:
    """A literal. `bits` holds an integer, or the raw pattern of a float literal of `float_bits` bits (0: integer)."""

    value: int
    float_bits: int = 0
    decimal: float | None = None


@record
class Symbol:
    """Address of a variable, parameter, function or label, plus bytes; `generic` only in initial values."""

    name: str
    offset: int = 0
    generic: bool = False


@record
class Address:
    """`[base + offset]`; `coordinates` and `rest` only for tensor-map operands `[map, {c0, c1}]`."""

    base: Base
    offset: int = 0
    coordinates: tuple[Operand, ...] = ()


@record
class Vector:
    items: tuple[Operand, ...]


@record
class Sink:
    pass


@record
class Pair:
    """`d|p`: two destinations in one operand."""

    first: Operand
    second: Operand


@record
class Negated:
    """`!%p` as an operand."""

    operand: Operand


@record
class Part:
    """An operand of a video instruction: `%r1.b2`, `%r1.h32`, `-%r1.h0` (`minus`). `selector` is empty for the whole word."""

    operand: Operand
    selector: str = ""
    minus: bool = False


# What a name can denote, and what an address can start from.
Named = Register | Special | Symbol | Vector | Sink
Base = Named | int
Operand = Register | Special | Immediate | Symbol | Address | Vector | Sink | Pair | Negated | Part


@record
class Guard:
    register: Register
    negated: bool


@record(caches=True)
class Instruction:
    opcode: str
    operands: tuple[Operand, ...]
    guard: Guard | None
    line: int
    location: tuple[int, int, int] | None
    scope: int

    @cached_property
    def root(self) -> str:
        """The opcode without its modifiers."""
        return self.opcode.partition(".")[0]


@record
class Variable:
    """A `.shared`/`.global`/`.const`/`.local`/`.param` variable. `size` in bytes; 0 for an unsized extern array.

    `initial` has (byte offset, byte count, int | Symbol). `register` is set for a `.reg` parameter of a function; `lanes` the length of
    a vector type.
    """

    name: str
    space: VariableSpace
    type: str
    alignment: int
    size: int
    external: bool = False
    initial: tuple[tuple[int, int, int | Symbol], ...] = ()
    line: int = 0
    register: Register | None = None
    lanes: int = 1


@mutable
class Function:
    name: str
    is_kernel: bool
    line: int
    parameters: list[Variable] = field(default_factory=list)
    results: list[Variable] = field(default_factory=list)
    has_body: bool = True
    variables: list[Variable] = field(default_factory=list)
    registers: list[Register] = field(default_factory=list)
    instructions: list[Instruction] = field(default_factory=list)
    labels: dict[tuple[int, str], int] = field(default_factory=dict)
    scope_parents: list[int] = field(default_factory=lambda: [-1])
    tables: dict[tuple[int, str], tuple[str, ...]] = field(default_factory=dict)
    directives: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def find(self, table: Mapping[tuple[int, str], Found], scope: int, name: str) -> Found | None:
        """`table` entry of `name` visible from `scope`, or None."""
        while scope >= 0:
            if (scope, name) in table:
                return table[scope, name]
            scope = self.scope_parents[scope]
        return None


@mutable
class Module:
    version: str = ""
    target: tuple[str, ...] = ()
    address_size: int = 64
    variables: list[Variable] = field(default_factory=list)
    functions: dict[str, Function] = field(default_factory=dict)
    files: dict[int, str] = field(default_factory=dict)
    metadata: dict[str, dict[str, Any]] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)

    @property
    def kernels(self) -> list[Function]:
        return [function for function in self.functions.values() if function.is_kernel and function.has_body]
