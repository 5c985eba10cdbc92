"""The special registers that a program may read (PTX ISA section 10); `machine/specials.py` has their values."""

from __future__ import annotations

from pipec.record import record


@record
class SpecialRegister:
    """`dynamic`: its value changes while the kernel runs, so it is read at each execution."""

    bits: int
    dynamic: bool = False


_AXES = "xyz"
_PER_AXIS = ("tid", "ntid", "ctaid", "nctaid", "cluster_ctaid", "cluster_nctaid", "clusterid", "nclusterid")

# Registers that read as zero: those of graphs and profilers, and those that only a driver sets.
SILENT: dict[str, SpecialRegister] = {
    "%current_graph_exec": SpecialRegister(64),
    **{f"%envreg{number}": SpecialRegister(32) for number in range(32) if number not in (1, 2)},
    **{f"%pm{number}": SpecialRegister(32) for number in range(8)},
    **{f"%{name}.w": SpecialRegister(32) for name in ("tid", "ntid", "ctaid", "nctaid")},
    # Parts of shared memory reserved by the driver; there are none here.
    "%reserved_smem_offset_begin": SpecialRegister(32),
    "%reserved_smem_offset_0": SpecialRegister(32),
    "%reserved_smem_offset_1": SpecialRegister(32),
}

SPECIALS: dict[str, SpecialRegister] = {
    "%laneid": SpecialRegister(32),
    # The address of a cooperative launch's workspace: upper and lower half, zero for any other launch (measured).
    "%envreg1": SpecialRegister(32),
    "%envreg2": SpecialRegister(32),
    "%warpid": SpecialRegister(32),
    "%nwarpid": SpecialRegister(32),
    "%smid": SpecialRegister(32),
    "%nsmid": SpecialRegister(32),
    "%gridid": SpecialRegister(64),
    "%cluster_ctarank": SpecialRegister(32),
    "%cluster_nctarank": SpecialRegister(32),
    "%is_explicit_cluster": SpecialRegister(1),
    **{f"%lanemask_{comparison}": SpecialRegister(32) for comparison in ("eq", "le", "lt", "ge", "gt")},
    "%clock": SpecialRegister(32, dynamic=True),
    "%clock_hi": SpecialRegister(32, dynamic=True),
    "%clock64": SpecialRegister(64, dynamic=True),
    "%globaltimer": SpecialRegister(64, dynamic=True),
    "%globaltimer_lo": SpecialRegister(32, dynamic=True),
    "%globaltimer_hi": SpecialRegister(32, dynamic=True),
    "%reserved_smem_offset_end": SpecialRegister(32),
    "%reserved_smem_offset_cap": SpecialRegister(32),
    "%total_smem_size": SpecialRegister(32),
    "%aggr_smem_size": SpecialRegister(32),
    "%dynamic_smem_size": SpecialRegister(32),
    **{f"%{name}.{axis}": SpecialRegister(32) for name in _PER_AXIS for axis in _AXES},
    **SILENT,
}

# What may precede the dot of a component.
SPECIAL_ROOTS = frozenset(name.split(".")[0] for name in SPECIALS)
