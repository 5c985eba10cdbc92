"""Warps with roles of their own: who waits for whom, views of one buffer, groups in flight, and the life of barriers."""

from .matrix_units import AFTER, DESCRIPTORS, IDESC, SUMS
from .program import ANY, EXPECT, HANGS, NO_BARRIER, UNORDERED, Program, bulk_load, wait

PROGRAMS: dict[str, Program] = {}


def barriers(*counts: int) -> str:
    """One of each count, 8 bytes apart."""
    made = "".join(
        f"@%first mbarrier.init.shared::cta.b64 [%bar+{8 * number}], {count};\n" for number, count in enumerate(counts)
    )
    return made + "@%first fence.mbarrier_init.release.cluster;\nbar.sync 0;\n"


def role(warp: int, body: str) -> str:
    return f"setp.ne.u32 %p5, %warp, {warp}; @%p5 bra R{warp};\n{body}R{warp}:\n"


def at(number: int) -> str:
    return f"%bar+{8 * number}"


def arrive(number: int, warp: str = "") -> str:
    return f"bar.warp.sync 0xffffffff; @%leader mbarrier.arrive.shared::cta.b64 _, [{at(number)}]; // {warp}\n"


def load(number: int, place: str = "%tile", size: int = 128) -> str:
    return "@%leader " + EXPECT.format(at(number), size) + "@%leader " + bulk_load(place, "%array", size, at(number))


WORD = "mad.lo.u32 %r8, %lane, 4, {0};"
READ, WRITE = "ld.shared.u32 %r9, [%r8];\n", "st.shared.u32 [%r8], %t;\n"
FILL, LOOK = WORD.format("%tile") + WRITE, WORD.format("%tile") + READ

# ---- who waits for whom
_PRODUCER = FILL + arrive(0, "full") + wait(at(1), "0", "A") + FILL + arrive(0, "full again")
_CONSUMER = wait(at(0), "0", "B") + LOOK + arrive(1, "empty") + wait(at(0), "1", "C") + LOOK
PROGRAMS["one buffer, twice"] = Program(
    barriers(1, 1) + role(0, _PRODUCER) + role(1, _CONSUMER),
    {
        "each waits for the other": (FILL + arrive(0, "full"), wait(at(1), "0", "D") + FILL + arrive(0, "full"), HANGS),
        "the consumer tells itself": (arrive(1, "empty"), arrive(0, "empty"), ANY),
        "nobody tells the producer": (arrive(1, "empty"), "", HANGS),
        "a count of two": (f"[{at(1)}], 1;", f"[{at(1)}], 2;", HANGS),
        "the second phase is awaited first": (wait(at(0), "0", "B"), wait(at(0), "1", "B"), ANY),
        "the first phase is awaited twice": (wait(at(0), "1", "C"), wait(at(0), "0", "C"), ANY),
        "the producer does not wait": (wait(at(1), "0", "A"), "", UNORDERED),
        "told before it is read": (LOOK + arrive(1, "empty"), arrive(1, "empty") + LOOK, UNORDERED),
    },
)
_READER = wait(at(0), "0", "{0}") + LOOK + arrive(1, "reader {0}")
PROGRAMS["two readers of a loaded tile"] = Program(
    barriers(1, 2)
    + role(0, load(0) + wait(at(1), "0", "A") + load(0) + wait(at(0), "1", "B"))
    + role(1, _READER.format("C"))
    + role(2, _READER.format("D")),
    {
        "one of them is waited for": (f"[{at(1)}], 2;", f"[{at(1)}], 1;", ANY),
        "one does not answer": (arrive(1, "reader D"), "", HANGS),
        "one answers before it reads": (LOOK + arrive(1, "reader D"), arrive(1, "reader D") + LOOK, UNORDERED),
        "one does not wait": (wait(at(0), "0", "D"), "", UNORDERED),
        "three are expected": (f"[{at(1)}], 2;", f"[{at(1)}], 3;", HANGS),
    },
    threads=96,
)
PROGRAMS["a chain of partitions"] = Program(
    barriers(1, 1, 1)
    + role(0, FILL + arrive(0, "first") + wait(at(2), "0", "A") + LOOK)
    + role(1, wait(at(0), "0", "B") + FILL + arrive(1, "second"))
    + role(2, wait(at(1), "0", "C") + FILL + arrive(2, "third")),
    {
        "a circle": (FILL + arrive(0, "first") + wait(at(2), "0", "A"), wait(at(2), "0", "A") + FILL + arrive(0, "first"), HANGS),
        "one link is left out": (arrive(1, "second"), "", HANGS),
        "one goes ahead": (wait(at(1), "0", "C"), "", UNORDERED),
        "one waits for the first alone": (wait(at(1), "0", "C"), wait(at(0), "0", "C"), UNORDERED),
    },
    threads=96,
)
_PAIRS = (
    role(0, FILL + "bar.sync 1, 64;\n")
    + role(1, "bar.sync 1, 64;\n" + LOOK)
    + role(2, WORD.format("%tile+1024") + WRITE + "bar.sync 2, 64;\n")
    + role(3, "bar.sync 2, 64; // reads\n" + WORD.format("%tile+1024") + READ)
    + "bar.sync 0;\n"
)
PROGRAMS["two pairs at barriers of their own"] = Program(
    _PAIRS.replace("%tile+1024", "%r7").replace("setp", "add.u32 %r7, %tile, 1024; setp", 1),
    {
        "one waits at the other pair's": ("bar.sync 2, 64; // reads", "bar.sync 1, 64;", ANY),
        "three warps are expected": ("bar.sync 2, 64;\nR2", "bar.sync 2, 96;\nR2", ANY),
        "one does not come": ("bar.sync 2, 64; // reads", "", UNORDERED),
        "it has read before": ("bar.sync 1, 64;\n" + LOOK, LOOK + "bar.sync 1, 64;\n", UNORDERED),
    },
    threads=128,
)
PROGRAMS["a partition that ends early"] = Program(
    barriers(2)
    + role(0, FILL + arrive(0, "zero") + "bra END;\n")
    + role(1, arrive(0, "one") + wait(at(0), "0", "A") + LOOK)
    + "END:\n",
    {
        "and says nothing": (arrive(0, "zero"), "", HANGS),
        "and writes afterwards": (FILL + arrive(0, "zero"), arrive(0, "zero") + FILL, UNORDERED),
    },
)
_MEET = "L: bar.warp.sync 0xffffffff; bar.sync 0;"
_ALONE = "setp.ne.u32 %p1, %t, 31; @%p1 bra L; mbarrier.init.shared::cta.b64 [%bar], 1; "
PROGRAMS["half a warp"] = Program(
    f"setp.lt.u32 %p1, %lane, 16; @%p1 bra L;\nst.shared.u32 [%own], %t;\n{_MEET}\nld.shared.u32 %r1, [%other];\n",
    {
        "does not come to the barrier": (_MEET, "bar.sync 0; L:", ANY),
        "waits for ever": (_MEET, _ALONE + wait("%bar", "0", "W") + _MEET, HANGS),
    },
)

