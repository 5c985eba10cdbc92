"""--timing explore: what only some schedules show, what none of them needs, and that it costs no more than its budget."""

from __future__ import annotations

import numpy as np
import pytest

import pipec.sim.explore
from pipec.sim import Options, Result, SimulationError, launch

from .test_gemm import gemm_ptx, launch_text

HEAD = ".version 9.0\n.target sm_100a\n.address_size 64\n"
# Warp 1 fills a word and arrives; warp 0, which comes to the first barrier last, looks once, and waits if it was too early.
PEEK = """.entry k(.param .u64 out) .reqntid 64 {{
.reg .pred %p<4>; .reg .b32 %t, %r<6>; .reg .b64 %d<4>; .shared .align 8 .b64 bar; .shared .b32 word[32];
mov.u32 %t, %tid.x; ld.param.u64 %d1, [out]; setp.ne.u32 %p1, %t, 0; @%p1 bra READY; mbarrier.init.shared.b64 [bar], 32;
READY: bar.sync 0; and.b32 %r1, %t, 31; shl.b32 %r1, %r1, 2; mov.b32 %r2, word; add.u32 %r2, %r2, %r1;
setp.lt.u32 %p2, %t, 32; @%p2 bra TAKE;
sub.u32 %t, %t, 32; st.shared.b32 [%r2], %t; mbarrier.arrive.shared.b64 _, [bar]; bra END;
TAKE: mbarrier.{peek}.parity.shared.b64 %p3, [bar], 0; @%p3 bra THERE;
WAIT: {wait}
THERE: ld.shared.b32 %r3, [%r2]; cvt.u64.u32 %d2, %r1; add.s64 %d1, %d1, %d2; ld.global.b32 %r4, [%d1]; add.u32 %r3, %r3, %r4;
st.global.b32 [%d1], %r3;
END: {end} ret; }}"""
WAIT = "mbarrier.try_wait.parity.shared.b64 %p3, [bar], 0; @!%p3 bra WAIT;"


def run(text: str, timing: str = "explore", **shape) -> tuple[Result, np.ndarray]:
    out = np.full(32, 100, np.uint32)
    return launch(HEAD + text, arguments=[out], options=Options(timing), **shape), out


# The same in two turns; in the second one the wait may be left out.
TURNS = """.entry k(.param .u64 out) .reqntid 64 {{
.reg .pred %p<4>; .reg .b32 %t, %k, %r<6>; .reg .b64 %d<4>; .shared .align 8 .b64 bar; .shared .b32 word[32];
mov.u32 %t, %tid.x; ld.param.u64 %d1, [out]; setp.ne.u32 %p1, %t, 0; @%p1 bra READY; mbarrier.init.shared.b64 [bar], 32;
READY: bar.sync 0; and.b32 %r1, %t, 31; shl.b32 %r1, %r1, 2; mov.b32 %r2, word; add.u32 %r2, %r2, %r1; mov.u32 %k, 0;
cvt.u64.u32 %d2, %r1; add.s64 %d1, %d1, %d2; setp.lt.u32 %p2, %t, 32; @%p2 bra TAKE; sub.u32 %t, %t, 32;
GIVE: st.shared.b32 [%r2], %t; mbarrier.arrive.shared.b64 _, [bar]; bar.sync 1;
add.u32 %k, %k, 1; setp.lt.u32 %p1, %k, 2; @%p1 bra GIVE; bra END;
TAKE: mbarrier.try_wait.parity.shared.b64 %p3, [bar], %k; @%p3 bra THERE; {unless}
WAIT: mbarrier.try_wait.parity.shared.b64 %p3, [bar], %k; @!%p3 bra WAIT;
THERE: ld.shared.b32 %r3, [%r2]; ld.global.b32 %r4, [%d1]; add.u32 %r3, %r3, %r4; st.global.b32 [%d1], %r3; bar.sync 1;
add.u32 %k, %k, 1; setp.lt.u32 %p1, %k, 2; @%p1 bra TAKE;
END: ret; }}"""


def test_the_wait_behind_each_look_is_executed():
    right, wrong = (TURNS.format(unless=unless) for unless in ("", "setp.ne.u32 %p1, %k, 0; @%p1 bra THERE;"))
    # The second look succeeds: in order nobody misses the wait.
    assert run(wrong, "order")[1].tolist() == list(range(100, 164, 2))
    result, out = run(right)
    # What was given is put back before each run, and the results are those of one.
    assert out.tolist() == list(range(100, 164, 2))
    with pytest.raises(SimulationError, match=r"race: .*\(schedule: tests of barriers fail once\)"):
        run(wrong)
    assert result.explored is not None and not any(
        "try_wait" in one.opcode and "never" in one.why for one in result.explored.unneeded
    )


