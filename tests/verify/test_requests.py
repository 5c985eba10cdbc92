"""Requests to the scheduler: none comes behind one of which the CTA knows that it failed, which PTX does not define."""

import numpy as np
import pytest

from pipec.protocol.judge import judge
from pipec.sim import Options, SimulationError, launch

KERNEL = """
.version 8.7
.target sm_100a
.address_size 64
.visible .entry k(.param .u32 n)
.reqntid 64
{{
  .reg .pred %p<9>; .reg .b32 %r<9>; .reg .b128 %q<3>;
  .shared .align 16 .b8 answer[16]; .shared .align 8 .b64 bar[2];
  mov.u32 %r0, %tid.x;
  mov.u32 %r3, 0; mov.u32 %r4, 0;
  setp.ne.u32 %p0, %r0, 0; setp.ge.u32 %p1, %r0, 32;
  @%p0 bra READY;
  mbarrier.init.shared::cta.b64 [bar], 1;
READY:
  bar.sync 0;
AGAIN:
  @%p0 bra WAIT;
  mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 16;
  clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [answer], [bar];
WAIT:
  mbarrier.try_wait.parity.shared::cta.b64 %p2, [bar], %r3;
  @!%p2 bra WAIT;
  xor.b32 %r3, %r3, 1;
  ld.shared.b128 %q1, [answer];
  clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p3, %q1;
  mov.b32 %r5, -1;
  @%p3 clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128 %r5, %q1;
  fence.proxy.async.shared::cta;
  bar.sync 0;
  {again}
  ret;
}}
"""
COUNT = "add.u32 %r4, %r4, 1; setp.lt.u32 %p4, %r4, 4;"
# By what follows an answer: whether another request comes only behind one that was granted.
AGAIN = {
    "@%p3 bra AGAIN;": True,
    "@!%p3 bra OUT; bra AGAIN; OUT:": True,
    "setp.ge.s32 %p4, %r5, 0; @%p4 bra AGAIN;": True,
    "selp.b32 %r6, 1, 0, %p3; setp.ne.u32 %p4, %r6, 0; @%p4 bra AGAIN;": True,
    f"{COUNT} and.pred %p4, %p4, %p3; @%p4 bra AGAIN;": True,
    "": True,
    f"{COUNT} @%p4 bra AGAIN;": False,
    f"{COUNT} or.pred %p4, %p4, %p3; @%p4 bra AGAIN;": False,
    "@%p3 bra AGAIN; setp.eq.u32 %p4, %r4, 1; @%p4 bra OUT; mov.u32 %r4, 1; bra AGAIN; OUT:": False,
    "@!%p3 bra AGAIN;": False,
    "setp.ge.s32 %p4, %r5, -1; @%p4 bra AGAIN;": False,
}


@pytest.mark.parametrize("again", AGAIN)
def test_a_request_behind_another(again: str) -> None:
    ptx = KERNEL.format(again=again)
    proved = judge(ptx, "k").certificate is not None
    assert proved is AGAIN[again]
    try:
        launch(ptx, "k", grid=2, arguments=(np.uint32(0),), options=Options("order", 0, 5000, trace=False))
    except SimulationError as error:
        assert not proved and error.kind == "undefined"
    else:
        # (Whether the first one fails depends on the launch.)
        assert proved or again == "@!%p3 bra AGAIN;"


def test_two_roles_that_ask() -> None:
    """One may know of a failure when the other asks."""
    other = "mov.b32 %r7, 32; setp.ne.u32 %p5, %r0, 32; @%p5 bra OVER; mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar+8], 16; "
    other += "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [other], [bar+8]; OVER: "
    other += "@!%p1 bra DONE; BOTH: mbarrier.try_wait.parity.shared::cta.b64 %p6, [bar+8], 0; @!%p6 bra BOTH; DONE: bar.sync 0;"
    ptx = KERNEL.format(again=other).replace(".shared .align 8", ".shared .align 16 .b8 other[16]; .shared .align 8")
    ptx = ptx.replace("[bar], 1;", "[bar], 1; mbarrier.init.shared::cta.b64 [bar+8], 1;")
    assert judge(ptx, "k").certificate is None
