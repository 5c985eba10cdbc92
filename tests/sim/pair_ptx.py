"""A hand-written CTA-pair GEMM for sm_100a: D[256x256], cluster (2,1,1), cta_group::2, K block 64."""

from __future__ import annotations

import json

from .gemm_parts import allocate, barriers_of_stage, init_barriers, multiply_stage, next_stage

STAGES = 3
STAGE_BYTES = 32768
BARRIERS = STAGES * STAGE_BYTES
SHARED_BYTES = BARRIERS + 8 * (2 * STAGES + 1) + 16

METADATA = {
    "kernel": "pair",
    "roles": [
        {"name": "load", "first_warp": 0, "warps": 1},
        {"name": "mma", "first_warp": 1, "warps": 1},
        {"name": "epilogue", "first_warp": 2, "warps": 4},
    ],
    "barriers": [
        {"pipeline": "input", "side": "full", "stages": STAGES, "offset": BARRIERS, "count": 1},
        {"pipeline": "input", "side": "empty", "stages": STAGES, "offset": BARRIERS + 8 * STAGES, "count": 1},
        {"pipeline": "output", "side": "full", "stages": 1, "offset": BARRIERS + 16 * STAGES, "count": 1},
    ],
}


def pair_ptx() -> str:
    return _head() + _setup() + _load() + _multiply() + _epilogue() + _teardown()


def _head() -> str:
    return f"""// pipec.kernel {json.dumps(METADATA)}
.version 8.6
.target sm_100a
.address_size 64
.extern .shared .align 1024 .b8 smem[];
.visible .entry pair(.param .align 64 .b8 map_a[128], .param .align 64 .b8 map_b[128], .param .u64 out, .param .u32 blocks)
.reqntid 192, 1, 1 .reqnctapercluster 2, 1, 1
{{
    .reg .pred %q<10>; .reg .b32 %r<64>; .reg .b32 %v<16>; .reg .b64 %rd<16>; .reg .b16 %h<4>;
"""


def _setup() -> str:
    """Barriers and tensor memory of both CTAs, %r40 is the rank and %r41 the first row; then each warp goes to its role."""
    return f"""\
    mov.u32 %r1, %tid.x;
    shr.u32 %r2, %r1, 5;
    mov.u32 %r4, smem;
    add.u32 %r5, %r4, {BARRIERS};
    ld.param.u32 %r6, [blocks];
    mov.u32 %r40, %cluster_ctarank;
    shl.b32 %r41, %r40, 7;
    mov.b64 %rd1, map_a;
    mov.b64 %rd2, map_b;
    cvta.param.u64 %rd1, %rd1;
    cvta.param.u64 %rd2, %rd2;
{init_barriers(STAGES)}\
    barrier.cluster.arrive.relaxed.aligned;
    barrier.cluster.wait.aligned;
{allocate(STAGES, 2)}\
    barrier.cluster.arrive.release.aligned;
    barrier.cluster.wait.acquire.aligned;
    tcgen05.fence::after_thread_sync;
    ld.shared.u32 %r3, [%r5+{8 * (2 * STAGES + 1)}];
    setp.eq.u32 %q1, %r2, 0;
    @%q1 bra LLOAD;
    setp.eq.u32 %q1, %r2, 1;
    @%q1 bra LMMA;
    bra LEPI;
"""


def _load() -> str:
    """Each CTA loads its halves of both operands; their bytes are counted at the first one's barrier."""
    return f"""\
LLOAD:
    elect.sync _|%q3, 0xffffffff;
    @!%q3 bra LEND;
    mov.u32 %r10, 0;
    mov.u32 %r11, 1;
    mov.u32 %r12, 0;
    setp.ne.u32 %q6, %r40, 0;
LLOOP:
{barriers_of_stage(STAGES, "LEND")}\
LEMPTY:
    mbarrier.try_wait.parity.shared::cta.b64 %q4, [%r15], %r11;
    @!%q4 bra LEMPTY;
    @!%q6 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r14], {2 * STAGE_BYTES};
    and.b32 %r14, %r14, 0xFEFFFFFF;
    mul.lo.u32 %r16, %r10, {STAGE_BYTES};
    add.u32 %r16, %r16, %r4;
    add.u32 %r17, %r16, 16384;
    shl.b32 %r18, %r12, 6;
    cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.cta_group::2 [%r16], [%rd1, {{%r18, %r41}}], [%r14];
    cp.async.bulk.tensor.2d.cta_group::2.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r17], [%rd2, {{%r18, %r41}}], [%r14];
{next_stage(STAGES)}\
    bra LLOOP;
"""


def _multiply() -> str:
    """One thread of the first CTA, for both."""
    return f"""\
LMMA:
    setp.ne.u32 %q6, %r40, 0;
    @%q6 bra LEND;
    elect.sync _|%q3, 0xffffffff;
    @!%q3 bra LEND;
    mov.u32 %r10, 0;
    mov.u32 %r11, 0;
    mov.u32 %r12, 0;
    mov.u16 %h1, 3;
    setp.ne.u32 %q5, 0, 0;
MLOOP:
{barriers_of_stage(STAGES, "MDONE")}\
LFULL:
    mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %q4, [%r14], %r11;
    @!%q4 bra LFULL;
{multiply_stage(STAGE_BYTES, 2, "0x10400490")}\
    tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%r15], %h1;
{next_stage(STAGES)}\
    bra MLOOP;
MDONE:
    add.u32 %r14, %r5, {16 * STAGES};
    tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%r14], %h1;
    bra LEND;
"""


def _epilogue() -> str:
    """Four warps of each CTA store its 128 rows, 16 columns at a time."""
    values = ", ".join(f"%v{i}" for i in range(16))
    stores = "\n".join(f"    st.global.b32 [%rd9+{4 * i}], %v{i};" for i in range(16))
    return f"""\
LEPI:
    add.u32 %r14, %r5, {16 * STAGES};
EWAIT:
    mbarrier.try_wait.parity.shared::cta.b64 %q4, [%r14], 0;
    @!%q4 bra EWAIT;
    tcgen05.fence::after_thread_sync;
    ld.param.u64 %rd7, [out];
    cvta.to.global.u64 %rd7, %rd7;
    and.b32 %r24, %r2, 3;
    shl.b32 %r25, %r24, 5;
    and.b32 %r26, %r1, 31;
    add.u32 %r25, %r25, %r26;
    add.u32 %r25, %r25, %r41;
    mul.wide.u32 %rd8, %r25, 1024;
    add.s64 %rd9, %rd7, %rd8;
    shl.b32 %r24, %r24, 21;
    add.u32 %r30, %r3, %r24;
    mov.u32 %r25, 0;
ELOOP:
    tcgen05.ld.sync.aligned.32x32b.x16.b32 {{{values}}}, [%r30];
    tcgen05.wait::ld.sync.aligned;
{stores}
    add.u32 %r30, %r30, 16;
    add.s64 %rd9, %rd9, 64;
    add.u32 %r25, %r25, 1;
    setp.lt.u32 %q4, %r25, 16;
    @%q4 bra ELOOP;
    tcgen05.fence::before_thread_sync;
"""


def _teardown() -> str:
    return """\
LEND:
    bar.warp.sync 0xffffffff;
    barrier.cluster.arrive.release.aligned;
    barrier.cluster.wait.acquire.aligned;
    setp.ne.u32 %q1, %r2, 1;
    @%q1 bra LEXIT;
    tcgen05.fence::after_thread_sync;
    tcgen05.dealloc.cta_group::2.sync.aligned.b32 %r3, 256;
LEXIT:
    ret;
}
"""
