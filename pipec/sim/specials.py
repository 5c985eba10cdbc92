"""Special registers (PTX ISA section 10): width, and value per warp. Clocks are read when the instruction runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

import numpy as np

from .execution import LANE
from .types import LANES, unsigned


@dataclass(frozen=True)
class SpecialRegister:
    bits: int
    value: Callable  # (warp) -> int or lanes
    dynamic: bool = False


def _thread(axis: int) -> Callable:
    def value(warp):
        x, y, _ = warp.cta.block
        linear = warp.index * LANES + LANE
        return (linear % x, linear // x % y, linear // (x * y))[axis]

    return value


def _mask(compare: Callable) -> Callable:
    def value(warp):
        return [sum(1 << other for other in range(LANES) if compare(other, lane)) for lane in range(LANES)]

    return value


SPECIALS: dict[str, SpecialRegister] = {
    "%laneid": SpecialRegister(32, lambda warp: LANE),
    "%warpid": SpecialRegister(32, lambda warp: warp.index),
    "%nwarpid": SpecialRegister(32, lambda warp: 64),
    "%smid": SpecialRegister(32, lambda warp: warp.cta.rank),
    "%nsmid": SpecialRegister(32, lambda warp: 148),
    "%gridid": SpecialRegister(64, lambda warp: 1),
    "%cluster_ctarank": SpecialRegister(32, lambda warp: warp.cta.rank),
    "%cluster_nctarank": SpecialRegister(32, lambda warp: prod(warp.cta.cluster.shape)),
    "%is_explicit_cluster": SpecialRegister(1, lambda warp: warp.cta.cluster.explicit),
    "%lanemask_eq": SpecialRegister(32, _mask(lambda other, lane: other == lane)),
    "%lanemask_le": SpecialRegister(32, _mask(lambda other, lane: other <= lane)),
    "%lanemask_lt": SpecialRegister(32, _mask(lambda other, lane: other < lane)),
    "%lanemask_ge": SpecialRegister(32, _mask(lambda other, lane: other >= lane)),
    "%lanemask_gt": SpecialRegister(32, _mask(lambda other, lane: other > lane)),
    "%clock": SpecialRegister(32, lambda warp: warp.cta.cluster.now, dynamic=True),
    "%clock_hi": SpecialRegister(32, lambda warp: warp.cta.cluster.now >> 32, dynamic=True),
    "%clock64": SpecialRegister(64, lambda warp: warp.cta.cluster.now, dynamic=True),
    "%globaltimer": SpecialRegister(64, lambda warp: warp.cta.cluster.now, dynamic=True),
    "%globaltimer_lo": SpecialRegister(32, lambda warp: warp.cta.cluster.now, dynamic=True),
    "%globaltimer_hi": SpecialRegister(32, lambda warp: warp.cta.cluster.now >> 32, dynamic=True),
    "%reserved_smem_offset_begin": SpecialRegister(32, lambda warp: 0),
    "%reserved_smem_offset_end": SpecialRegister(32, lambda warp: 0x120),
    "%reserved_smem_offset_cap": SpecialRegister(32, lambda warp: 0x400),
    # Parts that the driver reserves for itself; there are none here.
    "%reserved_smem_offset_0": SpecialRegister(32, lambda warp: 0),
    "%reserved_smem_offset_1": SpecialRegister(32, lambda warp: 0),
    "%total_smem_size": SpecialRegister(32, lambda warp: -(-(warp.cta.shared.size - 0x400) // 128) * 128),
    "%aggr_smem_size": SpecialRegister(32, lambda warp: 1024 + warp.cta.program.static_smem + warp.cta.program.dynamic_smem),
    "%dynamic_smem_size": SpecialRegister(32, lambda warp: warp.cta.program.dynamic_smem),
}
for _axis, _letter in enumerate("xyz"):
    SPECIALS[f"%tid.{_letter}"] = SpecialRegister(32, _thread(_axis))
    for _name, _attribute in (("ntid", "block"), ("ctaid", "index"), ("nctaid", "grid")):
        SPECIALS[f"%{_name}.{_letter}"] = SpecialRegister(
            32, lambda warp, axis=_axis, attribute=_attribute: getattr(warp.cta, attribute)[axis]
        )
    for _name, _attribute in (("cluster_ctaid", "position"),):
        SPECIALS[f"%{_name}.{_letter}"] = SpecialRegister(32, lambda warp, axis=_axis: warp.cta.position[axis])
    for _name, _attribute in (("cluster_nctaid", "shape"), ("clusterid", "index"), ("nclusterid", "count")):
        SPECIALS[f"%{_name}.{_letter}"] = SpecialRegister(
            32, lambda warp, axis=_axis, attribute=_attribute: getattr(warp.cta.cluster, attribute)[axis]
        )
_SILENT = ("%current_graph_exec", *(f"%envreg{number}" for number in range(32)), *(f"%pm{number}" for number in range(8)))
SPECIALS |= {name: SpecialRegister(64 if name == "%current_graph_exec" else 32, lambda warp: 0) for name in _SILENT}
SPECIALS |= {f"%{name}.w": SpecialRegister(32, lambda warp: 0) for name in ("tid", "ntid", "ctaid", "nctaid")}

# What may stand before the dot of a component.
SPECIAL_ROOTS = frozenset(name.split(".")[0] for name in SPECIALS)


def special_value(name: str, warp) -> np.ndarray:
    register = SPECIALS[name]
    dtype = unsigned(register.bits).dtype
    value = register.value(warp)
    if isinstance(value, (int, bool)):
        value = int(value) & ((1 << register.bits) - 1)
    return np.broadcast_to(np.asarray(value).astype(dtype), LANES).copy()
