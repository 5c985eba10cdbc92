"""Tensor maps modified by a kernel: tensormap.replace and tensormap.cp_fenceproxy (PTX ISA 9.7.9.26-28)."""

from __future__ import annotations

import numpy as np

from ...machine.memory.spaces import Space
from ...machine.program import Execute
from ...machine.threads.cta import Warp
from ...units.copies.mapbits import MAP_BYTES, MEANT_BYTES
from ...units.copies.tensormap import replaced
from ..decode import Decoder, instruction
from ..memory.loadstore import address_reader

# The fields, and whether the instruction takes a dimension.
_FIELDS: dict[str, bool] = {
    "global_address": False,
    "rank": False,
    "box_dim": True,
    "global_dim": True,
    "global_stride": True,
    "element_stride": True,
    "elemtype": False,
    "interleave_layout": False,
    "swizzle_mode": False,
    "swizzle_atomicity": False,
    "fill_mode": False,
}


_SPACES: dict[str | None, Space] = {"global": "global", "shared::cta": "shared", None: "generic"}


@instruction("tensormap.replace.tile")
def replace(d: Decoder) -> Execute:
    field = d.require(*_FIELDS)
    where = d.choose("global", "shared::cta")
    d.flag("b1024")
    type_ = d.type()
    space = _SPACES[where]
    address = address_reader(d, 0, space)
    ordinal = d.integer(1) if _FIELDS[field] else 0
    value = d.source(2 if _FIELDS[field] else 1, type_)

    def execute(warp: Warp) -> None:
        for lane in warp.lanes():
            place = int(address(warp)[lane])
            data = warp.cta.read_bytes(space, place, MEANT_BYTES, warp)
            _write(warp, space, place, replaced(data, field, ordinal, int(value(warp)[lane]))[:MEANT_BYTES])

    return execute


@instruction("tensormap.cp_fenceproxy")
def copy_and_fence(d: Decoder) -> Execute:
    """A copy of the map by the whole warp, released to the tensormap proxy."""
    d.ignore("global", "shared::cta", "tensormap::generic", "release", "cta", "cluster", "gpu", "sys", "sync", "aligned")
    to, source = address_reader(d, 0, "global"), address_reader(d, 1, "shared")
    if d.integer(2) != MAP_BYTES:
        d.fail(f"copies {MAP_BYTES} bytes", "malformed")

    def execute(warp: Warp) -> None:
        lane = warp.lanes()[0]
        _write(warp, "global", int(to(warp)[lane]), _whole_map(warp, int(source(warp)[lane])))

    return execute


def _whole_map(warp: Warp, address: int) -> bytes:
    """The bytes of a map in shared memory; in practice mode its second half may be unwritten."""
    cta, behind = warp.cta, address + MEANT_BYTES
    offsets = cta.own_offset(np.arange(behind, address + MAP_BYTES, dtype=np.int64))
    if cta.shared.written(offsets) or not cta.machine.practised("half a tensor map"):
        return cta.read_bytes("shared", address, MAP_BYTES, warp)
    return cta.read_bytes("shared", address, MEANT_BYTES, warp) + cta.shared.data[offsets].tobytes()


def _write(warp: Warp, space: Space, address: int, data: bytes) -> None:
    saved, warp.active = warp.active, np.zeros_like(warp.active)
    try:
        size = 8 if address % 8 == 0 else 1
        places = np.arange(address, address + len(data), size, dtype=np.int64)
        warp.cta.store(warp, space, places, np.frombuffer(data, f"<u{size}"), size, warp.watched)
    finally:
        warp.active = saved
