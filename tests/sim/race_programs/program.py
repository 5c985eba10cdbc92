"""What a program is, how it runs, and the text that several of them share."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from pipec.sim import ArrayArgument, Options, Result, launch

HEAD = ".version 8.6\n.target {target}\n.address_size 64\n.extern .shared .align 1024 .b8 dyn[];\n"
# %t, %lane, %warp, %rank; %first: thread 0, %leader: lane 0, %w0 and %w1: of warp 0 and 1, %e0: thread 0 of the second warp. The array;
# a tile of shared memory with one word for each thread (%own, and %other of the same lane in the neighbouring warp), two barriers.
SETUP = """.reg .pred %p<8>; .reg .pred %first; .reg .pred %leader; .reg .pred %w0; .reg .pred %w1; .reg .pred %e1;
.reg .b32 %r<40>; .reg .f32 %f<40>; .reg .b64 %rd<12>; .reg .b64 %array; .reg .b64 %mine; .reg .b64 %theirs;
.reg .b32 %t; .reg .b32 %lane; .reg .b32 %warp; .reg .b32 %own; .reg .b32 %other; .reg .b32 %tile; .reg .b32 %bar; .reg .b32 %bar2;
.reg .b32 %rank; .reg .b32 %k; .reg .b32 %cta;
ld.param.u64 %array, [a];
mov.u32 %t, %tid.x; and.b32 %lane, %t, 31; shr.u32 %warp, %t, 5; mov.u32 %rank, %cluster_ctarank; mov.u32 %cta, %ctaid.x;
setp.eq.u32 %first, %t, 0; setp.eq.u32 %leader, %lane, 0; setp.eq.u32 %w0, %warp, 0; setp.eq.u32 %w1, %warp, 1;
setp.eq.u32 %e1, %t, 32;
mov.u32 %tile, dyn; add.u32 %bar, %tile, 32768; add.u32 %bar2, %bar, 64;
mad.lo.u32 %own, %t, 4, %tile; xor.b32 %r0, %t, 32; mad.lo.u32 %other, %r0, 4, %tile;
mad.wide.u32 %mine, %t, 4, %array; mad.wide.u32 %theirs, %r0, 4, %array; mov.u32 %k, 0;
"""


@dataclass(frozen=True)
class Program:
    """`faults`: by name what is put in the place of what, and words of the report that this gets."""

    body: str
    faults: dict[str, tuple[str, str, str]]
    threads: int = 64
    cluster: int = 1
    grid: int = 1
    target: str = "sm_90a"
    rules: str = "practice"

    def text(self, fault: str | None = None) -> str:
        body = self.body
        if fault is not None:
            old, new, _ = self.faults[fault]
            assert old in body, old
            body = body.replace(old, new, 1)
        head = HEAD.format(target=self.target)
        return f"{head}.entry k(.param .u64 a)\n{{\n{SETUP}{body}\nret;\n}}\n"

    def run(self, fault: str | None = None, options: Options | None = None) -> Result:
        return launch(
            self.text(fault),
            "k",
            grid=self.grid,
            block=self.threads,
            cluster=self.cluster if self.cluster > 1 else None,
            dynamic_smem=65536,
            arguments=[ArrayArgument(np.zeros(8192, np.uint32))],
            options=replace(options or Options(), rules=(options and options.rules) or self.rules),
        )


def wait(barrier: str, parity: str, label: str) -> str:
    return f"{label}: mbarrier.try_wait.parity.shared::cta.b64 %p7, [{barrier}], {parity};\n@!%p7 bra {label};\n"


def bulk_load(to: str, source: str, count: int | str, barrier: str) -> str:
    name = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
    return f"{name} [{to}], [{source}], {count}, [{barrier}];\n"


INIT = """@%first mbarrier.init.shared::cta.b64 [%bar], {0}; @%first mbarrier.init.shared::cta.b64 [%bar2], {1};
@%first fence.mbarrier_init.release.cluster;
bar.sync 0;
"""
EXPECT = "mbarrier.arrive.expect_tx.shared::cta.b64 _, [{0}], {1};\n"
UNORDERED = "nothing orders them"
HANGS = "no warp can make progress"
NO_BARRIER = "no mbarrier is initialised"
ANY = ""
TOO_LATE = "nothing orders it before the completion of phase"
KINDS = {HANGS: "deadlock", NO_BARRIER: "uninitialised", TOO_LATE: "undefined", ANY: None}  # of the reports; of others a race
NO_VALUES = "publishes nothing that threads wrote"
RELAXED = "the cluster barrier between them is relaxed, and orders nothing"
NO_PROXY = "no fence.proxy.async"
CLUSTER_SYNC = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;\n"
RELAXED_SYNC = CLUSTER_SYNC.replace("arrive.aligned", "arrive.relaxed.aligned")
