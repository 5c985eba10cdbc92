"""atom and red (PTX ISA 9.7.13.6-7): lanes one after another, in lane order.

Additions of f32 in global memory flush subnormal numbers, those in shared memory do not (documented, and measured).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, get_args

import numpy as np

from ...machine.memory.spaces import Space, space_of
from ...machine.program import Execute
from ...machine.races.detector import StrongUse
from ...machine.threads.cta import Warp
from ...ptx.types import LANES, TYPES, LaneMask, LaneValues, Type, unsigned
from ...units.copies.reductions import reduce_elements
from ...units.numbers.formats import decode, encode
from ..alu import packed
from ..decode import Decoder, instruction
from .loadstore import active_addresses, address_reader, check_vector, space

AtomicName = Literal["add", "min", "max", "inc", "dec", "and", "or", "xor", "exch", "cas"]
_OPERATIONS: tuple[AtomicName, ...] = get_args(AtomicName)


def _integer(name: AtomicName, type_: Type) -> Callable[[int, int], int]:
    mask = (1 << type_.bits) - 1
    table: dict[str, Callable[[int, int], int]] = {
        "add": lambda old, b: old + b & mask,
        "and": lambda old, b: old & b,
        "or": lambda old, b: old | b,
        "xor": lambda old, b: old ^ b,
        "exch": lambda old, b: b,
        "min": lambda old, b: min(old, b),
        "max": lambda old, b: max(old, b),
        "inc": lambda old, b: 0 if old >= b else old + 1,
        "dec": lambda old, b: b if old == 0 or old > b else old - 1,
    }
    return table[name]


def combine(name: AtomicName, type_: Type, old: LaneValues, value: LaneValues, flush: bool = False) -> LaneValues:
    """One element: arrays of shape (1,) of the raw dtype. `flush`: f32 additions take and give zero for subnormal numbers."""
    if name == "exch":
        return value
    if type_.name in ("f16x2", "bf16x2"):
        return _packed(name, type_, old, value)
    if type_.name in ("bf16", "f16"):
        both = [decode(v.astype(np.uint16), type_.name).astype(np.float64) for v in (old, value)]
        return encode(_float(name, *both), type_.name).astype(old.dtype)
    if type_.name in ("f32", "f64") and name == "add":
        dtype = "f32_ftz" if flush and type_.name == "f32" else type_.name
        return reduce_elements(dtype, name, old.view(np.uint8), value.view(np.uint8)).view(old.dtype)
    if type_.meaning == "f":
        return _float(name, old.view(type_.dtype), value.view(type_.dtype)).astype(type_.dtype).view(old.dtype)
    a, b = (int(v.view(type_.dtype)[0]) for v in (old, value))
    return np.array([_integer(name, type_)(a, b) & ((1 << type_.bits) - 1)], old.dtype)


_FLOATING: dict[AtomicName, np.ufunc] = {"add": np.add, "min": np.fmin, "max": np.fmax}


def _float(name: AtomicName, a: LaneValues, b: LaneValues) -> LaneValues:
    result: LaneValues = _FLOATING[name](a, b)
    return result


def _packed(name: AtomicName, type_: Type, old: LaneValues, value: LaneValues) -> LaneValues:
    pair = [np.resize(v, LANES) for v in (old, value)]
    result = _float(name, *(packed.split(v, type_) for v in pair))
    return packed.join(result, type_)[:1]


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
    if type_.bits == 128:
        return _wide(d, where, name, returns, use)
    if count > 1:
        return _vector(d, where, name, count, type_, returns, use)
    first = 1 if returns else 0
    read, raw = address_reader(d, first, where), unsigned(type_.bits)
    value = d.source(first + 1, raw)
    other = d.source(first + 2, raw) if name == "cas" else None
    write = d.destination(0, raw) if returns else None

    def execute(warp: Warp) -> None:
        addresses, cta = active_addresses(warp, read(warp)), warp.cta
        operands, swaps = value(warp), other(warp) if other else None
        results = np.zeros(LANES, raw.dtype)
        cta.strong(warp, where, addresses, type_.bytes, use)
        saved = warp.active
        for address, lane in zip(addresses, warp.lanes(), strict=True):
            warp.active = _only(lane)
            place = np.array([address], np.int64)
            old = cta.load(warp, where, place, type_.bytes)
            results[lane] = old[0]
            operand = operands[lane : lane + 1]
            new = (
                (swaps[lane : lane + 1] if old[0] == operand[0] else old)
                if swaps is not None
                else combine(name, type_, old, operand, _in_global_memory(where, int(address)))
            )
            # A failed compare-and-swap has no effect, which keeps spinning recognisable.
            if swaps is not None and new is old:
                warp.polls += 1
            else:
                cta.store(warp, where, place, new, type_.bytes)
        warp.active = saved
        if write:
            write(warp, results)

    return execute


def _vector(d: Decoder, where: Space, name: AtomicName, count: int, type_: Type, returns: bool, use: StrongUse) -> Execute:
    """Each element by itself; the address is a multiple of the whole vector's size."""
    first = 1 if returns else 0
    read, raw, items = address_reader(d, first, where), unsigned(type_.bits), d.vector(first + 1)
    if len(items) != count or (returns and len(d.vector(0)) != count):
        d.fail(f"needs {count} registers for .v{count}", "malformed")
    values = [d.source(item, raw) for item in items]
    writers = [d.destination(item, raw) for item in d.vector(0)] if returns else []

    def execute(warp: Warp) -> None:
        addresses, cta = active_addresses(warp, read(warp)), warp.cta
        check_vector(warp, addresses, count * type_.bytes)
        operands = [value(warp) for value in values]
        cta.strong(warp, where, addresses, count * type_.bytes, use)
        results = np.zeros((count, LANES), raw.dtype)
        saved = warp.active
        for address, lane in zip(addresses, warp.lanes(), strict=True):
            warp.active = _only(lane)
            for number, operand in enumerate(operands):
                place = np.array([address + number * type_.bytes], np.int64)
                old = cta.load(warp, where, place, type_.bytes)
                results[number, lane] = old[0]
                flush = _in_global_memory(where, int(address))
                cta.store(warp, where, place, combine(name, type_, old, operand[lane : lane + 1], flush), type_.bytes)
        warp.active = saved
        for write, lanes in zip(writers, results, strict=False):
            write(warp, lanes)

    return execute


def _wide(d: Decoder, where: Space, name: AtomicName, returns: bool, use: StrongUse) -> Execute:
    """atom.{exch,cas}.b128; the address is a multiple of 16."""
    if not returns or name not in ("exch", "cas"):
        d.fail("128 bits are exchanged or compared and swapped, nothing else", "malformed")
    type_ = TYPES["b128"]
    read, operand, write = address_reader(d, 1, where), d.source(2, type_), d.destination(0, type_)
    other = d.source(3, type_) if name == "cas" else None

    def execute(warp: Warp) -> None:
        addresses, cta = active_addresses(warp, read(warp)), warp.cta
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


def _in_global_memory(where: Space, address: int) -> bool:
    return where == "global" or (where == "generic" and space_of(address) == "global")


def _only(lane: int) -> LaneMask:
    lanes = np.zeros(LANES, bool)
    lanes[lane] = True
    return lanes
