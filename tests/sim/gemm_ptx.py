"""A hand-written warp-specialised GEMM for sm_100a: TMA warp, MMA warp, four epilogue warps, 128x256 tile, bf16."""

from __future__ import annotations

import json

STAGES = 4
STAGE_BYTES = 49152
BARRIERS = STAGES * STAGE_BYTES
SHARED_BYTES = BARRIERS + 8 * (2 * STAGES + 1) + 16
THREADS = 256

METADATA = {
    "kernel": "gemm",
    "source": "gemm.pipe",
    "roles": [
        {"name": "load", "first_warp": 0, "warps": 1},
        {"name": "mma", "first_warp": 1, "warps": 1},
        {"name": "epilogue", "first_warp": 4, "warps": 4},
    ],
    "barriers": [
        {"pipeline": "input", "side": "full", "stages": STAGES, "offset": BARRIERS, "count": 1},
        {"pipeline": "input", "side": "empty", "stages": STAGES, "offset": BARRIERS + 8 * STAGES, "count": 1},
        {"pipeline": "output", "side": "full", "stages": 1, "offset": BARRIERS + 16 * STAGES, "count": 1},
    ],
}


def _epilogue() -> str:
    registers = ", ".join(f"%v{i}" for i in range(32))
    packs = "\n".join(f"    cvt.rn.bf16x2.f32 %p{i}, %w{2 * i + 1}, %w{2 * i};" for i in range(16))
    moves = "\n".join(f"    mov.b32 %w{i}, %v{i};" for i in range(32))
    stores = "\n".join(
        f"    st.global.v4.b32 [%rd9+{16 * i}], {{%p{4 * i}, %p{4 * i + 1}, %p{4 * i + 2}, %p{4 * i + 3}}};" for i in range(4)
    )
    load = f"    tcgen05.ld.sync.aligned.32x32b.x32.b32 {{{registers}}}, [%r30];"
    wait = "    tcgen05.wait::ld.sync.aligned;"
    return f"{load}\n{wait}\n{moves}\n{packs}\n{stores}"


