"""mbarrier programs: every operation in stated and in random orders, with what tests and tokens say after each step."""

from collections.abc import Callable, Iterator

import numpy as np
from silicon.program import CLUSTER_SYNC, Buffer, Program, dump, first_thread, generator, init, poison, put, wait

LARGEST = (1 << 20) - 1


class Trace:
    """Operations of one thread on the mbarrier at %r0, each followed by what can be seen: parities and tokens in p0."""

    def __init__(self) -> None:
        self.lines = ["mov.u32 %r0, smem; ld.param.u64 %rd0, [p0];"]
        self.results = 0

    def do(self, *lines: str) -> "Trace":
        self.lines += lines
        return self

    def record(self, register: str) -> "Trace":
        self.lines.append(f"st.global.b32 [%rd0+{4 * self.results}], {register};")
        self.results += 1
        return self

    def predicate(self, text: str) -> "Trace":
        """`text` sets %p1."""
        return self.do(text, "selp.u32 %r1, 1, 0, %p1;").record("%r1")

    def look(self) -> "Trace":
        for parity in (0, 1):
            self.predicate(f"mbarrier.test_wait.parity.shared::cta.b64 %p1, [%r0], {parity};")
        return self

    def token(self, text: str) -> "Trace":
        """`text` leaves a token in %rd1; its lower half is not specified."""
        return self.do(text, "mov.b64 {%r2, %r3}, %rd1;").record("%r3")

    def init(self, count: int) -> "Trace":
        return self.do(f"mbarrier.init.shared::cta.b64 [%r0], {count};").look()

    def arrive(self, count: int | None = None, form: str = "") -> "Trace":
        # The assembler refuses a count of 0, which a register can hold.
        operand = "" if count is None else f", {count or '%r7'}"
        return self.token(f"mov.u32 %r7, %ctaid.y; mbarrier.arrive{form}.shared::cta.b64 %rd1, [%r0]{operand};").look()

    def drop(self, count: int | None = None, form: str = "") -> "Trace":
        operand = "" if count is None else f", {count}"
        return self.token(f"mbarrier.arrive_drop{form}.shared::cta.b64 %rd1, [%r0]{operand};").look()

    def expect(self, count: int) -> "Trace":
        return self.do(f"mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r0], {count};").look()

    def complete(self, count: int) -> "Trace":
        return self.do(f"mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%r0], {count};").look()

    def pending(self) -> "Trace":
        """Arrivals pending when the last token was taken."""
        return self.do("mbarrier.pending_count.b64 %r1, %rd1;").record("%r1")

    def program(self, name: str) -> Program:
        out = np.full(max(1, self.results), 0xFFFFFFFF, np.uint32)
        return Program(f"mbarrier_{name}", first_thread("\n".join(self.lines)), (Buffer(out, True),), threads=32, shared=64)


def _many_phases(trace: Trace) -> Trace:
    """300 phases of one barrier, with the parity after each."""
    trace.init(1).do("mov.u32 %r5, 0; mov.u32 %r6, 0;")
    trace.do("again: mbarrier.arrive.shared::cta.b64 %rd1, [%r0];", "mbarrier.test_wait.parity.shared::cta.b64 %p1, [%r0], 0;")
    trace.do("selp.u32 %r1, 1, 0, %p1; mad.lo.u32 %r6, %r6, 3, %r1; add.u32 %r5, %r5, 1;")
    return trace.do("setp.lt.u32 %p2, %r5, 300; @%p2 bra again;").record("%r6").look()


def _old_tokens(trace: Trace) -> Trace:
    """A token of phase 0, asked after in phases 1, 2 and 3."""
    trace.init(2).token("mbarrier.arrive.shared::cta.b64 %rd1, [%r0];").do("mov.b64 %rd5, %rd1;")
    for _ in range(6):
        for kind in ("test_wait", "try_wait"):
            trace.predicate(f"mbarrier.{kind}.shared::cta.b64 %p1, [%r0], %rd5;")
        trace.arrive()
    return trace


