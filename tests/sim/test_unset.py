"""Registers that are read before anything has written them: told where the results depend on them."""

from __future__ import annotations

import numpy as np
import pytest

import pipec.sim.unset
from pipec.sim import Options, Result, SimulationError, launch

HEAD = """.version 8.6\n.target sm_90a\n.address_size 64
.entry k(.param .u64 x, .param .u64 y, .param .u32 n) { .reg .pred %p<4>; .reg .b32 %t, %n, %r<9>; .reg .f32 %f<9>; .reg .b64 %d<4>;
ld.param.u64 %d1, [x]; ld.param.u64 %d2, [y]; ld.param.u32 %n, [n]; mov.u32 %t, %tid.x; mul.wide.u32 %d3, %t, 4;
add.s64 %d1, %d1, %d3; add.s64 %d2, %d2, %d3;\n"""
SUM = """mov.f32 %f1, 0f00000000; mov.u32 %r1, 0;
L: ld.global.f32 %f2, [%d1]; add.f32 %f1, %f1, %f2; add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, %n; @%p1 bra L;
st.global.f32 [%d2], %f1;"""
MASKED = """setp.lt.u32 %p1, %t, %n; @%p1 ld.global.f32 %f1, [%d1]; add.f32 %f2, %f1, %f1; @%p1 st.global.f32 [%d2], %f2;"""
BRANCH = """setp.ge.u32 %p1, %t, %n; @%p1 bra E; mov.f32 %f1, 0f40000000; E: {kept} st.global.f32 [%d2], %f1;"""
PRODUCT = """mov.b32 %r1, 0x3C003C00; mov.f32 %f1, 0f00000000; mov.f32 %f2, %f1; mov.f32 %f3, %f1; mov.f32 %f4, %f1;
mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1,%f2,%f3,%f4}, {%r1,%r1,%r1,%r1}, {%r1,%r1}, {%f1,%f2,%f3,%f4};
st.global.f32 [%d2], %f4;"""
LEADER = """setp.ne.u32 %p1, %t, 0; @%p1 bra E; atom.global.add.u32 %r1, [%d2], 5; E: shfl.sync.idx.b32 %r2, %r1, 0, 31, -1;
st.global.u32 [%d2], %r2;"""


def run(body: str, rules: str = "practice") -> tuple[Result, np.ndarray]:
    x, y = np.ones(32, np.float32), np.zeros(32, np.float32)
    result = launch(f"{HEAD}{body}\nret; }}", block=32, arguments=[x, y, 7], options=Options(rules=rules))
    return result, y


@pytest.mark.parametrize("rules", ["documents", "practice"])
@pytest.mark.parametrize("body", [SUM, MASKED, BRANCH.format(kept="@%p1 mov.f32 %f1, 0f3F800000;"), PRODUCT, LEADER])
def test_registers_that_do_not_matter(body, rules):
    assert run(body, rules)[0].findings == []


FAULTS = {
    "a sum that begins nowhere": (SUM.replace("mov.f32 %f1, 0f00000000;", ""), "%f1"),
    "a counter that begins nowhere": (SUM.replace("mov.u32 %r1, 0;", ""), "%r1"),
    "one side of a branch": (BRANCH.format(kept=""), "%f1"),
    "an accumulator": (PRODUCT.replace("mov.f32 %f4, %f1;", ""), "%f4"),
    "a store without its mask": (MASKED.replace("@%p1 ld", "setp.lt.u32 %p2, 0, 0; @%p1 bra A; bra B; A: ld").replace(
        "add.f32 %f2", "B: add.f32 %f2").replace("@%p1 st", "st"), "%f1"),
    "a condition": (SUM.replace("setp.lt.u32 %p1, %r1, %n; @%p1", "setp.lt.u32 %p1, %r1, %n; @%p2 mov.f32 %f1, %f2; @%p1"), "%p2"),
}  # fmt: skip


@pytest.mark.parametrize("rules", ["documents", "practice"])
@pytest.mark.parametrize("name", FAULTS)
def test_registers_that_matter(name, rules):
    body, register = FAULTS[name]
    with pytest.raises(SimulationError, match=f"the results depend on register `{register}`") as caught:
        run(body, rules)
    assert caught.value.kind == "uninitialised" and caught.value.ptx_line


def test_the_callers_memory_has_the_results_of_the_run():
    x, y = np.ones(32, np.float32), np.zeros(32, np.float32)
    with pytest.raises(SimulationError):
        launch(f"{HEAD}{FAULTS['a sum that begins nowhere'][0]}\nret; }}", block=32, arguments=[x, y, 7])
    assert (y == 7).all()


# Seven registers are read unset, of which one matters.
SEVEN = "".join(f"add.f32 %f8, %f8, %f{i};\n" for i in range(1, 8) if i != 5) + "st.global.f32 [%d2], %f5;"


@pytest.mark.parametrize(
    ("patience", "launches", "told"),
    [
        (20.0, 4, "on register `%f5`"),
        (0.0, 1, "on one or more of the registers `%f8`, `%f1`, `%f2`, `%f3` and 4 others, .* find out which"),
    ],
)
def test_one_register_of_many_is_found_by_halves(monkeypatch, patience, launches, told):
    """And when the time is over, those are named of which one matters."""
    tried, before = [], pipec.sim.unset._differ
    monkeypatch.setattr(pipec.sim.unset, "_differ", lambda *given: tried.append(given) or before(*given))
    monkeypatch.setattr(pipec.sim.unset, "_PATIENCE", patience)
    if patience == 0.0:
        clock = iter([0.0, -1.0])  # the first launch begins in time, and no other one
        monkeypatch.setattr(pipec.sim.unset.time, "process_time", lambda: next(clock, 1.0))
    with pytest.raises(SimulationError, match=f"the results depend {told}") as caught:
        run(SEVEN)
    assert len(tried) == launches
    (finding,) = caught.value.findings
    assert ("also at PTX lines 8, 9, 10, 11, 12" in str(finding)) == (patience == 0.0)
