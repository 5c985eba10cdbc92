"""Faults that leave the results of a run as they are: what tells of them is no race between two marks, or one that has to be looked for."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from pipec.sim import SimulationError
from pipec.sim.findings import Finding

from .race_programs.program import CLUSTER_SYNC, INIT, Program, bulk_load, wait

BULK = "@!%w0 bra END; st.shared.u32 [%own], %t; fence.proxy.async.shared::cta; bar.warp.sync 0xffffffff; @!%first bra END;\n"
STORE = "cp.async.bulk.global.shared::cta.bulk_group [%array], [%tile], 128; cp.async.bulk.commit_group;\n"
ANNOUNCED = "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], 128; " + bulk_load("%tile", "%array", 128, "%bar")
# The first CTA works on the memory of the second one.
REMOTE = "setp.eq.u32 %p0, %rank, 1; @%p0 bra END; mapa.shared::cluster.u32 %r5, {0}, 1;\n"
HALF = "setp.lt.u32 %p0, %lane, 16; @!%p0 bra END; mov.b32 %r2, %t;\n"
POOL = "setp.lt.u32 %p0, %t, 128; @%p0 bra L; setmaxnreg.inc.sync.aligned.u32 240; bra END;\nL: setmaxnreg.dec.sync.aligned.u32 24;\n"


class _Bounded(Program):
    """With bounds of the launch, as nvcc writes them."""

    def text(self, fault: str | None = None) -> str:
        return super().text(fault).replace("u64 a)\n", f"u64 a)\n.maxntid {self.threads}, 1, 1 .minnctapersm 1\n")


@dataclass(frozen=True)
class Case:
    """`right` becomes wrong where `old` is replaced; `words` of the first report on that, at two lines where `both`."""

    right: Program
    old: str
    new: str
    words: str
    both: bool = True

    @property
    def wrong(self) -> Program:
        assert self.old in self.right.body
        return replace(self.right, body=self.right.body.replace(self.old, self.new, 1))


def one(body: str, **given: object) -> Program:
    return _Bounded(body + "END:\n", {}, **given)  # type: ignore[arg-type]


CASES = {
    "a bulk store of which only the source is waited for": Case(
        one(BULK + STORE + "cp.async.bulk.wait_group 0; ld.global.u32 %r1, [%array];\n"), "wait_group", "wait_group.read", "nothing orders"
    ),
    "a store to what a bulk copy reads": Case(
        one(
            "@!%first bra END;\n" + INIT.format(1, 1).replace("bar.sync 0;\n", "") + ANNOUNCED + wait("%bar", "0", "W")
            + "st.global.u32 [%array], 7;\n"
        ),
        ANNOUNCED + wait("%bar", "0", "W") + "st.global.u32 [%array], 7;\n",
        ANNOUNCED + "st.global.u32 [%array], 7;\n" + wait("%bar", "0", "W"),
        "nothing orders",
    ),
    "memory of a CTA that exits": Case(
        one(
            "st.shared.u32 [%own], %t;\n" + CLUSTER_SYNC + REMOTE.format("%own").replace("END", "BOTH")
            + "ld.shared::cluster.u32 %r1, [%r5];\nBOTH: bar.warp.sync 0xffffffff;\n" + CLUSTER_SYNC,
            grid=2,
            cluster=2,
        ),
        "0xffffffff;\n" + CLUSTER_SYNC,
        "0xffffffff;\n",
        "before the exit",
    ),
    "a barrier of a CTA that exits": Case(
        one(
            INIT.format(64, 1) + CLUSTER_SYNC + REMOTE.format("%bar").replace("END", "LAST")
            + "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r5]; bra END;\nLAST:\n" + wait("%bar", "0", "W"),
            grid=2,
            cluster=2,
        ),
        wait("%bar", "0", "W"),
        "",
        "before the exit",
    ),
    "arriving twice at the cluster barrier": Case(
        one(CLUSTER_SYNC, grid=2, cluster=2), "arrive.aligned;", "arrive.aligned; barrier.cluster.arrive.aligned;", "twice", False
    ),
    "registers that the pool does not have": Case(one(POOL, threads=384), "u32 24;", "u32 32;", "no warp can make progress", False),
    "giving back registers that one has not": Case(one(POOL, threads=384), "u32 24;", "u32 176;", "by a warp that has 168", False),
    # Of two warpgroups each could have more at the launch; ptxas gives them what the larger one asks for.
    "giving back registers that nobody asks for": Case(one(POOL, threads=256), "u32 24;", "u32 248;", "by a warp that has 240", False),
    "a shuffle from lanes that are not there": Case(
        one(HALF + "shfl.sync.bfly.b32 %r1, %t, 8, 31, 0xffff; st.global.u32 [%mine], %r1;\n"), "%t, 8", "%t, 16", "do not take part", False
    ),
    "reading what was written as a constant": Case(
        one("st.global.u32 [%mine], %t; bar.sync 0; ld.global.u32 %r1, [%theirs];\n"), "ld.global", "ld.global.nc", "cache of ld.global.nc"
    ),
    "a store of the same that may come late": Case(
        one("""@%first st.shared.u32 [%tile], 0; @%e1 st.shared.u32 [%tile], 0; bar.sync 0;
            setp.eq.u32 %p1, %t, 64; @%p1 st.shared.u32 [%tile], 5;
            """, threads=96),
        "bar.sync 0;",
        "@%w0 bra END; bar.sync 1, 64;",
        "nothing orders",
    ),
    "a store of the same that may come before a load": Case(
        one("""@%first st.shared.u32 [%tile], 0; bar.sync 0; setp.eq.u32 %p1, %t, 64; @%p1 ld.shared.u32 %r1, [%tile]; bar.sync 0;
            @%first st.shared.u32 [%tile], 5; setp.eq.u32 %p4, %t, 32; @%p4 nanosleep.u32 2000; @%p4 st.shared.u32 [%tile], 5;
            """, threads=96),
        "[%tile]; bar.sync 0;",
        "[%tile]; @%w1 bra OWN; bar.sync 1, 64; OWN:",
        "nothing orders",
    ),
}  # fmt: skip


def found(program: Program) -> list[Finding]:
    try:
        return program.run().findings
    except SimulationError as error:
        assert error.findings, error
        return error.findings


@pytest.mark.parametrize("name", CASES)
def test_no_alarm_on_correct_kernels(name: str) -> None:
    assert found(CASES[name].right) == []


@pytest.mark.parametrize("name", CASES)
def test_every_fault_is_reported(name: str) -> None:
    case = CASES[name]
    first, *_ = found(case.wrong)
    assert case.words in first.message
    if case.both:
        lines = case.wrong.text().count("\n")
        assert 8 < first.details["other"]["ptx_line"] <= lines and 8 < first.ptx_line <= lines


def test_what_a_shuffle_makes_of_absent_lanes_may_be_left_unused() -> None:
    """As where half a warp adds up and the first lane alone has the sum."""
    steps = "".join(f"shfl.sync.down.b32 %r1, %r2, {step}, 31, 0xffff; add.u32 %r2, %r2, %r1;\n" for step in (8, 4, 2, 1))
    assert one(HALF + steps + "@%leader st.global.u32 [%mine], %r2;\n").run().findings == []


@pytest.mark.parametrize(
    "body",
    [
        "@%first mbarrier.init.shared::cta.b64 [%bar], 1; @%first " + bulk_load("%tile", "%array", -2147483648, "%bar"),
        "@%first cp.async.bulk.global.shared::cta.bulk_group [%array], [%tile], 0x7FFFFFF0;",
        "st.bulk.shared::cta [%tile], 0x1000000000000000, 0;",
    ],
)
def test_a_size_of_any_bits_is_refused_at_once(body: str) -> None:
    """Nobody counts as many bytes."""
    with pytest.raises(SimulationError, match="shared memory has at most") as caught:
        one(body, target="sm_100a").run()
    assert caught.value.kind == "out_of_bounds"
