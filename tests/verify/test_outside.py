"""What makes a thread wait beside barriers: loops over memory, turns of blocks, tensor memory. All of it is named, or refused."""

import json

import pytest

from pipec.protocol.prove import prove
from pipec.verify.checker.check import check
from pipec.verify.network import Arrive, Edge, Network, Unreadable, Wait, edges_of
from pipec.verify.network import Test as Branch
from pipec.verify.reader.read import read
from tests.verify.equivalents import plain

KERNEL = """
// pipec.kernel {interface}
.version 8.8
.target sm_100a
.address_size 64
.extern .shared .align 1024 .b8 smem[];
.visible .entry k(.param .u64 k_ptr_c, .param .u64 k_ptr_x, .param .u32 k_dim_B)
.reqntid 32
{{
	mov.u32 %r1, %tid.x;
	ld.param.u64 %rd1, [k_ptr_c];
	ld.param.u64 %rd2, [k_ptr_x];
	ld.param.u32 %r2, [k_dim_B];
	cvta.to.global.u64 %rd3, %rd1;
	cvta.to.global.u64 %rd4, %rd2;
	mov.u32 %r3, %ctaid.x;
	mov.u32 %r20, %ctaid.y;
	setp.ne.b32 %p1, %r1, 0;
{body}
$END:
	bar.sync 0;
	ret;
}}
"""


def network(body: str, grid: list[object] | None = None) -> Network:
    interface = {
        "kernel": "k",
        "parameters": [
            {"kind": "pointer", "symbol": "k_ptr_c", "tensor": "c"},
            {"kind": "pointer", "symbol": "k_ptr_x", "tensor": "x"},
            {"kind": "dimension", "symbol": "k_dim_B", "dimension": "B"},
        ],
        "roles": [],
        "barriers": [],
        "grid": grid or ["B", 1, 1],
    }
    return read(KERNEL.format(interface=json.dumps(interface), body=body))


def kinds(body: str, grid: list[object] | None = None) -> list[str]:
    return [one.kind for one in network(body, grid).assumptions]


@pytest.mark.parametrize("negated", ["", "!"])
def test_an_event_that_depends_on_a_size_is_followed_by_the_next(negated: str) -> None:
    """Whether it happens or not: the event behind it is not left out."""
    ready = "".join(f"\tmbarrier.init.shared.b64 [smem+{8 * one}], 32;\n" for one in range(3))
    arrive = "mbarrier.arrive.shared.b64 _, [smem+{}];\n"
    events = f"\t@{negated}%p2 {arrive.format(0)}\t{arrive.format(8)}\t{arrive.format(16)}"
    found = network(f"\t@%p1 bra $READY;\n{ready}$READY:\n\tbar.sync 0;\n\tsetp.gt.s32 %p2, %r2, 5;\n{events}")
    (process,) = found.processes

    def first(edge: Edge) -> int:
        action = process.states[edge.target].action
        assert isinstance(action, Wait | Arrive)
        return found.rings[action.use.ring].instances[0]

    (test,) = (state.action for state in process.states if isinstance(state.action, Branch))
    assert first(test.no) - first(test.yes) == 8


READY = "\t@%p1 bra $READY;\n\tmbarrier.init.shared.b64 [smem], 32;\n$READY:\n\tbar.sync 0;\n"
TOUCH = "\tmbarrier.arrive.shared.b64 _, [smem];\n"
GIVE_UP = "\t@%p1 bra $OVER;\n\tmbarrier.inval.shared.b64 [smem];\n$OVER:\n"
MEET = "\tbar.sync 0;\n"


@pytest.mark.parametrize("text", [TOUCH + MEET + GIVE_UP, TOUCH + MEET + MEET + GIVE_UP + MEET])
def test_a_barrier_is_given_up_when_all_have_met(text: str) -> None:
    assert plain(network(READY + text)) == plain(network(READY + text.replace(GIVE_UP, "")))


