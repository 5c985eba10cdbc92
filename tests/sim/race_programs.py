"""Small programs that keep an order, and what is left of each when one thing that keeps it is taken away.

They are of the kinds that producer/consumer kernels are made of: hand-overs by barriers of all sorts, copies in flight, rings of
stages, matrix units, tensor memory, other CTAs, other proxies, scopes. A body runs in all threads of its launch.
"""

from __future__ import annotations

from dataclasses import dataclass

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

    def run(self, fault: str | None = None, rules: str | None = None) -> Result:
        return launch(
            self.text(fault),
            "k",
            grid=self.grid,
            block=self.threads,
            cluster=self.cluster if self.cluster > 1 else None,
            dynamic_smem=65536,
            arguments=[ArrayArgument(np.zeros(8192, np.uint32))],
            options=Options(rules=rules or self.rules),
        )


def wait(barrier: str, parity: str, label: str) -> str:
    return f"{label}: mbarrier.try_wait.parity.shared::cta.b64 %p7, [{barrier}], {parity};\n@!%p7 bra {label};\n"


def bulk_load(to: str, source: str, count: int | str, barrier: str) -> str:
    name = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
    return f"{name} [{to}], [{source}], {count}, [{barrier}];\n"


INIT = "@%first mbarrier.init.shared::cta.b64 [%bar], {0}; @%first mbarrier.init.shared::cta.b64 [%bar2], {1};\nbar.sync 0;\n"
ARRIVE = "mbarrier.arrive.shared::cta.b64 _, [{0}];\n"
EXPECT = "mbarrier.arrive.expect_tx.shared::cta.b64 _, [{0}], {1};\n"
UNORDERED = "nothing orders them"
NO_VALUES = "publishes nothing that threads wrote"
NO_PROXY = "no fence.proxy.async"
CLUSTER_SYNC = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;\n"
RELAXED_SYNC = CLUSTER_SYNC.replace("arrive.aligned", "arrive.relaxed.aligned")

PROGRAMS: dict[str, Program] = {}

# ---- barriers of the CTA

