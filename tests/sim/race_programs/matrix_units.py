"""wgmma, tcgen05 and tensor memory."""

from .program import EXPECT, INIT, NO_PROXY, TOO_LATE, UNORDERED, Program, bulk_load, wait

PROGRAMS: dict[str, Program] = {}

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
        "no wgmma.fence": ("wgmma.fence.sync.aligned;\n", "", "no wgmma.fence stands before it"),
        "accumulator read too early": ("wgmma.wait_group.sync.aligned 0;", "add.f32 %f0, %f0, %f1; wgmma.wait_group.sync.aligned 0;",
                                       "in flight"),
    },
    threads=128,
)  # fmt: skip
# One thread of the warpgroup says for all of its warps that they have read, and the fifth warp loads again.
NOT_IDLE = "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%bar2], 0;\n"  # it may come late if it only waits
GIVEN_BACK = "@%first mbarrier.arrive.shared::cta.b64 _, [%bar2];\n"
PROGRAMS["wgmma, after which one thread gives the tiles back"] = Program(
    DESCRIPTORS.format(upper=16) + INIT.format(1, 1) + "setp.eq.u32 %p1, %t, 128; setp.ge.u32 %p2, %t, 128; @%p2 bra LOAD;\n"
    + wait("%bar", "0", "W") + "wgmma.fence.sync.aligned;\n" + WGMMA + "wgmma.commit_group.sync.aligned;\n"
    + "wgmma.wait_group.sync.aligned 0;\n" + GIVEN_BACK + wait("%bar", "1", "W2") + "bra END;\nLOAD:\n"
    + AGAIN.replace("%first", "%p1") + wait("%bar2", "0", "W3") + AGAIN.replace("%first", "%p1") + "END:\n",
    {
        "no wait for the product": ("wgmma.wait_group.sync.aligned 0;\n", "", UNORDERED),
        "given back before the product": (
            "wgmma.wait_group.sync.aligned 0;\n" + GIVEN_BACK, GIVEN_BACK + "wgmma.wait_group.sync.aligned 0;\n", UNORDERED
        ),
        "another warp waits for the tiles, too": (
            "LOAD:\n", "LOAD:\nsetp.lt.u32 %p3, %t, 160; @%p3 bra ON;\n" + wait("%bar", "0", "W4") + NOT_IDLE + "bra END;\nON:\n", TOO_LATE
        ),
    },
    threads=192,
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
# The accumulator goes on in another shape, and another's accumulator becomes operand A.
TF32 = WGMMA.replace("k16", "k8").replace("bf16", "tf32").replace(", 0, 0;", ";")
BYTES = "wgmma.mma_async.sync.aligned.m64n8k32.s32.s8.s8 {{{0}}}, {1}, %rd6, %p6;\n"
FIRST, SECOND = "%r24, %r25, %r26, %r27", "%r28, %r29, %r30, %r31"
DONE = "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n"
AGAIN_FENCED = "wgmma.fence.sync.aligned; // again\n"
PROGRAMS["wgmma of two shapes"] = Program(
    DESCRIPTORS.format(upper=16)
    + FILLED
    + "fence.proxy.async;\nbar.sync 0;\nwgmma.fence.sync.aligned;\n"
    + WGMMA
    + DONE
    + AGAIN_FENCED
    + TF32
    + DONE,
    {"no fence between": (AGAIN_FENCED, "", "accumulators of a wgmma of shape m64n8k16")},
    threads=128,
)
PROGRAMS["wgmma of a product"] = Program(
    DESCRIPTORS.format(upper=16) + FILLED + "fence.proxy.async;\nbar.sync 0;\nwgmma.fence.sync.aligned;\n" + BYTES.format(FIRST, "%rd5")
    + DONE + AGAIN_FENCED + BYTES.format(SECOND, f"{{{FIRST}}}") + DONE,
    {"no fence between": (AGAIN_FENCED, "", "accumulators of a wgmma of shape m64n8k32")},
    threads=128,
)  # fmt: skip
IDESC = 1 << 4 | 1 << 7 | 1 << 10 | 2 << 17 | 8 << 24  # bf16 to f32, M = 128, N = 16
ALLOCATED = "add.u32 %r20, %tile, 16384;\n@%w0 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r20], 32;\n"
MMA = f"mov.u32 %r23, {IDESC}; tcgen05.mma.cta_group::1.kind::f16 [%r21], %rd5, %rd6, %r23, %p6;\n"
COMMIT = "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%bar2];\n"
BEFORE, AFTER = "tcgen05.fence::before_thread_sync;\n", "tcgen05.fence::after_thread_sync;\n"
SUMS = ", ".join(f"%r{number}" for number in range(1, 17))
LOAD = f"shl.b32 %r24, %warp, 21; add.u32 %r25, %r21, %r24;\ntcgen05.ld.sync.aligned.32x32b.x16.b32 {{{SUMS}}}, [%r25];\n"
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
MATRIX = "mad.lo.u32 %r2, %t, 16, %tile; xor.b32 %r3, %t, 32; mad.lo.u32 %r3, %r3, 16, %tile;\n"
LOAD_MATRICES = "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r8, %r9, %r10, %r11}, [%r3];"
REPEAT = "add.u32 %k, %k, 1; setp.lt.u32 %p1, %k, 3; @%p1 bra L;"
PROGRAMS["matrices from warp to warp"] = Program(
    f"""{MATRIX}L: stmatrix.sync.aligned.m8n8.x4.shared.b16 [%r2], {{%t, %lane, %t, %k}};
    bar.sync 0;
    {LOAD_MATRICES}
    bar.sync 1;
    {REPEAT}""",
    {
        "no barrier behind the stores": ("bar.sync 0;", "", UNORDERED),
        "no barrier behind the loads": ("bar.sync 1;", "", UNORDERED),
    },
)
PROGRAMS["matrices that threads copy"] = Program(
    f"""{MATRIX}mul.wide.u32 %rd1, %t, 16; add.u64 %rd1, %rd1, %array;
    L: cp.async.cg.shared.global [%r2], [%rd1], 16;
    cp.async.commit_group;
    cp.async.wait_group 0;
    bar.sync 0;
    {LOAD_MATRICES}
    bar.sync 1;
    {REPEAT}""",
    {
        "no wait": ("cp.async.wait_group 0;", "", UNORDERED),
        "no barrier behind the wait": ("bar.sync 0;", "", UNORDERED),
        "wait behind the barrier": (
            "cp.async.wait_group 0;\n    bar.sync 0;",
            "bar.sync 0;\n    cp.async.wait_group 0;",
            UNORDERED,
        ),
        "no barrier behind the loads": ("bar.sync 1;", "", UNORDERED),
    },
)