# ---- views of one buffer
_VIEWS = "add.u32 %r10, %tile, 256; add.u32 %r11, %tile, 384;\n"
PROGRAMS["views that lie side by side"] = Program(
    barriers(1, 1)
    + _VIEWS
    + role(0, load(0, "%r10") + wait(at(0), "0", "A") + WORD.format("%r10") + READ)
    + role(1, WORD.format("%r11") + WRITE + WORD.format("%r11") + READ),
    {
        "they overlap": ("%r11, %tile, 384;", "%r11, %tile, 352;", UNORDERED),
        "they overlap by one word": ("%r11, %tile, 384;", "%r11, %tile, 380;", UNORDERED),
        "one is the other": ("%r11, %tile, 384;", "%r11, %tile, 256;", UNORDERED),
        "the load is larger": (load(0, "%r10"), load(0, "%r10", 144), UNORDERED),
    },
)
_COPY_OUT = "@%leader cp.async.bulk.global.shared::cta.bulk_group [%array], [%tile], 128; @%leader cp.async.bulk.commit_group;\n"
_STAGED = FILL + "fence.proxy.async.shared::cta; bar.warp.sync 0xffffffff;\n"
PROGRAMS["read while it is stored"] = Program(
    barriers(1) + role(0, _STAGED + arrive(0, "staged") + _COPY_OUT + "@%leader cp.async.bulk.wait_group 0;\n")
    + role(1, wait(at(0), "0", "A") + LOOK + "st.shared.u32 [%r8+128], %t;\n"),
    {
        "and written through another view": ("st.shared.u32 [%r8+128]", "st.shared.u32 [%r8+124]", UNORDERED),
        "before it is staged": (wait(at(0), "0", "A"), "", UNORDERED),
    },
)  # fmt: skip
PROGRAMS["stored, then loaded into"] = Program(
    barriers(1)
    + role(0, _STAGED + _COPY_OUT + "@%leader cp.async.bulk.wait_group.read 0;\n" + load(0).replace("[%array]", "[%array+4096]")
           + wait(at(0), "0", "A") + "@%leader cp.async.bulk.wait_group 0;\n"),
    {
        "while the store reads": ("@%leader cp.async.bulk.wait_group.read 0;\n", "", UNORDERED),
        "while one store may read": ("wait_group.read 0", "wait_group.read 1", UNORDERED),
        "from what the store writes": ("[%array+4096]", "[%array+64]", UNORDERED),
    },
)  # fmt: skip
PROGRAMS["two loads, two barriers"] = Program(
    barriers(1, 1)
    + role(0, load(0) + load(1, "%tile+128"))
    + role(1, wait(at(0), "0", "A") + wait(at(1), "0", "B") + LOOK + "ld.shared.u32 %r9, [%r8+128];\n"),
    {
        "into one place": (load(1, "%tile+128"), load(1).replace("[%array]", "[%array+128]"), UNORDERED),
        "one of them is waited for": (wait(at(1), "0", "B"), "", UNORDERED),
        "one barrier is waited for twice": (wait(at(1), "0", "B"), wait(at(0), "0", "B"), UNORDERED),
        "both count on one": (bulk_load("%tile+128", "%array", 128, at(1)), bulk_load("%tile+128", "%array", 128, at(0)), ANY),
        "twice as many bytes are announced": (EXPECT.format(at(1), 128), EXPECT.format(at(1), 256), HANGS),
    },
)
_ANNOUNCED, _COPIED = "@%leader " + EXPECT.format(at(0), 128), "@%leader " + bulk_load("%tile", "%array", 128, at(0))
PROGRAMS["announced by one partition, copied by another"] = Program(
    barriers(2) + role(0, _ANNOUNCED + wait(at(0), "0", "A") + LOOK) + role(1, _COPIED + arrive(0, "copied")),
    {
        "copied twice": (_COPIED, 2 * _COPIED, ANY),
        "not announced": (_ANNOUNCED, arrive(0, "announced"), ANY),
    },
)

