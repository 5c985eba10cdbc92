"""Small programs with and without races: each is a body of PTX for some warps, which one in-order run must tell apart."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pipec.sim import ArrayArgument, Options, Result, launch

HEAD = ".version 8.6\n.target {target}\n.address_size 64\n.extern .shared .align 1024 .b8 dyn[];\n"
# %tid, %lane and %warp; %first: thread 0, %leader: lane 0; the array argument, and addresses in shared memory that the programs agree on.
SETUP = """.reg .pred %p<8>; .reg .pred %first; .reg .pred %leader; .reg .b32 %r<40>; .reg .f32 %f<40>; .reg .b64 %rd<12>;
.reg .b32 %t; .reg .b32 %lane; .reg .b32 %warp; .reg .b32 %own; .reg .b32 %other; .reg .b32 %tile; .reg .b32 %bar; .reg .b32 %rank;
.reg .b64 %array; .reg .b64 %mine;
ld.param.u64 %array, [a];
mov.u32 %t, %tid.x; and.b32 %lane, %t, 31; shr.u32 %warp, %t, 5; mov.u32 %rank, %cluster_ctarank;
setp.eq.u32 %first, %t, 0; setp.eq.u32 %leader, %lane, 0;
mov.u32 %tile, dyn; add.u32 %bar, %tile, 32768;
mad.lo.u32 %own, %t, 4, %tile; xor.b32 %r0, %t, 32; mad.lo.u32 %other, %r0, 4, %tile;
mad.wide.u32 %mine, %t, 4, %array;
"""


@dataclass(frozen=True)
class Program:
    """`missing`: words of the report that a faulty one gets; empty for a clean one."""

    name: str
    body: str
    missing: str = ""
    threads: int = 64
    cluster: int = 1
    grid: int = 1
    target: str = "sm_90a"

    @property
    def text(self) -> str:
        head = HEAD.format(target=self.target)
        return f"{head}.entry k(.param .u64 a)\n{{\n{SETUP}{self.body}\nret;\n}}\n"


def run(program: Program, options: Options | None = None) -> Result:
    array = np.zeros(4096, np.uint32)
    return launch(
        program.text,
        "k",
        grid=program.grid,
        block=program.threads,
        cluster=program.cluster if program.cluster > 1 else None,
        dynamic_smem=65536,
        arguments=[ArrayArgument(array)],
        options=options,
    )
