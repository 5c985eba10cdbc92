"""Operations that signal an mbarrier of another CTA, or of another warp, come after its initialisation."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pipec.sim import Options, SimulationError

from .race_programs.clusters import MULTICAST, NEIGHBOUR
from .race_programs.program import CLUSTER_SYNC, EXPECT, INIT, RELAXED_SYNC, UNORDERED, Program, bulk_load, wait

MADE = INIT.format(1, 1)
FENCE = "@%first fence.mbarrier_init.release.cluster;\n"
BOTH = ".reg .b16 %h; mov.u16 %h, 3;\n"
# CTA 1 signals, as CTA 0 has made its barrier by then whatever orders the two.
SECOND = "setp.eq.u32 %p1, %rank, 1; and.pred %p1, %p1, %first;\n"
ALLOCATED = """@%w0 tcgen05.alloc.cta_group::{0}.sync.aligned.shared::cta.b32 [%tile], 32;
bar.sync 0; ld.shared.u32 %r21, [%tile]; bar.sync 0;
"""
FREED = "bar.sync 0; @%w0 tcgen05.dealloc.cta_group::{0}.sync.aligned.b32 %r21, 32;\n"
COMMIT = "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%bar], %h;\n"
CANCEL = """clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.multicast::cluster::all.b128
[%tile], [%bar];
"""
SEND = "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 [%r6], %t, [%r7];\n"
PUSH = "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r6], [%own], 16, [%r7];\n"
ARRIVE = "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r7];\n"


def exchange(before: str, signal: str, count: int, receivers: str, after: str = "", target: str = "sm_100a") -> Program:
    """CTA 1 makes a `signal` of `count` bytes (0: an arrival), for which the `receivers` wait. A first meeting shows that both run."""
    expected = f"{receivers} {EXPECT.format('%bar', count)}" if count else ""
    return Program(
        SECOND + CLUSTER_SYNC + before + MADE + expected + CLUSTER_SYNC + f"@%p1 {signal}"
        + f"setp.eq.u32 %p3, %rank, 0; @!%p3 bra ON;\n{wait('%bar', '0', 'W')}ON: {CLUSTER_SYNC}{after}",
        {}, threads=64, cluster=2, grid=2, target=target,
    )  # fmt: skip


_FIRST = "@%first"
_OF_FIRST = "setp.eq.u32 %p4, %rank, 0; and.pred %p4, %p4, %first; @%p4"
SIGNALS = {
    "an arrival": exchange(NEIGHBOUR, ARRIVE, 0, _OF_FIRST),
    "a multicast commit": exchange(BOTH + ALLOCATED.format(1), COMMIT, 0, _FIRST, wait("%bar", "0", "V") + FREED.format(1)),
    "a multicast copy": exchange(BOTH, MULTICAST, 256, _FIRST, wait("%bar", "0", "V"), "sm_90a"),
    "a copy to the other CTA": exchange(
        NEIGHBOUR + "@%p1 st.shared.v4.u32 [%own], {%t, %t, %t, %t}; fence.proxy.async;\n", PUSH, 16, _OF_FIRST, target="sm_90a"
    ),
    "st.async": exchange(NEIGHBOUR, SEND, 4, _OF_FIRST, target="sm_90a"),
    "a request for clusters": exchange("", CANCEL, 16, _FIRST, wait("%bar", "0", "V")),
}
# The last meeting before the signal, in place of which the faults have another one.
MEETING = CLUSTER_SYNC + "@%p1 "


def changed(program: Program, *replacements: tuple[str, str]) -> Program:
    body = program.body
    for old, new in replacements:
        assert body.count(old) == 1, old
        body = body.replace(old, new)
    return Program(body, {}, program.threads, program.cluster, program.grid, program.target)


@pytest.mark.parametrize("name", SIGNALS)
@pytest.mark.parametrize("meeting", [CLUSTER_SYNC, RELAXED_SYNC], ids=["released", "relaxed behind a fence"])
def test_signals_behind_the_initialisation(name: str, meeting: str) -> None:
    program = changed(SIGNALS[name], (MEETING, meeting + "@%p1 "))
    for rules in ("practice", "documents"):
        assert program.run(options=Options(rules=rules)).findings == []


@pytest.mark.parametrize("name", SIGNALS)
def test_signals_that_may_come_before_the_initialisation(name: str) -> None:
    program = changed(SIGNALS[name], (MEETING, "bar.sync 0;\n@%p1 "))
    with pytest.raises(SimulationError) as caught:
        program.run()
    found = [one for one in caught.value.findings if one.check == "race" and "mbarrier.init" in one.message]
    assert found and all(UNORDERED in one.message and "in CTA (0,0,0)" in one.message for one in found), caught.value.findings


@pytest.mark.parametrize("name", SIGNALS)
def test_a_relaxed_meeting_shows_barriers_only_behind_their_fence(name: str) -> None:
    program = changed(SIGNALS[name], (FENCE, ""), (MEETING, RELAXED_SYNC + "@%p1 "))
    found = {(one.check, one.severity) for one in program.run().findings}
    assert found - {("init", "warn")} == {("scope", "warn")}
    with pytest.raises(SimulationError, match=r"no fence\.mbarrier_init stands before"):
        program.run(options=Options(rules="documents"))


@pytest.mark.parametrize("name", ["a multicast copy", "a copy to the other CTA", "a request for clusters"])
def test_copies_in_a_cluster_need_a_fence_behind_the_initialisation(name: str) -> None:
    program = changed(SIGNALS[name], (FENCE, ""))
    for rules in ("practice", "documents"):
        findings = program.run(options=Options(rules=rules)).findings
        assert {(one.check, one.severity) for one in findings} == {("init", "warn")}


def test_copies_of_a_single_cta_need_none_in_practice() -> None:
    program = changed(OWN["a load"], (FENCE, ""))
    result = program.run()
    assert result.findings == [] and result.relied_on == ["mbarriers of a CTA without a fence"]
    (finding,) = program.run(options=Options(rules="documents")).findings
    assert (finding.check, finding.severity) == ("init", "warn")


def test_a_barrier_of_no_count_is_for_nobody():
    unused = "mbarrier.init.shared::cta.b64 [%bar2], 0;\n"
    program = Program(f"@%first {unused}bar.sync 0; st.shared.u32 [%own], %t;", {})
    result = program.run()
    assert result.findings == [] and result.relied_on == ["mbarriers of no count"]
    for used in ("@%first mbarrier.arrive.shared::cta.b64 _, [%bar2];", wait("%bar2", "0", "W")):
        with pytest.raises(SimulationError, match="no mbarrier is initialised"):
            replace(program, body=program.body + used).run()
    with pytest.raises(SimulationError, match="count 0 is outside 1"):
        program.run(options=Options(rules="documents"))


# Half of the lanes copy their word, and half store one; all arrive behind their copies.
HALF_STORED = (
    INIT.format(32, 1) + "@%w0 bra ON; setp.lt.u32 %p1, %lane, 16;\n@%p1 cp.async.ca.shared.global [%own], [%mine], 4;\n"
    "@!%p1 st.shared.u32 [%own], 0;\ncp.async.mbarrier.arrive.noinc.shared::cta.b64 [%bar];\nON: "
    + wait("%bar", "0", "W") + "ld.shared.u32 %r1, [%other]; bar.sync 0; @%w1 ld.shared.u32 %r1, [%own];\n"
)  # fmt: skip


def test_stores_before_arrivals_behind_copies():
    program = Program(HALF_STORED, {})
    result = program.run(options=Options(checks={"uninitialised": "off"}))
    assert result.findings == [] and "stores before an arrival of copies" in result.relied_on
    arrival = "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%bar];\n"
    store = "@!%p1 st.shared.u32 [%own], 0;\n"
    late = replace(program, body=HALF_STORED.replace(store + arrival, arrival + store))
    for wrong, rules in ((late, "practice"), (program, "documents")):
        with pytest.raises(SimulationError, match="nothing orders them"):
            wrong.run(options=Options(rules=rules, checks={"uninitialised": "off"}))


# Barriers of the own CTA, which another warp has made.
OWN = {
    "a commit": Program(
        ALLOCATED.format(1) + MADE + COMMIT.replace(".multicast::cluster", "").replace(", %h", "").replace("tcgen", "@%e1 tcgen")
        + wait("%bar", "0", "W") + FREED.format(1), {}, target="sm_100a",
    ),
    "a load": Program(MADE + "@%first " + EXPECT.format("%bar", 256) + "@%e1 " + bulk_load("%tile", "%array", 256, "%bar")
                      + wait("%bar", "0", "W"), {}),
    "the end of cp.async": Program(
        INIT.format(32, 1) + "@%w0 bra ON;\ncp.async.ca.shared.global [%own], [%mine], 4;\n"
        "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%bar];\nON: " + wait("%bar", "0", "W"), {},
    ),
}  # fmt: skip


@pytest.mark.parametrize("timing", ["order", "late", "random"])
def test_lanes_whose_copies_end_in_two_phases(timing: str) -> None:
    """A count of 31 is complete before the copy of the last of 32 lanes."""
    right = OWN["the end of cp.async"]
    assert right.run(options=Options(timing)).findings == []
    wrong = changed(right, ("[%bar], 32;", "[%bar], 31;"))
    (finding,) = wrong.run(options=Options(timing)).findings
    assert finding.check == "split" and "in phase 0 of the mbarrier at shared 0x8400, which is complete then" in finding.message
    item = wrong.text().split("\n")[finding.ptx_line - 1]
    assert item.startswith("cp.async.mbarrier.arrive.noinc")


SIGNALLING = {"a commit": "tcgen05.commit", "a load": "cp.async.bulk", "the end of cp.async": "cp.async.mbarrier.arrive"}


@pytest.mark.parametrize("name", OWN)
def test_signals_of_another_warp(name: str) -> None:
    right = OWN[name]
    assert right.run().findings == []
    # The second warp signals later than the first one initialises, but nothing says so.
    wrong = changed(right, ("release.cluster;\nbar.sync 0;\n", "release.cluster;\nnanosleep.u32 100;\n"))
    with pytest.raises(SimulationError) as caught:
        wrong.run()
    found = [one.message for one in caught.value.findings if "mbarrier.init" in one.message and UNORDERED in one.message]
    assert any(one.startswith(SIGNALLING[name]) for one in found), found
