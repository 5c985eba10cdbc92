"""Ordinary loads of values that an atomic operation then checks, as in loops around a compare-and-swap."""

from __future__ import annotations

import numpy as np
import pytest

from pipec.sim import Options, Result, SimulationError, launch

HEAD = """.version 8.6\n.target sm_90a\n.address_size 64
.entry k(.param .u64 sum, .param .u64 low) { .reg .pred %p<4>; .reg .b32 %t, %r<9>; .reg .f32 %f<4>; .reg .b64 %d<4>;
.shared .align 4 .b32 most; ld.param.u64 %d1, [sum]; ld.param.u64 %d2, [low]; mov.u32 %t, %tid.x; mov.u32 %r1, %ctaid.x;
mad.lo.u32 %r1, %r1, 64, %t; cvt.rn.f32.u32 %f1, %r1;\n"""
SUM = """ld.global.u32 %r2, [%d1];
L: mov.u32 %r3, %r2; mov.b32 %f2, %r3; add.f32 %f2, %f2, %f1; mov.b32 %r4, %f2;
atom.global.cas.b32 %r2, [%d1], %r3, %r4; setp.ne.u32 %p1, %r2, %r3; @%p1 bra L;"""
LEAST = (
    """xor.b32 %r2, %r1, 5; ld.global.u32 %r3, [%d2]; setp.le.u32 %p1, %r3, %r2; @%p1 bra E; red.global.min.u32 [%d2], %r2; E:"""
)
MOST = """mov.u32 %r2, 0; setp.eq.u32 %p1, %t, 0; @%p1 st.shared.u32 [most], %r2; bar.sync 0;
atom.shared.max.u32 %r3, [most], %r1; bar.sync 0; ld.shared.u32 %r4, [most]; setp.eq.u32 %p2, %r4, 77;
@%p2 red.global.min.u32 [%d2], %r4;"""


def run(body: str, rules: str = "practice") -> tuple[Result, float, int]:
    total, low = np.zeros(1, np.float32), np.full(1, 1000, np.uint32)
    result = launch(f"{HEAD}{body}\nret; }}", grid=2, block=64, arguments=[total, low], options=Options(rules=rules))
    return result, float(total[0]), int(low[0])


def test_a_sum_made_of_compare_and_swap():
    result, total, _ = run(SUM)
    assert total == 127 * 64 and not result.findings and result.relied_on == ["loads that an atomic checks"]


def test_a_minimum_that_is_looked_at_first():
    result, _, low = run(LEAST)
    assert low == 0 and not result.findings and result.relied_on == ["loads that an atomic checks"]


@pytest.mark.parametrize("body", [SUM, LEAST])
def test_a_race_by_the_documents(body):
    with pytest.raises(SimulationError, match="nothing orders them"):
        run(body, "documents")


def test_a_maximum_behind_a_barrier():
    assert run(MOST)[0].findings == []


FAULTS = {
    "the barrier is missing": (MOST, "%r1; bar.sync 0;", "%r1;"),
    "an addition instead of a minimum": (LEAST, "red.global.min.u32", "red.global.add.u32"),
    "a store instead of a minimum": (LEAST, "red.global.min.u32", "st.global.u32"),
    "a store instead of a compare-and-swap": (SUM, "atom.global.cas.b32 %r2, [%d1], %r3, %r4;", "st.global.b32 [%d1], %r4;"),
    "another value is expected": (SUM, "[%d1], %r3, %r4; setp.ne.u32 %p1, %r2, %r3;", "[%d1], 0, %r4; setp.ne.u32 %p1, 0, 0;"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_faults(name):
    body, old, new = FAULTS[name]
    assert body.count(old) == 1
    with pytest.raises(SimulationError, match="nothing orders them"):
        run(body.replace(old, new))