PROGRAMS["exchange"] = Program(
    "st.shared.u32 [%own], %t;\nbar.sync 0;\nld.shared.u32 %r1, [%other];",
    {"no barrier": ("bar.sync 0;", "", UNORDERED), "arrives only": ("bar.sync 0;", "bar.arrive 1, 128;", UNORDERED)},
)
PROGRAMS["exchange again and again"] = Program(
    """L: st.shared.u32 [%own], %k;
    bar.sync 0;
    ld.shared.u32 %r1, [%other];
    barrier.sync 0;
    add.u32 %k, %k, 1; setp.lt.u32 %p1, %k, 3; @%p1 bra L;""",
    {"no barrier behind the loads": ("barrier.sync 0;", "", UNORDERED)},
)
PROGRAMS["named barriers hand over"] = Program(
    """@%w1 bra CONSUME;
    st.shared.u32 [%own], 1;
    bar.arrive 1, 64;
    bra END;
    CONSUME: bar.sync 1, 64;
    ld.shared.u32 %r1, [%other];
    END:""",
    {"read before the barrier": ("bar.sync 1, 64;\n    ld.shared.u32 %r1, [%other];", "ld.shared.u32 %r1, [%other];\nbar.sync 1, 64;",
                                 UNORDERED)},
)  # fmt: skip
PROGRAMS["a reducing barrier"] = Program(
    "st.shared.u32 [%own], 5;\nsetp.eq.u32 %p1, %t, 3; bar.red.or.pred %p2, 0, %p1;\nld.shared.u32 %r1, [%other];",
    {"no barrier": ("bar.red.or.pred %p2, 0, %p1;", "", UNORDERED)},
)
PROGRAMS["a tree of sums"] = Program(
    """st.shared.u32 [%own], %t;
    mov.u32 %k, 64;
    L: bar.sync 0;
    setp.ge.u32 %p1, %t, %k;
    mad.lo.u32 %r2, %k, 4, %own;
    @!%p1 ld.shared.u32 %r3, [%r2];
    @!%p1 ld.shared.u32 %r4, [%own];
    add.u32 %r4, %r4, %r3;
    @!%p1 st.shared.u32 [%own], %r4;
    shr.u32 %k, %k, 1; setp.ge.u32 %p2, %k, 32; @%p2 bra L;""",
    {"no barrier in the loop": ("L: bar.sync 0;", "bar.sync 0;\nL: ", UNORDERED)},
    threads=128,
)
PROGRAMS["bytes beside each other"] = Program(
    "add.u32 %r1, %tile, %t; st.shared.u8 [%r1], %t;\nbar.sync 0;\nld.shared.u32 %r2, [%own];".replace(
        "ld.shared.u32 %r2, [%own]", "ld.shared.u8 %r2, [%r1]"
    ),
    {"the same byte": ("add.u32 %r1, %tile, %t;", "add.u32 %r1, %tile, %lane;", UNORDERED)},
)
PROGRAMS["vectors beside each other"] = Program(
    """mad.lo.u32 %r1, %t, 16, %tile;
    st.shared.v4.b32 [%r1], {%t, %t, %t, %t};
    bar.sync 0;
    xor.b32 %r2, %t, 32; mad.lo.u32 %r2, %r2, 16, %tile;
    ld.shared.v2.b32 {%r3, %r4}, [%r2+8];""",
    {
        "no barrier": ("bar.sync 0;", "", UNORDERED),
        "they overlap": ("mad.lo.u32 %r1, %t, 16", "mad.lo.u32 %r1, %lane, 16", UNORDERED),
    },
)
PROGRAMS["two names for one buffer"] = Program(
    """mov.u32 %r1, dyn; add.u32 %r1, %r1, %lane; add.u32 %r1, %r1, %lane;
    @%w0 st.shared.b16 [%r1], 7;
    bar.sync 0;
    @%w1 st.shared.b32 [%own+-64], %t;
    bar.sync 0;
    ld.shared.b16 %r2, [%r1+64];""".replace("ld.shared.b16 %r2", "@%w0 ld.shared.u16 %r2"),
    {"no barrier": ("bar.sync 0;\n    @%w1 st", "@%w1 st.shared.b32 [%own+-128], %t;\n@%w1 st", UNORDERED)},
)
PROGRAMS["matrices"] = Program(
    """mad.lo.u32 %r9, %lane, 16, %tile; mad.lo.u32 %r9, %warp, 512, %r9; xor.b32 %r8, %r9, 512;
    stmatrix.sync.aligned.m8n8.x4.shared.b16 [%r9], {%t, %t, %t, %t};
    bar.sync 0;
    ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r1, %r2, %r3, %r4}, [%r8];""",
    {"no barrier": ("bar.sync 0;", "", UNORDERED)},
)
PROGRAMS["counted in shared memory"] = Program(
    """@%first st.shared.u32 [%tile], 0;
    bar.sync 0;
    atom.shared.add.u32 %r1, [%tile], 1;
    bar.sync 0;
    ld.shared.u32 %r2, [%tile];""",
    {
        "read too early": ("bar.sync 0;\n    ld", "ld", UNORDERED),
        "counted by hand": (
            "atom.shared.add.u32 %r1, [%tile], 1;",
            "ld.shared.u32 %r1, [%tile]; st.shared.u32 [%tile], %t;",
            UNORDERED,
        ),
        "zeroed too late": ("bar.sync 0;\n    atom", "atom", NO_VALUES),
    },
)

# ---- mbarriers between threads

PROGRAMS["mbarrier hands over"] = Program(
    INIT.format(32, 1)
    + """@%w1 bra CONSUME;
    st.shared.u32 [%own], %t;
    mbarrier.arrive.release.cta.shared::cta.b64 _, [%bar];
    bra END;
    CONSUME: """
    + wait("%bar", "0", "W")
    + "ld.shared.u32 %r1, [%other];\nEND:",
    {
        "relaxed arrival": ("arrive.release.cta", "arrive.relaxed.cta", NO_VALUES),
        "relaxed wait": ("W: mbarrier.try_wait.parity.shared", "W: mbarrier.try_wait.parity.relaxed.cta.shared", NO_VALUES),
        "arrives before it writes": (
            "st.shared.u32 [%own], %t;\n    mbarrier.arrive.release.cta.shared::cta.b64 _, [%bar];",
            "mbarrier.arrive.release.cta.shared::cta.b64 _, [%bar];\nst.shared.u32 [%own], %t;",
            UNORDERED,
        ),
        "waits for the other parity": ("[%bar], 0;\n@!%p7", "[%bar], 1;\n@!%p7", UNORDERED),
        "barrier not ready": ("bar.sync 0;\n", "", UNORDERED),
    },
)