@pytest.mark.parametrize(
    "text",
    [
        TOUCH + MEET + GIVE_UP + GIVE_UP.replace("OVER", "AGAIN"),
        TOUCH + MEET + "\tmbarrier.inval.shared.b64 [smem];\n",
        TOUCH + GIVE_UP,
        TOUCH + MEET.replace("0", "1, 32") + GIVE_UP,
        MEET + GIVE_UP + TOUCH,
        MEET + TOUCH + GIVE_UP + MEET,
        "\tsetp.gt.s32 %p2, %r2, 5;\n\t@%p2 bra $ON;\n" + MEET + "$ON:\n" + TOUCH + MEET + GIVE_UP,
        "\tsetp.gt.s32 %p2, %r2, 5;\n\t@%p2 bra $ON;\n"
        + MEET
        + TOUCH
        + "\tbra.uni $THERE;\n$ON:\n"
        + MEET
        + GIVE_UP
        + "$THERE:\n",
        TOUCH + MEET + GIVE_UP.replace("[smem]", "[smem+8]"),
    ],
)
def test_a_barrier_that_somebody_may_touch_is_not_given_up(text: str) -> None:
    with pytest.raises(Unreadable, match=r"given up|no barrier at"):
        network(READY + text)


@pytest.mark.parametrize("turned", ["", "\tnot.pred %p5, %p5;\n"])
@pytest.mark.parametrize(("value", "negated", "happens"), [(-1, "", True), (-1, "!", False), (0, "", False), (0, "!", True)])
def test_an_event_under_a_known_predicate(value: int, negated: str, happens: bool, turned: str) -> None:
    found = network(f"{READY}\tmov.pred %p5, {value};\n{turned}\t@{negated}%p5 {TOUCH.strip()}\n")
    (process,) = found.processes
    rings = [found.rings[action.use.ring].kind for state in process.states if isinstance(action := state.action, Arrive)]
    assert ("mbarrier" in rings) == (happens != bool(turned))


def loop(step: str = "add.s32 %r4, %r4, 1;", test: str = "setp.lt.s32 %p2, %r4, %r2;", more: str = "") -> str:
    return f"\tmov.b32 %r4, 0;\n$LOOP:\n\tst.global.b32 [%rd4], %r4;\n\t{more}\n\t{step}\n\t{test}\n\t@%p2 bra $LOOP;\n"


