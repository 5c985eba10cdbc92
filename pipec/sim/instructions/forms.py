"""Which instructions share a form, and how a form is traced: its meaning runs on distinct registers."""

from __future__ import annotations

from collections.abc import Hashable
from typing import cast

import numpy as np

from ..compiled import forms
from ..compiled.code import Code
from ..compiled.traced import Offset
from ..compiled.tracer import trace
from ..errors import SimulationError
from ..machine.image import MATRICES, Image
from ..ptx.specials import SPECIALS
from ..ptx.tree import Address, Immediate, Instruction, Negated, Operand, Pair, Part, Register, Sink, Special, Symbol, Vector
from ..ptx.types import TYPES, unsigned
from .decode import Decoded, decode


def form_of(item: Instruction, decoded: Decoded) -> forms.Form | None:
    """None for instructions that touch more than registers."""
    try:
        shapes = tuple(_shape(operand, item.root in _MEMORY and decoded.offset is not None) for operand in item.operands)
    except TypeError:
        return None
    plain = Instruction(item.opcode, item.operands, None, 0, None, 0)
    return forms.form(item.opcode, (shapes, decoded.literals), lambda: _trace(plain))


# Opcodes that can be compiled although they access memory.
_MEMORY = frozenset({"ld", "ldu", "st", *MATRICES})


def _shape(operand: Operand, memory: bool = False) -> Hashable:
    """The properties of an operand that a meaning can observe. Raises TypeError for a memory operand, unless the table holds its
    address."""
    match operand:
        case Address(base=Register(type=name)) if memory:
            return "address", name
        case Address(base=Symbol()) if memory:
            return "parameter"
        case Register(type=name):
            return name
        case Immediate():
            return "constant"
        case Special(name=name):
            return name
        case Symbol(generic=generic):
            return "symbol", generic
        case Sink():
            return None
        case Vector(items=items):
            return tuple(_shape(one) for one in items)
        case Pair(first=first, second=second):
            return "pair", _shape(first), _shape(second)
        case Negated(operand=inner):
            return "not", _shape(inner)
        case Part(operand=inner, selector=selector, minus=minus):
            return "part", selector, minus, _shape(inner)
    raise TypeError("an address")


class _Blank:
    """Stand-in for an image: every requested register is a new one. A meaning that requests anything else is not traced."""

    def __init__(self) -> None:
        self.widths: list[int] = []
        self.addresses = _Anything()
        self.spaces = dict[str, str]()

    def new(self, bits: int) -> int:
        self.widths.append(bits)
        return len(self.widths) - 1

    def constant_slot(self, bits: int, width: int) -> int:
        return self.new(width)

    def symbol_slot(self, symbol: Symbol, width: int) -> int:
        return self.new(width)

    def special_slot(self, special: Special) -> int:
        return self.new(SPECIALS[special.name].bits)


class _Anything(dict[str, int]):
    """Every symbol has an address."""

    def __contains__(self, name: object) -> bool:
        return True

    def __missing__(self, name: str) -> int:
        return 0


def _renamed(operand: Operand, image: _Blank) -> Operand:
    match operand:
        case Register(name=name, type=kind):
            return Register(name, image.new(TYPES[kind].bits), kind)
        case Vector(items=items):
            return Vector(tuple(_renamed(one, image) for one in items))
        case Pair(first=first, second=second):
            return Pair(_renamed(first, image), _renamed(second, image))
        case Negated(operand=inner):
            return Negated(_renamed(inner, image))
        case Part(operand=inner, selector=selector, minus=minus):
            return Part(_renamed(inner, image), selector, minus)
        case Address(base=Register() as base):
            return Address(cast(Register, _renamed(base, image)), cast(int, Offset()))
        case Address(base=Symbol() as base):
            return Address(base, cast(int, Offset()))
    return operand


def _trace(item: Instruction) -> Code | None:
    """The code of a form; its events are indices into the list of registers that decoding requests."""
    image = _Blank()
    operands = tuple(_renamed(operand, image) for operand in item.operands)
    try:
        decoded = decode(Instruction(item.opcode, operands, None, 0, None, 0), cast(Image, image))
        dtypes = [np.dtype((np.uint64, 2)) if bits == 128 else unsigned(bits).dtype for bits in image.widths]
        code = trace(decoded.execute, dtypes)
    except SimulationError:
        # A meaning may reject its stand-in operands, as barriers do with their thread count.
        return None
    if code is None or any(slot not in decoded.slots for slot in code.events):
        return None
    code.events = [decoded.slots.index(slot) for slot in code.events]
    return code
