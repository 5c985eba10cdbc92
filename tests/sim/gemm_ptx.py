"""A hand-written warp-specialised GEMM for sm_100a: TMA warp, MMA warp, four epilogue warps, 128x256 tile, bf16."""

from __future__ import annotations

import json

from .gemm_parts import allocate, barriers_of_stage, init_barriers, multiply_stage, next_stage

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


def gemm_ptx(expected_bytes: int = STAGE_BYTES, commit_empty: bool = True, dealloc: bool = True, wait_full: bool = True) -> str:
    """PTX text; the switches break it in known ways."""
    parts = (_head(), _setup(), _load(expected_bytes), _multiply(commit_empty, wait_full), _epilogue(), _teardown(dealloc))
    return "".join(parts)


def _head() -> str:
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
"""


def _setup() -> str:
    """Tile of the CTA, barriers, tensor memory; then each warp goes to its role."""
    return f"""\
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
{init_barriers(STAGES)}{allocate(STAGES, 1)}\
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

"""


def _load(expected_bytes: int) -> str:
    return f"""\
LLOAD:
    .loc 1 20 9
    elect.sync _|%q3, 0xffffffff;
    @!%q3 bra LEND;
    mov.u32 %r10, 0;
    mov.u32 %r11, 1;
    mov.u32 %r12, 0;
LLOOP:
{barriers_of_stage(STAGES, "LEND")}\
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
{next_stage(STAGES)}\
    bra LLOOP;

"""


_WAIT_FULL = """
LFULL:
    mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 %q4, [%r14], %r11;
    @!%q4 bra LFULL;"""


def _multiply(commit_empty: bool, wait_full: bool) -> str:
    commit = "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r15];" if commit_empty else ""
    return f"""\
LMMA:
    .loc 1 30 9
    elect.sync _|%q3, 0xffffffff;
    @!%q3 bra LEND;
    mov.u32 %r10, 0;
    mov.u32 %r11, 0;
    mov.u32 %r12, 0;
    setp.ne.u32 %q5, 0, 0;
MLOOP:
{barriers_of_stage(STAGES, "MDONE")}\
    .loc 1 32 13{_WAIT_FULL if wait_full else ""}
{multiply_stage(STAGE_BYTES, 1, "0x08400490")}\
    {commit}
{next_stage(STAGES)}\
    bra MLOOP;
MDONE:
    add.u32 %r14, %r5, {16 * STAGES};
    tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r14];
    bra LEND;

"""


def _epilogue() -> str:
    """Four warps: tensor memory to registers to bf16 in global memory, 32 columns at a time."""
    registers = ", ".join(f"%v{i}" for i in range(32))
    packs = "\n".join(f"    cvt.rn.bf16x2.f32 %p{i}, %w{2 * i + 1}, %w{2 * i};" for i in range(16))
    moves = "\n".join(f"    mov.b32 %w{i}, %v{i};" for i in range(32))
    stores = "\n".join(
        f"    st.global.v4.b32 [%rd9+{16 * i}], {{%p{4 * i}, %p{4 * i + 1}, %p{4 * i + 2}, %p{4 * i + 3}}};" for i in range(4)
    )
    return f"""\
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
    tcgen05.ld.sync.aligned.32x32b.x32.b32 {{{registers}}}, [%r30];
    tcgen05.wait::ld.sync.aligned;
{moves}
{packs}
{stores}
    add.u32 %r30, %r30, 32;
    add.s64 %rd9, %rd9, 64;
    add.u32 %r25, %r25, 1;
    setp.lt.u32 %q4, %r25, 8;
    @%q4 bra ELOOP;
    tcgen05.fence::before_thread_sync;

"""


def _teardown(dealloc: bool) -> str:
    release = "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r3, 256;" if dealloc else ""
    return f"""\
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