ALLOCATE = "\ttcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [smem], {};\n"
LARGE = "\tsetp.gt.s32 %p2, %r2, 5;\n"
GIVE_BACK = "\tld.shared.b32 %r9, [smem];\n\ttcgen05.dealloc.cta_group::1.sync.aligned.b32 %r9, {};\n"


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (loop(), []),
        (loop("mov.b32 %r5, %r4; add.s32 %r4, %r5, 1;"), []),
        (loop("sub.s32 %r4, %r4, 1;", "setp.gt.s32 %p2, %r4, 0;"), []),
        (loop("add.s32 %r4, %r4, 2;", "setp.lt.s32 %p2, %r4, 100;"), []),
        (loop("add.s32 %r4, %r4, 1;", "setp.ge.s32 %p3, %r4, %r2;\n\tnot.pred %p2, %p3;"), []),
        (loop("add.s32 %r4, %r4, 2;"), ["loops"]),  # may step over the largest number
        (loop("add.s32 %r4, %r4, 2;", "setp.ne.b32 %p2, %r4, %r2;"), ["loops"]),
        (loop("@%p1 add.s32 %r4, %r4, 1;"), ["loops"]),
        (loop("add.s32 %r4, %r4, 0;"), ["loops"]),
        (loop("sub.s32 %r4, %r4, 1;"), ["loops"]),
        (loop("sub.s32 %r4, %r4, 1;", "setp.ge.s32 %p2, %r4, 0;"), []),
        (loop("sub.s32 %r4, %r4, 1;", "setp.ge.u32 %p2, %r4, 0;"), ["loops"]),  # always
        (loop("sub.s32 %r4, %r4, 1;", "setp.hs.u32 %p2, %r4, 0;"), ["loops"]),
        (loop("sub.s32 %r4, %r4, 2;", "setp.ge.u32 %p2, %r4, 1;"), ["loops"]),
        (loop("sub.s32 %r4, %r4, 2;", "setp.ge.u32 %p2, %r4, 2;"), []),
        (loop("add.s16 %r4, %r4, 2;", "setp.lt.u16 %p2, %r4, 65535;"), ["loops"]),  # steps over the end
        (loop("add.u16 %r4, %r4, 65536;", "setp.lt.u16 %p2, %r4, 7;"), ["loops"]),  # stays where it is
        (loop("add.s16 %r4, %r4, 1;", "setp.lt.u16 %p2, %r4, 65535;"), []),
        (loop("add.s32 %r4, %r4, 2147483648; add.s32 %r4, %r4, 2147483648;", "setp.eq.s32 %p2, %r4, 0;"), ["loops"]),
        (loop("mov.b32 %r7, %r4; add.s32 %r4, %r7, 2147483648; add.s32 %r6, %r4, 1;", "setp.eq.s32 %p2, %r6, 1;"), []),
        (loop("add.s32 %r7, %r4, 2147483648; add.s32 %r4, %r7, 2147483648;", "setp.eq.s32 %p2, %r4, 0;"), ["loops"]),
        # What is compared lies an odd number ahead of what moves on by an even one.
        (loop("add.s32 %r5, %r4, 1; add.s32 %r4, %r4, 4;", "setp.ne.s32 %p2, %r5, 300;"), ["loops"]),
        (loop("add.s32 %r5, %r4, 4; add.s32 %r4, %r4, 1;", "setp.ne.s32 %p2, %r5, 300;"), []),
        (loop("add.s32 %r5, %r4, -5; add.s32 %r4, %r4, 4;", "setp.gt.s32 %p2, %r5, 0;"), ["loops"]),
        (loop(more="add.s32 %r2, %r2, 1;"), ["loops"]),  # the bound moves, too
        (loop(more="@%p1 bra $SKIP;\n\tmov.b32 %r6, 0;\n$SKIP:"), []),
        (loop("@%p1 bra $SKIP;\n\tadd.s32 %r4, %r4, 1;\n$SKIP:"), ["loops"]),
        (loop("ld.global.b32 %r4, [%rd3];"), ["polling"]),  # the same place in every turn
        (loop("ld.shared.b32 %r7, [%r5+8]; add.s32 %r4, %r7, 1;"), ["polling"]),
        (loop("@%p1 ld.global.b32 %r4, [%rd3];"), ["loops"]),  # %r4 is carried on
        (loop("@%p1 ld.global.b32 %r4, [%rd3]; mov.b32 %r4, %r2;"), ["loops"]),
        (loop("mov.b32 %r4, 0; @%p1 ld.global.b32 %r4, [%rd3];"), ["polling"]),
        (loop("ld.global.b32 %r4, [%rd3]; add.s64 %rd3, %rd3, 4;"), ["loops"]),
        (loop("ld.global.b32 %r7, [%rd3]; add.s32 %r4, %r4, %r7;"), ["loops"]),
        (loop("ld.acquire.gpu.global.b32 %r4, [%rd3];"), ["polling"]),
        (loop("ld.volatile.global.b32 %r4, [%rd3];"), ["polling"]),
        (loop("atom.global.add.u32 %r4, [%rd3], 0;"), ["polling"]),
        (loop(more="ld.acquire.gpu.global.b32 %r7, [%rd3];"), []),  # looks, but not for ever
        ("\tgriddepcontrol.wait;", ["preceding grid"]),
        (f"{ALLOCATE.format(512)}{GIVE_BACK.format(512)}", ["tensor memory"]),
        # On both ways, in two places.
        (
            f"{ALLOCATE.format(512)}{LARGE}\t@%p2 bra $ON;\n{GIVE_BACK.format(512)}\tbra.uni $END;\n$ON:\n{GIVE_BACK.format(512)}",
            ["tensor memory"],
        ),
        ("\tmov.u32 %r4, %cluster_ctarank;", ["cluster"]),
        ("\tsetmaxnreg.inc.sync.aligned.u32 240;", ["registers"]),
        ("", []),
    ],
)
def test_what_is_named(text: str, named: list[str]) -> None:
    assert kinds(text) == named


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (f"{ALLOCATE.format(512)}{GIVE_BACK.format(256)}", "give back"),
        (ALLOCATE.format(512), "give back"),
        (f"{ALLOCATE.format(512)}{LARGE}\t@%p2 bra $END;\n{GIVE_BACK.format(512)}", "on every way"),
        (f"{LARGE}\t@%p2 bra $END;\n{ALLOCATE.format(512)}\tbar.warp.sync -1;\n$END0:\n", "give back"),
        (f"{ALLOCATE.format(512)}{loop(more=GIVE_BACK.format(512))}", "in a loop"),
        (f"{ALLOCATE.format(48)}{GIVE_BACK.format(48)}", "48 columns"),
        (f"{ALLOCATE.format(512)}{ALLOCATE.format(32)}{GIVE_BACK.format(512)}{GIVE_BACK.format(32)}", "more than 512"),
        (f"\ttcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;\n{ALLOCATE.format(32)}{GIVE_BACK.format(32)}", "permit"),
        ("\tbar.sync 1, 48;\n", "no barrier 1 for 48 threads"),
    ],
)
def test_what_no_machine_does_is_not_read(text: str, why: str) -> None:
    with pytest.raises(Unreadable, match=why):
        network(text)