def _wide_parity(trace: Trace) -> Trace:
    trace.init(1)
    for _ in range(2):
        for parity in (0, 1, 2, 3, 0xFFFFFFFE, 0xFFFFFFFF):
            trace.predicate(f"mov.u32 %r4, {parity}; mbarrier.test_wait.parity.shared::cta.b64 %p1, [%r0], %r4;")
        trace.arrive()
    return trace


def _wait_forms(trace: Trace) -> Trace:
    trace.init(1).token("mbarrier.arrive.shared::cta.b64 %rd1, [%r0];")
    for kind in ("test_wait", "try_wait"):
        for order in ("", ".acquire.cta", ".acquire.cluster", ".relaxed.cta", ".relaxed.cluster"):
            for parity in (0, 1):
                trace.predicate(f"mbarrier.{kind}.parity{order}.shared::cta.b64 %p1, [%r0], {parity};")
            trace.predicate(f"mbarrier.{kind}{order}.shared::cta.b64 %p1, [%r0], %rd1;")
    for hint in (0, 1000):
        for parity in (0, 1):
            trace.predicate(f"mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r0], {parity}, {hint};")
    trace.do("cvt.u64.u32 %rd6, %r0; cvta.shared.u64 %rd6, %rd6;")
    return trace.predicate("mbarrier.test_wait.parity.b64 %p1, [%rd6], 0;")


def _reuse(trace: Trace) -> Trace:
    """Invalidated, used as data, initialised anew with another count."""
    trace.init(3).arrive().do("mbarrier.inval.shared::cta.b64 [%r0];")
    trace.do("mov.u32 %r4, 0x12345678; st.shared.b32 [%r0], %r4; ld.shared.b32 %r1, [%r0];").record("%r1")
    trace.init(2).arrive(2).arrive().do("mbarrier.inval.shared::cta.b64 [%r0];")
    return trace.init(1).arrive(1, ".expect_tx").complete(1)


def _beside(trace: Trace) -> Trace:
    """Eight barriers in one line of shared memory do not touch one another."""
    trace.do("mov.u32 %r7, %ctaid.y;")
    for number in range(8):
        trace.do(f"mbarrier.init.shared::cta.b64 [%r0+{8 * number}], {number + 1};")
    for number in range(8):
        for _ in range(number % 3):
            trace.token(f"mbarrier.arrive.noComplete.shared::cta.b64 %rd1, [%r0+{8 * number}], %r7;")
        trace.token(f"mbarrier.arrive.shared::cta.b64 %rd1, [%r0+{8 * number}], {1 + number % 2};").pending()
    for number in range(8):
        trace.predicate(f"mbarrier.test_wait.parity.shared::cta.b64 %p1, [%r0+{8 * number}], %r7;")
    return trace


SEQUENCES: dict[str, Callable[[Trace], Trace]] = {
    "arrivals": lambda t: t.init(3).arrive().arrive(2).arrive(0).arrive(3).arrive(form=".release.cta").arrive(1, ".relaxed.cta"),
    "no_complete": lambda t: t.init(5).arrive(2, ".noComplete").pending().arrive(1, ".noComplete").pending().arrive().pending(),
    "expect_then_bytes": lambda t: (
        t.init(1).arrive(96, ".expect_tx").complete(32).complete(64).arrive(16, ".expect_tx").complete(16)
    ),
    "bytes_before_expect": lambda t: t.init(2).complete(48).arrive().arrive(48, ".expect_tx").complete(8).expect(8).arrive(2),
    "late_expect_ends_phase": lambda t: t.init(1).complete(64).arrive().expect(32).expect(32).arrive(),
    "drops": lambda t: t.init(6).drop().drop(2).arrive(3).arrive(3).drop(40, ".expect_tx").complete(40).arrive(2).arrive(2),
    "drop_no_complete": lambda t: t.init(4).drop(1, ".noComplete").pending().arrive(3).pending().arrive(3),
    "largest_counts": lambda t: t.init(LARGEST).arrive(LARGEST - 1).expect(LARGEST).arrive().complete(LARGEST).arrive(LARGEST),
    "most_bytes_early": lambda t: t.init(2).complete(LARGEST).arrive().expect(LARGEST - 1).expect(1).arrive(),
    "many_phases": _many_phases,
    "old_tokens": _old_tokens,
    "wide_parity": _wide_parity,
    "wait_forms": _wait_forms,
    "reuse": _reuse,
    "beside": _beside,
}


