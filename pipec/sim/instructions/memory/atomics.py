"""atom and red (PTX ISA 9.7.13.6-7): as if lanes executed one after another, in lane order.

Additions of f32 in global memory flush subnormal numbers, those in shared memory do not (documented, and measured).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal, get_args

import numpy as np

from pipec.record import record

from ...errors import SimulationError
from ...machine.memory.spaces import Space, space_of
from ...machine.program import Execute
from ...machine.races.detector import StrongUse
from ...machine.threads.cta import Warp
from ...ptx.types import LANES, TYPES, Addresses, LaneMask, LaneValues, Type, unsigned
from ...units.copies.reductions import Reduction, reduce_elements
from ..decode import AddressReader, Decoder, instruction
from .loadstore import active_addresses, address_reader, check_vector, in_local_memory, space, spread

AtomicName = Literal["add", "min", "max", "inc", "dec", "and", "or", "xor", "exch", "cas"]
_OPERATIONS: tuple[AtomicName, ...] = get_args(AtomicName)
_INTEGERS, _BITS = frozenset({"u32", "s32", "u64", "s64"}), frozenset({"b32", "b64"})
_HALVES = frozenset({"f16", "bf16", "f16x2", "bf16x2"})
# The types of each operation, and of its vector form (PTX ISA 9.7.13.6-7); s64 is added like u64.
_TYPES: dict[AtomicName, frozenset[str]] = {
    "add": _INTEGERS - {"s64"} | _HALVES | {"f32", "f64"},
    "min": _INTEGERS,
    "max": _INTEGERS,
    "inc": frozenset({"u32"}),
    "dec": frozenset({"u32"}),
    "and": _BITS,
    "or": _BITS,
    "xor": _BITS,
    "exch": _BITS | {"b128"},
    "cas": _BITS | {"b16", "b128"},
}
_VECTORS: dict[AtomicName, frozenset[str]] = {"add": _HALVES | {"f32"}, "min": _HALVES, "max": _HALVES}

# Computes new values of places from the old ones, the operands selected by these indices, and whether this is global memory.
Change = Callable[[LaneValues, Addresses, bool], LaneValues]


@record
class Places:
    """The places that the lanes of one atomic instruction address, without duplicates, so that memory is read and written once.

    Accesses to one place are serialised in lane order; those of one turn go to different places and are independent.
    """

    warp: Warp
    space: Space
    addresses: Addresses
    of: Addresses  # by access: its place
    size: int

    @staticmethod
    def of_lanes(warp: Warp, space: Space, addresses: Addresses, size: int) -> Places:
        if space in ("generic", "global"):
            # A host array has two addresses, and both name the same place.
            addresses = warp.cta.machine.memory.placed(addresses)
        places, of = np.unique(addresses, return_inverse=True)
        if places.size == addresses.size:
            # In lane order, since faults are reported in that order.
            places, of = addresses, np.arange(addresses.size)
        return Places(warp, space, places, of, size)

    def turns(self) -> Iterator[Addresses]:
        """The accesses of each turn."""
        if self.addresses.size == self.of.size:
            yield self.of
            return
        order = np.argsort(self.of, kind="stable")
        places = self.of[order]
        turn = np.empty_like(order)
        turn[order] = np.arange(order.size) - np.searchsorted(places, places)
        for number in range(int(turn.max()) + 1):
            yield np.flatnonzero(turn == number)

    def load(self) -> LaneValues:
        return self.warp.cta.load(self.warp, self.space, self.addresses, self.size)

    def store(self, values: LaneValues, written: LaneMask | None = None) -> None:
        """`written`: only at these places."""
        chosen = slice(None) if written is None else written
        self.warp.cta.store(self.warp, self.space, self.addresses[chosen], values[chosen], self.size)

    def change(self, change: Change) -> LaneValues:
        """Replaces the values; returns the old value before each access. If all values stay the same (Triton's programs add zero to load
        what others signal), there is no effect on progress either."""
        values, in_global = self.load(), _in_global_memory(self.space, self.addresses)
        before = values.copy()
        found = np.empty(self.of.size, values.dtype)
        for accesses in self.turns():
            places = self.of[accesses]
            found[accesses] = old = values[places]
            for flush in (False, True):
                chosen = in_global[places] == flush
                if chosen.any():
                    values[places[chosen]] = change(old[chosen], accesses[chosen], flush)
        if (values == before).all():
            self.warp.polls += 1
        else:
            self.store(values)
        return found

    def swap(self, expected: LaneValues, replacements: LaneValues) -> LaneValues:
        """Compare-and-swap. A failed one has no effect on progress, so that spinning is still recognised."""
        values, written = self.load(), np.zeros(self.addresses.size, bool)
        found = np.empty(self.of.size, values.dtype)
        for accesses in self.turns():
            places = self.of[accesses]
            found[accesses] = values[places]
            equal = values[places] == expected[accesses]
            values[places[equal]] = replacements[accesses[equal]]
            written[places[equal]] = True
            self.warp.polls += int((~equal).sum())
        if written.any():
            self.store(values, written)
        return found


def _changing(name: Reduction | Literal["exch"], type_: Type, operands: LaneValues) -> Change:
    """Computes the operation's new values from old ones with these operands, one per access."""
    if name == "exch":
        return lambda old, accesses, in_global: operands[accesses]
    element = type_.name.removesuffix("x2")

    def change(old: LaneValues, accesses: Addresses, in_global: bool) -> LaneValues:
        dtype = "f32_ftz" if element == "f32" and in_global else element
        return reduce_elements(dtype, name, old.view(np.uint8), operands[accesses].view(np.uint8)).view(old.dtype)

    return change


