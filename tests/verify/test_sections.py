"""What an elected lane does between the waits of its warp is read as a part of what the warp does, and of nothing else."""

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
	mbarrier.init.shared.b64 [smem], {full};
	mbarrier.init.shared.b64 [smem+8], 1;
$READY:
	bar.sync 0;
	ld.param.u32 %r9, [n];
	mov.b32 %r3, 0;
	mov.b32 %r4, 0;
	mov.b32 %r5, 1;
	mov.b32 %r6, 0;
	setp.ge.s32 %p4, %r3, %r9;
	@%p4 bra $END;
	elect.sync %r8|%p2, -1;
	not.pred %p3, %p2;
	shr.u32 %r2, %r1, 5;
	setp.ne.b32 %p6, %r2, 0;
	@%p6 bra $CONSUME;
$PRODUCE:
	mbarrier.try_wait.parity.shared.b64 %p5, [smem+8], %r5;
	@!%p5 bra $PRODUCE;
	xor.b32 %r5, %r5, 1;
	bar.warp.sync -1;
	{produce}
	add.s32 %r3, %r3, 1;
	setp.lt.s32 %p4, %r3, %r9;
	@%p4 bra $PRODUCE;
	bra $END;
$CONSUME:
	{before}
$WAIT:
	mbarrier.try_wait.parity.shared.b64 %p5, [smem], %r4;
	@!%p5 bra $WAIT;
	xor.b32 %r4, %r4, 1;
	{meet}
	@%p3 bra $JOIN;
	{act}
$JOIN:
	{after}
	add.s32 %r3, %r3, 1;
	setp.lt.s32 %p4, %r3, %r9;
	@%p4 bra $CONSUME;