def _ring(fill: str, read: str, full: int) -> str:
    """Warp 0 fills, warp 1 reads: four tiles through two stages of 1 KiB, full barriers at %bar and +8, empty ones at %bar2 and +8."""
    return f"""@%first mbarrier.init.shared::cta.b64 [%bar], {full}; @%first mbarrier.init.shared::cta.b64 [%bar+8], {full};
    @%first mbarrier.init.shared::cta.b64 [%bar2], 32; @%first mbarrier.init.shared::cta.b64 [%bar2+8], 32;
    bar.sync 0;
    @%w1 bra CONSUME;
    PRODUCE: and.b32 %r1, %k, 1; mad.lo.u32 %r2, %r1, 1024, %tile; mad.lo.u32 %r3, %r1, 8, %bar; mad.lo.u32 %r4, %r1, 8, %bar2;
    shr.u32 %r5, %k, 1; and.b32 %r6, %r5, 1; xor.b32 %r7, %r6, 1;
    {wait("%r4", "%r7", "EMPTY")}{fill}
    add.u32 %k, %k, 1; setp.lt.u32 %p1, %k, 4; @%p1 bra PRODUCE;
    bra END;
    CONSUME: and.b32 %r1, %k, 1; mad.lo.u32 %r2, %r1, 1024, %tile; mad.lo.u32 %r3, %r1, 8, %bar; mad.lo.u32 %r4, %r1, 8, %bar2;
    shr.u32 %r5, %k, 1; and.b32 %r6, %r5, 1;
    {wait("%r3", "%r6", "FULL")}{read}
    mbarrier.arrive.shared::cta.b64 _, [%r4];
    add.u32 %k, %k, 1; setp.lt.u32 %p1, %k, 4; @%p1 bra CONSUME;
    END:"""


READ_WORD = "mad.lo.u32 %r8, %lane, 4, %r2; ld.shared.u32 %r9, [%r8];"
PROGRAMS["a ring filled by threads"] = Program(
    _ring("mad.lo.u32 %r8, %lane, 4, %r2; st.shared.u32 [%r8], %k; mbarrier.arrive.shared::cta.b64 _, [%r3];", READ_WORD, 32),
    {
        "no wait for a full stage": (wait("%r3", "%r6", "FULL"), "", UNORDERED),
        "stage given back before it is read": (
            READ_WORD + "\n    mbarrier.arrive.shared::cta.b64 _, [%r4];",
            "mbarrier.arrive.shared::cta.b64 _, [%r4];" + READ_WORD,
            UNORDERED,
        ),
        "always the first stage": ("CONSUME: and.b32 %r1, %k, 1; mad.lo.u32 %r2, %r1, 1024, %tile;",
                                   "CONSUME: and.b32 %r1, %k, 1; mov.u32 %r2, %tile;", UNORDERED),
    },
)  # fmt: skip
_BULK_FILL = "@%leader " + EXPECT.format("%r3", 128) + "@%leader " + bulk_load("%r2", "%array", 128, "%r3")
PROGRAMS["a ring filled by copies"] = Program(
    _ring(_BULK_FILL, READ_WORD, 1),
    {
        "no wait for a full stage": (wait("%r3", "%r6", "FULL"), "", UNORDERED),
        "stage given back before it is read": (
            READ_WORD + "\n    mbarrier.arrive.shared::cta.b64 _, [%r4];",
            "mbarrier.arrive.shared::cta.b64 _, [%r4];" + READ_WORD,
            UNORDERED,
        ),
    },
)

# ---- copies in flight

