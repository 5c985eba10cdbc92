"""ld and st in all spaces, and their vectors (PTX ISA 9.7.9.8-12)."""

from __future__ import annotations

import functools

import numpy as np

from ...errors import SimulationError
from ...machine.memory.spaces import LOCAL_WINDOW, SHARED_WINDOW, Space
from ...machine.practice import PracticeName
from ...machine.program import Execute
from ...machine.races.detector import StrongUse
from ...machine.threads.cta import Warp
from ...ptx.tree import Address, Symbol
from ...ptx.types import LANES, TYPES, Addresses, LaneMask, LaneValues, Type, unsigned
from ...units.limits import CTA_SHARED_BYTES
from ..decode import AddressReader, Decoder, instruction
from ..widths import Writer

_PAST_CACHE: PracticeName = "loads and stores past the first cache"
_RELAXED_LOAD, _RELAXED_STORE = StrongUse(True, False, "gpu", False, False), StrongUse(False, True, "gpu", False, False)
_SPACES: dict[str, Space] = {
    "global": "global",
    "shared": "shared",
    "shared::cta": "shared",
    "shared::cluster": "cluster",
    "local": "local",
    "const": "const",
    "param": "param",
    "param::entry": "param",
    "param::func": "param",
}


def space(d: Decoder) -> Space:
    """The machine's name of the address space; "generic" when the instruction names none."""
    chosen = d.choose(*_SPACES)
    return _SPACES[chosen] if chosen else "generic"


def space_at(d: Decoder, index: int) -> Space:
    """The space of a load or store; parameters of a called function are in local memory."""
    where = space(d)
    address = d.operand(index)
    if where == "param" and isinstance(address, Address) and isinstance(address.base, Symbol):
        return "local" if d.image.spaces.get(address.base.name) == "local" else where
    return where


def address_reader(d: Decoder, index: int, where: Space) -> AddressReader:
    """Addresses for `space`: symbols and registers of shared memory carry the rank, generic symbols their window."""
    read = d.address(index)
    base = d.address_operand(index).base
    if not isinstance(base, Symbol):
        return read
    kind = d.image.spaces[base.name]
    if where == "generic":
        window = d.image.generic_address(Symbol(base.name)) - d.image.addresses[base.name]
        return _with_rank(read, window) if kind == "shared" else lambda warp: read(warp) + window
    return _with_rank(read, 0) if kind == "shared" else read


def _with_rank(read: AddressReader, window: int) -> AddressReader:
    return lambda warp: read(warp) + (window + (warp.cta.rank << 24))


def active_addresses(warp: Warp, addresses: Addresses) -> Addresses:
    return addresses if warp.mask is None else addresses[warp.mask]


def spread(warp: Warp, values: LaneValues) -> LaneValues:
    """Scatters values of the active lanes back to their lanes."""
    if warp.mask is None:
        return values
    out = np.zeros(LANES, values.dtype)
    out[warp.mask] = values
    return out


def _past_first_cache(d: Decoder, where: Space, *operators: str) -> bool:
    """Whether a cache operator makes the access strong on chips (`machine.practice`)."""
    found = [operator for operator in operators if d.flag(operator)]
    return bool(found) and where in ("global", "generic")


def _vector_length(d: Decoder) -> int:
    return int(d.choose("v2", "v4", "v8", default="v1")[1:])