@instruction("atom", "red")
def atomic(d: Decoder) -> Execute:
    returns = d.item.opcode.startswith("atom")
    ordering = d.ordering()
    use = ordering.use(True, True, "gpu")
    d.ignore("noftz", "L2::cache_hint")
    where = space(d)
    name = d.require(*_OPERATIONS)
    count = int(d.choose("v2", "v4", "v8", default="v1")[1:])
    type_ = d.type()
    if type_.name not in (_TYPES if count == 1 else _VECTORS).get(name, ()):
        d.fail(f".{name} of {type_.name}{f' in vectors of {count}' if count > 1 else ''} does not exist", "malformed")
    if type_.bits == 128:
        return _wide(d, where, name, returns, use)
    first = 1 if returns else 0
    read, raw, items = address_reader(d, first, where), unsigned(type_.bits), d.vector(first + 1)
    if len(items) != count or (returns and len(d.vector(0)) != count):
        d.fail(f"needs {count} registers for .v{count}", "malformed")
    values = [d.source(item, raw) for item in items]
    swaps = d.source(first + 2, raw) if name == "cas" else None
    writers = [d.destination(item, raw) for item in d.vector(0)] if returns else []

    def execute(warp: Warp) -> None:
        addresses, cta = _addresses(warp, where, read), warp.cta
        if count > 1:
            check_vector(warp, addresses, count * type_.bytes)
        # By lane, then by element of its vector.
        operands = np.stack([value(warp)[warp.active] for value in values], axis=1).reshape(-1)
        cta.strong(warp, where, addresses, count * type_.bytes, use)
        if not addresses.size:
            return
        elements = (addresses[:, None] + type_.bytes * np.arange(count)).reshape(-1)
        places = Places.of_lanes(warp, where, elements, type_.bytes)
        if swaps is not None:
            found = places.swap(operands, swaps(warp)[warp.active])
        elif name != "cas":
            found = places.change(_changing(name, type_, operands))
        for number, write in enumerate(writers):
            write(warp, spread(warp, found[number::count]))

    return execute


def _addresses(warp: Warp, where: Space, read: AddressReader) -> Addresses:
    addresses = active_addresses(warp, read(warp))
    if where == "generic" and (local := in_local_memory(addresses)).any():
        bad = int(addresses[local][0])
        raise SimulationError("undefined", f"an atomic operation on local memory, at generic address 0x{bad:x}: there is none")
    return addresses


def _wide(d: Decoder, where: Space, name: AtomicName, returns: bool, use: StrongUse) -> Execute:
    """atom.{exch,cas}.b128; the address is a multiple of 16."""
    if not returns or name not in ("exch", "cas"):
        d.fail("128 bits are exchanged or compared and swapped, nothing else", "malformed")
    type_ = TYPES["b128"]
    read, operand, write = address_reader(d, 1, where), d.source(2, type_), d.destination(0, type_)
    other = d.source(3, type_) if name == "cas" else None

    def execute(warp: Warp) -> None:
        addresses, cta = _addresses(warp, where, read), warp.cta
        check_vector(warp, addresses, 16)
        cta.strong(warp, where, addresses, 16, use)
        operands, swaps = operand(warp), other(warp) if other else None
        results = np.zeros((LANES, 2), np.uint64)
        saved = warp.active
        for address, lane in zip(addresses, warp.lanes(), strict=True):
            warp.active = _only(lane)
            places = [np.array([address + 8 * half], np.int64) for half in (0, 1)]
            results[lane] = [cta.load(warp, where, place, 8)[0] for place in places]
            new = operands[lane] if swaps is None else swaps[lane]
            if swaps is not None and (results[lane] != operands[lane]).any():
                warp.polls += 1
                continue
            for place, half in zip(places, new, strict=True):
                cta.store(warp, where, place, np.array([half], np.uint64), 8)
        warp.active = saved
        write(warp, results)

    return execute


def _in_global_memory(where: Space, addresses: Addresses) -> LaneMask:
    if where == "generic":
        return np.array([space_of(address) == "global" for address in addresses.tolist()])
    return np.full(addresses.size, where == "global")


def _only(lane: int) -> LaneMask:
    lanes = np.zeros(LANES, bool)
    lanes[lane] = True
    return lanes
