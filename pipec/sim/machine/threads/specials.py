"""The values of special registers (PTX ISA section 10), and the registers with which a warp starts."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np

from ...ptx.specials import SILENT, SPECIALS
from ...ptx.tree import Special
from ...ptx.types import LANE, LANES, LaneValues, unsigned
from ..device import multiprocessors
from ..image import SharedAddress
from ..memory.spaces import RANK_SHIFT, RESERVED_END, SHARED_BASE
from .cta import Warp

Value = Callable[[Warp], int | LaneValues]


def _thread(axis: int) -> Value:
    def value(warp: Warp) -> LaneValues:
        x, y, _ = warp.cta.block
        linear = warp.index * LANES + LANE
        return (linear % x, linear // x % y, linear // (x * y))[axis]

    return value


def _mask(compare: Callable[[int, int], bool]) -> Value:
    masks = np.array([sum(1 << other for other in range(LANES) if compare(other, lane)) for lane in range(LANES)])
    return lambda warp: masks


def _axis(axis: int) -> dict[str, Value]:
    return {
        "tid": _thread(axis),
        "ntid": lambda warp: warp.cta.block[axis],
        "ctaid": lambda warp: warp.cta.index[axis],
        "nctaid": lambda warp: warp.cta.grid[axis],
        "cluster_ctaid": lambda warp: warp.cta.position[axis],
        "cluster_nctaid": lambda warp: warp.cta.cluster.shape[axis],
        "clusterid": lambda warp: warp.cta.cluster.index[axis],
        "nclusterid": lambda warp: warp.cta.cluster.count[axis],
    }


_VALUES: dict[str, Value] = {
    "%laneid": lambda warp: LANE,
    "%envreg1": lambda warp: warp.cta.machine.grid_workspace >> 32,
    "%envreg2": lambda warp: warp.cta.machine.grid_workspace,
    "%warpid": lambda warp: warp.index,
    "%nwarpid": lambda warp: 64,
    "%smid": lambda warp: warp.cta.rank,
    "%nsmid": lambda warp: multiprocessors(warp.cta.image),
    "%gridid": lambda warp: 1,
    "%cluster_ctarank": lambda warp: warp.cta.rank,
    "%cluster_nctarank": lambda warp: prod(warp.cta.cluster.shape),
    "%is_explicit_cluster": lambda warp: warp.cta.cluster.explicit,
    "%lanemask_eq": _mask(lambda other, lane: other == lane),
    "%lanemask_le": _mask(lambda other, lane: other <= lane),
    "%lanemask_lt": _mask(lambda other, lane: other < lane),
    "%lanemask_ge": _mask(lambda other, lane: other >= lane),
    "%lanemask_gt": _mask(lambda other, lane: other > lane),
    "%clock": lambda warp: warp.cta.machine.clock(),
    "%clock_hi": lambda warp: warp.cta.machine.clock() >> 32,
    "%clock64": lambda warp: warp.cta.machine.clock(),
    "%globaltimer": lambda warp: warp.cta.cluster.now,
    "%globaltimer_lo": lambda warp: warp.cta.cluster.now,
    "%globaltimer_hi": lambda warp: warp.cta.cluster.now >> 32,
    "%reserved_smem_offset_end": lambda warp: RESERVED_END,
    "%reserved_smem_offset_cap": lambda warp: SHARED_BASE,
    "%total_smem_size": lambda warp: -(-(warp.cta.shared.size - SHARED_BASE) // 128) * 128,
    "%aggr_smem_size": lambda warp: SHARED_BASE + warp.cta.image.static_smem + warp.cta.image.dynamic_smem,
    "%dynamic_smem_size": lambda warp: warp.cta.image.dynamic_smem,
    **{f"%{name}.{letter}": value for axis, letter in enumerate("xyz") for name, value in _axis(axis).items()},
    **dict.fromkeys(SILENT, lambda warp: 0),
}
if _VALUES.keys() != SPECIALS.keys():
    raise ValueError(f"special registers with a name or a value only: {sorted(_VALUES.keys() ^ SPECIALS.keys())}")


def special_value(name: str, warp: Warp) -> LaneValues:
    bits = SPECIALS[name].bits
    dtype = unsigned(bits).dtype
    value = _VALUES[name](warp)
    if isinstance(value, int):
        return np.full(LANES, value & ((1 << bits) - 1), dtype)
    return value.astype(dtype)


def fill_registers(warp: Warp) -> None:
    """The registers with which `warp` starts: zeros, constants, addresses, special registers. Warps at the same place in their clusters
    start alike except for the cluster's place in the grid."""

    def of_warp(content: SharedAddress | Special) -> LaneValues:
        if isinstance(content, Special):
            dynamic = SPECIALS[content.name].dynamic
            return np.zeros(LANES, unsigned(SPECIALS[content.name].bits).dtype) if dynamic else special_value(content.name, warp)
        return np.full(LANES, (warp.cta.rank << RANK_SHIFT) | content.offset, unsigned(content.width).dtype)

    image, key = warp.cta.image, (warp.cta.rank, warp.index)
    first = warp.cta.machine.starts.get(key)
    if first is None:
        warp.file = image.registers_for(of_warp)
        unset, filling = warp.cta.machine.schedule.unset
        for register in unset:
            row = warp.file.rows[register]
            row.view(np.uint8)[...] = filling if row.dtype.itemsize > 1 else filling & 1
        warp.cta.machine.starts[key] = warp.file.data.copy()
    else:
        warp.file = image.register_file()
        warp.file.data[:] = first
        for slot, name in image.places_in_grid:
            warp.file.rows[slot].fill(_VALUES[name](warp))
    warp.registers = warp.file.rows
