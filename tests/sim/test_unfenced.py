"""Strong loads behind a signal that no fence stands in front of: told where what they find without that value changes the results."""

from __future__ import annotations

import numpy as np
import pytest

from pipec.sim import Options, Result, SimulationError, launch

HEAD = """.version 8.6\n.target sm_90a\n.address_size 64
.entry k(.param .u64 values, .param .u64 count, .param .u64 out) { .reg .pred %p<4>; .reg .b32 %r<9>; .reg .b64 %d<9>;
ld.param.u64 %d1, [values]; ld.param.u64 %d2, [count]; ld.param.u64 %d3, [out]; mov.u32 %r1, %ctaid.x; mov.u32 %r2, %nctaid.x;
mul.wide.u32 %d4, %r1, 4; add.s64 %d4, %d1, %d4;\n"""
# Each CTA stores a value and counts itself; the last one adds up what all have stored.
LAST = """mad.lo.u32 %r3, %r1, 10, 5; {store} [%d4], %r3; {fence} atom.global.add.u32 %r4, [%d2], 1; sub.u32 %r5, %r2, 1;
setp.ne.u32 %p1, %r4, %r5; @%p1 ret; mov.u32 %r6, 0; mov.u32 %r7, 0;
L: mul.wide.u32 %d5, %r6, 4; add.s64 %d5, %d1, %d5; {load} %r8, [%d5]; add.u32 %r7, %r7, %r8; add.u32 %r6, %r6, 1;
setp.lt.u32 %p2, %r6, %r2; @%p2 bra L; st.global.u32 [%d3], %r7; ret; }}"""
# CTA 0 stores twice: a value, and behind it a flag for which CTA 1 waits, as it may wait for the value.
TWO = """setp.ne.u32 %p1, %r1, 0; @%p1 bra R; st.relaxed.gpu.global.u32 [%d1], 7; st.relaxed.gpu.global.u32 [%d2], 1; ret;
R: ld.relaxed.gpu.global.u32 %r3, [%d2]; setp.eq.u32 %p2, %r3, 0; @%p2 bra R;
S: ld.relaxed.gpu.global.u32 %r4, [%d1]; {test} st.global.u32 [%d3], {kept}; ret; }}"""
STORES = {
    "volatile": ("st.volatile.global.u32", "ld.volatile.global.u32"),
    "relaxed": ("st.relaxed.gpu.global.u32", "ld.relaxed.gpu.global.u32"),
    "past the first cache": ("st.cg.global.u32", "ld.cg.global.u32"),
}


def run(body: str, rules: str = "practice", ctas: int = 4) -> tuple[Result, int]:
    values, count, out = np.zeros(8, np.uint32), np.zeros(1, np.uint32), np.zeros(1, np.uint32)
    result = launch(HEAD + body, grid=ctas, block=1, arguments=[values, count, out], options=Options(rules=rules))
    return result, int(out[0])


def last(how: str, fence: str, load: str = "") -> str:
    store, own = STORES[how]
    return LAST.format(store=store, load=load or own, fence=fence)


@pytest.mark.parametrize("how", STORES)
def test_the_sum_of_the_last_block(how):
    result, total = run(last(how, "membar.gl;"))
    assert (result.findings, total) == ([], 5 + 15 + 25 + 35)


@pytest.mark.parametrize("how", STORES)
@pytest.mark.parametrize("fence", ["", "membar.cta;"], ids=["none", "of the block"])
def test_the_sum_of_the_last_block_without_a_fence(how, fence):
    with pytest.raises(SimulationError, match="no fence stands before the signal") as caught:
        run(last(how, fence))
    assert caught.value.kind == "race" and caught.value.details["missing"] == "fence"


def test_the_documents_want_the_reader_to_acquire():
    with pytest.raises(SimulationError, match="no fence"):
        run(last("relaxed", "membar.gl;"), "documents")
    body = last("relaxed", "membar.gl;").replace("mov.u32 %r6, 0;", "fence.acq_rel.gpu; mov.u32 %r6, 0;")
    assert run(body, "documents")[0].findings == []


def test_the_callers_memory_has_the_results_of_the_run():
    values, count, out = np.zeros(8, np.uint32), np.zeros(1, np.uint32), np.zeros(1, np.uint32)
    with pytest.raises(SimulationError):
        launch(HEAD + last("volatile", ""), grid=4, block=1, arguments=[values, count, out])
    assert (values[:4].tolist(), count[0], out[0]) == ([5, 15, 25, 35], 4, 80)


def test_a_value_that_is_waited_for_as_well():
    body = TWO.format(test="setp.eq.u32 %p3, %r4, 0; @%p3 bra S;", kept="%r4")
    result, kept = run(body, ctas=2)
    assert (result.findings, kept) == ([], 7)


def test_a_value_that_does_not_matter():
    result, kept = run(TWO.format(test="", kept="%r3"), ctas=2)
    assert (result.findings, kept) == ([], 1)


def test_a_value_that_is_taken_as_it_is():
    with pytest.raises(SimulationError, match="no fence"):
        run(TWO.format(test="", kept="%r4"), ctas=2)


@pytest.mark.parametrize("cta", ["the same CTA", "another CTA"])
def test_a_value_that_the_kernel_fails_without(cta):
    """Where the second run does not end well, the first one is no witness."""
    body = TWO.format(test="setp.ne.u32 %p3, %r4, 0; @%p3 bra E; trap; E:", kept="%r3")
    if cta == "the same CTA":
        body = "shr.u32 %r1, %tid.x, 5; " + body
    values, count, out = np.zeros(8, np.uint32), np.zeros(1, np.uint32), np.zeros(1, np.uint32)
    grid, block = (1, 64) if cta == "the same CTA" else (2, 1)
    with pytest.raises(SimulationError, match="no fence"):
        launch(HEAD + body, grid=grid, block=block, arguments=[values, count, out])


def test_a_sum_that_is_rounded_differently():
    """What comes later is added later: the result may differ in its last bits, as between any two runs."""
    body = """setp.ne.u32 %p1, %r1, 0; @%p1 bra R; st.relaxed.gpu.global.u32 [%d1], 0f3DCCCCCD; st.relaxed.gpu.global.u32 [%d2], 1; ret;
R: ld.relaxed.gpu.global.u32 %r3, [%d2]; setp.eq.u32 %p2, %r3, 0; @%p2 bra R; ld.relaxed.gpu.global.u32 %r4, [%d1]; .reg .f32 %f<4>;
setp.ne.u32 %p3, %r4, 0; mov.b32 %f1, 0f4B000001; mov.b32 %f2, %r4; add.f32 %f1, %f1, %f2; mov.b32 %f3, 0fBF000000; add.f32 %f1, %f1, %f3;
S: ld.relaxed.gpu.global.u32 %r4, [%d1]; setp.eq.u32 %p2, %r4, 0; @%p2 bra S; mov.b32 %f2, %r4; @!%p3 add.f32 %f1, %f1, %f2;
st.global.f32 [%d3], %f1; ret; }"""
    assert run(body, ctas=2)[0].findings == []
