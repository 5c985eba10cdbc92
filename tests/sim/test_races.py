"""One in-order run tells programs with a race from those without."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import pytest

from pipec.sim import Options, SimulationError
from pipec.sim.machine.races import detector
from pipec.sim.machine.schedule import scheduler

from .race_programs import PROGRAMS
from .race_programs.clusters import MULTICAST
from .race_programs.copies import LOADED, STORE
from .race_programs.matrix_units import DESCRIPTORS, FREED, IDESC, MULTIPLIED
from .race_programs.program import (
    ANY,
    CLUSTER_SYNC,
    EXPECT,
    INIT,
    KINDS,
    NO_PROXY,
    NO_VALUES,
    RELAXED,
    RELAXED_SYNC,
    UNORDERED,
    Program,
    wait,
)

FAULTS = [(name, fault) for name, program in PROGRAMS.items() for fault in program.faults]


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_alarm_on_ordered_accesses(name: str) -> None:
    assert PROGRAMS[name].run().findings == []


@pytest.mark.parametrize(("name", "fault"), FAULTS, ids=[f"{name}: {fault}" for name, fault in FAULTS])
def test_every_fault_is_found_in_one_run(name: str, fault: str) -> None:
    with pytest.raises(SimulationError) as caught:
        PROGRAMS[name].run(fault)
    words = PROGRAMS[name].faults[fault][2]
    kind = KINDS.get(words, "race")
    reports = [finding for finding in caught.value.findings or [caught.value] if kind in (None, finding.kind)]
    assert any(words in report.message for report in reports), str(caught.value)
    # Both sides have a line, of an instruction of the program.
    lines = PROGRAMS[name].text(fault).count("\n")
    for report in reports:
        if "other" in report.details:
            assert 8 < report.details["other"]["ptx_line"] <= lines and 8 < report.ptx_line <= lines


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_verdict_does_not_depend_on_turns(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long each warp runs before another one does."""
    for fault in (None, *PROGRAMS[name].faults):
        verdicts = set()
        for quantum in (5, 32, 5000):
            monkeypatch.setattr(scheduler, "QUANTUM", quantum)
            verdicts.add(_verdict(name, fault))
        assert len(verdicts) == 1, (fault, verdicts)


def _verdict(name: str, fault: str | None) -> tuple[str, bool] | None:
    """The kind of the first error, and whether it is what the fault is to get. (Where waits succeed or not by chance, any will do.)"""
    try:
        assert PROGRAMS[name].run(fault).findings == []
    except SimulationError as error:
        assert fault is not None
        words = PROGRAMS[name].faults[fault][2]
        return "" if words is ANY else error.kind, words in str(error)
    return None


