"""Memory that threads allocate on their stacks, against the arithmetic of a stack in NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from pipec.sim import ArrayArgument, Result, SimulationError, launch

HEAD = ".version 9.0\n.target sm_90a\n.address_size 64\n"
# Each thread allocates 12 * (t % 5) + 4 bytes, fills the last word, and does so again behind a saved stack, with another alignment.
FUNCTION = """.func (.reg .b64 %result) keep(.reg .b64 %size)
{ .reg .b64 %inner<3>; alloca.u64 %inner1, %size, 64; st.local.u64 [%inner1], %size; ld.local.u64 %result, [%inner1]; ret; }
"""
KERNEL = """.entry k(.param .u64 a) .reqntid 64
{ .reg .b32 %t; .reg .b32 %r<4>; .reg .b64 %d<12>; .reg .pred %p; .local .align 4 .b8 fixed[20];
mov.u32 %t, %tid.x; rem.u32 %r1, %t, 5; mad.lo.u32 %r1, %r1, 12, 4; cvt.u64.u32 %d1, %r1;
alloca.u64 %d2, %d1; add.u64 %d8, %d2, %d1; st.local.u32 [%d8+-4], %t;
stacksave.u64 %d3;
alloca.u64 %d4, %d1, 32; st.local.u32 [%d4], 7;
stackrestore.u64 %d3;
setp.lt.u32 %p, %t, 40; @%p alloca.u64 %d5, 16;
call (%d10), keep, (%d1); alloca.u64 %d6, 8;
ld.local.u32 %r2, [%d8+-4];
ld.param.u64 %d7, [a]; mad.wide.u32 %d7, %t, 48, %d7;
st.global.u64 [%d7], %d2; st.global.u64 [%d7+8], %d4; st.global.u64 [%d7+16], %d5; st.global.u64 [%d7+24], %d6;
st.global.u64 [%d7+32], %d10; cvt.u64.u32 %d9, %r2; st.global.u64 [%d7+40], %d9; ret; }
"""


def run(body: str, out: np.ndarray) -> Result:
    return launch(HEAD + body, "k", arguments=[ArrayArgument(out)])


def aligned(place: np.ndarray, to: int) -> np.ndarray:
    return (place + to - 1) // to * to


def test_a_stack_of_each_thread() -> None:
    out = np.zeros((64, 6), np.uint64)
    run(FUNCTION + KERNEL, out)
    thread = np.arange(64)
    size = 12 * (thread % 5) + 4
    first = aligned(np.full(64, 32), 8)  # behind 20 bytes, at a multiple of 16
    saved = first + size
    guarded = aligned(saved, 8)
    end = np.where(thread < 40, guarded + 16, saved)
    expected = [first, aligned(saved, 32), np.where(thread < 40, guarded, 0), aligned(end, 8), size, thread]
    assert np.array_equal(out, np.stack(expected, 1))


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        ("alloca.u64 %d1, 1048576;", "out_of_bounds"),
        ("L: alloca.u64 %d1, 4096; bra L;", "out_of_bounds"),
        ("alloca.u64 %d1, 64; stackrestore.u64 80;", "undefined"),
        ("alloca.u64 %d1, 64; stackrestore.u64 0;", "undefined"),
        ("alloca.u64 %d1, 64, 12;", "malformed"),
        ("alloca.u64 %d1, 64; st.local.u32 [%d1+65536], 1;", "out_of_bounds"),
    ],
)
def test_what_a_stack_does_not_have(fault: str, kind: str) -> None:
    body = f".entry k(.param .u64 a) .reqntid 32\n{{ .reg .b64 %d<4>; .local .b8 fixed[16]; {fault} ret; }}\n"
    if fault.endswith("80;"):
        # 80 is where the stack ends: nothing is cut off, and nothing is wrong.
        run(body, np.zeros(1, np.uint64))
        body = body.replace("80;", "88;")
    with pytest.raises(SimulationError) as caught:
        run(body, np.zeros(1, np.uint64))
    assert caught.value.kind == kind, str(caught.value)
