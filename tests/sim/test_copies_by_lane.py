"""A wait for cp.async copies covers those of the thread that waits: what other lanes of its warp have copied needs a meeting behind it."""

from __future__ import annotations

import numpy as np
import pytest

from pipec.sim import Options, Result, SimulationError, launch

# %own and %other: words of the lane and of its neighbour; %part: 16 bytes of the lane; %warp: those of the warp. Behind them is unused
# memory. %g and %gpart: what is copied there.
HEAD = """.version 9.0\n.target sm_90a\n.address_size 64
.entry k(.param .u64 out) { .reg .pred %p<4>, %first; .reg .b32 %t, %lane, %r<9>, %own, %other, %part, %warp; .reg .b64 %d<4>, %g, %gpart;
.shared .align 128 .b8 word[4096]; .shared .align 8 .b64 bar;
mov.u32 %t, %tid.x; and.b32 %lane, %t, 31; setp.eq.u32 %first, %lane, 0; ld.param.u64 %d1, [out]; mov.b32 %r2, word;
shl.b32 %r1, %t, 2; add.u32 %own, %r2, %r1; xor.b32 %r3, %r1, 4; add.u32 %other, %r2, %r3; cvt.u64.u32 %d2, %r1; add.s64 %g, %d1, %d2;
shl.b32 %r4, %t, 4; add.u32 %part, %r2, %r4; cvt.u64.u32 %d2, %r4; add.s64 %gpart, %d1, %d2;
and.b32 %r4, %t, 32; shl.b32 %r4, %r4, 4; add.u32 %warp, %r2, %r4;\n"""

SYNC = "bar.warp.sync -1;"
WORDS = "cp.async.ca.shared.global [%own], [%g], 4; cp.async.commit_group;"
PARTS = "cp.async.cg.shared.global [%part], [%gpart], 16; cp.async.commit_group;"
WAIT = "cp.async.wait_group 0;"
ASK = "ld.shared.b32 %r5, [%other];"
ROWS = "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r5, %r6, %r7, %r8}, [%part];"
PROXY = "fence.proxy.async;"
BULK = """@%first cp.async.bulk.global.shared::cta.bulk_group [%gpart], [%warp], 512;
@%first cp.async.bulk.commit_group; @%first cp.async.bulk.wait_group 0;"""
# The first lane of each warp tells the other warp.
TOLD = f"""@%first mbarrier.init.shared.b64 [bar], 2; bar.sync 0; {WORDS} {WAIT} {SYNC} @%first mbarrier.arrive.shared.b64 _, [bar];
W: mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0; @!%p2 bra W;
xor.b32 %r6, %own, 128; ld.shared.b32 %r5, [%r6];""".replace(
    "@%first mbarrier.init", "setp.eq.u32 %p1, %t, 0; @%p1 mbarrier.init"
)

# Each without the meeting is wrong.
RIGHT = {
    "a word of another lane": f"{WORDS} {WAIT} {SYNC} {ASK}",
    "all copies are waited for": f"{WORDS} cp.async.wait_all; {SYNC} {ASK}",
    "one of several groups": f"{WORDS} {PARTS.replace('[%part]', '[%part+1024]')} cp.async.wait_group 1; {SYNC} {ASK}",
    "a part of what another lane copied": f"{PARTS} {WAIT} {SYNC} shl.b32 %r5, %lane, 2; add.u32 %r5, %warp, %r5; "
    "ld.shared.b32 %r5, [%r5];",
    "what several lanes copied": f"{WORDS} {WAIT} {SYNC} and.b32 %r5, %own, -16; ld.shared.v4.b32 {{%r5, %r6, %r7, %r8}}, [%r5];",
    "rows of matrices": f"{PARTS} {WAIT} {SYNC} {ROWS}",
    "a bulk copy by one lane": f"{PARTS} {WAIT} fence.proxy.async; {SYNC} {BULK}",
    "one lane tells another warp": TOLD,
    "what another lane has read": f"{WORDS} {WAIT} bar.sync 0; {ASK} {SYNC} {WORDS} {WAIT}",
    "what matrices were read from": f"{PARTS} {WAIT} bar.sync 0; {ROWS} {SYNC} {PARTS} {WAIT}",
    "what another lane has stored": f"st.shared.b32 [%other], %t; {SYNC} {WORDS} {WAIT}",
    "what another lane stores": f"{WORDS} {WAIT} {SYNC} st.shared.b32 [%other], %t;",
    "stored matrices": f"stmatrix.sync.aligned.m8n8.x4.shared.b16 [%part], {{%t, %t, %t, %t}}; {SYNC} ld.shared.b32 %r5, [%part];",
    "words read as matrices": f"st.shared.v4.b32 [%part], {{%t, %t, %t, %t}}; {SYNC} {ROWS}",
}  # fmt: skip
NEEDLESS = {
    "the own word": f"{WORDS} {WAIT} ld.shared.b32 %r5, [%own];",
    "parts of what the lane itself copied": f"{PARTS} {WAIT} ld.shared.b32 %r5, [%part+4]; ld.shared.v2.b32 {{%r5, %r6}}, [%part+8];",
    "two lanes copy the same": f"and.b32 %r5, %t, 48; shl.b32 %r5, %r5, 2; add.u32 %own, %r2, %r5; {WORDS.replace('%g]', '%d1]')} {WAIT} "
    "ld.shared.b32 %r5, [%own];",
    "a turn in a ring": f"mov.u32 %r6, 0; L: {WORDS} {WAIT} {SYNC} {ASK} {SYNC} add.u32 %r6, %r6, 1; setp.lt.u32 %p1, %r6, 300;"
    "@%p1 bra L;",
    "a later wait, for other copies": f"{WORDS} {WAIT} {SYNC} {WORDS.replace('[%own]', '[%own+2048]')} {WAIT} {ASK}",
    "the whole warp tells the other one": TOLD.replace(SYNC, "").replace("@%first mbar", "mbar").replace("], 2", "], 64"),
}  # fmt: skip