def gemm_ptx(expected_bytes: int = STAGE_BYTES, commit_empty: bool = True, dealloc: bool = True, wait_full: bool = True) -> str:
    """PTX text; the switches break it in known ways."""
    commit = "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r15];" if commit_empty else ""
    wait = (
        """
LFULL:
    mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 %q4, [%r14], %r11;
    @!%q4 bra LFULL;"""
        if wait_full
        else ""
    )
    release = "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r3, 256;" if dealloc else ""
    steps = "\n".join(
        f"""    add.s64 %rd5, %rd3, {2 * j};
    add.s64 %rd6, %rd4, {2 * j};
    tcgen05.mma.cta_group::1.kind::f16 [%r3], %rd5, %rd6, 0x08400490, %q5;
    setp.eq.u32 %q5, 0, 0;"""
        for j in range(4)
    )
    return f"""// {0}
// pipec.kernel {json.dumps(METADATA)}
.version 8.6
.target sm_100a
.address_size 64
.extern .shared .align 1024 .b8 smem[];

.visible .entry gemm(
    .param .align 64 .b8 map_a[128],
    .param .align 64 .b8 map_b[128],
    .param .u64 out,
    .param .u32 blocks,
    .param .u32 row_stride)
.reqntid {THREADS}, 1, 1
{{
    .reg .pred %q<10>;
    .reg .b32 %r<64>;
    .reg .b32 %v<32>;
    .reg .f32 %w<32>;
    .reg .b32 %p<16>;
    .reg .b64 %rd<16>;
    .loc 1 10 5
    mov.u32 %r1, %tid.x;
    shr.u32 %r2, %r1, 5;
    mov.u32 %r4, smem;
    add.u32 %r5, %r4, {BARRIERS};
    ld.param.u32 %r6, [blocks];
    mov.u32 %r7, %ctaid.x;
    mov.u32 %r8, %ctaid.y;
    shl.b32 %r7, %r7, 7;
    shl.b32 %r8, %r8, 8;
    mov.b64 %rd1, map_a;
    mov.b64 %rd2, map_b;
    cvta.param.u64 %rd1, %rd1;
    cvta.param.u64 %rd2, %rd2;
    setp.ne.u32 %q1, %r1, 0;
    @%q1 bra LINIT;
    mov.u32 %r9, 0;
LBAR:
    shl.b32 %r10, %r9, 3;
    add.u32 %r10, %r10, %r5;
    mbarrier.init.shared::cta.b64 [%r10], 1;
    add.u32 %r9, %r9, 1;
    setp.lt.u32 %q2, %r9, {2 * STAGES + 1};
    @%q2 bra LBAR;
    fence.mbarrier_init.release.cluster;
LINIT:
    bar.warp.sync 0xffffffff;
    setp.ne.u32 %q1, %r2, 1;
    @%q1 bra LALLOC;
    add.u32 %r10, %r5, {8 * (2 * STAGES + 1)};
    tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r10], 256;
    tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;
LALLOC:
    tcgen05.fence::before_thread_sync;
    bar.sync 0;
    tcgen05.fence::after_thread_sync;
    ld.shared.u32 %r3, [%r5+{8 * (2 * STAGES + 1)}];
    setp.eq.u32 %q1, %r2, 0;
    @%q1 bra LLOAD;
    setp.eq.u32 %q1, %r2, 1;
    @%q1 bra LMMA;
    setp.lt.u32 %q1, %r2, 4;
    @%q1 bra LEND;
    bra LEPI;

LLOAD:
    .loc 1 20 9
    elect.sync _|%q3, 0xffffffff;
    @!%q3 bra LEND;
    mov.u32 %r10, 0;
    mov.u32 %r11, 1;
    mov.u32 %r12, 0;
LLOOP:
    setp.ge.u32 %q4, %r12, %r6;
    @%q4 bra LEND;
    shl.b32 %r13, %r10, 3;
    add.u32 %r14, %r5, %r13;
    add.u32 %r15, %r14, {8 * STAGES};
LEMPTY:
    .loc 1 22 13
    mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 %q4, [%r15], %r11;
    @!%q4 bra LEMPTY;
    mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%r14], {expected_bytes};
    mul.lo.u32 %r16, %r10, {STAGE_BYTES};
    add.u32 %r16, %r16, %r4;
    add.u32 %r17, %r16, 16384;
    shl.b32 %r18, %r12, 6;
    cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes [%r16], [%rd1, {{%r18, %r7}}], [%r14];
    cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes [%r17], [%rd2, {{%r18, %r8}}], [%r14];
    add.u32 %r12, %r12, 1;
    add.u32 %r10, %r10, 1;
    setp.eq.u32 %q4, %r10, {STAGES};
    selp.b32 %r10, 0, %r10, %q4;
    selp.b32 %r19, 1, 0, %q4;
    xor.b32 %r11, %r11, %r19;
    bra LLOOP;

LMMA:
    .loc 1 30 9
    elect.sync _|%q3, 0xffffffff;
    @!%q3 bra LEND;
    mov.u32 %r10, 0;
    mov.u32 %r11, 0;
    mov.u32 %r12, 0;
    setp.ne.u32 %q5, 0, 0;
MLOOP:
    setp.ge.u32 %q4, %r12, %r6;
    @%q4 bra MDONE;
    shl.b32 %r13, %r10, 3;
    add.u32 %r14, %r5, %r13;
    add.u32 %r15, %r14, {8 * STAGES};
    .loc 1 32 13{wait}
    tcgen05.fence::after_thread_sync;
    mul.lo.u32 %r16, %r10, {STAGE_BYTES};
    add.u32 %r16, %r16, %r4;
    and.b32 %r16, %r16, 0x3ffff;
    shr.u32 %r16, %r16, 4;
    cvt.u64.u32 %rd3, %r16;
    or.b64 %rd3, %rd3, 0x4000404000000000;
    add.s64 %rd4, %rd3, 1024;
{steps}
    {commit}
    add.u32 %r12, %r12, 1;
    add.u32 %r10, %r10, 1;
    setp.eq.u32 %q4, %r10, {STAGES};
    selp.b32 %r10, 0, %r10, %q4;
    selp.b32 %r19, 1, 0, %q4;
    xor.b32 %r11, %r11, %r19;
    bra MLOOP;
MDONE:
    add.u32 %r14, %r5, {16 * STAGES};
    tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r14];
    bra LEND;

LEPI:
    .loc 1 40 9
    add.u32 %r14, %r5, {16 * STAGES};
EWAIT:
    mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 %q4, [%r14], 0;
    @!%q4 bra EWAIT;
    bar.warp.sync 0xffffffff;
    tcgen05.fence::after_thread_sync;
    ld.param.u64 %rd7, [out];
    cvta.to.global.u64 %rd7, %rd7;
    ld.param.u32 %r20, [row_stride];
    and.b32 %r21, %r1, 127;
    add.u32 %r22, %r21, %r7;
    mad.lo.u32 %r23, %r22, %r20, %r8;
    mul.wide.u32 %rd8, %r23, 2;
    add.s64 %rd9, %rd7, %rd8;
    and.b32 %r24, %r2, 3;
    shl.b32 %r24, %r24, 21;
    add.u32 %r30, %r3, %r24;
    mov.u32 %r25, 0;
ELOOP:
{_epilogue()}
    add.u32 %r30, %r30, 32;
    add.s64 %rd9, %rd9, 64;
    add.u32 %r25, %r25, 1;
    setp.lt.u32 %q4, %r25, 8;
    @%q4 bra ELOOP;
    tcgen05.fence::before_thread_sync;

LEND:
    .loc 1 50 1
    bar.warp.sync 0xffffffff;
    bar.sync 0;
    setp.ne.u32 %q1, %r2, 1;
    @%q1 bra LEXIT;
    tcgen05.fence::after_thread_sync;
    {release}
LEXIT:
    ret;
}}
.file 1 "gemm.pipe"
"""
