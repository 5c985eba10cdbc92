"""Tensor maps made by a kernel: tensormap.replace and tensormap.cp_fenceproxy (PTX ISA 9.7.9.26-28)."""

from __future__ import annotations

import numpy as np

from ..decode import Decoder, instruction
from ..execution import Warp
from ..units.tensormap import MAP_BYTES, replaced
from .control import require_converged
from .loadstore import address_reader

# The fields, and whether the instruction names a dimension.
_FIELDS = {
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


@instruction("tensormap.replace.tile")
def replace(d: Decoder):
    field = d.require(*_FIELDS)
    where = d.choose("global", "shared::cta", default="generic")
    d.flag("b1024")
    type_ = d.type()
    space = "shared" if where == "shared::cta" else where
    address = address_reader(d, 0, space)
    ordinal = d.integer(1) if _FIELDS[field] else 0
    value = d.source(2 if _FIELDS[field] else 1, type_)

    def execute(warp: Warp) -> None:
        for lane in warp.lanes():
            place = int(address(warp)[lane])
            data = warp.cta.read_bytes(space, place, MAP_BYTES, warp)
            _write(warp, space, place, replaced(data, field, ordinal, int(value(warp)[lane])))

    return execute


@instruction("tensormap.cp_fenceproxy")
def copy_and_fence(d: Decoder):
    """A copy of the map by the whole warp, released to users of the tensormap proxy."""
    d.ignore("global", "shared::cta", "tensormap::generic", "release", "cta", "cluster", "gpu", "sys", "sync", "aligned")
    to, source = address_reader(d, 0, "global"), address_reader(d, 1, "shared")
    if d.integer(2) != MAP_BYTES:
        d.fail(f"copies {MAP_BYTES} bytes", "malformed")

    def execute(warp: Warp) -> None:
        require_converged(warp, "tensormap.cp_fenceproxy")
        lane = warp.lanes()[0]
        data = warp.cta.read_bytes("shared", int(source(warp)[lane]), MAP_BYTES, warp)
        _write(warp, "global", int(to(warp)[lane]), data)

    return execute


def _write(warp: Warp, space: str, address: int, data: bytes) -> None:
    saved, warp.active = warp.active, np.zeros_like(warp.active)
    try:
        places = np.arange(address, address + len(data), dtype=np.int64)
        warp.cta.store(warp, space, places, np.frombuffer(data, np.uint8), 1)
    finally:
        warp.active = saved
