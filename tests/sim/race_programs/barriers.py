"""Hand-overs inside of a CTA: its barriers, mbarriers, rings of stages."""

from .program import EXPECT, HANGS, INIT, NO_VALUES, UNORDERED, Program, bulk_load, wait

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
    "add.u32 %r1, %tile, %t; st.shared.u8 [%r1], %t;\nbar.sync 0;\nld.shared.u8 %r2, [%r1];",
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
    @%w0 ld.shared.u16 %r2, [%r1+64];""",
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
        "waits for the other parity": ("[%bar], 0;\n@!%p7", "[%bar], 1;\n@!%p7", HANGS),
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
