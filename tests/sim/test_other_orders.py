"""Orders of their own: the proxy of tensor maps, and the preceding grid."""

from __future__ import annotations

import dataclasses
import re

import numpy as np
import pytest
from silicon import extras
from silicon.program import Program
from silicon.run import simulate

from pipec.sim import Options, Result, SimulationError, Touched, launch

MAPS = [program for program in extras.programs() if program.name.startswith("tensormap_replace")][:3]
ACQUIRE = "fence.proxy.tensormap::generic.acquire.gpu [%rd2], 128;\n"
PUBLISHED = "published: bar.sync 0;\n"


def changed(program: Program, old: str, new: str) -> Program:
    assert program.body.count(old) == 1
    return dataclasses.replace(program, body=program.body.replace(old, new))


@pytest.mark.parametrize("program", MAPS, ids=lambda program: program.name)
def test_a_map_that_the_kernel_made_needs_the_fence_of_its_proxy(program):
    simulate(program, Options())
    with pytest.raises(SimulationError, match=r"tensormap::generic.acquire since") as caught:
        simulate(changed(program, ACQUIRE, ""), Options())
    assert caught.value.kind == "race" and caught.value.findings[0].check == "proxy"


def test_a_release_is_no_acquire():
    with pytest.raises(SimulationError, match=r"tensormap::generic.acquire since"):
        simulate(changed(MAPS[0], ACQUIRE, "fence.proxy.tensormap::generic.release.gpu;\n"), Options())


def fenced_by_others(before: str, behind: str) -> Program:
    """The other warps execute the fence, between these barriers; the first one uses the map."""
    fence = f"published: {before} @%p5 bra fenced;\n{ACQUIRE}fenced: {behind}\n"
    return changed(changed(MAPS[0], ACQUIRE, ""), PUBLISHED, fence)


def test_the_fence_may_be_in_another_warp():
    simulate(fenced_by_others("bar.sync 0;", "bar.sync 0;"), Options())
    # Before the map is known to be written, or with nothing that puts the user behind it, it does nothing.
    for barriers in (("", "bar.sync 0;"), ("bar.sync 0;", "")):
        with pytest.raises(SimulationError, match=r"tensormap::generic.acquire since"):
            simulate(fenced_by_others(*barriers), Options())


HEAD = """.version 9.0\n.target sm_100a\n.address_size 64
.entry k(.param .u64 a, .param .u64 b) { .reg .pred %p<3>; .reg .b32 %t, %r<4>; .reg .b64 %d<4>; mov.u32 %t, %tid.x; ld.param.u64 %d1, [a];
ld.param.u64 %d2, [b]; mul.wide.u32 %d3, %t, 4; add.s64 %d1, %d1, %d3; add.s64 %d2, %d2, %d3; setp.lt.u32 %p1, %t, 32;\n"""
READ, WRITE = "ld.global.b32 %r1, [%d1];", "st.global.b32 [%d2], %t;"
GRID, NEXT = "griddepcontrol.wait;", "griddepcontrol.launch_dependents;"


def run(body: str, programmatic: bool | list[Touched] | None = None, arrays: list[np.ndarray] | None = None, **checks) -> Result:
    arrays = [np.zeros(64, np.uint32) for _ in range(2)] if arrays is None else arrays
    return launch(f"{HEAD}{body} ret; }}", block=64, arguments=arrays, programmatic=programmatic, options=Options(checks=checks))


@pytest.mark.parametrize(
    "body",
    [f"{GRID} {READ} {WRITE}", f"@%p1 {GRID} bar.sync 0; {READ} {WRITE}", f"{GRID} {NEXT} {READ} {WRITE}"],
    ids=["all wait", "one waits", "others begin"],
)
@pytest.mark.parametrize("programmatic", [None, True, False])
def test_what_comes_after_the_preceding_grid(body, programmatic):
    assert run(body, programmatic).findings == []


BEFORE = {
    "read": (f"{READ} {GRID}", "reads global address .* no griddepcontrol.wait stands before"),
    "written": (f"{WRITE} {GRID}", "writes global address .* no griddepcontrol.wait stands before"),
    "other threads wait": (f"@%p1 {GRID} {READ}", "reads global address .* no griddepcontrol.wait stands before"),
    "never": (f"{READ} {WRITE}", "reads .* the kernel has no griddepcontrol.wait.*; also at PTX lines 6"),
}


@pytest.mark.parametrize("name", BEFORE)
def test_what_comes_before_it_in_a_programmatic_launch(name):
    body, text = BEFORE[name]
    (found,) = run(body, True).findings
    assert found.check == "grid" and re.search(text, str(found)), found
    assert run(body, False).findings == []
    with pytest.raises(SimulationError):
        run(body, True, grid="error")


@pytest.mark.parametrize(
    ("body", "told"),
    [
        # Weights may well be loaded before.
        (f"{READ} {GRID}", False),
        (f"{WRITE} {GRID}", True),
        # Nothing in the kernel says that it may overlap with the grid before.
        (f"{READ} {WRITE}", False),
        (f"{NEXT} {READ}", True),
    ],
)
def test_what_comes_before_it_in_a_launch_of_which_that_is_not_known(body, told):
    assert [found.check for found in run(body).findings] == ["grid"] * told


def test_memory_that_the_preceding_grids_touched():
    """An array is read early that a grid before writes; what it reads itself is not written early; other arrays are nobody's."""
    a, b, c = (np.zeros(64, np.uint32) for _ in range(3))
    before = run(f"{GRID} {READ} {WRITE}", False, [a, b]).touched
    assert before.kernel == "k"
    early = f"{READ} {GRID} {WRITE}"
    assert run(early, [before], [a, c]).findings == run(early, [before], [c, a]).findings == run(early, [], [b, a]).findings == []
    (found,) = run(early, [before], [b, c]).findings
    assert "which the preceding kernel `k` wrote, and no griddepcontrol.wait stands before" in str(found)
    (found,) = run(f"{WRITE} {GRID}", [before], [c, a]).findings
    assert "which the preceding kernel `k` read" in str(found)


@pytest.mark.parametrize("given", ["yes", 1, [1], [True]])
def test_programmatic_is_a_flag_or_what_grids_touched(given):
    with pytest.raises(SimulationError, match="a launch is programmatic or not"):
        run(READ, given)


# Loads that are machine code by then, too.
def test_early_reads_in_a_loop():
    loop = f"mov.u32 %r3, 0; L: {READ} add.u32 %r3, %r3, 1; setp.lt.u32 %p2, %r3, 400; @%p2 bra L; {GRID} {WRITE}"
    (found,) = run(loop, True).findings
    assert found.count == 800
    assert run(loop).findings == []