# ---- groups in flight
_STAGES = "mad.lo.u32 %r2, %t, 4, %tile; xor.b32 %r3, %t, 32; mad.lo.u32 %r3, %r3, 4, %tile;\n"
_GROUP = "cp.async.ca.shared.global [%r2+{0}], [%mine], 4; cp.async.commit_group; // {0}\n"
PROGRAMS["three groups, the oldest is read"] = Program(
    _STAGES + "".join(_GROUP.format(stage) for stage in (0, 1024, 2048))
    + "cp.async.wait_group 2;\nbar.sync 0;\nld.shared.u32 %r1, [%r3];\n",
    {
        "a group further": ("[%r3];", "[%r3+1024];", UNORDERED),
        "one commit fewer": ("cp.async.commit_group; // 0", "// 0", UNORDERED),
        "all three may be in flight": ("wait_group 2", "wait_group 3", UNORDERED),
        "each waits after the barrier": ("cp.async.wait_group 2;\nbar.sync 0;", "bar.sync 0;\ncp.async.wait_group 2;", UNORDERED),
    },
)  # fmt: skip

# ---- tensor memory
ALLOCATED = "add.u32 %r20, %tile, 16384;\n@%w0 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r20], 64;\n"
_MMA = f"mov.u32 %r23, {IDESC}; tcgen05.mma.cta_group::1.kind::f16 [{{0}}], %rd5, %rd6, %r23, %p6;\n"
_COMMIT = "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [{0}];\n"
_LOAD = "shl.b32 %r24, %warp, 21; add.u32 %r25, {0}, %r24;\ntcgen05.ld.sync.aligned.32x32b.x16.b32 {{" + SUMS + "}}, [%r25];\n"
_LOADED = "@%first " + EXPECT.format(at(0), 5120) + "@%first " + bulk_load("%tile", "%array", 5120, at(0))
_SECOND = "@%first " + EXPECT.format(at(3), 5120) + "@%first " + bulk_load("%tile+8192", "%array", 5120, at(3))
_ISSUED = (
    "@!%first bra ON;\n" + wait(at(0), "0", "A") + AFTER + _MMA.format("%r21") + _COMMIT.format(at(1)) + wait(at(3), "0", "D")
    + "add.s64 %rd5, %rd5, 512; add.s64 %rd6, %rd6, 512;\n" + _MMA.format("%r26") + _COMMIT.format(at(2)) + "ON: "
)  # fmt: skip
_WAITED, _FREED = (
    "tcgen05.wait::ld.sync.aligned;\n",
    "bar.sync 0;\n@%w0 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r21, 64;\n",
)
_BEFORE = "tcgen05.fence::before_thread_sync;\n"
PROGRAMS["two accumulators"] = Program(
    DESCRIPTORS.format(upper=0x4010) + ALLOCATED + barriers(1, 1, 1, 1) + _LOADED + _SECOND
    + "ld.shared.u32 %r21, [%r20]; add.u32 %r26, %r21, 32;\n"
    + _ISSUED + wait(at(1), "0", "B") + AFTER + _LOAD.format("%r21") + _WAITED + "@%first " + EXPECT.format(at(0), 5120)
    + "@%first " + bulk_load("%tile", "%array", 5120, at(0)) + wait(at(2), "0", "C") + AFTER + _LOAD.format("%r26") + _WAITED + _BEFORE
    + wait(at(0), "1", "E") + _FREED,
    {
        "the second one is read after the first commit": (wait(at(2), "0", "C"), "", UNORDERED),
        "they are one": ("%r26, %r21, 32;", "%r26, %r21, 0;", "no wait for a tcgen05.commit"),
        "one operand is loaded again too early": ("@%first " + bulk_load("%tile", "%array", 5120, at(0)) + wait(at(2), "0", "C"),
                                                  "@%first " + bulk_load("%tile+8192", "%array", 5120, at(0)) + wait(at(2), "0", "C"),
                                                  UNORDERED),
        "both commits to one barrier": (_COMMIT.format(at(2)), _COMMIT.format(at(1)), HANGS),
        "the first product is committed with the second": (_COMMIT.format(at(1)) + wait(at(3), "0", "D"), wait(at(3), "0", "D"), HANGS),
        "no wait for the second operand": (wait(at(3), "0", "D"), "", UNORDERED),
    },
    threads=128,
    target="sm_100a",
)  # fmt: skip

