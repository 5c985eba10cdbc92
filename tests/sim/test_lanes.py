"""Races among the lanes of one warp: what they tell each other through memory needs a bar.warp.sync, or another barrier, between."""

from __future__ import annotations

import numpy as np
import pytest

from pipec.sim import Options, Result, SimulationError, launch
from pipec.sim.compiled.blocks import ROUNDED

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
ALL_ASK = "mov.b32 %r6, word; ld.shared.b32 %r5, [%r6+124]; add.u32 %r6, %r6, 124;"
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
    "read by all, a barrier, then written by one": f"{TELL} {SYNC} {ALL_ASK} {SYNC} setp.ne.u32 %p1, %t, 31; @!%p1 st.shared.b32 [%r6], 7;",
    "in global memory, read and written by all": "ld.global.b32 %r5, [%d1]; st.global.b32 [%d1], %r5;",
    "other words": f"{TELL} st.shared.b32 [%r2+256], %t; {SYNC} ld.shared.b32 %r5, [%r4]; ld.shared.b32 %r6, [%r4+256];",
}
WRONG = {
    "write, then read": f"{TELL} {ASK}",
    "read, then write": f"{TELL} {SYNC} {ASK} {TELL}",
    "write, then write": f"{TELL} st.shared.b32 [%r4], 7;",
    "global memory": "st.global.b32 [%d2], %t; ld.global.b32 %r5, [%d3];",
    "one lane for all": f"{TELL} setp.ne.u32 %p1, %t, 0; @%p1 bra END; mov.b32 %r6, word; ld.shared.b32 %r5, [%r6+124]; END:",
    "a barrier too early": f"{SYNC} {TELL} {ASK}",
    "read by all, then written by one of them": f"{TELL} {SYNC} {ALL_ASK} setp.ne.u32 %p1, %t, 31; @!%p1 st.shared.b32 [%r6], 7;",
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


@pytest.mark.parametrize("other", ["bar.warp.sync 0xAAAAAAAB;", "vote.sync.any.pred %p2, %p1, -1;"])
def test_another_mask_or_another_instruction_is_no_meeting(other):
    body = APART.format(1, "").replace(f"ODD:  {SYNC}", f"ODD: {other}")
    assert other in body
    with pytest.raises(SimulationError, match="deadlock"):
        run(body)


LANE = np.arange(32)
# What one lane of a pair executes, and what the other one does, in registers of its own; what each lane has then.
APART_COLLECTIVES = {
    "shfl.sync.bfly.b32 {}, {}, 1, 31, -1;": LANE ^ 1,
    "shfl.sync.idx.b32 {}, {}, 6, 31, -1;": np.full(32, 6),
    "match.any.sync.b32 {}, {}, -1;": 1 << LANE,
    "redux.sync.add.u32 {}, {}, -1;": np.full(32, LANE.sum()),
    "redux.sync.max.u32 {}, {}, -1;": np.full(32, 31),
}
BRANCHES = """and.b32 %r7, %t, 1; setp.ne.u32 %p1, %r7, 0; mov.b32 %r5, %t; mov.b32 %r6, %t; @%p1 bra ODD;
    {} bra END; ODD: add.u32 %r8, %t, 0; {} mov.b32 %r5, %r6; END:"""
GUARDS = "and.b32 %r7, %t, 1; setp.ne.u32 %p1, %r7, 0; mov.b32 %r5, %t; mov.b32 %r8, %t; @!%p1 {} @%p1 {} @%p1 mov.b32 %r5, %r6;"


def result(body: str, rules: str = "documents") -> tuple[list[int], Result]:
    """What each lane has in %r5."""
    out = np.zeros(64, np.uint32)
    text = f"{HEAD}{body}\nst.global.b32 [%d2], %r5; ret; }}"
    found = launch(text, block=32, arguments=[out], options=Options(rules=rules))
    return out[:32].tolist(), found


@pytest.mark.parametrize("frame", [BRANCHES, GUARDS], ids=["branches", "guards"])
@pytest.mark.parametrize("collective", APART_COLLECTIVES)
def test_lanes_that_have_parted_execute_it_together(collective, frame):
    """PTX ISA: with the same qualifiers and the same mask, as `bar.warp.sync` since sm_70."""
    body = frame.format(collective.format("%r5", "%r5"), collective.format("%r6", "%r8"))
    assert result(body)[0] == APART_COLLECTIVES[collective].tolist()


def test_votes_that_have_parted():
    body = """and.b32 %r7, %t, 3; setp.ne.u32 %p1, %r7, 0; setp.gt.u32 %p2, %t, 9; @%p1 bra MOST;
        vote.sync.ballot.b32 %r5, %p2, -1; bra END;
        MOST: setp.lt.u32 %p3, %t, 4; vote.sync.ballot.b32 %r5, %p3, -1; END:"""
    yes = np.where(LANE % 4 == 0, LANE > 9, LANE < 4)
    assert result(body)[0] == [sum(1 << lane for lane in LANE[yes].tolist())] * 32


def test_halves_with_masks_of_their_own():
    """As tiles of CUDA's cooperative groups: one instruction, and each half hears of itself alone."""
    body = """setp.ge.u32 %p1, %t, 16; selp.b32 %r6, 0xFFFF0000, 0xFFFF, %p1; and.b32 %r7, %t, 3; setp.eq.u32 %p2, %r7, 1;
        vote.sync.ballot.b32 %r5, %p2, %r6; redux.sync.add.u32 %r7, %t, %r6; add.u32 %r5, %r5, %r7;"""
    half = LANE // 16
    assert result(body)[0] == (np.where(half, 0x22220000, 0x2222) + np.where(half, LANE[16:].sum(), LANE[:16].sum())).tolist()


def test_of_halves_with_masks_of_their_own_one_comes_later():
    body = """setp.ge.u32 %p1, %t, 16; selp.b32 %r6, 0xFFFF0000, 0xFFFF, %p1; setp.eq.u32 %p2, %t, 3; @%p2 bra LATE;
        redux.sync.add.u32 %r5, %t, %r6; bra END; LATE: redux.sync.add.u32 %r5, 100, %r6; END:"""
    assert result(body)[0] == np.where(LANE < 16, LANE[:16].sum() + 97, LANE[16:].sum()).tolist()


def test_a_mask_that_does_not_name_who_executes():
    body = "mov.b32 %r5, 0; redux.sync.add.u32 %r5, 1, 0xFF;"
    with pytest.raises(SimulationError, match="executed by lanes 0xffffff00, which the mask does not name"):
        result(body)
    lanes, found = result(body, "practice")
    assert lanes[:8] == [8] * 8 and [finding.check for finding in found.findings] == ["lanes"]


# Of each pair of lanes, both store to one place.
PAIR = "and.b32 %r5, %t, 30; shl.b32 %r5, %r5, 3; mov.b32 %r4, word; add.u32 %r4, %r4, %r5; cvt.u64.u32 %d2, %r5; add.s64 %d2, %d1, %d2; "
UNLIKE = {
    "shared memory": "st.shared.b32 [%r4], %t;",
    "sums that are further apart": f"and.b32 %r6, %t, 1; mad.lo.u32 %r6, %r6, {ROUNDED + 1}, 0x3F800000; st.shared.b32 [%r4], %r6;",
    "bytes": "st.shared.b8 [%r4], %t;",
    "a vector that is equal in part": "st.shared.v2.b32 [%r4], {%r5, %t};",
    "global memory": "st.global.b32 [%d2], %t;",
}
LIKE = {
    "equal values": "st.shared.b32 [%r4], %r5;",
    "one lane of each pair": "and.b32 %r6, %t, 1; setp.ne.u32 %p1, %r6, 0; @%p1 st.shared.b32 [%r4], %t;",
    "places of their own": "st.shared.b32 [%r2], %t;",
    "sums that were rounded differently": "and.b32 %r6, %t, 1; add.u32 %r6, %r6, 0x3F800000; st.shared.b32 [%r4], %r6;",
    "one after the other": "and.b32 %r6, %t, 1; setp.ne.u32 %p1, %r6, 0; @%p1 st.shared.b32 [%r4], %t; bar.warp.sync -1; "
    "@!%p1 st.shared.b32 [%r4], %t;",
}


@pytest.mark.parametrize("name", UNLIKE)
def test_one_store_of_different_values_to_one_place(name: str) -> None:
    """PTX leaves undefined which of them remains."""
    (finding,) = run(PAIR + UNLIKE[name], "practice").findings
    assert (finding.check, finding.severity) == ("lanes", "warn") and "different values to one place" in finding.message
    with pytest.raises(SimulationError, match="different values to one place"):
        run(PAIR + UNLIKE[name])


@pytest.mark.parametrize("name", LIKE)
def test_stores_of_which_one_remains_in_any_case(name: str) -> None:
    assert run(PAIR + LIKE[name]).findings == []


@pytest.mark.parametrize("turns", [10, 2000])
@pytest.mark.parametrize("place", ["shared.b32 [%r4]", "global.b32 [%d2]"])
def test_the_last_of_many_turns_stores_different_values(place: str, turns: int) -> None:
    """Long loops run in machine code."""
    body = f"mov.u32 %r6, 0; mov.u32 %r8, 0; AGAIN: setp.eq.u32 %p1, %r6, {{last}}; selp.b32 %r8, %t, %r6, %p1; st.{place}, %r8;"
    body += f"add.u32 %r6, %r6, 1; setp.lt.u32 %p2, %r6, {turns}; @%p2 bra AGAIN;"
    assert run(PAIR + body.format(last=turns)).findings == []
    with pytest.raises(SimulationError, match="different values to one place"):
        run(PAIR + body.format(last=turns - 1))


@pytest.mark.parametrize("turns", [10, 2000])
def test_sums_of_many_turns_that_were_rounded_differently(turns: int) -> None:
    body = "and.b32 %r8, %t, 1; mad.lo.u32 %r8, %r8, {gap}, 0x3F800000; mov.u32 %r6, 0; AGAIN: st.shared.b32 [%r4], %r8;"
    body += f"add.u32 %r6, %r6, 1; setp.lt.u32 %p2, %r6, {turns}; @%p2 bra AGAIN;"
    assert run(PAIR + body.format(gap=ROUNDED)).findings == []
    with pytest.raises(SimulationError, match="different values to one place"):
        run(PAIR + body.format(gap=ROUNDED + 1))
