"""Phases that a warp knows to be complete although it has not waited for them."""

import re

import numpy as np
import pytest

from pipec.sim import Options, SimulationError, launch
from pipec.sim.machine.practice import Rules

from .race_programs.matrix_units import AFTER, BEFORE, COMMIT, FREED, LOAD, MMA, MULTIPLIED
from .race_programs.program import Program, wait

# Commits to %bar2, %bar and %bar2 again, after the phase of %bar in which the tiles arrive.
AGAIN = "setp.eq.u32 %p6, %k, 0; " + MMA.partition("; ")[2]
SHOWN = wait("%bar", "1", "W3")
IN_TURNS = Program(
    MULTIPLIED + wait("%bar", "0", "W2") + "bar.sync 0;\n@!%first bra ON2;\n"
    + AGAIN + COMMIT.replace("%bar2", "%bar") + AGAIN + COMMIT + "ON2: " + SHOWN
    + wait("%bar2", "1", "W4") + AFTER + LOAD + "tcgen05.wait::ld.sync.aligned;\n" + BEFORE + FREED,
    {"nothing shows the first": (SHOWN, "", "no wait for a tcgen05.commit stands between")},
    threads=128,
    target="sm_100a",
)  # fmt: skip
# Warp 1 takes part in two phases of the cluster barrier and waits for the second one; warp 0 tells it that the first is complete.
TWICE = """.version 8.6\n.target sm_90a\n.address_size 64
.entry k() .reqnctapercluster 2 {{ .reg .pred %p; .reg .b32 %t; mov.u32 %t, %tid.x; setp.lt.u32 %p, %t, 32;
  barrier.cluster.arrive.relaxed.aligned;
  @!%p bra ONE;
  barrier.cluster.wait.aligned;
ONE: {first}
  barrier.cluster.arrive.aligned; {second}
  barrier.cluster.wait.aligned;
  ret; }}"""
MET = "bar.sync 1, 64;"


def test_a_commit_shows_that_earlier_ones_have_arrived() -> None:
    assert IN_TURNS.run().findings == []
    (fault,) = IN_TURNS.faults
    with pytest.raises(SimulationError, match=IN_TURNS.faults[fault][2]):
        IN_TURNS.run(fault)


@pytest.mark.parametrize("timing", ["order", "late", "random"])
def test_arrivals_at_the_cluster_barrier_without_a_wait(timing: str) -> None:
    text = TWICE.format(first=MET, second="")
    result = launch(text, grid=2, block=64, options=Options(timing, seed=1, rules="practice"))
    assert result.findings == [] and result.relied_on == ["cluster arrivals without a wait"]


@pytest.mark.parametrize(("first", "second", "rules"), [(MET, "", "documents"), ("", MET, "practice"), ("", MET, "documents")])
def test_a_second_arrival_in_a_phase_that_may_be_the_first(first: str, second: str, rules: Rules) -> None:
    with pytest.raises(SimulationError, match=r"barrier\.cluster\.arrive twice without barrier\.cluster\.wait"):
        launch(TWICE.format(first=first, second=second), grid=2, block=64, options=Options(rules=rules))


# All warps arrive twice before they wait, and read the other CTA's word.
ADVANCED = """.version 8.6\n.target sm_90a\n.address_size 64
.entry k() .reqnctapercluster 2 {{ .reg .b32 %r, %a, %b; .shared .align 4 .b32 word; mov.u32 %r, %cluster_ctarank; mov.u32 %a, word;
  st.shared.u32 [%a], %r; xor.b32 %r, %r, 1; mapa.shared::cluster.u32 %b, %a, %r;
  barrier.cluster.arrive.aligned; barrier.cluster.arrive.aligned;
  barrier.cluster.wait.aligned; {early} {second} {late}
  barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
  ret; }}"""
READ = "ld.shared::cluster.u32 %r, [%b];"
SECOND = "barrier.cluster.wait.aligned;"


@pytest.mark.parametrize("timing", ["order", "late", "random"])
def test_arrivals_at_the_cluster_barrier_in_advance(timing: str) -> None:
    """The two waits show what all warps have done, the first one alone nothing."""
    options = Options(timing, seed=1, rules="practice")  # type: ignore[arg-type]
    result = launch(ADVANCED.format(early="", second=SECOND, late=READ), grid=2, block=32, options=options)
    assert result.findings == [] and result.relied_on == ["cluster arrivals in advance"]
    with pytest.raises(SimulationError, match="nothing orders them|no cluster barrier or other signal has shown"):
        launch(ADVANCED.format(early=READ, second=SECOND, late=""), grid=2, block=32, options=options)
    for wrong in (options, Options(timing, seed=1, rules="documents")):  # type: ignore[arg-type]
        second = "" if wrong is options else SECOND
        with pytest.raises(SimulationError, match="arrive twice without"):
            launch(ADVANCED.format(early="", second=second, late=""), grid=2, block=32, options=wrong)


