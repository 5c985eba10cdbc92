"""Copies in flight: bulk loads and stores, cp.async, the async proxy."""

from .program import EXPECT, INIT, NO_PROXY, UNORDERED, Program, bulk_load, wait

PROGRAMS: dict[str, Program] = {}

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
PROGRAMS["a group behind which empty ones are committed"] = Program(
    """cp.async.ca.shared.global [%own], [%mine], 4;
    cp.async.commit_group;
    cp.async.commit_group;
    cp.async.commit_group;
    cp.async.wait_group 2;
    bar.sync 0;
    ld.shared.u32 %r1, [%other];""",
    {"waits for one group too few": ("wait_group 2", "wait_group 3", UNORDERED)},
)