def _random(name: str, steps: int = 48) -> Trace:
    """Operations in random order, kept defined: no more arrivals than pending, at least one participant left."""
    random, trace = generator(name), Trace()
    expected = pending = int(random.integers(2, 9))
    tx = 0
    trace.init(expected)
    for _ in range(steps):
        if pending == 0 or (tx and random.random() < 0.3):
            count = abs(tx) if random.random() < 0.6 else int(random.integers(1, abs(tx) + 1))
            (trace.complete if tx > 0 else trace.expect)(count)
            tx -= count if tx > 0 else -count
        else:
            kind, count = (
                str(random.choice(["arrive", "expect", "complete", "arrive_expect", "drop"])),
                int(random.integers(1, pending + 1)),
            )
            size = int(random.integers(1, 1 << 16))
            if kind == "arrive":
                trace.arrive(count)
                pending -= count
            elif kind == "drop" and expected > 2:
                trace.drop()
                pending, expected = pending - 1, expected - 1
            elif kind == "arrive_expect":
                trace.arrive(size, ".expect_tx")
                pending, tx = pending - 1, tx + size
            elif kind == "expect":
                trace.expect(size)
                tx += size
            else:
                trace.complete(size)
                tx -= size
        if pending == 0 and tx == 0:
            pending = expected
    # A block must not end with bytes outstanding.
    return trace.complete(tx) if tx > 0 else trace.expect(-tx) if tx else trace


def _remote() -> Program:
    """CTA 1 works on a barrier of CTA 0, which looks after each step."""
    steps = [
        "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r1];",
        "mbarrier.arrive.relaxed.cluster.shared::cluster.b64 _, [%r1], 2;",
        "mbarrier.arrive.expect_tx.release.cluster.shared::cluster.b64 _, [%r1], 64;",
        "mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [%r1], 64;",
        "mbarrier.expect_tx.relaxed.cluster.shared::cluster.b64 [%r1], 32;",
        "mbarrier.arrive_drop.release.cluster.shared::cluster.b64 _, [%r1];",
        "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r1], 3;",
        "mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [%r1], 32;",
        "mbarrier.arrive_drop.expect_tx.release.cluster.shared::cluster.b64 _, [%r1], 8;",
        "mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [%r1], 8;",
    ]
    trace = Trace()
    head = (
        "mov.u32 %r9, %cluster_ctarank; setp.eq.u32 %p9, %r9, 0; setp.eq.u32 %p10, %r9, 1; mapa.shared::cluster.u32 %r1, %r0, 0;"
    )
    lines = [
        *trace.lines,
        head,
        "@%p9 mbarrier.init.shared::cta.b64 [%r0], 4; fence.mbarrier_init.release.cluster;",
        CLUSTER_SYNC,
    ]
    place = 0
    for step in steps:
        lines += [f"@%p10 {step}", CLUSTER_SYNC, "@!%p9 bra skip_" + str(place) + ";"]
        lines += [
            "mbarrier.arrive.shared::cta.b64 %rd1, [%r0], %r7; mov.b64 {%r2, %r3}, %rd1;",
            f"st.global.b32 [%rd0+{4 * place}], %r3;",
        ]
        for parity in (0, 1):
            place += 1
            lines += [f"mbarrier.test_wait.parity.shared::cta.b64 %p1, [%r0], {parity}; selp.u32 %r4, 1, 0, %p1;"]
            lines += [f"st.global.b32 [%rd0+{4 * place}], %r4;"]
        lines += [f"skip_{place - 2}:", CLUSTER_SYNC]
        place += 1
    body = "mov.u32 %r7, %ctaid.y;\n" + "\n".join(lines)
    return Program(
        "mbarrier_remote",
        body,
        (Buffer(np.zeros(place, np.uint32), True),),
        threads=1,
        grid=(2, 1, 1),
        cluster=(2, 1, 1),
        shared=64,
    )