# Warp 0 finds the mbarrier new, and warp 1 completes its first phase.
NEW = """.version 8.6\n.target sm_90a\n.address_size 64
.entry k() {{ .reg .pred %p, %q, %done; .reg .b32 %t, %l, %a; .shared .align 8 .b64 bars[2]; mov.u32 %t, %tid.x; mov.u32 %a, bars;
  setp.eq.u32 %p, %t, 0; @%p mbarrier.init.shared::cta.b64 [%a], 1; @%p mbarrier.init.shared::cta.b64 [%a+8], 1; bar.sync 0;
  and.b32 %l, %t, 31; setp.ne.u32 %q, %l, 0; @%q bra END; @!%p bra OTHER;
{first}
FREE: mbarrier.try_wait.parity.shared::cta.b64 %done, [%a], 1; @!%done bra FREE;
{second}
  bra END;
OTHER: {wait}
  mbarrier.arrive.shared::cta.b64 _, [%a];
END: ret; }}"""
TELLS = "mbarrier.arrive.shared::cta.b64 _, [%a+8];"
HEARS = "TOLD: mbarrier.try_wait.parity.shared::cta.b64 %done, [%a+8], 0; @!%done bra TOLD;"


@pytest.mark.parametrize("timing", ["order", "late", "random"])
@pytest.mark.parametrize(("first", "second", "wait"), [("", TELLS, HEARS), (TELLS, "", HEARS), ("", "", "")])
def test_a_test_that_may_come_too_late(timing: str, first: str, second: str, wait: str) -> None:
    """Once the next phase is complete, the test is false: whatever completes it comes after the test, or the warp may wait for ever."""
    text = NEW.format(first=first, second=second, wait=wait)
    if second:
        assert launch(text, block=64, options=Options(timing, seed=1)).findings == []  # type: ignore[arg-type]
        return
    # In practice a warp that then does nothing may come late.
    with pytest.raises(SimulationError) as caught:
        launch(text, block=64, options=Options(timing, seed=1, rules="documents"))  # type: ignore[arg-type]
    # Where the test came too late in this run, it is told by what the warp knows.
    assert re.search(
        "found the mbarrier new: nothing orders it before the completion of phase 0|nothing has shown this warp",
        str(caught.value),
    )


# Warps 0 and 1 find the first mbarrier new; warp 0 then tells warp 2, which completes the first phase.
ONLOOKER = """.version 8.6\n.target sm_90a\n.address_size 64
.entry k(.param .u64 out) {{ .reg .pred %p, %q, %r, %done; .reg .b32 %t, %l, %a, %w; .reg .b64 %g; .shared .align 8 .b64 bars[2];
  .shared .align 4 .b32 word;
  mov.u32 %t, %tid.x; mov.u32 %a, bars; mov.u32 %w, word; ld.param.u64 %g, [out]; and.b32 %l, %t, 31;
  setp.eq.u32 %p, %t, 0; @%p mbarrier.init.shared::cta.b64 [%a], 1; @%p mbarrier.init.shared::cta.b64 [%a+8], 1;
  @%p st.shared.u32 [%w], 5; bar.sync 0;
  shr.u32 %t, %t, 5; setp.eq.u32 %r, %t, 1; setp.eq.u32 %q, %t, 2; @%q bra OTHER;
FREE: mbarrier.try_wait.parity.shared::cta.b64 %done, [%a], 1; @!%done bra FREE;
  @%r bra ONLOOKER;
  @%p mbarrier.arrive.shared::cta.b64 _, [%a+8]; bra END;
ONLOOKER: {does} bra END;
OTHER: TOLD: mbarrier.try_wait.parity.shared::cta.b64 %done, [%a+8], 0; @!%done bra TOLD;
  setp.eq.u32 %p, %l, 0; @%p mbarrier.arrive.shared::cta.b64 _, [%a];
END: {end} ret; }}"""
LOADS = "ld.shared.u32 %l, [%w];"
DOES = {
    "nothing": ("", "", True),
    "meets the others": ("", "bar.sync 0;", True),
    "loads": (LOADS, "", False),
    "loads behind a barrier": ("", f"bar.sync 0; {LOADS}", False),
    "stores": ("st.global.u32 [%g], %w;", "", False),
    "announces": ("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%a], 0;", "", False),
}


@pytest.mark.parametrize("does", DOES)
def test_what_an_onlooker_finds_makes_no_difference(does: str) -> None:
    """It may fall behind, and then waits for ever; a warp that does something afterwards may also do it too early."""
    what, end, waits_only = DOES[does]
    text = ONLOOKER.format(does=what, end=end)
    for rules in ("practice", "documents"):
        options = Options(rules=rules)  # type: ignore[arg-type]
        if waits_only and rules == "practice":
            result = launch(text, block=96, arguments=[np.zeros(32, np.uint32)], options=options)
            assert result.findings == [] and result.relied_on == ["waits of onlookers"]
            continue
        with pytest.raises(SimulationError, match="by warp 1 found the mbarrier new: nothing orders it"):
            launch(text, block=96, arguments=[np.zeros(32, np.uint32)], options=options)