LOADED = INIT.format(1, 1) + "@%first " + EXPECT.format("%bar", 256) + "@%first " + bulk_load("%tile", "%array", 256, "%bar")
PROGRAMS["a tile is loaded"] = Program(
    LOADED + wait("%bar", "0", "W") + "ld.shared.u32 %r1, [%other];",
    {
        "no wait": (wait("%bar", "0", "W"), "", UNORDERED),
        "one warp does not wait": (wait("%bar", "0", "W"), "@%w1 bra ON;\n" + wait("%bar", "0", "W") + "ON: ", UNORDERED),
        "too few bytes expected": ("[%bar], 256;\n@%first cp", "[%bar], 256;\n@%first " + bulk_load("%tile+1024", "%array", 256, "%bar")
                                   + "@%first cp", UNORDERED),
    },
)  # fmt: skip
PROGRAMS["two tiles on one barrier"] = Program(
    INIT.format(1, 1) + "@%first " + EXPECT.format("%bar", 512)
    + "@%first " + bulk_load("%tile", "%array", 256, "%bar") + "@%first " + bulk_load("%tile+256", "%array", 256, "%bar")
    + wait("%bar", "0", "W") + "ld.shared.u32 %r1, [%own+256];\n"
    + "bar.sync 0;\n@%first " + EXPECT.format("%bar", 0) + wait("%bar", "1", "W2"),
    {"bytes of one": ("[%bar], 512;", "[%bar], 256;", "")},
)  # fmt: skip
PROGRAMS["loaded again after all have read"] = Program(
    LOADED + wait("%bar", "0", "W") + "ld.shared.u32 %r1, [%other];\nbar.sync 0;\n"
    + "@%first " + EXPECT.format("%bar", 256) + "@%first " + bulk_load("%tile", "%array", 256, "%bar") + wait("%bar", "1", "W2"),
    {"nobody asks the readers": ("ld.shared.u32 %r1, [%other];\nbar.sync 0;\n", "ld.shared.u32 %r1, [%other];\n", UNORDERED)},
)  # fmt: skip
STORE = "cp.async.bulk.global.shared::cta.bulk_group [%array], [%tile], 256;\ncp.async.bulk.commit_group;\n"
PROGRAMS["staged and stored"] = Program(
    f"""st.shared.u32 [%own], %t;
    fence.proxy.async.shared::cta;
    bar.sync 0;
    @!%first bra ON;
    {STORE}cp.async.bulk.wait_group.read 0;
    ON: bar.sync 1;
    st.shared.u32 [%own], 0;
    @%first cp.async.bulk.wait_group 0;""",
    {
        "no proxy fence": ("fence.proxy.async.shared::cta;", "", NO_PROXY),
        "fence before the stores": (
            "st.shared.u32 [%own], %t;\n    fence.proxy.async.shared::cta;",
            "fence.proxy.async.shared::cta;\nst.shared.u32 [%own], %t;",
            NO_PROXY,
        ),
        "fence for global memory": ("fence.proxy.async.shared::cta;", "fence.proxy.async.global;", NO_PROXY),
        "no barrier before the store": ("bar.sync 0;", "", UNORDERED),
        "no wait before the staging is written again": ("cp.async.bulk.wait_group.read 0;", "", UNORDERED),
        "no barrier behind the wait": ("ON: bar.sync 1;", "ON:", UNORDERED),
        "waits for all groups but one": ("wait_group.read 0", "wait_group.read 1", UNORDERED),
    },
)
PROGRAMS["fenced by the thread that stores"] = Program(
    f"st.shared.u32 [%own], %t;\nbar.sync 0;\n@!%first bra END;\nfence.proxy.async;\n{STORE}cp.async.bulk.wait_group 0;\nEND:",
    {"no fence": ("fence.proxy.async;", "", NO_PROXY)},
)
PROGRAMS["stored and read back"] = Program(
    f"""st.shared.u32 [%own], %t;
    fence.proxy.async;
    bar.sync 0;
    @!%first bra ON;
    {STORE}cp.async.bulk.wait_group 0;
    ON: bar.sync 0;
    ld.global.u32 %r1, [%mine];""",
    {
        "waits for the reads alone": ("wait_group 0", "wait_group.read 0", UNORDERED),
        "no wait": ("cp.async.bulk.wait_group 0;", "", UNORDERED),
        "no barrier": ("ON: bar.sync 0;", "ON:", UNORDERED),
    },
)
PROGRAMS["loaded and stored on"] = Program(
    LOADED
    + f"@!%first bra END;\n{wait('%bar', '0', 'W')}{STORE.replace('[%array]', '[%array+4096]')}cp.async.bulk.wait_group 0;\nEND:",
    {"no wait": (wait("%bar", "0", "W"), "", UNORDERED)},
)
PROGRAMS["written and loaded from global memory"] = Program(
    INIT.format(1, 1)
    + """st.global.u32 [%mine], %t;
    fence.proxy.async;
    bar.sync 0;
    @%first """
    + EXPECT.format("%bar", 256) + "@%first " + bulk_load("%tile", "%array", 256, "%bar")
    + wait("%bar", "0", "W") + "ld.shared.u32 %r1, [%own];",
    {
        "no proxy fence": ("fence.proxy.async;", "", NO_PROXY),
        "fence for shared memory": ("fence.proxy.async;", "fence.proxy.async.shared::cta;", NO_PROXY),
        "no barrier": ("bar.sync 0;\n    @%first ", "@%first ", UNORDERED),
    },
)  # fmt: skip
CP_ASYNC = """mad.lo.u32 %r2, %t, 16, %tile; mul.wide.u32 %rd1, %t, 16; add.u64 %rd1, %rd1, %array; xor.b32 %r3, %t, 32;
mad.lo.u32 %r3, %r3, 16, %tile;
cp.async.cg.shared.global [%r2], [%rd1], 16;
"""
PROGRAMS["cp.async"] = Program(
    CP_ASYNC + "cp.async.commit_group;\ncp.async.wait_group 0;\nbar.sync 0;\nld.shared.u32 %r1, [%r3];",
    {
        "no wait": ("cp.async.wait_group 0;", "", UNORDERED),
        "no commit": ("cp.async.commit_group;", "", UNORDERED),
        "waits for all but one": ("wait_group 0", "wait_group 1", UNORDERED),
        "no barrier": ("bar.sync 0;", "", UNORDERED),
        "own copy read before the wait": (
            "cp.async.wait_group 0;",
            "ld.shared.u32 %r5, [%r2]; cp.async.wait_group 0;",
            UNORDERED,
        ),
    },
)
PROGRAMS["cp.async in two buffers"] = Program(
    CP_ASYNC + """cp.async.commit_group;
    L: xor.b32 %r2, %r2, 4096; setp.lt.u32 %p1, %k, 3;
    @%p1 cp.async.cg.shared.global [%r2], [%rd1], 16;
    cp.async.commit_group;
    cp.async.wait_group 1;
    bar.sync 0;
    ld.shared.u32 %r1, [%r3];
    bar.sync 1;
    xor.b32 %r3, %r3, 4096;
    add.u32 %k, %k, 1; setp.lt.u32 %p1, %k, 4; @%p1 bra L;""",
    {
        "waits for all but two": ("wait_group 1", "wait_group 2", UNORDERED),
        "no barrier behind the loads": ("bar.sync 1;", "", UNORDERED),
    },
)  # fmt: skip
PROGRAMS["cp.async arrives"] = Program(
    INIT.format(64, 1) + CP_ASYNC + "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%bar];\n"
    + wait("%bar", "0", "W") + "ld.shared.u32 %r1, [%r3];",
    {"arrives at once": ("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%bar]", "mbarrier.arrive.shared::cta.b64 _, [%bar]",
                         UNORDERED)},
)  # fmt: skip

