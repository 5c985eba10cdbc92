"""A second arrival of a warp at an mbarrier: it counts in the phase of the first one, or in a later one that the warp knows to be next."""

from __future__ import annotations

import pytest

from pipec.sim import Options, SimulationError

from .race_programs.clusters import NEIGHBOUR
from .race_programs.program import CLUSTER_SYNC, INIT, Program, wait

ARRIVE = "mbarrier.arrive.shared::cta.b64 _, [%bar];\n"
BACK = "mbarrier.arrive.shared::cta.b64 _, [%bar2];\n"
LED = f"@%leader {ARRIVE}"
TOKEN = "@!%w0 bra ON;\nW: mbarrier.try_wait.shared::cta.b64 %p7, [%bar], %rd1;\n@!%p7 bra W; ON:"
WAIT = f"@!%w0 bra ON;\n{wait('%bar', '0', 'W')}ON:\n"
MANY = INIT.format(64, 64)
FEW = INIT.format(2, 2)
# Warp 1 arrives for warp 0, which waits; twice, and in between warp 0 tells that it has waited.
PING_PONG = f"""{INIT.format(32, 32)} @%w0 bra R;
L: {ARRIVE} mbarrier.try_wait.parity.shared::cta.b64 %p7, [%bar2], %k; @!%p7 bra M; bra N;
M: mbarrier.try_wait.parity.shared::cta.b64 %p7, [%bar2], %k; @!%p7 bra M;
N: add.u32 %k, %k, 1; setp.lt.u32 %p1, %k, 2; @%p1 bra L; bra END;
R: mbarrier.try_wait.parity.shared::cta.b64 %p7, [%bar], %k; @!%p7 bra R;
{BACK} add.u32 %k, %k, 1; setp.lt.u32 %p1, %k, 2; @%p1 bra R; END:"""
# Lanes 0 and 1 of both CTAs arrive at the barriers of the CTAs with their numbers; each warp waits at its own, which shows the other.
BOTH = f"""{NEIGHBOUR}{INIT.format(2, 2)}{CLUSTER_SYNC} setp.gt.u32 %p1, %lane, 1;
.reg .b32 %near; mapa.shared::cluster.u32 %near, %bar, %rank;
setp.eq.u32 %p2, %lane, %rank; selp.b32 %r20, %near, %r7, %p2;
L: @!%p1 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r20];
W: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p7, [%bar], %k; @!%p7 bra W;
add.u32 %k, %k, 1; setp.lt.u32 %p3, %k, 2; @%p3 bra L; {CLUSTER_SYNC}"""

RIGHT = {
    "a hand-over and an answer": Program(PING_PONG, {}),
    "lanes arrive together in two CTAs": Program(BOTH, {}, threads=32, cluster=2, grid=2),
    "twice in one phase": Program(INIT.format(128, 128) + ARRIVE + ARRIVE + WAIT, {}),
    "alone in each phase": Program(f"{INIT.format(1, 1)}@%first {ARRIVE}@%first {ARRIVE}" + WAIT.replace(", 0;", ", 1;"), {}),
    "a barrier of the CTA in between": Program(f"{FEW}{LED}bar.sync 0;\n{LED}" + WAIT.replace(", 0;", ", 1;"), {}),
    "nobody waits for either": Program(f"{FEW}{LED}{LED}", {}),
}
SILENT = {
    "it is waited for later": Program(f"{FEW}{LED}{LED}bar.sync 0;\n" + WAIT.replace(", 0;", ", 1;"), {}),
    "a wait for the token of the second one": Program(
        f"{MANY}{ARRIVE}{ARRIVE.replace('_', '%rd1')}{TOKEN}",
        {},
    ),
}
# Other rules tell these: a test by parity finds a phase too late.
LATE = {
    "all threads twice": Program(MANY + ARRIVE + ARRIVE + WAIT, {}),
    "a lane of each warp twice": Program(FEW + LED + LED + WAIT, {}),
    "no answer": Program(PING_PONG.replace(f"{ARRIVE} mbarrier", f"{ARRIVE} setp.eq.u32 %p7, 0, 0; bra N; mbarrier"), {}),
}


@pytest.mark.parametrize("rules", ["documents", "practice"])
@pytest.mark.parametrize("name", RIGHT)
def test_no_alarm(name, rules):
    for timing in ("order", "late"):
        assert RIGHT[name].run(options=Options(timing=timing, rules=rules)).findings == []


@pytest.mark.parametrize("timing", ["order", "late", "random"])
@pytest.mark.parametrize("name", SILENT)
def test_found(name, timing):
    with pytest.raises(SimulationError, match="both arrivals may count in that phase") as caught:
        SILENT[name].run(options=Options(timing=timing))
    assert caught.value.ptx_line


@pytest.mark.parametrize("name", LATE)
def test_found_by_the_wait(name):
    with pytest.raises(SimulationError):
        LATE[name].run()
