"""What a barrier counts is read thread by thread and number by number: texts that look as if they signalled it alike, and do not."""

import pytest

from pipec.protocol.prove import Undecided, prove
from pipec.verify.checker.check import check
from pipec.verify.checker.configuration import Refused
from pipec.verify.network import Network, Unreadable
from pipec.verify.reader.read import read

HEAD = """
.version 8.8
.target sm_90a
.address_size 64
.extern .shared .align 1024 .b8 smem[];
.visible .entry k(.param .u32 n)
.reqntid {threads}
.reqnctapercluster 1, 1, 1
{{
	mov.u32 %r1, %tid.x;
	ld.param.u32 %r9, [n];
	setp.ne.b32 %p1, %r1, 0;
	mov.b32 %r4, 0;
	{body}
	ret;
}}
"""
INIT = "@%p1 bra $READY;\nmbarrier.init.shared.b64 [smem], {};\n$READY:\nbar.sync 0;\n"
WAIT = "$WAIT:\nmbarrier.try_wait.parity.shared.b64 %p5, [smem], %r4;\n@!%p5 bra $WAIT;\n"


def kernel(body: str, threads: int = 32) -> str:
    return HEAD.format(body=body, threads=threads)


def proved(network: Network) -> bool:
    try:
        check(network, prove(network))
    except (Undecided, Refused):
        return False
    return True


def test_a_barrier_is_initialised_once() -> None:
    """Initialised in every turn it begins each time with phase 0, while the parity that is waited for goes on."""
    turn = "mbarrier.arrive.shared.b64 _, [smem];\n" + WAIT + "xor.b32 %r4, %r4, 1;\n"
    again = "add.s32 %r20, %r20, 1;\nsetp.lt.s32 %p4, %r20, %r9;\n@%p4 bra $LOOP;\n"
    start = "mov.b32 %r20, 0;\n"
    assert proved(read(kernel(f"{start}{INIT.format(32)}$LOOP:\n{turn}{again}")))
    with pytest.raises(Unreadable, match="made ready again"):
        read(kernel(f"{start}$LOOP:\n{INIT.format(32)}{turn}{again}"))


# Lane 0 of two warps signals a barrier of a CTA of its choice, and then waits; the lanes beside it wait for one thing in the one warp and
# for another thing in the other, so that those two threads become two processes.
CHOOSING = """
	@%p1 bra $READY;
	mbarrier.init.shared.b64 [smem], {count};
	mbarrier.init.shared.b64 [smem+8], 1;
	mbarrier.init.shared.b64 [smem+16], 1;
$READY:
	bar.sync 0;
	and.b32 %r2, %r1, 31;
	shr.u32 %r3, %r1, 5;
	setp.eq.b32 %p2, %r3, 2;
	@%p2 bra $THIRD;
	setp.ne.b32 %p3, %r2, 0;
	@%p3 bra $OTHERS;
	shr.u32 %r5, %r1, 6;
	mov.u32 %r6, smem;
	mapa.shared::cluster.u32 %r7, %r6, %r5;
	mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r7];
$FIRST:
	mbarrier.try_wait.parity.shared.b64 %p5, [smem+8], 0;
	@!%p5 bra $FIRST;
	ret;
$OTHERS:
	setp.eq.b32 %p4, %r3, 0;
	@%p4 bra $SECOND;
$REST:
	mbarrier.try_wait.parity.shared.b64 %p5, [smem+8], 0;
	@!%p5 bra $REST;
	ret;
$SECOND:
	mbarrier.try_wait.parity.shared.b64 %p5, [smem+16], 0;
	@!%p5 bra $SECOND;
	ret;
$THIRD:
	setp.ne.b32 %p3, %r2, 0;
	@%p3 bra $END;
	mbarrier.arrive.shared.b64 _, [smem+8];
	mbarrier.arrive.shared.b64 _, [smem+16];
	mbarrier.arrive.shared.b64 _, [smem];
$END:
"""


@pytest.mark.parametrize(("count", "right"), [(3, True), (1, False), (2, False)])
def test_arrivals_at_chosen_ctas_of_threads_that_become_several_processes(count: int, right: bool) -> None:
    assert proved(read(kernel(CHOOSING.format(count=count), 96))) is right


COPY = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [smem+64], [%rd1], {}, [smem];"
ANNOUNCE = "mbarrier.arrive.expect_tx.shared.b64 _, [smem], {};"


@pytest.mark.parametrize(
    ("act", "readable"),
    [
        (ANNOUNCE.format(32) + COPY.format(16) + COPY.format(16), True),
        (ANNOUNCE.format(16) + COPY.format(-16) + COPY.format(32), False),
        (ANNOUNCE.format(24) + COPY.format(24), False),
        (ANNOUNCE.format(1 << 20) + COPY.format(1 << 20), False),
        ("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [smem], -16;" + ANNOUNCE.format(16), False),
        ("mbarrier.arrive.shared.b64 _, [smem], 0;\nmbarrier.arrive.shared.b64 _, [smem];", False),
    ],
)
def test_numbers_that_a_barrier_can_count(act: str, readable: bool) -> None:
    text = kernel(INIT.format(1) + f"@%p1 bra $WAIT;\n{act}\n" + WAIT)
    if readable:
        assert proved(read(text))
    else:
        with pytest.raises(Unreadable, match="not what a barrier counts"):
            read(text)