# Warp 0 tests the first mbarrier and then counts bytes on the second one, which warp 1 has announced; warp 1 waits for them, and
# completes the first phase of the first mbarrier.
COUNTED = NEW.replace("entry k()", "entry k(.param .u64 array)").replace(
    "mov.u32 %t, %tid.x;",
    ".reg .b64 %g; .shared .align 16 .b8 tile[16]; .reg .b32 %d; mov.u32 %d, tile; ld.param.u64 %g, [array]; mov.u32 %t, %tid.x;",
)
BYTES = {
    "by a copy": "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%d], [%g], 16, [%a+8];",
    "by the warp": "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%a+8], 16;",
}


@pytest.mark.parametrize("timing", ["order", "late", "random"])
@pytest.mark.parametrize("counts", BYTES.values(), ids=BYTES)
def test_bytes_that_another_warp_has_announced(counts: str, timing: str) -> None:
    """They are counted behind the test, so that nothing that waits for them comes before it."""
    wait_for_them = "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%a+8], 16; " + HEARS
    right, early = (
        COUNTED.format(first=first, second=second, wait=wait_for_them) for first, second in (("", counts), (counts, ""))
    )
    options = Options(timing, seed=1)  # type: ignore[arg-type]
    assert launch(right, block=64, arguments=[np.zeros(4, np.float32)], options=options).findings == []
    with pytest.raises(SimulationError, match="found the mbarrier new|nothing has shown this warp"):
        launch(early, block=64, arguments=[np.zeros(4, np.float32)], options=options)


# Warp 0 arrives at barrier 1 without waiting, and then again; two warps wait there for each arrival.
HANDED = """.version 8.6\n.target sm_90a\n.address_size 64
.entry k() {{ .reg .pred %p; .reg .b32 %t; mov.u32 %t, %tid.x; setp.lt.u32 %p, %t, 32; @%p bra FIRST;
  bar.sync 1, 96; {told} bar.sync 1, 96; bra END;
FIRST: bar.arrive 1, 96; {hears} bar.{mode} 1, 96;
END: ret; }}"""


@pytest.mark.parametrize("timing", ["order", "late", "random"])
@pytest.mark.parametrize("mode", ["arrive", "sync"])
def test_a_second_arrival_at_a_barrier_of_the_cta(mode: str, timing: str) -> None:
    """It may count in the phase of the first one, instead of a warp that has not arrived yet."""
    options = Options(timing, seed=1)  # type: ignore[arg-type]
    right = HANDED.format(told="bar.arrive 2, 96;", hears="bar.sync 2, 96;", mode=mode)
    assert launch(right, block=96, options=options).findings == []
    for told, hears in (("", ""), ("bar.sync 3, 64;", "")):
        with pytest.raises(SimulationError, match="arrives at barrier 1, and nothing has shown"):
            launch(HANDED.format(told=told, hears=hears, mode=mode), block=96, options=options)


# The first of two groups of warps starts itself: it arrives at its own barrier, and then waits there. Behind that, each lets the other one
# go on, in {turns} turns.
STARTS = """.version 8.6\n.target sm_90a\n.address_size 64
.entry k() {{ .reg .pred %p; .reg .b32 %t, %k; mov.u32 %t, %tid.x; mov.u32 %k, 0; setp.ge.u32 %p, %t, 64; @%p bra SECOND;
  bar.arrive 1, 128;
A: bar.sync 1, 128; bar.arrive 2, 128; add.u32 %k, %k, 1; setp.lt.u32 %p, %k, {turns}; @%p bra A; bra END;
SECOND: {late}
B: bar.sync 2, 128; bar.arrive 1, 128; add.u32 %k, %k, 1; setp.lt.u32 %p, %k, {turns}; @%p bra B;
END: ret; }}"""


@pytest.mark.parametrize("timing", ["order", "late", "random"])
@pytest.mark.parametrize("turns", [1, 3])
def test_a_group_of_warps_that_starts_itself(turns: int, timing: str) -> None:
    """All of its warps arrive twice in the first phase, and nobody else does: as in quack's GEMMs for Hopper, by turns."""
    options = Options(timing, seed=1)  # type: ignore[arg-type]
    assert launch(STARTS.format(turns=turns, late=""), block=128, options=options).findings == []


def test_a_group_that_starts_beside_another_one() -> None:
    """The second group's first arrival may count for warps of the first one."""
    with pytest.raises(SimulationError, match="arrives at barrier 1, and nothing has shown"):
        launch(STARTS.format(turns=3, late="bar.arrive 1, 128;"), block=128)