def run(body: str, rules: str) -> Result:
    return launch(
        f"{HEAD}{body}\nret; }}", block=64, arguments=[np.zeros(1024, np.uint32)], options=Options(rules=rules, trace=False)
    )


@pytest.mark.parametrize("rules", ["documents", "practice"])
@pytest.mark.parametrize("name", [*RIGHT, *NEEDLESS])
def test_lanes_that_have_met(name: str, rules: str) -> None:
    assert run({**RIGHT, **NEEDLESS}[name], rules).findings == []


@pytest.mark.parametrize("name", RIGHT)
def test_lanes_that_have_not_met(name: str) -> None:
    body = RIGHT[name].replace(SYNC, "")
    with pytest.raises(SimulationError, match="of other lanes of that warp|they are other lanes of the same warp") as caught:
        run(body, "documents")
    assert {finding.check for finding in caught.value.findings} == {"lanes"}
    found = run(body, "practice").findings
    assert [(one.check, one.severity) for one in found] == [("lanes", "warn")] * len(caught.value.findings)


def test_the_meeting_before_the_wait_is_none() -> None:
    assert [one.check for one in run(f"{WORDS} {SYNC} {WAIT} {ASK}", "practice").findings] == ["lanes"]


def test_a_missing_wait_is_another_matter() -> None:
    with pytest.raises(SimulationError, match="nothing orders them"):
        run(f"{WORDS} {SYNC} {ASK}", "documents")


FIRST_WAITS = f"{WORDS} @%first {WAIT}"
HALVES = f"{WORDS} setp.lt.u32 %p1, %lane, 16; @%p1 bra A; {WAIT} bra E; A: {WAIT} E:"


OF_OTHERS = {
    "another lane": ASK,
    "a bulk copy": BULK.replace("%warp], 512", "%own], 16").replace("@%first cp", f"{PROXY} @%first cp", 1),
    "another warp": "xor.b32 %r6, %own, 128; ld.shared.b32 %r5, [%r6];",
}


@pytest.mark.parametrize("use", OF_OTHERS.values(), ids=OF_OTHERS)
@pytest.mark.parametrize("meeting", [SYNC, "bar.sync 0;"])
def test_a_wait_of_one_lane_covers_no_other_one(use: str, meeting: str) -> None:
    if meeting == SYNC and "128" in use:
        meeting = "bar.sync 1;"
    found = run(f"{FIRST_WAITS} {meeting} {use}", "practice").findings
    assert [(one.check, one.severity) for one in found] == [("lanes", "warn")]
    assert "those of this part have not" in found[0].message
    assert run(f"{FIRST_WAITS} {WAIT} {meeting} {use}", "documents").findings == []
    assert run(f"{HALVES} {meeting} {use}", "documents").findings == []


def test_lanes_that_use_their_own_parts_need_not_wait_for_others() -> None:
    for body in (
        f"{FIRST_WAITS} {SYNC} @%first ld.shared.b32 %r5, [%own];",
        HALVES.replace("E:", "E: ld.shared.b32 %r5, [%own];"),
    ):
        assert run(body, "documents").findings == []