def test_each_warp_asks_for_tensor_memory() -> None:
    """Two warps that execute one instruction ask twice."""
    once = KERNEL.replace(".reqntid 32", ".reqntid {threads}").replace("{interface}", "{{}}")
    text = f"{ALLOCATE.format(512)}{GIVE_BACK.format(512)}"
    assert [one.kind for one in read(once.format(threads=32, body=text)).assumptions] == ["tensor memory"]
    with pytest.raises(Unreadable, match="more than 512 columns"):
        read(once.format(threads=64, body=text))


def test_a_warp_of_fewer_threads_counts_as_a_whole_one() -> None:
    text = KERNEL.replace(".reqntid 32", ".reqntid 48").format(interface="{}", body="\tbar.sync 1, 64;\n")
    found = read(text)
    check(found, prove(found))


def test_threads_may_leave_under_a_predicate() -> None:
    text = KERNEL.replace(".reqntid 32", ".reqntid 64").format(
        interface="{}", body="\tsetp.lt.u32 %p7, %r1, 32;\n\t@%p7 exit;\n\tbar.sync 1, 32;\n\tbar.warp.sync -1;\n\texit;\n"
    )
    found = read(text)
    check(found, prove(found))


WAIT = "$POLL:\n\tld.acquire.gpu.global.b32 %r8, [%rd3];\n\tsetp.ne.b32 %p4, %r8, %r3;\n\t@%p4 bra $POLL;\n"
NEXT = "\tadd.s32 %r9, %r3, 1;\n"
LAST = "\tadd.s32 %r10, %r2, -1;\n\tsetp.eq.b32 %p5, %r3, %r10;\n\tselp.b32 %r9, 0, %r9, %p5;\n"
HALF = "\tshl.b32 %r10, %r3, 1;\n\tadd.s32 %r10, %r10, 2;\n\tsetp.gt.s32 %p5, %r10, %r2;\n\tselp.b32 %r9, 0, %r9, %p5;\n"
PASS = "\tst.release.gpu.global.b32 [%rd3], %r9;\n"
ONE = "\t@%p1 bra $END;\n"
TURN = ONE + WAIT + NEXT + LAST + PASS


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (TURN, ["turns"]),
        (ONE + WAIT + NEXT + PASS, ["turns"]),  # the counter does not begin again
        (TURN.replace("setp.ne.b32 %p4, %r8, %r3;\n\t@%p4", "setp.eq.b32 %p4, %r3, %r8;\n\t@!%p4"), ["turns"]),
        (TURN.replace("setp.ne.b32 %p4", "setp.eq.b32 %p4"), ["polling"]),
        (TURN.replace(ONE, ""), ["polling"]),  # all threads
        (ONE + WAIT + NEXT + LAST, ["polling"]),  # nobody passes it on
        (ONE + NEXT + LAST + PASS + WAIT, ["polling"]),
        (TURN + PASS, ["polling"]),
        (TURN + WAIT.replace("POLL", "AGAIN"), ["polling"]),
        (
            ONE + "\tsetp.lt.s32 %p6, %r2, 5;\n\t@%p6 bra $END;\n" + WAIT + NEXT + PASS,
            ["turns"],
        ),  # in a launch by all blocks, or by none
        (ONE + WAIT + NEXT + "\tsetp.lt.s32 %p6, %r2, 5;\n\t@%p6 bra $END;\n" + PASS, ["polling"]),
        (TURN.replace("add.s32 %r9, %r3, 1", "add.s32 %r9, %r3, 2"), ["polling"]),
        (TURN.replace("add.s32 %r10, %r2, -1", "add.s32 %r10, %r2, -2"), ["polling"]),  # begins again too early
        (ONE + WAIT + NEXT + HALF + PASS, ["polling"]),  # begins again in the second half of the blocks
        (TURN.replace("[%rd3], %r9", "[%rd3+4], %r9"), ["polling"]),
        (TURN + "\tst.global.b32 [%rd3], %r2;\n", ["polling"]),  # somebody else writes the counter
        (TURN + "\tst.global.b32 [%rd4], %r2;\n", ["turns"]),
        (TURN.replace("%p4, %r8, %r3", "%p4, %r8, %r2"), ["polling"]),
        (TURN.replace("ld.acquire.gpu.global.b32", "ld.acquire.gpu.global.u8"), ["polling"]),  # a byte never becomes 256
        (TURN.replace("ld.acquire.gpu.global", "ld.acquire.cta.global"), ["polling"]),
        (TURN.replace("ld.acquire.gpu.global", "ld.acquire.gpu.shared"), ["polling"]),
        (TURN.replace("setp.ne.b32 %p4", "setp.ne.ftz.f32 %p4"), ["polling"]),  # small numbers are equal then
        (TURN.replace("st.release.gpu.global.b32", "st.release.gpu.global.b16"), ["polling"]),
        (TURN.replace("st.release.gpu.global", "st.release.cta.global"), ["polling"]),
    ],
)
def test_turns(text: str, named: list[str]) -> None:
    assert kinds(text) == named


