"""Threads that have exited are not waited for where all lanes of a warp, all threads of a block or all of a cluster meet."""

import pytest

from pipec.protocol.judge import judge
from pipec.protocol.judgement import Judgement

KERNEL = """
.version 8.7
.target sm_100a
.address_size 64
.extern .shared .align 1024 .b8 smem[];
.visible .entry k(.param .u32 n)
.reqntid 64
{cluster}
{{
	.reg .pred %p<40>; .reg .b32 %r<90>;
	mov.u32 %r1, %tid.x;
	mov.u32 %r5, %laneid;
	ld.param.u32 %r2, [n];
	setp.ge.u32 %p1, %r1, 32;
	setp.ge.u32 %p2, %r5, 16;
	setp.eq.u32 %p3, %r5, 0;
	setp.ne.u32 %p4, %r1, 0;
	@%p4 bra $READY;
	mbarrier.init.shared.b64 [smem], 2;
$READY:
	bar.sync 0;
{body}
$END:
	ret;
}}
"""
LOOP = """
	mov.u32 %r10, 0;
$TURN:
	setp.ge.u32 %p8, %r10, %r2;
	@%p8 bra $END;
	{}
	add.u32 %r10, %r10, 1;
	bra $TURN;
"""
PAIR = ".reqnctapercluster 2, 1, 1\n.explicitcluster"
CLUSTER = "barrier.cluster.arrive;\n\tbarrier.cluster.wait;\n"
IN_TURN_3 = "setp.eq.u32 %p6, %r10, 3; and.pred %p6, %p6, %p{}; @%p6 bra $END;"
# Half of the lanes go a way of their own, on which one of each warp signals a barrier, and exit.
ALONE = (
    "\t@%p2 bra $ALONE;\n\t{}\n\tbra $END;\n$ALONE:\n\tsetp.eq.u32 %p7, %r5, 16;\n\t@%p7 mbarrier.arrive.shared.b64 _, [smem];\n"
)
ELECTED = "\telect.sync _|%p6, -1;\n\t@%p6 mbarrier.arrive.shared.b64 _, [smem];\n"


def judged(body: str, cluster: str = "") -> Judgement:
    return judge(KERNEL.format(body=body, cluster=cluster), "k")


@pytest.mark.parametrize(
    ("body", "cluster"),
    [
        ("\t@%p2 ret;\n\tbar.warp.sync -1;\n", ""),
        ("\tbar.warp.sync -1;\n\t@%p2 ret;\n" + LOOP.format("bar.warp.sync -1;"), ""),
        ("\t@%p1 ret;\n" + LOOP.format("bar.sync 0;"), ""),
        (LOOP.format("bar.sync 0; " + IN_TURN_3.format(1)), ""),
        (LOOP.format("bar.warp.sync -1; " + IN_TURN_3.format(2)), ""),
        ("\t@%p2 ret;\n" + ELECTED, ""),
        ("\t@%p2 ret;\n\tbar.sync 1;\n", ""),
        (ALONE.format("barrier.sync 1;"), ""),
        (ALONE.format("bar.warp.sync -1;"), ""),
        ("\tbarrier.cluster.arrive.aligned;\n\t@%p2 ret;\n\tbarrier.cluster.wait.aligned;\n", PAIR),
        (CLUSTER + "\t@%p1 ret;\n" + LOOP.format(CLUSTER), PAIR),
        ("\tmov.u32 %r7, %cluster_ctarank;\n\tsetp.eq.u32 %p5, %r7, 1;\n\t@%p5 ret;\n" + LOOP.format(CLUSTER), PAIR),
    ],
)
def test_the_others_go_on(body: str, cluster: str) -> None:
    found = judged(body, cluster)
    assert found.certificate is not None, found.why


@pytest.mark.parametrize(
    ("body", "cluster"),
    [
        ("\t@%p1 ret;\n" + LOOP.format("bar.sync 0, 64;"), ""),  # a number of threads is a number
        ("\t@%p2 ret;\n\ttcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;\n", ""),  # for whole warps
        (ALONE.format("bar.sync 1;"), ""),  # half of the lanes are still there, and do not come to it
        (ALONE.format("barrier.sync.aligned 1;"), ""),
        (ALONE.format("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"), PAIR),
        ("\t@%p3 ret;\n" + ELECTED, ""),  # another lane is elected then
        ("\tbarrier.cluster.arrive;\n\t@%p1 ret;\n\tbarrier.cluster.wait;\n" + LOOP.format(CLUSTER), PAIR),
        ("\t@%p1 ret;\n$W:\n\tmbarrier.try_wait.parity.shared.b64 %p6, [smem], 0;\n\t@!%p6 bra $W;\n", ""),
    ],
)
def test_where_exited_threads_are_missed(body: str, cluster: str) -> None:
    """Or it is not known which others take their place."""
    assert judged(body, cluster).certificate is None