def _bulk_bytes(name: str, expects_first: bool, pieces: tuple[int, ...]) -> Program:
    """Bulk copies complete a phase whose bytes were announced before or after them; data, phases and parities are kept."""
    total = sum(pieces)
    data = generator(name).integers(0, 256, total, np.uint8)
    copies, at = [], 0
    for size in pieces:
        copies.append(
            f"add.u32 %r2, %r1, {at}; add.u64 %rd2, %rd1, {at};\n"
            f"cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%rd2], {size}, [%r0];"
        )
        at += size
    announce = [f"mbarrier.arrive.expect_tx.shared::cta.b64 %rd3, [%r0], {total};"]
    order = announce + copies if expects_first else copies + announce
    lines = "\n".join([init("%r0", 1), *order])
    look = "mbarrier.test_wait.parity.shared::cta.b64 %p1, [%r0], 0; selp.u32 %r5, 1, 0, %p1;\n"
    look += "mbarrier.test_wait.parity.shared::cta.b64 %p1, [%r0], 1; selp.u32 %r6, 1, 0, %p1; mad.lo.u32 %r5, %r5, 2, %r6;\n"
    body = "mov.u32 %r0, smem; add.u32 %r1, %r0, 128; ld.param.u64 %rd1, [p0];\n" + poison(total + 128)
    body += first_thread(lines) + wait("%r0", 0) + look + put(2, "%r5") + dump(1, total, offset=128)
    return Program(
        name,
        body,
        (Buffer(data), Buffer(np.zeros(total, np.uint8), True), Buffer(np.zeros(128, np.uint32), True)),
        shared=total + 128,
    )


def _copies_arrive(name: str, counted: bool) -> Program:
    """cp.async.mbarrier.arrive of a warp: with .noinc 32 arrivals, without it one more arrival is needed."""
    data = generator(name).integers(0, 256, 512, np.uint8)
    form, count = (".noinc", 32) if counted else ("", 1)
    body = "mov.u32 %r0, smem; mov.u32 %r1, %tid.x; mad.lo.u32 %r2, %r1, 16, %r0; ld.param.u64 %rd1, [p0]; "
    body += "mad.wide.u32 %rd1, %r1, 16, %rd1;\n"
    body += first_thread(init("%r0+512", count))
    body += f"cp.async.cg.shared.global [%r2], [%rd1], 16; cp.async.mbarrier.arrive{form}.shared.b64 [%r0+512]; bar.sync 0;\n"
    if not counted:
        body += first_thread("mbarrier.arrive.shared::cta.b64 %rd2, [%r0+512];")
    body += wait("%r0+512", 0) + dump(1, 512, threads=32)
    return Program(name, body, (Buffer(data), Buffer(np.zeros(512, np.uint8), True)), threads=32, shared=1024)


def programs() -> Iterator[Program]:
    for name, sequence in SEQUENCES.items():
        yield sequence(Trace()).program(name)
    for number in range(12):
        yield _random(f"random_{number}").program(f"random_{number}")
    yield _remote()
    yield _bulk_bytes("mbarrier_bulk_announced", True, (16, 1024, 4096))
    yield _bulk_bytes("mbarrier_bulk_announced_late", False, (32, 48, 2048, 16))
    yield _copies_arrive("mbarrier_cp_async_arrive", False)
    yield _copies_arrive("mbarrier_cp_async_arrive_noinc", True)
