"""What hand-written tcgen05 GEMMs have in common: barriers of a ring of stages in shared memory, full ones first, and walking over it.

%r4 and %r5 are the addresses of the stages and of the barriers, %r10 the stage, %r11 its parity, %r12 the block of K, %r6 their number.
"""


def init_barriers(stages: int) -> str:
    """Thread 0: full and empty barriers of each stage, and one of the accumulator."""
    return f"""\
    setp.ne.u32 %q1, %r1, 0;
    @%q1 bra LINIT;
    mov.u32 %r9, 0;
LBAR:
    shl.b32 %r10, %r9, 3;
    add.u32 %r10, %r10, %r5;
    mbarrier.init.shared::cta.b64 [%r10], 1;
    add.u32 %r9, %r9, 1;
    setp.lt.u32 %q2, %r9, {2 * stages + 1};
    @%q2 bra LBAR;
    fence.mbarrier_init.release.cluster;
LINIT:
    bar.warp.sync 0xffffffff;
"""


def allocate(stages: int, group: int) -> str:
    """Warp 1 allocates 256 columns of tensor memory; their address comes to stand behind the barriers."""
    return f"""\
    setp.ne.u32 %q1, %r2, 1;
    @%q1 bra LALLOC;
    add.u32 %r10, %r5, {8 * (2 * stages + 1)};
    tcgen05.alloc.cta_group::{group}.sync.aligned.shared::cta.b32 [%r10], 256;
    tcgen05.relinquish_alloc_permit.cta_group::{group}.sync.aligned;
LALLOC:
    tcgen05.fence::before_thread_sync;
"""


def barriers_of_stage(stages: int, done: str) -> str:
    """Leaves the loop behind the last block; %r14 and %r15 are the full and the empty barrier of the stage."""
    return f"""\
    setp.ge.u32 %q4, %r12, %r6;
    @%q4 bra {done};
    shl.b32 %r13, %r10, 3;
    add.u32 %r14, %r5, %r13;
    add.u32 %r15, %r14, {8 * stages};
"""


def next_stage(stages: int) -> str:
    return f"""\
    add.u32 %r12, %r12, 1;
    add.u32 %r10, %r10, 1;
    setp.eq.u32 %q4, %r10, {stages};
    selp.b32 %r10, 0, %r10, %q4;
    selp.b32 %r19, 1, 0, %q4;
    xor.b32 %r11, %r11, %r19;
"""


def multiply_stage(stage_bytes: int, group: int, instruction: str) -> str:
    """Four steps of K = 16 over a stage whose operands lie 16 KiB apart, with a swizzle of 128 bytes."""
    steps = "\n".join(
        f"""    add.s64 %rd5, %rd3, {2 * step};
    add.s64 %rd6, %rd4, {2 * step};
    tcgen05.mma.cta_group::{group}.kind::f16 [%r3], %rd5, %rd6, {instruction}, %q5;
    setp.eq.u32 %q5, 0, 0;"""
        for step in range(4)
    )
    return f"""\
    tcgen05.fence::after_thread_sync;
    mul.lo.u32 %r16, %r10, {stage_bytes};
    add.u32 %r16, %r16, %r4;
    and.b32 %r16, %r16, 0x3ffff;
    shr.u32 %r16, %r16, 4;
    cvt.u64.u32 %rd3, %r16;
    or.b64 %rd3, %rd3, 0x4000404000000000;
    add.s64 %rd4, %rd3, 1024;
{steps}
"""
