"""Moves, selections and address conversions (PTX ISA 9.7.9.3, 9.7.9.19-21, 9.7.6.2)."""

from __future__ import annotations

import numpy as np

from ...machine.memory.spaces import RANK_SHIFT, WINDOW_MASK, WINDOWS, Window, space_of
from ...machine.program import Execute
from ...machine.threads.cta import Warp
from ...machine.threads.specials import special_value
from ...ptx.specials import SPECIALS
from ...ptx.tree import Special
from ...ptx.types import LANES, TYPES, unsigned
from ..decode import Decoder, instruction
from .lanes import flush

_SPACES: dict[str, Window] = {
    "global": "global",
    "shared": "shared",
    "shared::cta": "shared",
    "shared::cluster": "shared",
    "local": "local",
    "const": "const",
    "param": "param",
    "param::entry": "param",
}


@instruction("mov")
def move(d: Decoder) -> Execute:
    type_ = d.type()
    source = d.operand(1)
    write = d.destination(0, type_)
    if isinstance(source, Special) and source.name in SPECIALS and SPECIALS[source.name].dynamic:
        name, bits = source.name, SPECIALS[source.name].bits
        dtype = unsigned(min(bits, type_.bits)).dtype

        def look(warp: Warp) -> None:
            warp.cta.machine.clock_reads += 1
            write(warp, special_value(name, warp).astype(dtype))

        return look
    read = d.source(source, type_)
    return lambda warp: write(warp, read(warp))


@instruction("selp")
def select(d: Decoder) -> Execute:
    type_ = d.type()
    write, (a, b), p = d.destination(0, type_), d.sources(1, 2, type_=type_), d.source(3, TYPES["pred"])
    return lambda warp: write(warp, np.where(p(warp), a(warp), b(warp)))


@instruction("slct")
def select_by_sign(d: Decoder) -> Execute:
    ftz = d.flag("ftz")
    type_, condition = d.types(2, 2)
    write, (a, b), c = d.destination(0, type_), d.sources(1, 2, type_=type_), d.source(3, condition)
    if ftz:
        return lambda warp: write(warp, np.where(flush(c(warp)) >= 0, a(warp), b(warp)))
    return lambda warp: write(warp, np.where(c(warp) >= 0, a(warp), b(warp)))


@instruction("cvta")
def convert_address(d: Decoder) -> Execute:
    to_space = d.flag("to")
    space = _SPACES[d.require(*_SPACES)]
    type_ = d.type()
    write, read = d.destination(0, type_), d.source(1, type_)
    if type_.bits == 32:
        d.fail("32-bit generic addresses are not simulated")
    window = np.uint64(WINDOWS[space])
    if to_space:
        return lambda warp: write(warp, np.where(read(warp) & np.uint64(WINDOW_MASK) == window, read(warp) - window, read(warp)))
    return lambda warp: write(warp, read(warp) + window)


@instruction("isspacep")
def is_space(d: Decoder) -> Execute:
    space = d.require(*_SPACES)
    write, read = d.destination(0, TYPES["pred"]), d.source(1, TYPES["u64"])

    def inside(address: int, rank: int) -> bool:
        if space_of(address) != _SPACES[space]:
            return False
        return not space.startswith("shared") or space == "shared::cluster" or (address & 0xFFFFFFFF) >> RANK_SHIFT == rank

    return lambda warp: write(warp, np.array([inside(int(a), warp.cta.rank) for a in read(warp)]))


@instruction("mapa")
def map_address(d: Decoder) -> Execute:
    """Replaces the rank byte; checks nothing, as measured."""
    d.choose("shared::cluster")
    type_ = d.type()
    write, read, rank = d.destination(0, type_), d.source(1, type_), d.source(2, TYPES["u32"])
    keep = type_.dtype.type(~(0xFF << RANK_SHIFT) & ((1 << type_.bits) - 1))

    def execute(warp: Warp) -> None:
        ranks = (rank(warp) & np.uint32(0xFF)).astype(type_.dtype) << type_.dtype.type(RANK_SHIFT)
        write(warp, read(warp) & keep | ranks)

    return execute


@instruction("getctarank")
def get_rank(d: Decoder) -> Execute:
    d.choose("shared::cluster")
    type_ = d.type()
    write, read = d.destination(0, TYPES["u32"]), d.source(1, type_)
    return lambda warp: write(warp, (read(warp) >> type_.dtype.type(RANK_SHIFT)).astype(np.uint32) & np.uint32(0xFF))


@instruction("istypep")
def not_simulated(d: Decoder) -> Execute:
    d.fail("is not simulated")


@instruction("createpolicy")
def create_policy(d: Decoder) -> Execute:
    d.modifiers.clear()
    write = d.destination(0, TYPES["b64"])
    return lambda warp: write(warp, np.zeros(LANES, np.uint64))