def test_what_no_schedule_needs_is_listed_with_its_line():
    text = PEEK.format(peek="test_wait", wait=WAIT, end="bar.sync 0; fence.proxy.async.shared::cta;")
    explored = run(text)[0].explored
    unneeded = {(one.opcode, one.ptx_line) for one in explored.unneeded}
    lines = (HEAD + text).splitlines()
    assert {opcode for opcode, _ in unneeded} == {"bar.sync", "fence.proxy.async.shared::cta"}
    assert all("END:" in lines[line - 1] for _, line in unneeded)
    assert explored.ordering == 5 and "2 of 5 waits, fences and barriers were not needed" in explored.lines[0]


def test_what_is_never_executed_is_said_to_be():
    explored = run(PEEK.format(peek="test_wait", wait=WAIT, end="setp.gt.u32 %p1, %t, 99; @!%p1 bra OUT; bar.sync 1; OUT:"))[
        0
    ].explored
    assert [(one.opcode, one.why) for one in explored.unneeded] == [("bar.sync", "was never executed")]


def test_a_whole_kernel_and_its_waits():
    result, given, expected = launch_text(gemm_ptx(), k=384, timing="explore")
    np.testing.assert_array_equal(given, expected)
    held = [name for name in result.explored.schedules if name.endswith("held back")]
    assert any("tcgen05.mma" in name for name in held) and any("cp.async.bulk.tensor" in name for name in held)
    kept = {one.opcode for one in result.explored.unneeded}
    # Of one CTA: nothing but fences and barriers of a warp; every wait is needed.
    assert not any(name.startswith(("mbarrier", "tcgen05.wait", "bar.sync", "fence.proxy")) for name in kept)
    assert any("explored" in line for line in result.warnings)


@pytest.mark.parametrize(("limit", "value"), [("RUNS", 4), ("SECONDS", 0.0)])
def test_the_budget_holds(monkeypatch, limit, value):
    monkeypatch.setattr(pipec.sim.explore, limit, value)
    explored = launch_text(gemm_ptx(), k=64, timing="explore")[0].explored
    assert len(explored.schedules) <= 5 and explored.left_out
    assert "the budget ended before" in explored.lines[0]


CLUSTER = """.entry k(.param .u64 out) .reqntid 32 .reqnctapercluster 2, 1, 1 {{
.reg .pred %p<4>; .reg .b32 %t, %r<6>; .reg .b64 %d<4>; .shared .b32 word[32];
mov.u32 %t, %tid.x; shl.b32 %r1, %t, 2; mov.b32 %r2, word; add.u32 %r2, %r2, %r1; mov.u32 %r3, %cluster_ctarank; xor.b32 %r4, %r3, 1;
mapa.shared::cluster.u32 %r5, %r2, %r4; {before}
st.shared::cluster.b32 [%r5], %r3; barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
ld.shared.b32 %r4, [%r2]; mad.lo.u32 %r1, %r3, 4, 0; cvt.u64.u32 %d2, %r1; ld.param.u64 %d1, [out]; add.s64 %d1, %d1, %d2;
st.global.b32 [%d1], %r4; ret; }}"""


@pytest.mark.parametrize("timing", ["order", "late", "explore"])
def test_a_peer_must_be_known_to_run(timing):
    started = "barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.aligned;"
    _, out = run(CLUSTER.format(before=started), timing, grid=2)
    assert out[:2].tolist() == [1, 0]
    with pytest.raises(SimulationError, match=r"undefined: .* works on CTA \(1,0,0\), and no cluster barrier"):
        run(CLUSTER.format(before=""), timing, grid=2)
    switched = Options(timing, checks={"peer": "off"})
    launch(HEAD + CLUSTER.format(before=""), grid=2, arguments=[np.zeros(32, np.uint32)], options=switched)


ORDER = """.entry k(.param .u64 out) .reqntid 32 {{ .reg .pred %p<2>; .reg .b32 %r<4>; .reg .b64 %d<2>; ld.param.u64 %d1, [out];
mov.u32 %r1, %ctaid.x; mov.u32 %r3, %tid.x; setp.ne.u32 %p1, %r3, 0; @%p1 bra END; {work} END: ret; }}"""


def test_clusters_start_in_other_orders():
    """The second CTA takes for granted that the first one has come by."""
    work = "atom.global.add.u32 %r2, [%d1], 1; setp.lt.u32 %p1, %r1, 1; @%p1 bra END; setp.lt.u32 %p1, %r2, 101; @%p1 trap;"
    assert run(ORDER.format(work=work), "order", grid=2)[1][0] == 102
    with pytest.raises(SimulationError, match=r"trap: .*schedule: the last cluster starts first"):
        run(ORDER.format(work=work), grid=2)


def test_errors_of_the_plain_schedule_come_as_they_are():
    with pytest.raises(SimulationError, match="race"):
        run(ORDER.format(work="st.global.b32 [%d1], %r1;"), grid=2)
    with pytest.raises(SimulationError, match="timing 'explode' is none of order, late, random, explore"):
        run(ORDER.format(work=""), "explode")
