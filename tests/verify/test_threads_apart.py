"""Registers that hold another number in each thread of a class are never taken for one number of all of them."""

import pytest

from pipec.protocol.prove import prove
from pipec.verify.checker.check import check
from pipec.verify.network import Unreadable
from pipec.verify.reader.read import read

# Each turn all 32 lanes arrive and wait. After the hundredth turn %r20 holds something else; lanes in which it is odd leave the loop.
KERNEL = """
.version 8.8
.target sm_90a
.address_size 64
.extern .shared .align 1024 .b8 smem[];
.visible .entry k(.param .u32 n)
.reqntid 32
{{
	mov.u32 %r1, %tid.x;
	ld.param.u32 %r9, [n];
	setp.ne.b32 %p1, %r1, 0;
	mov.b32 %r4, 0;
	mov.b32 %r20, 0;
	mov.b32 %r22, 0;
	@%p1 bra $READY;
	mbarrier.init.shared.b64 [smem], 32;
$READY:
	bar.sync 0;
$LOOP:
	setp.ge.s32 %p8, %r22, %r9;
	@%p8 bra $END;
	and.b32 %r21, %r20, 1;
	setp.eq.b32 %p4, %r21, 1;
	@%p4 bra $END;
	mbarrier.arrive.shared.b64 _, [smem];
$WAIT:
	mbarrier.try_wait.parity.shared.b64 %p5, [smem], %r4;
	@!%p5 bra $WAIT;
	xor.b32 %r4, %r4, 1;
	add.s32 %r20, %r20, 2;
	add.s32 %r22, %r22, 1;
	setp.ne.s32 %p7, %r22, 100;
	@%p7 bra $LOOP;
	{late}
	bra $LOOP;
$END:
	ret;
}}
"""


@pytest.mark.parametrize("late", ["mov.b32 %r20, %r1;", "mov.u32 %r20, %clock;", "ld.shared.u8 %r20, [smem+64];"])
def test_lanes_that_would_leave_a_loop_at_different_turns(late: str) -> None:
    """A number for each lane, or one of which nothing is known, where a counter of the loop was before."""
    with pytest.raises(Unreadable, match="what decides this branch"):
        read(KERNEL.format(late=late))


@pytest.mark.parametrize(("late", "assumes"), [("mov.b32 %r20, 1;", False), ("ld.shared.u32 %r20, [smem+64];", True)])
def test_lanes_that_leave_it_together(late: str, assumes: bool) -> None:
    """That all find the same in memory is assumed, also where it decides in a later turn only."""
    network = read(KERNEL.format(late=late))
    check(network, prove(network))
    assert any(one.kind == "loads" for one in network.assumptions) is assumes
