"""Generic addresses of which some are in the local memory of their lanes: accesses, races among lanes, text that is printed."""

from __future__ import annotations

import numpy as np
import pytest

from pipec.sim import Result, SimulationError, launch

HEAD = ".version 9.0\n.target sm_90a\n.address_size 64\n"
# Lane t has words in global (t % 3 == 0), shared (1) and local memory (2); %p is the generic address of its own.
KERNEL = """.entry k(.param .u64 a, .param .u32 n)
{{ .reg .pred %q<4>; .reg .b32 %t, %r<9>; .reg .b64 %p, %l, %g, %d<9>; .local .align 8 .b8 own[32]; .shared .align 8 .b8 all[256];
mov.u32 %t, %tid.x; ld.param.u64 %g, [a]; mul.wide.u32 %d1, %t, 8; add.u64 %g, %g, %d1;
mov.u64 %d2, all; cvta.shared.u64 %d2, %d2; add.u64 %d2, %d2, %d1; mov.u64 %l, own; cvta.local.u64 %l, %l;
ld.param.u32 %r1, [n]; mul.wide.u32 %d3, %r1, 8; add.u64 %l, %l, %d3;
rem.u32 %r2, %t, 3; setp.eq.u32 %q0, %r2, 0; setp.eq.u32 %q1, %r2, 1; selp.b64 %p, %d2, %l, %q1; selp.b64 %p, %g, %p, %q0;
{body}
ret; }}"""


def run(body: str, block: int = 32, number: int = 2) -> tuple[np.ndarray, Result]:
    words = np.zeros(64, np.uint64)
    result = launch(HEAD + KERNEL.format(body=body), "k", block=block, arguments=[words, np.uint32(number)])
    return words, result


@pytest.mark.parametrize("active", ["setp.ge.u32 %q2, %t, 0;", "setp.ne.u32 %q2, %t, 17;", "setp.gt.u32 %q2, %t, 29;"])
def test_each_lane_has_its_own(active):
    body = """{active} add.u32 %r3, %t, 100; add.u32 %r4, %t, 200; st.v2.u32 [%p], {{0, 0}};
    @%q2 st.v2.u32 [%p], {{%r3, %r4}};
    @%q2 ld.v2.u32 {{%r5, %r6}}, [%p];
    @%q2 st.global.v2.u32 [%g+256], {{%r5, %r6}};"""
    words, result = run(body.replace("{active}", active).replace("{{", "{").replace("}}", "}"))
    lanes = np.arange(32)
    taken = {"0;": lanes >= 0, "17;": lanes != 17, "29;": lanes > 29}[active.split()[-1]]
    assert (words[32:] == np.where(taken, lanes + 100 + (lanes + 200 << 32), 0)).all()
    assert not result.findings


def test_lanes_do_not_meet_in_local_memory():
    """Each lane changes the word that it has loaded, those in local memory at one generic address."""
    body = (
        "st.u64 [%p], 5; ld.u64 %d4, [%p]; add.u64 %d4, %d4, 1; st.u64 [%p], %d4; ld.u64 %d5, [%p]; st.global.u64 [%g+256], %d5;"
    )
    words, result = run(body)
    assert (words[32:] == 6).all()
    assert not result.findings


def test_lanes_that_meet_beside_it_are_reported():
    body = """xor.b32 %r3, %t, 3; mul.wide.u32 %d4, %r3, 8; mov.u64 %d5, all; cvta.shared.u64 %d5, %d5; add.u64 %d5, %d5, %d4;
    selp.b64 %d6, %l, %d2, %q0; selp.b64 %d7, %l, %d5, %q0; st.u64 [%d6], 5; ld.u64 %d8, [%d7]; st.global.u64 [%g+256], %d8;"""
    _, result = run(body)
    assert {finding.check for finding in result.findings} == {"lanes"}


def test_out_of_bounds_of_local_memory():
    with pytest.raises(SimulationError, match="local address 0x20 is outside the 32 bytes") as caught:
        run("st.u64 [%p], 5;", number=4)
    assert caught.value.kind == "out_of_bounds"


@pytest.mark.parametrize("operation", ["atom.add.u64 %d4, [%p], 1;", "red.add.u32 [%p], 1;"])
def test_atomic_operations_on_it_do_not_exist(operation):
    with pytest.raises(SimulationError, match="atomic operation on local memory") as caught:
        run(operation)
    assert caught.value.kind == "undefined"
    assert run("setp.ne.u32 %q2, %r2, 2; @%q2 " + operation)[0][:32:3].tolist() == [1] * 11


PRINTING = """.extern .func (.param .b32 r) vprintf (.param .b64 f, .param .b64 v);
.global .align 1 .b8 form[5] = {37, 115, 33, 10, 0};
.entry k() { .reg .pred %q; .reg .b32 %t, %r<3>; .reg .b64 %d<6>; .local .align 8 .b8 own[16];
mov.u32 %t, %tid.x; setp.lt.u32 %q, %t, 2; @!%q bra END;
add.u32 %r1, %t, 97; st.local.u8 [own+8], %r1; st.local.u8 [own+9], %r1; st.local.u8 [own+10], 0;
mov.u64 %d1, own; cvta.local.u64 %d1, %d1; add.u64 %d2, %d1, 8; st.local.u64 [own], %d2; mov.u64 %d3, form; cvta.global.u64 %d3, %d3;
{ .param .b64 f; .param .b64 v; .param .b32 r; st.param.b64 [f], %d3; st.param.b64 [v], %d1; call.uni (r), vprintf, (f, v); }
END: ret; }"""


def test_text_in_local_memory_is_printed():
    assert launch(HEAD + PRINTING, "k", block=32).printed == ["aa!\n", "bb!\n"]