@instruction("ld", "ldu")
def load(d: Decoder) -> Execute:
    # Another cache: values differ only where the kernel writes what it reads this way, which PTX forbids.
    d.ignore("nc")
    ordering = d.ordering()
    written = ordering.use(True, False, "sys") if ordering.strong else None
    d.choose("L2::cache_hint")
    where, count = space_at(d, 1), _vector_length(d)
    past_cache = _past_first_cache(d, where, "cg", "cv", "lu") and not ordering.strong
    polls = int(ordering.strong or past_cache)
    type_ = d.type()
    base = d.address_operand(1).base
    if where == "param" and isinstance(base, Symbol) and type_.bits < 128:
        d.offset = d.image.addresses[base.name] + d.address_operand(1).offset
        return _load_parameter([d.destination(item, type_) for item in d.vector(0)], d.offset, type_)
    read = address_reader(d, 1, where)
    if type_.bits == 128:
        return _load_wide(d, where, read, written)
    size, items = type_.bytes, d.vector(0)
    if len(items) != count:
        d.fail(f"{len(items)} destinations for .v{count}", "malformed")
    writers = [d.destination(item, type_) for item in items]
    total, raw = size * count, unsigned(type_.bits).dtype

    def execute(warp: Warp) -> None:
        addresses = active_addresses(warp, read(warp))
        # A strong load that reads nothing new is one iteration of a spin loop.
        warp.polls += polls
        cta, by = warp.cta, warp.watched
        use = _RELAXED_LOAD if past_cache and cta.machine.practised(_PAST_CACHE) else written
        if by is not None:
            by.note((_for_others(where, addresses), warp.mask))
        if use is None:
            elements = cta.load_words(where, addresses, raw, count, by)
            if elements is not None:
                for number, write in enumerate(writers):
                    write(warp, spread(warp, elements[:, number]).view(type_.dtype))
                return
        if count > 1:
            check_vector(warp, addresses, total)
        if use is not None:
            cta.strong(warp, where, addresses, total, use)
            by = None
        for number, write in enumerate(writers):
            values = cta.load(warp, where, addresses + number * size if number else addresses, size, by, total)
            by = None
            write(warp, spread(warp, values).view(type_.dtype))
        if use is not None and warp.watched is not None:
            cta.machine.races.unseen.show()

    return execute


def _load_parameter(writers: list[Writer], offset: int, type_: Type) -> Execute:
    size = type_.bytes

    def execute(warp: Warp) -> None:
        parameters = warp.cta.machine.parameters
        if len(writers) > 1:
            check_vector(warp, np.array([offset]), size * len(writers))
        for number, write in enumerate(writers):
            write(warp, parameters.fixed(offset + number * size, size).view(type_.dtype))

    return execute


def in_local_memory(addresses: Addresses) -> LaneMask:
    """Which generic addresses are in local memory."""
    local: LaneMask = (addresses & ~0xFF_FFFF_FFFF) == LOCAL_WINDOW
    return local


def _for_others(where: Space, addresses: Addresses) -> Addresses:
    """The addresses where other lanes may meet these; each lane has local memory of its own, at the same generic addresses."""
    return np.where(in_local_memory(addresses), -1, addresses) if where == "generic" else addresses


def check_vector(warp: Warp, addresses: Addresses, total: int) -> None:
    if not (addresses & (total - 1)).any():
        return
    # Host arrays count as aligned like device allocations.
    addresses = warp.cta.machine.memory.placed(addresses)
    if (addresses & (total - 1)).any():
        bad = int(addresses[(addresses & (total - 1)) != 0][0])
        raise SimulationError("misaligned", f"vector access of {total} bytes at 0x{bad:x}, which is not a multiple of {total}")


def _load_wide(d: Decoder, where: Space, read: AddressReader, use: StrongUse | None) -> Execute:
    write = d.destination(0, TYPES["b128"])

    def execute(warp: Warp) -> None:
        addresses, cta, by = active_addresses(warp, read(warp)), warp.cta, warp.watched
        check_vector(warp, addresses, 16)
        if use is not None:
            cta.strong(warp, where, addresses, 16, use)
            by = None
        low = cta.load(warp, where, addresses, 8, by, 16)
        high = cta.load(warp, where, addresses + 8, 8)
        if use is not None and warp.watched is not None:
            cta.machine.races.unseen.show()
        write(warp, np.stack([spread(warp, half) for half in (low, high)], axis=1))

    return execute