COUNT = """	mov.b32 %r20, 0;
$MORE:
	setp.ge.s32 %p9, %r20, %r3;
	@%p9 bra $COUNTED;
	add.s32 %r20, %r20, 1;
	bra $MORE;
$COUNTED:
"""


@pytest.mark.parametrize(
    "index",
    [
        COUNT,
        "\tst.global.b32 [%rd4], %r3;\n\tld.global.b32 %r20, [%rd4];\n",
        "\tld.shared.b32 %r20, [smem];\n",
        "\tvote.sync.ballot.b32 %r20, %p1, -1;\n",
        "\tmov.u32 %r20, %clusterid.x;\n",
        "\tmov.u32 %r20, %smid;\n",
    ],
)
def test_a_counter_that_may_be_another_one_in_each_block(index: str) -> None:
    assert kinds(index + ROW + TURN)[-1] == "polling"


# Of the place along z times a stride.
LAYER = "\tmov.u32 %r21, %ctaid.z;\n\tcvt.u64.u32 %rd7, %r21;\n\tmul.lo.s64 %rd8, %rd7, %rd4;\n\tadd.s64 %rd3, %rd3, %rd8;\n"
STRIDED = LAYER.replace("mov.u32 %r21, %ctaid.z;\n\tcvt.u64.u32 %rd7, %r21", "cvt.u64.u32 %rd7, %r20")
PLACE = "\tcvt.u64.u32 %rd5, %r20;\n"
ROW = f"{PLACE}\tshl.b64 %rd6, %rd5, 2;\n\tadd.s64 %rd3, %rd3, %rd6;\n"