@pytest.mark.sample(0.3)
@pytest.mark.parametrize("name", PROGRAMS)
def test_many_sets_are_judged_as_few_are(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a hundred sets of accesses it is told at once that all are in order, of a few it is asked one by one."""
    for fault in (None, *PROGRAMS[name].faults):
        found = []
        for few in (-1, 1 << 30):
            monkeypatch.setattr(detector, "_FEW", few)
            try:
                findings = PROGRAMS[name].run(fault).findings
            except SimulationError as error:
                findings = error.findings
            found.append([(one.kind, one.message, one.ptx_line) for one in findings])
        assert found[0] == found[1], fault


def test_there_are_enough() -> None:
    assert len(PROGRAMS) >= 30 and len(FAULTS) >= 60


STORES = {
    "words": "st.shared.u32 [%tile], %r1;",
    "vectors by generic addresses": "cvt.u64.u32 %rd1, %tile; cvta.shared.u64 %rd1, %rd1; st.v2.u32 [%rd1], {%r1, %r1};",
    "matrices": "mad.lo.u32 %r2, %lane, 16, %tile; stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r2], {%r1};",
}


@pytest.mark.parametrize("store", STORES)
def test_equal_stores_are_a_practice(store: str) -> None:
    body = f"mov.u32 %r1, 7; {STORES[store]} bar.sync 0; ld.shared.u32 %r1, [%tile];"
    equal = Program(body, {"each its own": ("%r1, 7", "%r1, %warp", "")})
    assert equal.run(options=Options(rules="practice")).relied_on == ["equal stores"]
    for fault, rules in ((None, "documents"), ("each its own", "practice")):
        with pytest.raises(SimulationError) as caught:
            equal.run(fault, Options(rules=rules))
        assert caught.value.kind == "race" and UNORDERED in caught.value.message
        assert caught.value.details["other"]["warp"] == 0 and caught.value.details["warp"] == 1


def test_stores_that_are_equal_where_they_meet() -> None:
    """The second half of one warp's words is the first half of the next one's: each lane stores the number of its word."""
    body = "shr.u32 %r1, %t, 5; mad.lo.u32 %r1, %r1, -16, %t; mad.lo.u32 %r2, %r1, 4, %tile; st.shared.u32 [%r2], %r1;"
    halves = Program(body, {"each its own": ("[%r2], %r1", "[%r2], %t", "")})
    assert halves.run(options=Options(rules="practice")).relied_on == ["equal stores"]
    with pytest.raises(SimulationError, match=UNORDERED):
        halves.run("each its own", Options(rules="practice"))


def test_lanes_that_store_to_one_place_leave_the_value_of_the_last() -> None:
    """Sums that lanes add in other orders differ in their last bits, and Triton lets all lanes of all warps store them."""
    copies = Program(
        "st.shared.u32 [%tile], %lane; bar.sync 0; ld.shared.u32 %r1, [%tile];", {"each warp": ("%lane;", "%t;", "")}
    )
    assert copies.run(options=Options(rules="practice")).relied_on == ["equal stores"]
    with pytest.raises(SimulationError):
        copies.run("each warp")


# Each thread stores a word, and reads that of the other warp: of its own CTA, or of the neighbour.
BEHIND_RELAXED = Program(
    "xor.b32 %r8, %rank, 1; mapa.shared::cluster.u32 %r7, %other, %rank; st.shared.u32 [%own], %t;\n"
    f"{RELAXED_SYNC} ld.shared::cluster.u32 %r1, [%r7];\n{CLUSTER_SYNC}",
    {"of the neighbour": ("%rank;", "%r8;", ""), "behind no barrier": (RELAXED_SYNC, "", "")},
    cluster=2,
    grid=2,
)


def test_own_memory_behind_a_relaxed_cluster_barrier_is_a_practice() -> None:
    assert BEHIND_RELAXED.run().relied_on == ["own memory behind a relaxed cluster barrier"]
    for fault, rules, words in (
        (None, "documents", NO_VALUES),
        ("of the neighbour", "practice", NO_VALUES),
        ("behind no barrier", "practice", UNORDERED),
    ):
        with pytest.raises(SimulationError, match=words):
            BEHIND_RELAXED.run(fault, Options(rules=rules))


# The second CTA reads its own tile, and the first one loads another over it.
READ_BEHIND_RELAXED = Program(
    ".reg .b16 %h; mov.u16 %h, 3; setp.eq.u32 %p1, %rank, 0; and.pred %p1, %p1, %first;\n"
    + INIT.format(1, 1)
    + "st.shared.u32 [%own], %t; fence.proxy.async; @%first "
    + EXPECT.format("%bar", 256)
    + CLUSTER_SYNC
    + "ld.shared.u32 %r1, [%other]; bar.sync 0;\n"
    + RELAXED_SYNC
    + "@%p1 "
    + MULTICAST
    + wait("%bar", "0", "W")
    + CLUSTER_SYNC,
    {"no barrier": ("bar.sync 0;\n" + RELAXED_SYNC, "", UNORDERED)},
    cluster=2,
    grid=2,
)


def test_loads_of_own_memory_before_a_relaxed_cluster_barrier_are_a_practice() -> None:
    assert "loads before a relaxed cluster barrier" in READ_BEHIND_RELAXED.run().relied_on
    with pytest.raises(SimulationError, match=RELAXED):
        READ_BEHIND_RELAXED.run(options=Options(rules="documents"))
    with pytest.raises(SimulationError, match=UNORDERED):
        READ_BEHIND_RELAXED.run("no barrier")


REQUEST = "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%tile], [{0}];\n"
REQUESTS = Program(
    INIT.format(1, 1)
    + "@!%first bra ON;\n"
    + "".join(EXPECT.format(bar, 16) + REQUEST.format(bar) for bar in ("%bar", "%bar2"))
    + "ON: "
    + wait("%bar", "0", "W")
    + wait("%bar2", "0", "W2")
    + "ld.shared.u32 %r1, [%tile];\n",
    {"read before the second": (wait("%bar2", "0", "W2"), "", UNORDERED)},
    target="sm_100a",
)


def test_two_requests_of_one_warp_answer_in_order() -> None:
    assert REQUESTS.run().relied_on == ["requests for clusters in order"]
    for fault, rules in ((None, "documents"), ("read before the second", "practice")):
        with pytest.raises(SimulationError, match=UNORDERED):
            REQUESTS.run(fault, Options(rules=rules))


GIVEN_BACK = Program(
    MULTIPLIED + wait("%bar2", "0", "W2") + FREED, {"early": (wait("%bar2", "0", "W2"), "", "")}, threads=128, target="sm_100a"
)


@pytest.mark.parametrize("timing", ["order", "late"])
def test_tensor_memory_given_back_under_a_product_is_a_warning_in_practice(timing: Literal["order", "late"]) -> None:
    assert GIVEN_BACK.run(options=Options(timing)).findings == []
    found = GIVEN_BACK.run("early", Options(timing)).findings
    assert {one.check for one in found} == {"exit"} and any("tcgen05.dealloc" in one.message for one in found)
    with pytest.raises(SimulationError, match="dealloc"):
        GIVEN_BACK.run("early", Options(timing, rules="documents"))


# The product of a pair reads what nobody has written; in the second CTA an address of tensor memory stands there.
GARBAGE = Program(
    INIT.format(1, 1)
    + CLUSTER_SYNC
    + DESCRIPTORS.format(upper=0x4010)
    + "@%w0 tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%tile], 32;\nbar.sync 0; ld.shared.u32 %r21, [%tile];\n"
    + "setp.ne.u32 %p1, %rank, 0; @%p1 bra ON; @!%first bra ON; .reg .b16 %h; mov.u16 %h, 3;\n"
    + f"mov.u32 %r23, {IDESC + (8 << 24)}; tcgen05.mma.cta_group::2.kind::f16 [%r21], %rd5, %rd6, %r23, %p6;\n"
    + "tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%bar2], %h;\nON: "
    + wait("%bar2", "0", "W2")
    + CLUSTER_SYNC
    + FREED.replace("cta_group::1", "cta_group::2"),
    {"written by threads": ("[%tile];\n", "[%tile]; st.shared.u32 [%own], 0;\n", UNORDERED)},
    threads=128,
    cluster=2,
    grid=2,
    target="sm_100a",
)


def test_an_address_of_tensor_memory_is_no_operand() -> None:
    """Who reads it as one reads what nobody wrote, whether or not something orders the two."""
    assert GARBAGE.run(options=Options(checks={"uninitialised": "off"})).findings == []
    assert GARBAGE.run().relied_on == ["unwritten memory that does not matter"]
    with pytest.raises(SimulationError, match=UNORDERED):
        GARBAGE.run("written by threads", Options(checks={"uninitialised": "off"}))


_MULTICAST = "tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%bar{0}], %h;\n"
COMMITTED_TWICE = replace(
    GARBAGE,
    body=GARBAGE.body.replace(_MULTICAST.format(2), _MULTICAST.format(2) + _MULTICAST.format("")).replace(
        "ON: ", "ON: " + wait("%bar", "0", "W1")
    ),
    faults={
        "the second commit is not awaited": (wait("%bar", "0", "W1"), "", ""),
        "no commit is awaited": (wait("%bar", "0", "W1") + wait("%bar2", "0", "W2"), "", ""),
    },
)


@pytest.mark.parametrize("timing", ["order", "late"])
def test_a_commit_that_has_not_arrived_when_a_cta_of_the_pair_exits(timing: Literal["order", "late"]) -> None:
    """That the products before it are complete says nothing of its arrival; where another commit shows them to be, it is a warning in
    practice."""
    for rules in ("practice", "documents"):
        options = Options(timing, rules=rules, checks={"uninitialised": "off"})
        assert COMMITTED_TWICE.run(options=options).findings == []
    with pytest.raises(SimulationError, match="nothing orders it before the exit|without waiting for it"):
        COMMITTED_TWICE.run("the second commit is not awaited", options)
    options = Options(timing, rules="practice", checks={"uninitialised": "off"})
    found = COMMITTED_TWICE.run("the second commit is not awaited", options).findings
    assert {(one.check, one.severity) for one in found} == {("exit", "warn")}
    with pytest.raises(SimulationError, match="nothing orders it before the exit|which has exited"):
        COMMITTED_TWICE.run("no commit is awaited", options)


# Nobody waits for the second CTA's arrival at the first one's mbarrier.
LAST_ARRIVAL = Program(
    INIT.format(64, 1)
    + CLUSTER_SYNC
    + "mapa.shared::cluster.u32 %r7, %bar, 0; setp.eq.u32 %p1, %rank, 0; @%p1 bra ON;\n"
    + "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r7];\nON: bar.sync 0;\n"
    + RELAXED_SYNC,
    {"no cluster barrier": ("ON: bar.sync 0;\n" + RELAXED_SYNC, "ON:\n", "")},
    cluster=2,
    grid=2,
)


def test_an_arrival_before_a_relaxed_cluster_barrier_comes_before_the_exit_in_practice() -> None:
    result = LAST_ARRIVAL.run()
    assert result.findings == [] and result.relied_on == ["arrivals before a relaxed cluster barrier"]
    for fault, rules in ((None, "documents"), ("no cluster barrier", "practice")):
        with pytest.raises(SimulationError, match="nothing orders it before the exit|already exited"):
            LAST_ARRIVAL.run(fault, Options(rules=rules))


# The same where the first CTA invalidates the mbarrier; one of the two is delayed.
_DELAY = "mov.u32 %r9, 0;\n{0}: add.u32 %r9, %r9, 1; setp.lt.u32 %p2, %r9, 300; @%p2 bra {0};\n"
_ORDER = "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r7];\n"
_GIVEN_UP = "mbarrier.inval.shared::cta.b64 [%bar];\n"
_KEPT, _MADE = "@%first st.shared.u64 [%bar], 0;\n", "@%first mbarrier.init.shared::cta.b64 [%bar], 1;\n"
GIVEN_UP = Program(
    INIT.format(2, 1)
    + CLUSTER_SYNC
    + "mapa.shared::cluster.u32 %r7, %bar, 0; setp.eq.u32 %p1, %rank, 0; @%p1 bra FIRST;\n"
    + f"@%first {_ORDER}bra ON;\nFIRST: @%first {_GIVEN_UP}ON: {CLUSTER_SYNC}",
    {},
    cluster=2,
    grid=2,
)


@pytest.mark.parametrize("delayed", ["arrival", "invalidation"])
@pytest.mark.parametrize("after", ["", _KEPT, _MADE], ids=["nothing", "store", "init"])
def test_an_arrival_from_another_cta_at_an_mbarrier_that_is_invalidated(delayed: str, after: str) -> None:
    """Of no consequence unless the memory is used again: a warning in practice."""
    body = GIVEN_UP.body.replace(_GIVEN_UP, _GIVEN_UP + after)
    late = f"@%first {_ORDER}" if delayed == "arrival" else f"@%first {_GIVEN_UP}"
    body = body.replace(late, _DELAY.format("DELAY") + late)
    program = replace(GIVEN_UP, body=body)
    with pytest.raises(
        SimulationError, match="arrives at the mbarrier .* nothing orders it before that is invalidated|nothing orders them"
    ):
        program.run(options=Options(rules="documents"))
    if not after:
        assert [(one.check, one.severity) for one in program.run().findings] == [("exit", "warn")]
        return
    with pytest.raises(SimulationError, match="nothing orders them|nothing has shown"):
        program.run()


def test_an_arrival_from_another_cta_that_comes_before_or_behind_the_invalidation() -> None:
    met = CLUSTER_SYNC.replace("\n", " ")
    before = GIVEN_UP.body.replace(f"{_ORDER}bra ON", f"{_ORDER}{met}bra ON").replace("FIRST: ", f"FIRST: {met}")
    assert replace(GIVEN_UP, body=before).run(options=Options(rules="documents")).findings == []
    behind = GIVEN_UP.body.replace(f"@%first {_ORDER}", f"{met}@%first {_ORDER}").replace(_GIVEN_UP, f"{_GIVEN_UP}{met}")
    with pytest.raises(SimulationError, match="where no mbarrier is initialised"):
        replace(GIVEN_UP, body=behind).run()


# Threads of both CTAs of a pair store their halves of the operands, and the leader multiplies once all have told it.
HANDED = Program(
    INIT.format(2, 1)
    + DESCRIPTORS.format(upper=0x4010)
    + CLUSTER_SYNC
    + "add.u32 %r20, %tile, 16384; @%w0 tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%r20], 32;\n"
    + CLUSTER_SYNC
    + "ld.shared.u32 %r21, [%r20]; mov.u32 %r1, %t;\n"
    + "FILL: mad.lo.u32 %r2, %r1, 4, %tile; st.shared.u32 [%r2], %r1; add.u32 %r1, %r1, 128;\n"
    + "setp.lt.u32 %p1, %r1, 2048; @%p1 bra FILL;\nfence.proxy.async.shared::cta; bar.sync 0;\n"
    + "mapa.shared::cluster.u32 %r7, %bar, 0; @%first mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r7];\n"
    + "setp.ne.u32 %p1, %rank, 0; @%p1 bra ON; @!%first bra ON; .reg .b16 %h; mov.u16 %h, 3;\n"
    + wait("%bar", "0", "W").replace(".parity.", ".parity.acquire.cluster.")
    + f"mov.u32 %r23, {IDESC + (8 << 24)}; tcgen05.mma.cta_group::2.kind::f16 [%r21], %rd5, %rd6, %r23, %p6;\n"
    + "tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%bar2], %h;\nON: "
    + wait("%bar2", "0", "W2")
    + CLUSTER_SYNC
    + FREED.replace("cta_group::1", "cta_group::2"),
    {
        "no scope": ("arrive.release.cluster", "arrive", ""),
        "awaited at CTA scope": (".parity.acquire.cluster.", ".parity.", ""),
        "no fence": ("fence.proxy.async.shared::cta; ", "", NO_PROXY),
        "no wait": (wait("%bar", "0", "W").replace(".parity.", ".parity.acquire.cluster."), "", UNORDERED),
    },
    threads=128,
    cluster=2,
    grid=2,
    target="sm_100a",
)
WITHOUT_SCOPE = replace(HANDED, body=HANDED.body.replace("arrive.release.cluster", "arrive"))


@pytest.mark.parametrize("fault", ["no scope", "awaited at CTA scope"])
def test_operands_handed_to_a_leader_without_a_scope_are_a_warning_in_practice(fault: str) -> None:
    assert HANDED.run(options=Options(rules="documents", checks={"fence": "off"})).findings == []
    assert {found.check for found in HANDED.run(fault).findings} == {"scope"}
    with pytest.raises(SimulationError, match="relaxed, or its scope too narrow"):
        HANDED.run(fault, Options(rules="documents"))


@pytest.mark.parametrize("fault", ["no fence", "no wait"])
@pytest.mark.parametrize("program", [HANDED, WITHOUT_SCOPE], ids=["with a scope", "without"])
def test_a_narrow_scope_hides_nothing_else(program: Program, fault: str) -> None:
    with pytest.raises(SimulationError, match=HANDED.faults[fault][2]):
        program.run(fault)


OVERWRITTEN = Program(
    LOADED.replace(INIT.format(1, 1), "st.shared.u32 [%own], %t;\n" + INIT.format(1, 1)) + wait("%bar", "0", "W"), {}
)


def test_overwriting_without_a_proxy_fence_is_a_practice() -> None:
    assert OVERWRITTEN.run(options=Options(rules="practice")).relied_on == ["overwriting without a proxy fence"]
    with pytest.raises(SimulationError) as caught:
        OVERWRITTEN.run(options=Options(rules="documents"))
    assert caught.value.kind == "race" and "fence.proxy.async" in caught.value.message


# The second warp has a relay tell it of a copy, and stores the tile by another one.
RELAYED = Program(
    LOADED.replace(INIT.format(1, 1), INIT.format(1, 32))
    + "@%w1 bra USE;\n"
    + wait("%bar", "0", "W")
    + "mbarrier.arrive.release.cta.shared::cta.b64 _, [%bar2];\nbra END;\nUSE: "
    + wait("%bar2", "0", "V")
    + f"@!%e1 bra END;\n{STORE}cp.async.bulk.wait_group 0;\nEND:",
    {
        "relaxed": ("arrive.release.cta", "arrive.relaxed.cta", ""),
        "no wait": (wait("%bar", "0", "W"), "", UNORDERED),
        "threads write": ("mbarrier.arrive.release.cta", "st.shared.u32 [%own], %t;\nmbarrier.arrive.relaxed.cta", NO_VALUES),
    },
)


def test_a_tile_handed_over_by_a_relaxed_relay_is_a_warning_in_practice() -> None:
    assert RELAYED.run(options=Options(rules="documents")).findings == []
    assert {found.check for found in RELAYED.run("relaxed", Options(rules="practice")).findings} == {"scope"}
    with pytest.raises(SimulationError, match="relaxed, or its scope too narrow"):
        RELAYED.run("relaxed", Options(rules="documents"))


@pytest.mark.parametrize("fault", ["no wait", "threads write"])
def test_what_threads_write_or_nobody_awaits_stays_an_error(fault: str) -> None:
    with pytest.raises(SimulationError, match=RELAYED.faults[fault][2]):
        RELAYED.run(fault, Options(rules="practice"))


STORED_AND_LEFT = Program(
    "st.shared.u32 [%own], %t; fence.proxy.async.shared::cta; bar.sync 0;\n@!%first bra END;\n"
    + "cp.async.bulk.wait_group.read 0;\n"
    + STORE
    + "cp.async.bulk.wait_group.read 0; // the last\nEND:",
    {
        "pending behind a wait": ("wait_group.read 0; // the last", "wait_group.read 1;", "exit"),
        "left without one": ("cp.async.bulk.wait_group.read 0; // the last\n", "", ""),
        "without any": (
            "cp.async.bulk.wait_group.read 0;\n" + STORE + "cp.async.bulk.wait_group.read 0; // the last\n",
            STORE,
            "exit",
        ),
    },
)


@pytest.mark.parametrize("fault", [None, *STORED_AND_LEFT.faults])
def test_a_wait_behind_the_last_store_that_leaves_it_pending_is_a_warning(fault: str | None) -> None:
    """A kernel that waits before it stages again may exit after its last store, in practice."""
    told = {str(one.check) for one in STORED_AND_LEFT.run(fault).findings}
    assert told == ({STORED_AND_LEFT.faults[fault][2]} if fault and STORED_AND_LEFT.faults[fault][2] else set())
