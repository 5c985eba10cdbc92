"""Orders of their own: the proxy of tensor maps, and the preceding grid."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from silicon import extras
from silicon.program import Program
from silicon.run import simulate

from pipec.sim import Options, Result, SimulationError, launch

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
READ, WRITE, GRID = "ld.global.b32 %r1, [%d1];", "st.global.b32 [%d2], %t;", "griddepcontrol.wait;"


def run(body: str, **checks) -> Result:
    arrays = [np.zeros(64, np.uint32) for _ in range(2)]
    return launch(f"{HEAD}{body} ret; }}", block=64, arguments=arrays, options=Options(checks=checks))


@pytest.mark.parametrize(
    "body",
    [f"{GRID} {READ} {WRITE}", f"@%p1 {GRID} bar.sync 0; {READ} {WRITE}", f"{READ} {WRITE}"],
    ids=["all wait", "one waits", "none"],
)
def test_what_comes_after_the_preceding_grid(body):
    assert run(body, grid="error").findings == []


@pytest.mark.parametrize(
    ("body", "verb"), [(f"{READ} {GRID}", "reads"), (f"{WRITE} {GRID}", "writes"), (f"@%p1 {GRID} {READ}", "reads")]
)
def test_what_comes_before_it(body, verb):
    with pytest.raises(SimulationError, match=f"{verb} global memory, and no griddepcontrol.wait stands before"):
        run(body, grid="error")
    # Weights may well be loaded before: nobody is told unless he asks.
    assert run(body).findings == []
