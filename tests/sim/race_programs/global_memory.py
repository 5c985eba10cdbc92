"""Global memory that several CTAs share."""

from .program import NO_VALUES, UNORDERED, Program

PROGRAMS: dict[str, Program] = {}

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
# Two CTAs count, and the one that finds both sets the count back by an ordinary store.
SET_BACK = f"@%first st.global.u32 {FLAG}, 0;"
PROGRAMS["a count that is set back"] = Program(
    f"""bar.sync 0;
    @%first fence.acq_rel.gpu;
    @%first red.relaxed.gpu.global.add.u32 {FLAG}, 1;
    @%first st.release.gpu.global.u32 [%array+20480], 1;
    setp.eq.u32 %p1, %cta, 1; @%p1 bra END;
    WAIT: ld.acquire.gpu.global.u32 %r1, {FLAG};
    setp.lt.u32 %p2, %r1, 2; @%p2 bra WAIT;
    bar.sync 0; {SET_BACK}
    END:""",
    {
        "before it is complete": ("WAIT: ld", f"{SET_BACK} WAIT: ld", UNORDERED),
        "without having looked at it": (
            f"ld.acquire.gpu.global.u32 %r1, {FLAG};",
            "ld.relaxed.gpu.global.u32 %r1, [%array+20480]; mul.lo.u32 %r1, %r1, 2;",
            "",
        ),
    },
    grid=2,
)  # fmt: skip
# Both warps load each word, warp 0 stores it, rounds before warp 1 comes.
PROGRAMS["words that all warps load"] = Program(
    """mad.wide.u32 %rd1, %lane, 4, %array; xor.b32 %r2, %lane, 1; mad.wide.u32 %rd2, %r2, 4, %array;
    AGAIN: ld.global.u32 %r1, [%rd1]; add.u32 %r1, %r1, %r1; @%w0 st.global.u32 [%rd1], %r1;
    add.u64 %rd1, %rd1, 128; add.u32 %k, %k, 1; setp.lt.u32 %p1, %k, 20; @%p1 bra AGAIN;""",
    {
        "loaded by another lane": ("ld.global.u32 %r1, [%rd1]", "ld.global.u32 %r1, [%rd2]", UNORDERED),
        "loaded by another instruction": ("AGAIN: ld", "@%w0 ld.global.u32 %r1, [%rd1];\n AGAIN: @%w1 ld", UNORDERED),
        "once from elsewhere": (
            "[%rd1], %r1;",
            "[%rd1], %r1; setp.eq.u32 %p2, %k, 7; @%p2 st.global.u32 [%rd1+128], %r1;",
            UNORDERED,
        ),
    },
)
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
