"""From an Instruction to a closure that executes it, once per static instruction.

Meanings register themselves with `@instruction("add", ...)`; the longest dotted prefix of the opcode wins. A meaning receives a Decoder,
takes the modifiers and operands it supports, and returns `execute(warp)`. Modifiers left over are an `unsupported` error: nothing is
guessed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NoReturn, TypeVar, overload

import numpy as np

from pipec.record import record

from ..errors import ErrorKind, SimulationError
from ..machine.image import Image
from ..machine.program import Execute
from ..machine.threads.cta import Warp
from ..ptx.constants import immediate_bits
from ..ptx.specials import SPECIALS
from ..ptx.tree import Address, Immediate, Instruction, Negated, Operand, Pair, Part, Register, Sink, Special, Symbol, Vector
from ..ptx.types import LANES, TYPES, Addresses, LaneValues, Type, unsigned
from .ordering import SCOPES, SEMANTICS, Ordering
from .widths import Reader, Writer, extension, split_wide

AddressReader = Callable[[Warp], Addresses]
Meaning = Callable[["Decoder"], Execute]

OPERANDS = (Address, Immediate, Negated, Pair, Part, Register, Sink, Special, Symbol, Vector)
# A modifier; where the names are literals of a type, the result has that type.
Name = TypeVar("Name", bound=str)

_MEANINGS: dict[str, Meaning] = {}


@record
class Decoded:
    """`slots` are the registers that the meaning requested, in order; `literals` its integer literals; `offset` its address offset, or
    the offset of its parameter (None: it has neither)."""

    execute: Execute
    slots: tuple[int, ...]
    literals: tuple[int, ...]
    offset: int | None


# Cache and eviction hints affect only performance.
_HINTS = frozenset(
    {
        "L1::evict_normal",
        "L1::evict_unchanged",
        "L1::evict_first",
        "L1::evict_last",
        "L1::no_allocate",
        "L2::evict_normal",
        "L2::evict_first",
        "L2::evict_last",
        "L2::64B",
        "L2::128B",
        "L2::256B",
        "ca",
        "cg",
        "cs",
        "lu",
        "cv",
        "wb",
        "wt",
        "nc",
        "uni",
    }
)


def instruction(*names: str) -> Callable[[Meaning], Meaning]:
    """Registers the meaning of every opcode that starts with one of the dotted `names`."""

    def register(meaning: Meaning) -> Meaning:
        for name in names:
            if name in _MEANINGS:
                raise ValueError(f"{name} has two meanings")
            _MEANINGS[name] = meaning
        return meaning

    return register


def decode(item: Instruction, image: Image) -> Decoded:
    """Raises SimulationError("unsupported") for a form that no meaning handles, and "malformed" for one that PTX does not allow."""
    parts = item.opcode.split(".")
    for length in range(len(parts), 0, -1):
        meaning = _MEANINGS.get(".".join(parts[:length]))
        if meaning is not None:
            decoder = Decoder(item, parts[length:], image)
            try:
                execute = meaning(decoder)
            except (AttributeError, IndexError, KeyError, TypeError, ValueError, OverflowError) as error:
                raise _refused(item, error) from error
            decoder.finish()
            return Decoded(execute, tuple(decoder.slots), tuple(decoder.literals), decoder.offset)
    raise SimulationError("unsupported", f"instruction `{item.opcode}` is not known to the simulator", item.line)


def _refused(item: Instruction, error: Exception) -> SimulationError:
    """An operand of the wrong form is an error of the text; everything else is a bug of the simulator, and reported as such."""
    if isinstance(error, KeyError) and error.args and error.args[0] in _symbols(item.operands):
        return SimulationError(
            "malformed", f"`{item.opcode}` names `{error.args[0]}`, which is nothing that it could be", item.line
        )
    if isinstance(error, ValueError) and "values to unpack" in str(error):
        return SimulationError(
            "malformed", f"`{item.opcode}` has {len(item.operands)} operands, which are too few or too many", item.line
        )
    if isinstance(error, AttributeError) and isinstance(error.obj, OPERANDS):
        return SimulationError("malformed", f"`{item.opcode}` has an operand of a form that does not fit", item.line)
    return SimulationError("internal", f"reading `{item.opcode}`: {type(error).__name__}: {error}", item.line)


def _symbols(operands: tuple[Operand, ...]) -> set[str]:
    bases = [one.base if isinstance(one, Address) else one for one in operands]
    return {one.name for one in bases if isinstance(one, Symbol)}


# Element types that only matrices or packed registers have.
_SMALL = frozenset({"s2", "u2", "s4", "u4", "b1"})


def _together(items: Sequence[Operand]) -> Callable[[Warp], slice | Addresses | None]:
    """The positions of these registers among the 32-bit ones, so that they can be read and written at once; None where they cannot."""
    slots = [item.index for item in items if isinstance(item, Register) and TYPES[item.type].bits == 32]
    if len(slots) < len(items):
        return lambda warp: None
    found: list[slice | Addresses] = []

    def places(warp: Warp) -> slice | Addresses | None:
        if warp.in_flight:
            return None
        # After registers have been assigned their slots, which happens once all instructions are decoded.
        if not found:
            found.append(warp.cta.image.layout.words(slots))
        return found[0]

    return places


class Decoder:
    """Takes one instruction apart. `modifiers` shrinks as the meaning takes them, in any order."""

    def __init__(self, item: Instruction, modifiers: list[str], image: Image) -> None:
        self.item = item
        self.modifiers = modifiers
        self.operands = item.operands
        self.image = image
        self.slots: list[int] = []
        self.literals: list[int] = []
        self.offset: int | None = None

    # ---- modifiers

    def fail(self, message: str, kind: ErrorKind = "unsupported") -> NoReturn:
        raise SimulationError(kind, f"`{self.item.opcode}`: {message}", self.item.line)

    def flag(self, name: str) -> bool:
        if name in self.modifiers:
            self.modifiers.remove(name)
            return True
        return False

    @overload
    def choose(self, *names: Name, default: Name) -> Name: ...

    @overload
    def choose(self, *names: Name) -> Name | None: ...

    def choose(self, *names: Name, default: Name | None = None) -> Name | None:
        """The first modifier that is one of `names`, taken; else `default`."""
        for modifier in self.modifiers:
            for name in names:
                if name == modifier:
                    self.modifiers.remove(modifier)
                    return name
        return default

    def require(self, *names: Name) -> Name:
        found = self.choose(*names)
        if found is None:
            # The remaining modifiers may be a form that is not supported here.
            self.fail(f"needs one of .{', .'.join(names)}", "unsupported" if self.modifiers else "malformed")
        return found

    def ignore(self, *names: str) -> None:
        for name in names:
            self.flag(name)

    def ordering(self) -> Ordering:
        """Semantics and scope."""
        mmio = self.flag("mmio")
        found = self.choose(*SEMANTICS)
        scope = self.choose(*SCOPES)
        return Ordering("volatile" if mmio and found is None else found, scope)

    def types(self, least: int = 0, most: int | None = None) -> list[Type]:
        """All type modifiers in order, taken; from `least` to `most` of them (None: as many as there are)."""
        found = [name for name in self.modifiers if name in TYPES]
        self.modifiers[:] = [name for name in self.modifiers if name not in TYPES]
        if len(found) < least or (most is not None and len(found) > most):
            self.fail(f"has {len(found)} types and needs {least}", "malformed")
        return [TYPES[name] for name in found]

    def formats(self) -> list[str]:
        """The names of all element types in order, taken; matrix elements may have fewer than 8 bits."""
        found = [name for name in self.modifiers if name in TYPES or name in _SMALL]
        self.modifiers[:] = [name for name in self.modifiers if name not in found]
        return found

    def type(self) -> Type:
        found = self.types()
        if len(found) != 1:
            self.fail("needs exactly one type", "malformed")
        return found[0]

    def finish(self) -> None:
        left = [name for name in self.modifiers if name not in _HINTS]
        if left:
            self.fail(f"modifier .{left[0]} is not known to the simulator")

    # ---- operands

    def operand(self, index: int) -> Operand:
        if index >= len(self.operands):
            self.fail(f"operand {index + 1} is missing", "malformed")
        return self.operands[index]

    def slot(self, operand: Operand, type_: Type) -> tuple[int, int]:
        """(index into the warp's register list, width in bits) of a readable operand."""
        found = self._slot(operand, type_)
        self.slots.append(found[0])
        return found

    def _slot(self, operand: Operand, type_: Type) -> tuple[int, int]:
        if isinstance(operand, Register):
            return operand.index, TYPES[operand.type].bits
        if isinstance(operand, Special):
            if operand.name not in SPECIALS:
                self.fail(f"special register {operand.name} is not known to the simulator")
            return self.image.special_slot(operand), SPECIALS[operand.name].bits
        if isinstance(operand, Immediate):
            return self.image.constant_slot(immediate_bits(operand, type_), type_.bits), type_.bits
        if isinstance(operand, Symbol):
            self.symbol_address(operand)
            return self.image.symbol_slot(operand, type_.bits), type_.bits
        self.fail("has an operand of a form that is not supported here", "malformed")

    def symbol_address(self, symbol: Symbol) -> int:
        if symbol.name not in self.image.addresses:
            self.fail(self.image.undefined(symbol.name), "malformed")
        return self.image.addresses[symbol.name]

    def source(self, operand: Operand | int, type_: Type) -> Reader:
        """Reads an operand (or an operand index) as lanes of `type_.dtype`."""
        if isinstance(operand, int):
            operand = self.operand(operand)
        if isinstance(operand, Negated):
            inner = self.source(operand.operand, type_)
            return lambda warp: ~inner(warp)
        if isinstance(operand, Vector):
            return self._packed_source(operand, type_)
        slot, width = self.slot(operand, type_)
        if width == type_.bits:
            if type_.meaning in "bup":
                return lambda warp: warp.registers[slot].copy()
            dtype = type_.dtype
            return lambda warp: warp.registers[slot].copy().view(dtype)
        if width == 128:
            dtype = type_.dtype
            return lambda warp: warp.registers[slot][:, 0].astype(unsigned(type_.bits).dtype).view(dtype)
        storage, dtype = unsigned(type_.bits).dtype, type_.dtype
        return lambda warp: warp.registers[slot].astype(storage).view(dtype)

    def sources(self, *indices: int, type_: Type) -> list[Reader]:
        return [self.source(index, type_) for index in indices]

    def destination(self, operand: Operand | int, type_: Type) -> Writer:
        """`write(warp, lanes)` for the executing lanes; lanes have `type_.dtype` and are extended to the register."""
        if isinstance(operand, int):
            operand = self.operand(operand)
        if isinstance(operand, Sink):
            return lambda warp, value: None
        if isinstance(operand, Vector):
            return self._packed_destination(operand, type_)
        if not isinstance(operand, Register):
            self.fail("the destination is not a register", "malformed")
        slot, width = operand.index, TYPES[operand.type].bits
        self.slots.append(slot)
        extend = extension(type_, width)

        def write(warp: Warp, value: LaneValues) -> None:
            mask, row = warp.mask, warp.registers[slot]
            value = extend(value) if extend else value
            if mask is None:
                row[...] = value
            else:
                np.copyto(row[...], value, where=mask[:, None] if value.ndim == 2 else mask, casting="unsafe")

        return write

    def words_into(self, items: Sequence[Operand]) -> Writer:
        """`destination` for several 32-bit registers: writes [registers, lanes]."""
        writers, whole = [self.destination(item, TYPES["b32"]) for item in items], _together(items)

        def write(warp: Warp, values: LaneValues) -> None:
            places = whole(warp)
            if places is None or warp.mask is not None:
                for one, lanes in zip(writers, values, strict=True):
                    one(warp, lanes)
            else:
                warp.file.words[places] = values

        return write

    def words_of(self, items: Sequence[Operand]) -> Reader:
        """`source` for several 32-bit registers: [registers, lanes]."""
        readers, whole = [self.source(item, TYPES["b32"]) for item in items], _together(items)

        def read(warp: Warp) -> LaneValues:
            places = whole(warp)
            return np.stack([one(warp) for one in readers]) if places is None else warp.file.words[places].copy()

        return read

    def pair(self, index: int = 0) -> tuple[Operand, Operand | None]:
        """(first, second) destinations of `d|p`; second is None for a single one."""
        operand = self.operand(index)
        return (operand.first, operand.second) if isinstance(operand, Pair) else (operand, None)

    def second_destination(self, index: int, type_: Type) -> Writer | None:
        """Of `d|p`; None for a single destination."""
        operand = self.operand(index)
        return self.destination(operand.second, type_) if isinstance(operand, Pair) else None

    def name(self, index: int) -> str:
        """The symbol or label that the operand names."""
        operand = self.operand(index)
        if not isinstance(operand, Symbol):
            self.fail(f"operand {index + 1} must be a name", "malformed")
        return operand.name

    def vector(self, index: int) -> tuple[Operand, ...]:
        operand = self.operand(index)
        return operand.items if isinstance(operand, Vector) else (operand,)

    def address(self, index: int) -> AddressReader:
        """Lanes of int64 addresses of a `[base + offset]` operand."""
        return self.address_of(self.address_operand(index))

    def address_operand(self, index: int) -> Address:
        operand = self.operand(index)
        if not isinstance(operand, Address):
            self.fail(f"operand {index + 1} must be an address in brackets", "malformed")
        return operand

    def address_of(self, operand: Address) -> AddressReader:
        base, offset = operand.base, operand.offset
        if isinstance(base, Register):
            slot, wide = base.index, TYPES[base.type].bits == 64
            self.slots.append(slot)
            self.offset = offset
            if wide:
                if offset:
                    return lambda warp: warp.registers[slot].view(np.int64) + offset
                return lambda warp: warp.registers[slot].copy().view(np.int64)
            return lambda warp: warp.registers[slot].astype(np.int64) + offset
        if isinstance(base, Symbol):
            constant = np.full(LANES, self.symbol_address(base) + offset, np.int64)
            return lambda warp: constant
        if isinstance(base, int):
            constant = np.full(LANES, base + offset, np.int64)
            return lambda warp: constant
        self.fail("has an address of a form that is not supported", "malformed")

    def integer(self, index: int) -> int:
        operand = self.operand(index)
        if not isinstance(operand, Immediate):
            self.fail(f"operand {index + 1} must be an integer literal", "malformed")
        self.literals.append(operand.value)
        return operand.value

    def count(self, index: int) -> int:
        """An integer literal used as a count."""
        value = self.integer(index)
        if value < 0:
            self.fail(f"operand {index + 1} cannot be {value}", "malformed")
        return value

    def _packed_source(self, operand: Vector, type_: Type) -> Reader:
        """`{a, b}` as one wide value, first item lowest (mov and cvt)."""
        part = unsigned(type_.bits // len(operand.items))
        readers = [self.source(item, part) for item in operand.items]
        if type_.bits == 128:
            halves = [self._join(readers[: len(readers) // 2], part, 64), self._join(readers[len(readers) // 2 :], part, 64)]
            return lambda warp: np.stack([half(warp) for half in halves], axis=1)
        joined, dtype = self._join(readers, part, type_.bits), type_.dtype
        return lambda warp: joined(warp).view(dtype)

    @staticmethod
    def _join(readers: list[Reader], part: Type, bits: int) -> Reader:
        dtype = unsigned(bits).dtype

        def read(warp: Warp) -> LaneValues:
            value = readers[0](warp).astype(dtype)
            for number, reader in enumerate(readers[1:], 1):
                value = value | (reader(warp).astype(dtype) << dtype.type(number * part.bits))
            return value

        return read

    def _packed_destination(self, operand: Vector, type_: Type) -> Writer:
        part = unsigned(type_.bits // len(operand.items))
        writers = [self.destination(item, part) for item in operand.items]
        if type_.bits == 128:
            return split_wide(writers, part)
        whole = unsigned(type_.bits).dtype

        def write(warp: Warp, value: LaneValues) -> None:
            bits = value.view(whole)
            for number, writer in enumerate(writers):
                piece = bits >> whole.type(number * part.bits) if number else bits
                writer(warp, piece.astype(part.dtype))

        return write
