"""CTAs of a cluster: memory and barriers of the neighbour's, multicast."""

from .program import CLUSTER_SYNC, EXPECT, INIT, NO_VALUES, RELAXED, RELAXED_SYNC, UNORDERED, Program, wait

PROGRAMS: dict[str, Program] = {}

NEIGHBOUR = "xor.b32 %r5, %rank, 1; mapa.shared::cluster.u32 %r6, %own, %r5; mapa.shared::cluster.u32 %r7, %bar, %r5;\n"
PROGRAMS["words of the neighbour"] = Program(
    NEIGHBOUR + "st.shared.u32 [%own], %rank;\n" + CLUSTER_SYNC + "ld.shared::cluster.u32 %r1, [%r6];\n" + CLUSTER_SYNC
    + "st.shared.u32 [%own], 0;\n" + CLUSTER_SYNC,
    {
        "no cluster barrier": (CLUSTER_SYNC, "", UNORDERED),
        "relaxed arrival": ("barrier.cluster.arrive.aligned", "barrier.cluster.arrive.relaxed.aligned", NO_VALUES),
        "relaxed arrival behind the loads": ("[%r6];\n" + CLUSTER_SYNC, "[%r6];\n" + RELAXED_SYNC, RELAXED),
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
        "awaited at CTA scope": (".parity.acquire.cluster.", ".parity.acquire.cta.", NO_VALUES),
        "awaited without a scope": (".parity.acquire.cluster.", ".parity.", NO_VALUES),
        "awaited relaxed": (".parity.acquire.cluster.", ".parity.relaxed.cluster.", NO_VALUES),
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

STORED = """mad.wide.u32 %rd9, %rank, 256, %array;
st.shared.u32 [%own], %t; fence.proxy.async; bar.sync 0;
@%first cp.async.bulk.global.shared::cta.bulk_group [%rd9+4096], [%tile], 256;
@%first cp.async.bulk.commit_group; @%first cp.async.bulk.wait_group 0;
"""
PROGRAMS["stored by each, then loaded for both"] = Program(
    ".reg .b16 %h; mov.u16 %h, 3; setp.eq.u32 %p1, %rank, 0; and.pred %p1, %p1, %first;\n" + INIT.format(1, 1)
    + "@%first " + EXPECT.format("%bar", 256) + STORED + CLUSTER_SYNC + "@%p1 " + MULTICAST + wait("%bar", "0", "W") + CLUSTER_SYNC,
    {
        "relaxed arrival": (CLUSTER_SYNC, RELAXED_SYNC, RELAXED),
        "no wait for the store": ("@%first cp.async.bulk.wait_group 0;", "", UNORDERED),
    },
    grid=2,
    cluster=2,
)  # fmt: skip