# ---- the life of barriers
_USED = load(0) + wait(at(0), "0", "A") + LOOK
_ARRIVED = "@%first mbarrier.arrive.shared::cta.b64 _, [%bar];\n"
_WRITTEN = "@%first st.shared.u64 [%bar], 0;\n"
_GIVEN_UP = "bar.sync 0;\n@%first mbarrier.inval.shared::cta.b64 [%bar];"
PROGRAMS["a barrier is given up, and its memory used"] = Program(
    barriers(1) + role(0, _USED) + role(1, wait(at(0), "0", "B")) + _GIVEN_UP + "\nbar.sync 0;\n" + _WRITTEN,
    {
        "while bytes are under way": (wait(at(0), "0", "A"), "", ANY),
        "and used afterwards": (_WRITTEN, _ARRIVED, NO_BARRIER),
        "and waited for afterwards": (_WRITTEN, wait("%bar", "0", "C"), NO_BARRIER),
        "before the others have seen its phase": (_GIVEN_UP, _GIVEN_UP.replace("bar.sync 0;\n", ""), ANY),
    },
)
_ANEW = "@%first mbarrier.init.shared::cta.b64 [%bar], 1;\n"
_AGAIN = "@%first " + EXPECT.format("%bar", 128) + "@%first " + bulk_load("%tile", "%array", 128, "%bar") + wait("%bar", "0", "C")
PROGRAMS["a barrier is made anew"] = Program(
    barriers(1) + _USED.replace("@%leader", "@%first") + "bar.sync 0;\n" + _ANEW + "bar.sync 1;\n" + _AGAIN + LOOK,
    {
        "while others wait": ("bar.sync 0;\n" + _ANEW, _ANEW, ANY),
        "and used before the others know": (_ANEW + "bar.sync 1;\n", _ANEW, UNORDERED),
        "for two": (_ANEW + "bar.sync 1;", _ANEW.replace("], 1;", "], 2;") + "bar.sync 1;", HANGS),
    },
)
_TOLD = "@%leader " + EXPECT.format(at(0), 128)
PROGRAMS["a barrier beside a tile"] = Program(
    barriers(1) + role(0, load(0) + wait(at(0), "0", "A") + LOOK + "st.shared.u32 [%bar+8], 1;\n"),
    {
        "a store over it": ("st.shared.u32 [%bar+8], 1;", _TOLD + "st.shared.u32 [%bar], 1;", ANY),
        "a copy over it": (load(0), _TOLD + "@%leader " + bulk_load("%bar+-112", "%array", 128, at(0)), ANY),
        "it is not initialised": ("[%bar+0], 1;", "[%bar+16], 1;", NO_BARRIER),
    },
)
