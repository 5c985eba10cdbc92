"""Threads of one process that are not synchronised: an arrival by some of them says nothing of the others."""

import pytest

from pipec.protocol.prove import Undecided, prove
from pipec.verify.checker.check import check
from pipec.verify.checker.configuration import Refused
from pipec.verify.network import Network, Unreadable
from pipec.verify.reader.read import read

KERNEL = """
.version 8.8
.target sm_90a
.address_size 64
.extern .shared .align 1024 .b8 smem[];
.visible .entry k(.param .u32 n)
.reqntid {threads}
{{
	mov.u32 %r1, %tid.x;
	setp.ne.b32 %p1, %r1, 0;
	@%p1 bra $READY;
	mbarrier.init.shared.b64 [smem], 1;
	mbarrier.init.shared.b64 [smem+8], {count};
$READY:
	bar.sync 0;
	ld.param.u32 %r9, [n];
	mov.b32 %r3, 0;
	mov.b32 %r4, 0;
	mov.b32 %r5, 1;
	setp.ge.s32 %p4, %r3, %r9;
	@%p4 bra $END;
	shr.u32 %r2, %r1, 5;
	setp.ne.b32 %p2, %r2, 0;
	@%p2 bra $CONSUME;
	setp.ne.b32 %p3, %r1, 0;
	@%p3 bra $END;
$PRODUCE:
	mbarrier.try_wait.parity.shared.b64 %p5, [smem+8], %r5;
	@!%p5 bra $PRODUCE;
	xor.b32 %r5, %r5, 1;
	mbarrier.arrive.shared.b64 _, [smem];
	add.s32 %r3, %r3, 1;
	setp.lt.s32 %p4, %r3, %r9;
	@%p4 bra $PRODUCE;
	bra $END;
$CONSUME:
	and.b32 %r6, %r1, {mask};
	setp.eq.b32 %p7, %r6, {chosen};
	and.b32 %r7, %r1, 31;
	setp.eq.b32 %p8, %r7, 0;
$WAIT:
	mbarrier.try_wait.parity.shared.b64 %p5, [smem], %r4;
	@!%p5 bra $WAIT;
	xor.b32 %r4, %r4, 1;
	{meet}
	@%p7 mbarrier.arrive.shared.b64 _, [smem+8];
	{after}
	add.s32 %r3, %r3, 1;
	setp.lt.s32 %p4, %r3, %r9;
	@%p4 bra $WAIT;
$END:
	ret;
}}
"""
LANES, ALL = "bar.warp.sync -1;", "bar.sync 1, 64;"


def proved(network: Network) -> bool:
    try:
        check(network, prove(network))
    except (Undecided, Refused):
        return False
    return True


@pytest.mark.parametrize(
    ("meet", "after", "right"),
    [(LANES, "", True), ("bar.sync 1, 32;", "", True), ("", "", False), ("", LANES, False)],
)
def test_a_lane_that_arrives_for_its_warp(meet: str, after: str, right: bool) -> None:
    """A lane that lags may else miss a phase, and wait for the next one of its parity."""
    text = KERNEL.format(threads=64, count=1, mask=31, chosen=0, meet=meet, after=after)
    assert proved(read(text)) is right


@pytest.mark.parametrize(
    ("meet", "count", "mask", "right"),
    [
        (ALL, 1, 63, True),  # one thread, after all have met
        (LANES, 2, 31, True),  # one lane of each warp
        (LANES, 1, 63, False),  # one thread, which knows its own warp only
        ("", 2, 31, False),
        (f"@%p8 {ALL}", 1, 63, None),
    ],
)
def test_a_thread_that_arrives_for_two_warps(meet: str, count: int, mask: int, right: bool | None) -> None:
    chosen = 32 if mask == 63 else 0
    text = KERNEL.format(threads=96, count=count, mask=mask, chosen=chosen, meet=meet, after="")
    if right is None:
        assert not proved(read(text))
    else:
        assert proved(read(text)) is right


def test_a_wait_that_is_not_executed_leaves_its_register() -> None:
    """`%p9` is false from the start, so nobody waits in the branch that it decides."""
    text = KERNEL.format(threads=64, count=1, mask=31, chosen=0, meet=LANES, after="")
    peek = "setp.ne.b32 %p9, %r4, %r4;\n\tsetp.ne.b32 %p10, %r4, %r4;\n\t{guard} mbarrier.try_wait.parity.shared.b64 %p9, [smem], %r4;\n"
    for guard, readable in (("@%p10", True), ("", False)):
        changed = text.replace("$CONSUME:\n", f"$CONSUME:\n\t{peek.format(guard=guard)}\t@%p9 bra $END;\n")
        if readable:
            assert proved(read(changed))
        else:
            with pytest.raises(Unreadable):
                read(changed)


@pytest.mark.parametrize("change", ["mov.b32 %r6, 7", "add.s32 %r6, %r1, 7"])
def test_a_register_of_a_lane_that_went_another_way_is_not_known(change: str) -> None:
    """Lane 0 alone changes %r6; what it shuffles to the others is not what they would have computed."""
    text = KERNEL.format(threads=64, count=1, mask=31, chosen=0, meet=LANES, after="")
    shuffled = "shfl.sync.idx.b32 %r10, %r6, 0, 31, -1;\n\tsetp.ne.b32 %p11, %r10, 0;\n\t@%p11 bra $END;\n"
    whole = text.replace("$WAIT:\n", f"{shuffled}$WAIT:\n", 1)
    assert proved(read(whole))
    divided = text.replace(
        "$WAIT:\n",
        f"\t@!%p8 bra $JOIN;\n\t{change};\n\tbar.warp.sync -1;\n\tbra $ON;\n$JOIN:\n\tbar.warp.sync -1;\n$ON:\n\t{shuffled}$WAIT:\n",
        1,
    )
    with pytest.raises(Unreadable):
        read(divided)
