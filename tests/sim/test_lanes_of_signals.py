"""What some lanes of a warp signal, and copies that some lanes issue, behind what others have stored: all have to meet in between."""

from __future__ import annotations

import pytest

from pipec.sim import Options, SimulationError

from .race_programs.program import INIT, Program, wait

SYNC = "bar.warp.sync -1;\n"
ARRIVE = "@%leader mbarrier.arrive.shared::cta.b64 _, [%bar];\n"
# Warp 0 stores, and its first lane tells warp 1, which loads.
TOLD = f"""{INIT.format(1, 1)}@!%w0 bra READ;
st.shared.u32 [%own], %t; {SYNC}{ARRIVE}bra END;
READ: {wait("%bar", "0", "W")} ld.shared.u32 %r1, [%other]; END:"""
# In each of two turns, and warp 1 answers.
TURNS = f"""{INIT.format(1, 1)}@!%w0 bra READ;
L: st.shared.u32 [%own], %t; {SYNC}{ARRIVE}
A: mbarrier.try_wait.parity.shared::cta.b64 %p7, [%bar2], %k; @!%p7 bra A;
add.u32 %k, %k, 1; setp.lt.u32 %p1, %k, 2; @%p1 bra L; bra END;
READ: mbarrier.try_wait.parity.shared::cta.b64 %p7, [%bar], %k; @!%p7 bra READ;
ld.shared.u32 %r1, [%other]; {SYNC}@%leader mbarrier.arrive.shared::cta.b64 _, [%bar2];
add.u32 %k, %k, 1; setp.lt.u32 %p1, %k, 2; @%p1 bra READ; END:"""
# CTA 0 stores to global memory, and its first lane sets a flag for CTA 1.
FLAG = f""".reg .b64 %flag; add.s64 %flag, %array, 4096; setp.ne.u32 %p1, %cta, 0; @%p1 bra READ;
st.global.u32 [%mine], %t; {SYNC}@!%leader bra END; fence.acq_rel.gpu; st.relaxed.gpu.global.u32 [%flag], 1; bra END;
READ: ld.acquire.gpu.global.u32 %r1, [%flag]; setp.eq.u32 %p2, %r1, 0; @%p2 bra READ; ld.global.u32 %r2, [%mine]; END:"""
COPY = f"""st.shared.u32 [%own], %t; fence.proxy.async; {SYNC}
@%leader cp.async.bulk.global.shared::cta.bulk_group [%array], [%tile], 128;
@%leader cp.async.bulk.commit_group; @%leader cp.async.bulk.wait_group 0;"""

PROGRAMS = {
    "a lane arrives": Program(TOLD, {"alone": (SYNC, "", "of other lanes of that warp")}),
    "a lane arrives in turns": Program(TURNS, {"alone": (SYNC, "", "of other lanes of that warp")}),
    "a lane sets a flag": Program(FLAG, {"alone": (SYNC, "", "of other lanes of that warp")}, threads=32, grid=2),
    "a lane sets a flag that releases": Program(
        FLAG.replace("fence.acq_rel.gpu; st.relaxed", "st.release"),
        {"alone": (SYNC, "", "of other lanes of that warp")},
        threads=32,
        grid=2,
    ),
    "a lane copies": Program(COPY, {"alone": (SYNC, "", "they are other lanes of the same warp")}, threads=32),
}
RIGHT = {
    "all lanes arrive": TOLD.replace(SYNC, "").replace("@%leader ", "").replace(INIT.format(1, 1), INIT.format(32, 1)),
    "the lane that has stored arrives": TOLD.replace(SYNC, "")
    .replace("st.shared", "@%leader st.shared")
    .replace("ld.sh", "@%leader ld.sh"),
    "they meet behind the signal, before another one": TOLD.replace(SYNC, "").replace(
        f"{ARRIVE}bra END", f"{ARRIVE}{SYNC}bar.arrive 1, 64; bra END"
    ).replace("READ: ", "READ: bar.sync 1, 64;\n"),
    "a fence of all lanes, a signal of one, and a barrier": f"""{INIT.format(1, 1)} st.shared.u32 [%own], %t; fence.proxy.async;
        @%first mbarrier.arrive.shared::cta.b64 _, [%bar2]; bar.sync 0;
        @%first cp.async.bulk.global.shared::cta.bulk_group [%array], [%tile], 128;
        @%first cp.async.bulk.commit_group; @%first cp.async.bulk.wait_group 0;""",
    "the copying lane has stored": COPY.replace(SYNC, "").replace("st.shared", "@%leader st.shared").replace("128;", "16;").replace(
        ".u32 [%own], %t", ".v4.u32 [%tile], {%t, %t, %t, %t}"
    ),
}  # fmt: skip


@pytest.mark.parametrize("rules", ["documents", "practice"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_lanes_that_have_met(name, rules):
    for timing in ("order", "late"):
        assert PROGRAMS[name].run(options=Options(timing=timing, rules=rules)).findings == []


@pytest.mark.parametrize("name", RIGHT)
def test_lanes_that_need_not_meet(name):
    threads = 32 if "copying" in name else 64
    assert Program(RIGHT[name], {}, threads=threads).run(options=Options(rules="documents")).findings == []


@pytest.mark.parametrize("name", PROGRAMS)
def test_lanes_that_have_not_met(name):
    """An error by the documents, and in practice a warning."""
    words = PROGRAMS[name].faults["alone"][2]
    found = PROGRAMS[name].run("alone").findings
    assert {(one.check, one.severity) for one in found} == {("lanes", "warn")} and words in str(found[0])
    with pytest.raises(SimulationError, match=words):
        PROGRAMS[name].run("alone", Options(rules="documents"))
