"""Bytes that copies and asynchronous stores deliver, before or after the arrival that announces them: what is proved runs, what is refuted
hangs."""

import re
from pathlib import Path

import pytest
from fuzz.ptx_judge import judged
from samples import volume

from pipec.verify.network import Unreadable
from pipec.verify.reader.read import read

KERNEL = """
.version 8.8
.target sm_100a
.address_size 64
.visible .entry k(.param .u32 n, .param .u32 m, .param .u64 buffer)
.reqntid 64
{{
	.reg .pred %p<4>; .reg .b32 %r<30>; .reg .b64 %rd<3>;
	.shared .align 1024 .b8 smem[4096];
	ld.param.u32 %r10, [n];
	ld.param.u64 %rd1, [buffer];
	cvta.to.global.u64 %rd2, %rd1;
	mov.u32 %r0, %tid.x;
	mov.u32 %r4, smem;
	shr.u32 %r3, %r0, 5;
	setp.ne.u32 %p0, %r0, 0;
	setp.ne.u32 %p1, %r3, 0;
	@%p0 bra $READY;
	mbarrier.init.shared.b64 [smem], 1;
	mbarrier.init.shared.b64 [smem+8], 32;
	fence.mbarrier_init.release.cluster;
$READY:
	bar.sync 0;
	mov.u32 %r20, 0;
$TURN:
	setp.ge.s32 %p2, %r20, %r10;
	@%p2 bra $DONE;
	and.b32 %r21, %r20, 1;
	@%p1 bra $TAKE;
	xor.b32 %r22, %r21, 1;
$FREE:
	mbarrier.try_wait.parity.shared.b64 %p3, [smem+8], %r22;
	@!%p3 bra $FREE;
	bar.warp.sync -1;
	@%p0 bra $NEXT;
	{fill}
	bra $NEXT;
$TAKE:
	mbarrier.try_wait.parity.shared.b64 %p3, [smem], %r21;
	@!%p3 bra $TAKE;
	mbarrier.arrive.shared.b64 _, [smem+8];
$NEXT:
	bar.warp.sync -1;
	add.s32 %r20, %r20, 1;
	bra $TURN;
$DONE:
	ret;
}}
"""
ASYNC = "mbarrier::complete_tx::bytes"
COPY = f"cp.async.bulk.shared::cluster.global.{ASYNC} [smem+1024], [%rd2], 16, [smem]; "
STORE = f"st.async.weak.shared::cluster.{ASYNC}.b32 [%r4+1024], %r20, [%r4]; "
STORES = f"st.async.weak.shared::cluster.{ASYNC}.v4.u32 [%r4+1024], {{%r20, %r20, %r20, %r20}}, [%r4]; "
ADD = f"red.async.relaxed.cluster.shared::cluster.{ASYNC}.add.u32 [%r4+1024], %r20, [%r4]; "
EXPECT = "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [smem], {}; "
ARRIVE = "mbarrier.arrive.shared.b64 _, [smem]; "
BOTH = "mbarrier.arrive.expect_tx.shared.b64 _, [smem], {}; "

PROVED = {
    "announced first": BOTH.format(16) + COPY,
    "copied first": COPY + BOTH.format(16),
    "in between": COPY + BOTH.format(48) + COPY + COPY,
    "announced, copied, arrived": EXPECT.format(16) + COPY + ARRIVE,
    "copied, announced, arrived": COPY + EXPECT.format(16) + ARRIVE,
    "copied and announced in turn": COPY + EXPECT.format(16) + COPY + BOTH.format(16),
    "a store": BOTH.format(4) + STORE,
    "four stores at once": BOTH.format(16) + STORES,
    "a reduction": BOTH.format(4) + ADD,
    "all kinds": STORE + COPY + BOTH.format(40) + ADD + STORES,
}
WRONG = {
    "one copy less": COPY + BOTH.format(32),
    "one copy more": COPY + BOTH.format(16) + COPY,
    "announced behind the arrival": ARRIVE + EXPECT.format(16) + COPY,
    "bytes for words": BOTH.format(1) + STORE,
    "one store for a vector": BOTH.format(16) + STORE,
}


@pytest.mark.parametrize("name", PROVED)
def test_bytes_of_one_phase_come_in_any_order(name: str) -> None:
    found = judged(KERNEL.format(fill=PROVED[name]), schedules=volume(2, 6))
    assert (found.said, found.contradiction) == ("proved", ""), found
    assert found.schedules


@pytest.mark.parametrize("name", WRONG)
def test_other_bytes_than_are_announced_are_not_proved(name: str) -> None:
    found = judged(KERNEL.format(fill=WRONG[name]))
    assert (found.said != "proved", found.contradiction) == (True, ""), found


@pytest.mark.parametrize("axes", ["1d", "2d", "3d"])
def test_a_copy_has_as_many_axes_as_its_map(axes: str) -> None:
    """Others are not defined, whatever they bring."""
    text = (Path(__file__).parents[1] / "golden" / "gemm.ptx").read_text(encoding="utf-8")
    changed = re.sub(r"cp\.async\.bulk\.tensor\.2d(\S+complete_tx)", rf"cp.async.bulk.tensor.{axes}\1", text)
    if axes == "2d":
        assert read(changed).processes
        return
    with pytest.raises(Unreadable, match="the number of bytes that the copy brings is not known"):
        read(changed)