# ---- matrix units

# Descriptors of matrices without a swizzle, their 8x16-byte parts one behind the other, at %tile and %tile + 4096.
DESCRIPTORS = """and.b32 %r10, %tile, 0x3FFFF; shr.u32 %r10, %r10, 4; or.b32 %r11, %r10, 0x80000; add.u32 %r12, %r11, 256;
mov.u32 %r13, {upper}; mov.b64 %rd5, {{%r11, %r13}}; mov.b64 %rd6, {{%r12, %r13}}; setp.ne.u32 %p6, %k, 0;
"""
WGMMA = "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f0, %f1, %f2, %f3}, %rd5, %rd6, %p6, 1, 1, 0, 0;\n"
OPERANDS = (
    INIT.format(1, 128) + "@%first " + EXPECT.format("%bar", 5120) + "@%first " + bulk_load("%tile", "%array", 5120, "%bar")
)
AGAIN = "@%first " + EXPECT.format("%bar", 5120) + "@%first " + bulk_load("%tile", "%array", 5120, "%bar")
PROGRAMS["wgmma of loaded tiles"] = Program(
    DESCRIPTORS.format(upper=16) + OPERANDS + wait("%bar", "0", "W") + "wgmma.fence.sync.aligned;\n" + WGMMA
    + "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\nbar.sync 0;\n" + AGAIN + wait("%bar", "1", "W2"),
    {
        "no wait for the tiles": (wait("%bar", "0", "W"), "", UNORDERED),
        "no wait before they are loaded again": ("wgmma.wait_group.sync.aligned 0;", "", UNORDERED),
        "waits for all but one": ("wait_group.sync.aligned 0", "wait_group.sync.aligned 1", UNORDERED),
        "accumulator read too early": ("wgmma.wait_group.sync.aligned 0;", "add.f32 %f0, %f0, %f1; wgmma.wait_group.sync.aligned 0;",
                                       "in flight"),
    },
    threads=128,
)  # fmt: skip
FILLED = """mad.lo.u32 %r1, %t, 32, %tile; mov.u32 %r2, 0;
st.shared.v4.b32 [%r1], {%r2, %r2, %r2, %r2}; st.shared.v4.b32 [%r1+16], {%r2, %r2, %r2, %r2};
st.shared.v4.b32 [%r1+4096], {%r2, %r2, %r2, %r2}; st.shared.v4.b32 [%r1+4112], {%r2, %r2, %r2, %r2};
"""
PROGRAMS["wgmma of tiles that threads wrote"] = Program(
    DESCRIPTORS.format(upper=16) + FILLED + "fence.proxy.async;\nbar.sync 0;\nwgmma.fence.sync.aligned;\n" + WGMMA
    + "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n" + "bar.sync 0;\nst.shared.u32 [%own], %t;",
    {
        "no proxy fence": ("fence.proxy.async;", "", NO_PROXY),
        "no barrier": ("bar.sync 0;\nwgmma.fence", "wgmma.fence", UNORDERED),
        "written again before the wait": ("wgmma.wait_group.sync.aligned 0;\n", "", UNORDERED),
    },
    threads=128,
)  # fmt: skip
IDESC = 1 << 4 | 1 << 7 | 1 << 10 | 2 << 17 | 8 << 24  # bf16 to f32, M = 128, N = 16
ALLOCATED = "add.u32 %r20, %tile, 16384;\n@%w0 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r20], 32;\n"
MMA = f"mov.u32 %r23, {IDESC}; tcgen05.mma.cta_group::1.kind::f16 [%r21], %rd5, %rd6, %r23, %p6;\n"
COMMIT = "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%bar2];\n"
BEFORE, AFTER = "tcgen05.fence::before_thread_sync;\n", "tcgen05.fence::after_thread_sync;\n"
LOAD = "shl.b32 %r24, %warp, 21; add.u32 %r25, %r21, %r24;\ntcgen05.ld.sync.aligned.32x32b.x1.b32 {%r22}, [%r25];\n"
FREED = "bar.sync 0;\n@%w0 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r21, 32;\n"
MULTIPLIED = (
    DESCRIPTORS.format(upper=0x4010) + ALLOCATED + OPERANDS.replace("128;\nbar.sync", "1;\nbar.sync").replace("[%bar2], 128", "[%bar2], 1")
    + "ld.shared.u32 %r21, [%r20];\n@!%first bra ON;\n" + wait("%bar", "0", "W") + AFTER + MMA + COMMIT + "ON: "
)  # fmt: skip
PROGRAMS["tcgen05 multiplies and hands over"] = Program(
    MULTIPLIED + wait("%bar2", "0", "W2") + AFTER + LOAD + "tcgen05.wait::ld.sync.aligned;\n" + BEFORE + FREED,
    {
        "no wait for the tiles": (wait("%bar", "0", "W"), "", UNORDERED),
        "no wait for the commit": (wait("%bar2", "0", "W2"), "", UNORDERED),
        "no tcgen05.fence after the wait": ("W2;\n" + AFTER, "W2;\n", "fence::after_thread_sync"),
        "given back before the loads are over": ("tcgen05.wait::ld.sync.aligned;\n", "", "wait::ld"),
        "no barrier before it is given back": ("bar.sync 0;\n@%w0 tcgen05.dealloc", "@%w0 tcgen05.dealloc", UNORDERED),
        "commit before the multiplication": (MMA + COMMIT, COMMIT + MMA, UNORDERED),
    },
    threads=128,
    target="sm_100a",
    rules="documents",
)
PROGRAMS["tcgen05 accumulator in turns"] = Program(
    MULTIPLIED + wait("%bar2", "0", "W2") + AFTER + LOAD + "tcgen05.wait::ld.sync.aligned;\n" + BEFORE
    + "bar.sync 1;\n@!%first bra ON2;\n" + AFTER + MMA + COMMIT + "ON2: " + wait("%bar2", "1", "W3") + AFTER + LOAD
    + "tcgen05.wait::ld.sync.aligned;\n" + BEFORE + FREED,
    {
        "overwritten before it is read": ("bar.sync 1;\n", "", UNORDERED),
        "overwritten while it is read": ("tcgen05.wait::ld.sync.aligned;\n" + BEFORE + "bar.sync 1", BEFORE + "bar.sync 1", "wait::ld"),
        "no tcgen05.fence before the hand-over": (BEFORE + "bar.sync 1", "bar.sync 1", "fence::before_thread_sync"),
        "tiles loaded again under the multiplication": ("[%bar2];\nON2: ", "[%bar2];\n" + AGAIN.replace("@%first ", "") + "ON2: ",
                                                        UNORDERED),
    },
    threads=128,
    target="sm_100a",
    rules="documents",
)  # fmt: skip
PROGRAMS["tensor memory through registers"] = Program(
    ALLOCATED + """bar.sync 0;
    ld.shared.u32 %r21, [%r20];
    shl.b32 %r24, %warp, 21; add.u32 %r21, %r21, %r24;
    tcgen05.st.sync.aligned.32x32b.x1.b32 [%r21], {%t};
    tcgen05.wait::st.sync.aligned;
    tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r22}, [%r21];
    tcgen05.wait::ld.sync.aligned;
    tcgen05.st.sync.aligned.32x32b.x1.b32 [%r21], {%r22};
    tcgen05.wait::st.sync.aligned;
    sub.u32 %r21, %r21, %r24;
    """ + FREED,
    {
        "no wait for the store": ("tcgen05.wait::st.sync.aligned;", "", "wait::st"),
        "no wait for the load": ("tcgen05.wait::ld.sync.aligned;", "", "wait::ld"),
        "address not published": ("bar.sync 0;\n    ld", "ld", UNORDERED),
    },
    threads=128,
    target="sm_100a",
    rules="documents",
)  # fmt: skip