@instruction("st")
def store(d: Decoder) -> Execute:
    ordering = d.ordering()
    written = ordering.use(False, True, "sys") if ordering.strong else None
    d.choose("L2::cache_hint")
    where, count = space_at(d, 0), _vector_length(d)
    past_cache = _past_first_cache(d, where, "cg", "wt") and not ordering.strong
    type_ = d.type()
    read = address_reader(d, 0, where)
    if type_.bits == 128:
        return _store_wide(d, where, read, written)
    raw, size = unsigned(type_.bits), type_.bytes
    items = d.vector(1)
    if len(items) != count:
        d.fail(f"{len(items)} sources for .v{count}", "malformed")
    readers = [d.source(item, raw if type_.meaning != "f" else type_) for item in items]

    def execute(warp: Warp) -> None:
        addresses = active_addresses(warp, read(warp))
        cta, by = warp.cta, warp.watched
        use = _RELAXED_STORE if past_cache and cta.machine.practised(_PAST_CACHE) else written
        values = []
        for value in readers:
            lanes = value(warp)
            values.append((lanes if warp.mask is None else lanes[warp.mask]).view(raw.dtype))
        same = functools.partial(cta.holds, where, addresses, values) if count > 1 else None
        if use is None:
            if by is not None:
                by.note((_for_others(where, addresses), warp.mask))
            elements = np.stack(values, 1) if count > 1 else values[0].reshape(-1, 1)
            # Lanes that store to one address: the last one's value remains, where PTX leaves it undefined.
            if cta.store_words(where, addresses, elements, by, same):
                return
        if count > 1:
            check_vector(warp, addresses, size * count)
        if use is not None:
            cta.strong(warp, where, addresses, size * count, use)
            by = None
        for number, lanes in enumerate(values):
            cta.store(warp, where, addresses + number * size if number else addresses, lanes, size, by, size * count, same)
            by = None

    return execute


def _store_wide(d: Decoder, where: Space, read: AddressReader, use: StrongUse | None) -> Execute:
    value = d.source(1, TYPES["b128"])

    def execute(warp: Warp) -> None:
        addresses, cta, by = active_addresses(warp, read(warp)), warp.cta, warp.watched
        check_vector(warp, addresses, 16)
        halves = [np.ascontiguousarray(value(warp)[warp.active][:, half]) for half in (0, 1)]
        if use is not None:
            cta.strong(warp, where, addresses, 16, use)
            by = None
        same = functools.partial(cta.holds, where, addresses, halves)
        cta.store(warp, where, addresses, halves[0], 8, by, 16, same)
        cta.store(warp, where, addresses + 8, halves[1], 8)

    return execute


def shared_addresses(d: Decoder, index: int, generic: bool) -> AddressReader:
    """Lanes of shared-window addresses (rank << 24 | offset) of an operand that must lie in shared memory."""
    read = address_reader(d, index, "generic" if generic else "shared")
    if not generic:
        return read

    def checked(warp: Warp) -> Addresses:
        addresses = read(warp)
        inside = (addresses & ~0xFF_FFFF_FFFF) == SHARED_WINDOW
        if not inside[warp.active].all():
            bad = int(addresses[warp.active & ~inside][0])
            raise SimulationError("out_of_bounds", f"generic address 0x{bad:x} is not in shared memory")
        return addresses - SHARED_WINDOW

    return checked


@instruction("st.bulk")
def store_bulk(d: Decoder) -> Execute:
    """Zeroes shared memory: size and address are multiples of 8, zero is the only value (PTX ISA 9.7.9.14)."""
    d.choose("weak")
    generic = d.choose("shared", "shared::cta") is None
    read, size = shared_addresses(d, 0, generic), d.source(1, TYPES["b64"])
    if d.integer(2):
        d.fail("initial values other than 0 do not exist", "malformed")

    def execute(warp: Warp) -> None:
        for lane in warp.lanes():
            start, count = int(read(warp)[lane]), int(size(warp)[lane])
            if count % 8:
                raise SimulationError("misaligned", f"st.bulk of {count} bytes, which is no multiple of 8")
            if count > CTA_SHARED_BYTES:
                raise SimulationError("out_of_bounds", f"st.bulk of {count} bytes: shared memory has at most {CTA_SHARED_BYTES}")
            places = np.arange(start, start + count, 8, dtype=np.int64)
            warp.cta.store(warp, "shared", places, np.zeros(places.size, np.uint64), 8, warp.watched)

    return execute