@pytest.mark.parametrize(
    ("barrier", "readable"), [("15, 32", True), ("16, 32", False), ("1, 0", False), ("1, 16", False), ("-1, 32", False)]
)
def test_named_barriers_are_sixteen_and_for_whole_warps(barrier: str, readable: bool) -> None:
    text = kernel(f"bar.sync {barrier};")
    if readable:
        assert proved(read(text))
    else:
        with pytest.raises(Unreadable, match="there is no barrier"):
            read(text)


@pytest.mark.parametrize("copies", [15, 16])
def test_bytes_under_way_that_a_barrier_can_count(copies: int) -> None:
    """2^20 - 1 at most, of all copies of a phase together."""
    announced = "\n".join(["mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [smem], 65536;"] * copies)
    act = announced + "\nmbarrier.arrive.shared.b64 _, [smem];\n" + "\n".join([COPY.format(65536)] * copies)
    assert proved(read(kernel(INIT.format(1) + f"@%p1 bra $WAIT;\n{act}\n" + WAIT))) is (copies < 16)


@pytest.mark.parametrize("quotient", ["div.u32 %r2, 5, {}", "rem.s32 %r2, %r1, {}"])
def test_what_a_division_by_zero_yields_is_not_known(quotient: str) -> None:
    """The PTX ISA leaves it to the machine."""
    decided = INIT.format(32) + "{};\nsetp.gt.s32 %p2, %r2, -1;\n@!%p2 bra $WAIT;\nmbarrier.arrive.shared.b64 _, [smem];\n" + WAIT
    assert proved(read(kernel(decided.format(quotient.format(7)))))
    with pytest.raises(Unreadable, match="what decides this branch"):
        read(kernel(decided.format(quotient.format("%r4"))))


KEPT = """mov.b32 %r20, 0;
setp.gt.s32 %p2, %r9, 0;
$AGAIN:
{asked}@!%p{number} bra $PAST;
mbarrier.arrive.shared.b64 _, [smem];
$PAST:
add.s32 %r20, %r20, 1;
setp.lt.s32 %p2, %r20, %r9;
@%p2 bra $AGAIN;
"""


@pytest.mark.parametrize(("asked", "number"), [("", 2), ("not.pred %p3, %p2;\n", 3)])
def test_a_condition_of_the_turn_before_is_said_to_be_one(asked: str, number: int) -> None:
    with pytest.raises(Unreadable, match="computed in several places, as in the turn before"):
        read(kernel(INIT.format(32) + KEPT.format(asked=asked, number=number) + WAIT))


MEET = "bar.warp.sync -1;"
ALIGNED = "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;"


@pytest.mark.parametrize(("first", "others", "right"), [(MEET, MEET, True), (ALIGNED, ALIGNED, False), (ALIGNED, MEET, False)])
def test_lanes_meet_at_one_aligned_instruction(first: str, others: str, right: bool) -> None:
    """bar.warp.sync lets lanes meet from different places; of what is `.aligned` all lanes have to execute the same one."""
    apart = f"@%p1 bra $OTHERS;\n{first}\nmbarrier.arrive.shared.b64 _, [smem];\nret;\n$OTHERS:\n{others}\n"
    assert proved(read(kernel(INIT.format(1) + apart + WAIT))) is right
    assert proved(read(kernel(f"{first}\n" + INIT.format(1) + apart.replace(first, MEET).replace(others, MEET) + WAIT)))


@pytest.mark.parametrize("apart", [True, False])
def test_a_named_barrier_counts_warps(apart: bool) -> None:
    """Lanes that come to it one after the other count for a warp each time (PTX ISA, barrier: the arrival count grows by the warp size)."""
    body = f"""
	setp.gt.u32 %p2, %r1, 31;
	bar.sync 0;
	@%p2 bra $SECOND;
	{"@%p1 bra $OTHERS;" if apart else ""}
	barrier.arrive 1, 64;
	ret;
$OTHERS:
	barrier.arrive 1, 64;
	ret;
$SECOND:
	barrier.sync 1, 64;
"""
    assert proved(read(kernel(body, 64))) is not apart


NUMBER = "mov.b32 %p2, %r9;\n"
SCHEDULED = (
    "ld.shared.b32 %r2, [smem+64];\nsetp.ne.s32 %p2, %r2, 0;\n@%p2 bra $READY;\n" + INIT.format(1) + WAIT
    + "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [smem+64], [smem];\n"
)  # fmt: skip


@pytest.mark.parametrize(
    "body",
    [
        INIT.format(32) + NUMBER + "@%p2 bra $WAIT;\nmbarrier.arrive.shared.b64 _, [smem];\n" + WAIT,
        INIT.format(32) + NUMBER + "not.pred %p3, %p2;\n@%p3 bra $WAIT;\nmbarrier.arrive.shared.b64 _, [smem];\n" + WAIT,
        INIT.format(32) + NUMBER + "selp.b32 %r4, 0, %r9, %p2;\nmbarrier.arrive.shared.b64 _, [smem];\n" + WAIT,
        SCHEDULED,
    ],
)
def test_what_is_not_followed_is_said_in_words(body: str) -> None:
    """A number used as a predicate, and barriers that an answer of the scheduler makes ready."""
    with pytest.raises(Unreadable) as refused:
        read(kernel(body))
    assert "the reader failed" not in str(refused.value)