# ---- global memory

FLAG = "[%array+16384]"
PROGRAMS["a flag in global memory"] = Program(
    f"""setp.eq.u32 %p1, %cta, 1; @%p1 bra READ;
    st.global.u32 [%mine], 5;
    bar.sync 0;
    @%first st.release.gpu.global.u32 {FLAG}, 1;
    bra END;
    READ: ld.acquire.gpu.global.u32 %r1, {FLAG};
    setp.eq.u32 %p2, %r1, 0; @%p2 bra READ;
    ld.global.u32 %r2, [%mine];
    END:""",
    {
        "relaxed store": ("st.release.gpu", "st.relaxed.gpu", NO_VALUES),
        "relaxed load": ("ld.acquire.gpu", "ld.relaxed.gpu", NO_VALUES),
        "at CTA scope": ("st.release.gpu", "st.release.cta", ""),
        "an ordinary store": ("st.release.gpu.global", "st.global", ""),
        "no barrier before the flag": ("bar.sync 0;", "", UNORDERED),
        "flag set first": (f"st.global.u32 [%mine], 5;\n    bar.sync 0;\n    @%first st.release.gpu.global.u32 {FLAG}, 1;",
                           f"@%first st.release.gpu.global.u32 {FLAG}, 1;\nbar.sync 0;\nst.global.u32 [%mine], 5;", UNORDERED),
    },
    grid=2,
)  # fmt: skip
PROGRAMS["the last block sums up"] = Program(
    f"""mad.lo.u32 %r9, %cta, 256, 0; cvt.u64.u32 %rd1, %r9; add.u64 %rd2, %mine, %rd1;
    st.global.u32 [%rd2], 5;
    membar.gl;
    bar.sync 0;
    mov.u32 %r2, 0;
    @%first atom.global.add.u32 %r2, {FLAG}, 1;
    @%first st.shared.u32 [%tile], %r2;
    bar.sync 0;
    ld.shared.u32 %r2, [%tile];
    setp.ne.u32 %p1, %r2, 2; @%p1 bra END;
    membar.gl;
    ld.global.u32 %r3, [%mine]; ld.global.u32 %r4, [%mine+256];
    END:""",
    {
        "no fence before the count": ("membar.gl;\n    bar", "bar", NO_VALUES),
        "no fence behind the count": ("membar.gl;\n    ld", "ld", NO_VALUES),
        "fence of the CTA": ("membar.gl;\n    bar", "membar.cta;\n    bar", NO_VALUES),
    },
    grid=3,
)
PROGRAMS["blocks beside each other"] = Program(
    "mad.lo.u32 %r9, %cta, 256, 0; cvt.u64.u32 %rd1, %r9; add.u64 %rd2, %mine, %rd1;\nst.global.u32 [%rd2], %cta;",
    {"they overlap": ("mad.lo.u32 %r9, %cta, 256, 0;", "mad.lo.u32 %r9, %cta, 128, 0;", UNORDERED)},
    grid=4,
)
PROGRAMS["sums of all blocks"] = Program(
    "red.global.add.u32 [%mine], 1;",
    {
        "ordinary additions": ("red.global.add.u32 [%mine], 1;", "ld.global.u32 %r1, [%mine]; st.global.u32 [%mine], %t;",
                               UNORDERED),
        "at CTA scope": ("red.global", "red.relaxed.cta.global", "does not reach"),
        "read in the same launch": ("[%mine], 1;", "[%mine], 1; ld.global.u32 %r1, [%theirs];", UNORDERED),
    },
    grid=3,
)  # fmt: skip
REDUCE = "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%array], [%tile], 256;"
PROGRAMS["bulk sums of all blocks"] = Program(
    f"""st.shared.u32 [%own], %t; fence.proxy.async; bar.sync 0;
    @%first {REDUCE}
    @%first cp.async.bulk.commit_group;
    @%first cp.async.bulk.wait_group 0;""",
    {
        "stores": (
            "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32",
            "cp.async.bulk.global.shared::cta.bulk_group",
            UNORDERED,
        )
    },
    grid=2,
)

