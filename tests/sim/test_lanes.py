"""Races among the lanes of one warp: what they tell each other through memory needs a bar.warp.sync, or another barrier, between."""

from __future__ import annotations

import numpy as np
import pytest

from pipec.sim import Options, Result, SimulationError, launch

HEAD = """.version 9.0\n.target sm_100a\n.address_size 64
.entry k(.param .u64 out) { .reg .pred %p<4>; .reg .b32 %t, %r<9>; .reg .b64 %d<4>;
.shared .align 16 .b8 word[512]; .shared .align 8 .b64 bar;
mov.u32 %t, %tid.x; ld.param.u64 %d1, [out]; shl.b32 %r1, %t, 2; mov.b32 %r2, word; add.u32 %r2, %r2, %r1; xor.b32 %r3, %r1, 4;
mov.b32 %r4, word; add.u32 %r4, %r4, %r3; cvt.u64.u32 %d2, %r1; add.s64 %d2, %d1, %d2; cvt.u64.u32 %d3, %r3; add.s64 %d3, %d1, %d3;\n"""


def run(body: str, rules: str = "documents", block: int = 32) -> Result:
    out = np.zeros(64, np.uint32)
    return launch(f"{HEAD}{body}\nret; }}", block=block, arguments=[out], options=Options(rules=rules))


TELL, ASK = "st.shared.b32 [%r2], %t;", "ld.shared.b32 %r5, [%r4];"
SYNC = "bar.warp.sync -1;"
# Lanes that have parted meet at two places, or at three of which two are one.
APART = (
    f"and.b32 %r7, %t, {{0}}; setp.ne.u32 %p1, %r7, 0; {TELL} @%p1 bra ODD; {SYNC} {ASK} bra END; ODD: {{1}} {SYNC} {ASK} END:"
)
RIGHT = {
    "a barrier of the warp": f"{TELL} {SYNC} {ASK}",
    "a barrier of the CTA": f"{TELL} bar.sync 0; {ASK}",
    "a barrier of the warp at two places": APART.format(1, ""),
    "at two places, some lanes later": APART.format(3, "setp.eq.u32 %p2, %r7, 2; @%p2 bra ON; add.u32 %r6, %t, 1; ON:"),
    "the own word": f"{TELL} ld.shared.b32 %r5, [%r2]; st.shared.b32 [%r2], %r5; {TELL}",
    "read by all, then written": f"{TELL} {SYNC} {ASK} {SYNC} {TELL}",
    "global memory": f"st.global.b32 [%d2], %t; {SYNC} ld.global.b32 %r5, [%d3];",
    "an mbarrier": """setp.ne.u32 %p1, %t, 0; @%p1 bra R; mbarrier.init.shared.b64 [bar], 32; R: bar.warp.sync -1;
        st.shared.b32 [%r2], %t; mbarrier.arrive.shared.b64 _, [bar];
        W: mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0; @!%p2 bra W; ld.shared.b32 %r5, [%r4];""",
    "halves of the warp, each with its own": f"{TELL} ld.shared.b32 %r5, [%r2];",
    "other words": f"{TELL} st.shared.b32 [%r2+256], %t; {SYNC} ld.shared.b32 %r5, [%r4]; ld.shared.b32 %r6, [%r4+256];",
}
WRONG = {
    "write, then read": f"{TELL} {ASK}",
    "read, then write": f"{TELL} {SYNC} {ASK} {TELL}",
    "write, then write": f"{TELL} st.shared.b32 [%r4], 7;",
    "global memory": "st.global.b32 [%d2], %t; ld.global.b32 %r5, [%d3];",
    "one lane for all": f"{TELL} setp.ne.u32 %p1, %t, 0; @%p1 bra END; mov.b32 %r6, word; ld.shared.b32 %r5, [%r6+124]; END:",
    "a barrier too early": f"{SYNC} {TELL} {ASK}",
}


@pytest.mark.parametrize("rules", ["documents", "practice"])
@pytest.mark.parametrize("name", RIGHT)
def test_no_alarm(name, rules):
    assert run(RIGHT[name], rules).findings == []


@pytest.mark.parametrize("name", WRONG)
def test_found(name):
    with pytest.raises(SimulationError, match="they are other lanes of the same warp, and no bar.warp.sync") as caught:
        run(WRONG[name])
    assert caught.value.kind == "race" and caught.value.findings[0].check == "lanes"
    assert [finding.check for finding in run(WRONG[name], "practice").findings] == ["lanes"] * len(caught.value.findings)


def test_a_shuffle_is_a_meeting_in_practice_alone():
    shuffle = f"{TELL} shfl.sync.idx.b32 %r6, %t, 0, 31, -1; {ASK}"
    assert run(shuffle, "practice").findings == []
    with pytest.raises(SimulationError, match="race"):
        run(shuffle)


def test_another_warp_is_another_matter():
    with pytest.raises(SimulationError, match="nothing orders them"):
        run(
            "mov.b32 %r6, word; xor.b32 %r7, %r1, 128; add.u32 %r6, %r6, %r7; st.shared.b32 [%r2], %t; ld.shared.b32 %r5, [%r6];",
            block=64,
        )


@pytest.mark.parametrize("other", ["bar.warp.sync 0xFFFF;", "vote.sync.any.pred %p2, %p1, -1;"])
def test_another_mask_or_another_instruction_is_no_meeting(other):
    body = APART.format(1, "").replace(f"ODD:  {SYNC}", f"ODD: {other}")
    assert other in body
    with pytest.raises(SimulationError, match="deadlock"):
        run(body)
