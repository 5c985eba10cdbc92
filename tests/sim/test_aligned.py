"""Lanes that parted come to `.aligned` instructions on ways that the paths of the text keep apart; all that counts is whether all come."""

from __future__ import annotations

import numpy as np
import pytest

from pipec.sim import SimulationError, launch

HEAD = """.version 9.0\n.target sm_90a\n.address_size 64
.entry k(.param .u64 out, .param .u32 n) { .reg .pred %p<4>; .reg .b32 %t, %r<9>; .reg .b64 %d<4>; .shared .align 4 .b32 word;
mov.u32 %t, %tid.x; ld.param.u64 %d1, [out]; ld.param.u32 %r1, [n]; setp.ne.u32 %p1, %t, 0; setp.eq.u32 %p2, %r1, 0;\n"""
SHOWN = "ld.shared.b32 %r2, [word]; mul.wide.u32 %d2, %t, 4; add.s64 %d2, %d1, %d2; st.global.b32 [%d2], %r2; ret; }"


def run(body: str, n: int, block: int = 64) -> np.ndarray:
    out = np.zeros(64, np.uint32)
    launch(f"{HEAD}{body}\n{SHOWN}", block=block, arguments=[out, np.uint32(n)])
    return out


# As nvcc makes `if (thread == 0) word = 7; if (!n) return; __syncthreads();`: each side tests n for itself, so that both may return.
TWICE_TESTED = (
    "@%p1 bra OTHERS; st.shared.b32 [word], 7; @%p2 bra END; bra MEET; END: ret; OTHERS: @%p2 bra END; MEET: bar.sync 0;"
)


def test_both_sides_test_for_themselves():
    assert (run(TWICE_TESTED, 1) == 7).all()
    assert (run(TWICE_TESTED, 0) == 0).all()


def test_lanes_that_ended_are_not_waited_for():
    only_first = "@!%p1 bra ALONE; exit; ALONE: st.shared.b32 [word], 7; bar.sync 0;"
    assert run(only_first, 1, block=32)[0] == 7


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("@%p1 bar.sync 0;", "bar.sync is .aligned, but only 31 of 32 live lanes of warp 0 execute it together"),
        (
            "@%p1 bra OTHERS; bar.sync 0; bra ON; OTHERS: bar.sync 0; ON:",
            "but only .* execute it together; others wait at PTX line 6",
        ),
        ("@%p1 bra ON; bar.sync 0; ON: bar.sync 0;", "bar.sync is .aligned, but only 1 of 32 live lanes of warp 0 execute it"),
    ],
)
def test_not_all_of_them_come(body, message):
    with pytest.raises(SimulationError, match=message) as caught:
        run(body, 1)
    assert caught.value.kind == "undefined"