# ---- clusters

NEIGHBOUR = "xor.b32 %r5, %rank, 1; mapa.shared::cluster.u32 %r6, %own, %r5; mapa.shared::cluster.u32 %r7, %bar, %r5;\n"
PROGRAMS["words of the neighbour"] = Program(
    NEIGHBOUR + "st.shared.u32 [%own], %rank;\n" + CLUSTER_SYNC + "ld.shared::cluster.u32 %r1, [%r6];\n" + CLUSTER_SYNC
    + "st.shared.u32 [%own], 0;",
    {
        "no cluster barrier": (CLUSTER_SYNC, "", UNORDERED),
        "relaxed arrival": ("barrier.cluster.arrive.aligned", "barrier.cluster.arrive.relaxed.aligned", NO_VALUES),
        "no cluster barrier behind the loads": ("[%r6];\n" + CLUSTER_SYNC, "[%r6];\n", UNORDERED),
        "a barrier of the CTA": (CLUSTER_SYNC, "bar.sync 0;\n", UNORDERED),
    },
    grid=2,
    cluster=2,
)  # fmt: skip
PROGRAMS["written at the neighbour's and signalled"] = Program(
    NEIGHBOUR + INIT.format(64, 1) + CLUSTER_SYNC + """st.shared::cluster.u32 [%r6], %t;
    mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r7];
    """ + wait("%bar", "0", "W").replace(".parity.", ".parity.acquire.cluster.") + "ld.shared.u32 %r1, [%other];\n" + CLUSTER_SYNC,
    {
        "at CTA scope": ("mbarrier.arrive.release.cluster", "mbarrier.arrive.release.cta", NO_VALUES),
        "without a scope": ("mbarrier.arrive.release.cluster", "mbarrier.arrive", NO_VALUES),
        "relaxed": ("mbarrier.arrive.release.cluster", "mbarrier.arrive.relaxed.cluster", NO_VALUES),
        "no wait": (wait("%bar", "0", "W").replace(".parity.", ".parity.acquire.cluster."), "", UNORDERED),
    },
    grid=2,
    cluster=2,
)  # fmt: skip
PROGRAMS["read at the neighbour's and given back"] = Program(
    NEIGHBOUR + INIT.format(64, 1) + "st.shared.u32 [%own], %t;\n" + CLUSTER_SYNC + """ld.shared::cluster.u32 %r1, [%r6];
    mbarrier.arrive.shared::cluster.b64 _, [%r7];
    """ + wait("%bar", "0", "W") + "st.shared.u32 [%own], 0;\n" + CLUSTER_SYNC,
    {
        "no wait": (wait("%bar", "0", "W"), "", UNORDERED),
        "given back before it is read": (
            "ld.shared::cluster.u32 %r1, [%r6];\n    mbarrier.arrive.shared::cluster.b64 _, [%r7];",
            "mbarrier.arrive.shared::cluster.b64 _, [%r7]; ld.shared::cluster.u32 %r1, [%r6];",
            UNORDERED,
        ),
    },
    grid=2,
    cluster=2,
)  # fmt: skip
PROGRAMS["st.async"] = Program(
    NEIGHBOUR + INIT.format(1, 1) + "@%first " + EXPECT.format("%bar", 256) + CLUSTER_SYNC
    + "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 [%r6], %t, [%r7];\n"
    + wait("%bar", "0", "W") + "ld.shared.u32 %r1, [%other];\n" + CLUSTER_SYNC,
    {"no wait": (wait("%bar", "0", "W"), "", UNORDERED),
     "written by its owner, too": ("st.async", "st.shared.u32 [%own], 9;\nst.async", UNORDERED)},
    grid=2,
    cluster=2,
)  # fmt: skip
MULTICAST = (
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%tile], [%array], 256, [%bar], %h;\n"
)
PROGRAMS["one load for both"] = Program(
    ".reg .b16 %h; mov.u16 %h, 3; setp.eq.u32 %p1, %rank, 0; and.pred %p1, %p1, %first;\nmapa.shared::cluster.u32 %r7, %bar2, 0;\n"
    + INIT.format(1, 128) + "@%first " + EXPECT.format("%bar", 256) + CLUSTER_SYNC + "@%p1 " + MULTICAST
    + wait("%bar", "0", "W") + "ld.shared.u32 %r1, [%other];\nmbarrier.arrive.shared::cluster.b64 _, [%r7];\n"
    + "@%first " + EXPECT.format("%bar", 256) + RELAXED_SYNC
    + "@!%p1 bra ON;\n" + wait("%bar2", "0", "W2") + MULTICAST + "ON: " + wait("%bar", "1", "W3") + CLUSTER_SYNC,
    {
        "read before the wait": (
            wait("%bar", "0", "W") + "ld.shared.u32 %r1, [%other];\n",
            "ld.shared.u32 %r1, [%other];\n" + wait("%bar", "0", "W"),
            UNORDERED,
        ),
    },
    grid=2,
    cluster=2,
)  # fmt: skip