$END:
	ret;
}}
"""
MEET = "bar.warp.sync -1;"
RELEASE = "mbarrier.arrive.shared.b64 _, [smem+8];"
ELECTED = "@%p3 bra $PAST;\n{}\n$PAST:"
FILL = ELECTED.format("mbarrier.arrive.shared.b64 _, [smem];")


def kernel(
    produce: str = FILL, before: str = "", meet: str = MEET, act: str = RELEASE, after: str = "", full: int = 1, threads: int = 64
) -> str:
    return KERNEL.format(produce=produce, before=before, meet=meet, act=act, after=after, full=full, threads=threads)


def proved(network: Network) -> bool:
    try:
        check(network, prove(network))
    except (Undecided, Refused):
        return False
    return True


def threads(network: Network) -> list[int]:
    return [process.threads for process in network.processes]


@pytest.mark.parametrize("after", ["", MEET])
def test_a_warp_of_which_one_lane_acts_is_one_process(after: str) -> None:
    network = read(kernel(after=after))
    assert threads(network) == [32, 32]
    assert proved(network)


@pytest.mark.parametrize(
    ("meet", "before", "after"),
    [("", "", ""), ("", "", MEET), ("", MEET, ""), ("", MEET, MEET)],
)
def test_lanes_that_have_not_met_since_they_waited_may_miss_a_phase(meet: str, before: str, after: str) -> None:
    """Wherever else they meet: between a wait and what the elected lane then does, the others may be late."""
    assert not proved(read(kernel(meet=meet, before=before, after=after)))


def test_a_section_before_the_wait_releases_an_unseen_stage() -> None:
    early = kernel(before=f"{MEET}\n@%p3 bra $EARLY;\n{RELEASE}\n$EARLY:", act="")
    assert not proved(read(early))


@pytest.mark.parametrize(
    ("act", "read_as"),
    [
        # The elected lane waits by itself: the others are a process of their own.
        ("$MORE: mbarrier.try_wait.parity.shared.b64 %p7, [smem], %r4;\n@!%p7 bra $MORE;\n" + RELEASE, [32, 1, 31]),
        ("bar.sync 1, 32;\n" + RELEASE, [32, 1, 31]),
    ],
)
def test_a_section_in_which_somebody_waits_is_none(act: str, read_as: list[int]) -> None:
    network = read(kernel(act=act, after=MEET))
    assert threads(network) == read_as
    assert not proved(network)


@pytest.mark.parametrize("waits", ["[smem], %r5", "[smem+8], %r4"])
def test_lanes_that_wait_for_something_else_are_apart(waits: str) -> None:
    """The other parity, or another barrier, in the lanes that are not elected."""
    other = f"@%p2 bra $MINE;\n$OTHER: mbarrier.try_wait.parity.shared.b64 %p7, {waits};\n@!%p7 bra $OTHER;\n$MINE:"
    try:
        network = read(kernel(before=other))
    except Unreadable:
        return
    assert threads(network) == [32, 1, 31]
    assert not proved(network)


def test_a_parity_that_a_section_changes_is_not_known_behind_it() -> None:
    """Each lane would wait for a phase of its own."""
    changed = kernel(act=f"{RELEASE}\nxor.b32 %r4, %r4, 1;", after=MEET)
    try:
        network = read(changed)
    except Unreadable:
        return
    assert threads(network) == [32, 1, 31] and not proved(network)


def test_a_register_that_holds_the_same_on_both_paths_is_known() -> None:
    """Compilers copy a value before the branch and once more behind it."""
    here = kernel(meet=f"{MEET}\nxor.b32 %r11, %r4, 1;\nmov.b32 %r4, %r11;", act=f"{RELEASE}\nmov.b32 %r4, %r11;")
    copied = here.replace(f"xor.b32 %r4, %r4, 1;\n\t{MEET}", MEET)
    assert copied != here
    network = read(copied)
    assert threads(network) == [32, 32] and proved(network)
    another = copied.replace(f"{RELEASE}\nmov.b32 %r4, %r11", f"{RELEASE}\nxor.b32 %r4, %r11, 1")
    assert another != copied
    try:
        network = read(another)
    except Unreadable:
        return
    assert threads(network) == [32, 1, 31] and not proved(network)


def test_bytes_announced_by_a_lane_that_does_not_arrive() -> None:
    """The arrival of the other lane may come before the announcement, and end the phase."""
    announce = ELECTED.format("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [smem], 16;")
    copy = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [smem+64], [%rd1], 16, [smem];"
    lane = "mov.u32 %r7, %laneid;\nsetp.ne.b32 %p8, %r7, 1;\n@%p8 bra $ONE;\nmbarrier.arrive.shared.b64 _, [smem];\n$ONE:\n"
    copied = f"@%p3 bra $COPY;\n{copy}\n$COPY:"
    with pytest.raises(Unreadable, match="announced by other threads"):
        read(kernel(produce=f"{announce}\n{lane}{copied}"))


def test_each_lane_of_a_section_counts() -> None:
    """All lanes but the first arrive: 31 of them."""
    produce = "@%p2 bra $PAST;\nmbarrier.arrive.shared.b64 _, [smem];\n$PAST:"
    for full, right in ((31, True), (1, False), (32, False)):
        network = read(kernel(produce=produce, full=full))
        assert threads(network) == [32, 32]
        assert proved(network) is right


def test_a_section_is_for_whole_warps() -> None:
    """The lanes of a warp that ends early are looked at apart from those that are left."""
    part = "mov.u32 %r7, %laneid;\nsetp.gt.u32 %p8, %r7, 15;\n@%p8 bra $END;\n$AGAIN:"
    network = read(kernel(before=part, meet="").replace("@%p4 bra $CONSUME", "@%p4 bra $AGAIN"))
    assert threads(network) == [32, 1, 15, 16]
    assert not proved(network)


def test_a_barrier_that_two_threads_make_ready_in_turns() -> None:
    once = "setp.ne.b32 %p1, %r1, 0;\n\t@%p1 bra $READY;"
    text = kernel()
    assert once in text
    loop = "mov.b32 %r20, 0;\n$TURN:\nsetp.ne.b32 %p1, %r1, %r20;\n@%p1 bra $READY;"
    ready = "$READY:\nadd.s32 %r20, %r20, 1;\nsetp.lt.s32 %p20, %r20, {};\n@%p20 bra $TURN;"
    for turns, readable in ((1, True), (2, False)):
        changed = text.replace(once, loop).replace("$READY:", ready.format(turns), 1)
        if readable:
            assert proved(read(changed))
        else:
            with pytest.raises(Unreadable, match="made ready twice"):
                read(changed)


COUNTED = "setp.gt.s32 %p9, %r9, {};\nand.pred %p10, %p2, %p9;\n@!%p10 bra $JOIN;"


@pytest.mark.parametrize(("bound", "meet", "right"), [("%r3", MEET, True), ("%r3", "", False), ("5", MEET, False)])
def test_a_section_under_a_condition_on_sizes(bound: str, meet: str, right: bool) -> None:
    """The elected lane and `i < n` in one predicate: what it asks of that lane is asked of nobody else."""
    text = kernel(meet=meet).replace("@%p3 bra $JOIN;", COUNTED.format(bound))
    assert text != kernel(meet=meet)
    network = read(text)
    assert threads(network) == [32, 32]
    assert proved(network) is right


# The lanes of the warps that consume meet, if the vote says so.
VOTED = "{}\n\t@!%p7 bra $WAIT;\n\tbar.warp.sync -1;"
BARRIER, WARP = "bar.red.or.pred %p7, 1, {}, %p2;", "vote.sync.any.pred %p7, %p2, -1;"


@pytest.mark.parametrize("vote", [BARRIER.format(32), WARP])
def test_a_vote_decides_where_lanes_meet(vote: str) -> None:
    assert proved(read(kernel(before=VOTED.format(vote))))


@pytest.mark.parametrize("vote", [BARRIER.format(32), WARP])
def test_a_vote_does_not_decide_what_is_signalled(vote: str) -> None:
    assert not proved(read(kernel(meet=vote, after="", act=f"@%p7 bra $JOIN;\n\t{RELEASE}")))


def test_warps_that_vote_separately_get_different_results() -> None:
    assert threads(read(kernel(before=VOTED.format(BARRIER.format(64)), threads=96))) == [32, 64]
    with pytest.raises(Unreadable, match="what decides this branch"):
        read(kernel(before=VOTED.format(WARP), threads=96))