@pytest.mark.parametrize(
    ("grid", "row", "named"),
    [
        (["B", 4, 1], ROW, ["turns"]),
        (["B", 4, 1], "", ["polling"]),  # blocks of all rows share one counter, and take each turn four times
        (["B", 4, 1], ROW.replace("%r20", "%r3"), ["polling"]),  # a counter of its own for each block
        (["B", 4, 1], ROW.replace("shl.b64 %rd6, %rd5, 2", "shr.u64 %rd6, %rd5, 1"), ["polling"]),
        (["B", 4, 2], ROW, ["polling"]),
        (["B", 4, 2], ROW + LAYER, ["turns"]),
        (["B", 4, 2], LAYER, ["polling"]),
        (["B", 4, 2], STRIDED + LAYER, ["polling"]),  # (0, 1) and (1, 0) share one
        (["B", 4, 1], STRIDED, ["turns"]),
        (["B", 4, 1], ROW + STRIDED, ["polling"]),  # what that adds up to is not asked
        (
            ["B", 4, 2],
            ROW + LAYER.replace("cvt.u64.u32 %rd7, %r21", "shr.u32 %r21, %r21, 1;\n\tcvt.u64.u32 %rd7, %r21"),
            ["polling"],
        ),
        (["B", 4, 2], ROW + LAYER.replace("%rd7, %rd4", "%rd7, %rd7"), ["polling"]),
        (["B", 4, 2], PLACE + LAYER.replace("%rd7, %rd4", "%rd7, %rd5"), ["polling"]),  # (0, 0), (0, 1) and (1, 0) share one
        ([["+", "B", 1], 1, 1], "", ["polling"]),  # one block more than turns
        ([["*", "B", 1], 1, 1], "", ["turns"]),
        ([["min", "B", 4], 1, 1], "", ["polling"]),
    ],
)
def test_turns_of_a_grid(grid: list[object], row: str, named: list[str]) -> None:
    assert kinds(row + TURN, grid) == named


ENDLESS = """
	mov.b32 %r4, 0;
$SPIN:
	xor.b32 %r4, %r4, 1;
	bar.warp.sync -1;
	setp.eq.s32 %p2, %r4, 2;
	@!%p2 bra $SPIN;
"""
ALLOCATE = "\ttcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [smem], {};\n"


@pytest.mark.parametrize(
    "text",
    [
        ALLOCATE.format(512) + ALLOCATE.format(32),
        loop(more=ALLOCATE.format(32)),
        ALLOCATE.format("%r2"),
        "\tst.async.shared::cluster.b32 [smem], %r2, [smem+8];\n",
        "\tcp.async.bulk.global.shared::cta [%rd3], [smem], 16;\n",
        "\ttcgen05.unheard_of;\n",
        "\twgmma.unheard_of;\n",
        "\tcp.async.unheard_of;\n",
        "\tmbarrier.complete_tx.shared.b64 [smem], 16;\n",
        "\tmbarrier.arrive_drop.shared.b64 _, [smem];\n",
        "\tbarrier.cta.red.popc.u32 %r4, %p1;\n",
        "\ttrap;\n",
        ENDLESS,
    ],
)
def test_what_is_not_read(text: str) -> None:
    with pytest.raises(Unreadable):
        network(text)


LOAD = (
    "\tld.{space}.b32 %r7, [{where}];\n\tsetp.ne.b32 %p6, %r7, 0;\n\t@%p6 bra $SKIP;\n\tbar.warp.sync -1;\n\t{inside}\n$SKIP:\n"
)


@pytest.mark.parametrize("inside", ["", "bar.sync 1, 32;"])
@pytest.mark.parametrize(
    ("space", "where", "named"),
    [
        ("shared", "smem", ["loads"]),
        ("global", "%rd3", []),  # nobody writes it: a function of its address
        ("acquire.gpu.global", "%rd3", None),
        ("shared", "%r1", None),  # each thread another place
    ],
)
def test_a_branch_on_what_is_loaded(space: str, where: str, named: list[str] | None, inside: str) -> None:
    text = LOAD.format(space=space, where=where, inside=inside)
    if named is None:
        with pytest.raises(Unreadable):
            network(text)
    else:
        assert kinds(text) == named


def test_each_load_finds_another_number() -> None:
    """What was made of the first number says nothing of the second."""
    load = "\tld.shared.b32 %r7, [smem];\n"
    text = loop(
        more=f"{load}\tsetp.ne.b32 %p6, %r7, 0;\n\t@%p6 bra $SKIP;\n\tbar.sync 1, 32;\n$SKIP:\n\tsetp.ne.b32 %p7, %r7, 0;\n"
    )
    found = network(f"{text}\t@%p7 bra $OVER;\n\tbar.sync 2, 32;\n$OVER:\n")
    symbols = {symbol for process in found.processes for state in process.states for symbol in state.live}
    drawn = [one for one in symbols if "loaded" in one.name]
    edges = [edge for process in found.processes for state in process.states for edge in edges_of(state.action)]
    assert len(drawn) == 1
    assert all(value is None for edge in edges for symbol, value in edge.values if symbol in drawn)
    assert any(symbol in drawn for edge in edges for symbol, _ in edge.values)
