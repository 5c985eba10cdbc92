"""Which addresses lead to a barrier, where one can lie, and which parities there are.

Right texts, and neighbours that PTX does not define."""

import json
from pathlib import Path

import pytest

from pipec.protocol.judge import judge
from pipec.verify.reader.read import read
from pipec.verify.reader.text.statements import entries_of

GOLDEN = Path(__file__).parents[1] / "golden"

# One thread arrives, and the other warp waits.
TEXT = """
.version 8.7
.target sm_90a
.address_size 64
.visible .entry k(.param .u32 n, .param .u32 m)
.reqntid 64
{
  .reg .pred %p<9>; .reg .b32 %r<10>; .reg .b64 %rd<9>;
  .shared .align 8 .b64 bar[2];
  mov.u32 %r0, %tid.x;
  mov.u32 %r1, bar;
  ld.param.u32 %r2, [m];
  setp.ne.u32 %p0, %r0, 0;
  @%p0 bra READY;
  mbarrier.init.shared::cta.b64 [%r1], 1;
READY:
  bar.sync 0;
  setp.ge.u32 %p1, %r0, 32;
  @%p1 bra CONSUMER;
  @%p0 bra DONE;
  mbarrier.arrive.shared::cta.b64 _, [%r1];
  bra DONE;
CONSUMER:
  mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r1], 0;
  @!%p2 bra CONSUMER;
DONE:
  ret;
}
"""
ARRIVAL = "  mbarrier.arrive.shared::cta.b64 _, [%r1];"
GENERIC = "  cvt.u64.u32 %rd1, %r1; cvta.shared.u64 %rd1, %rd1;"

# By what the thread does to arrive: whether it is proved.
ARRIVALS = {
    ARRIVAL: True,
    f"{GENERIC} mbarrier.arrive.b64 _, [%rd1];": True,
    "  mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 0;": True,
    "  cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%r1];": True,
    "  cp.async.mbarrier.arrive.shared::cta.noinc.b64 [bar];": True,
    "  cp.async.mbarrier.arrive.shared::cta.b64 [bar];": False,
    f"{GENERIC} cvta.to.shared.u64 %rd2, %rd1; cvt.u32.u64 %r3, %rd2; mbarrier.arrive.shared::cta.b64 _, [%r3];": True,
    f"{GENERIC} add.u64 %rd2, %rd1, 8; mbarrier.arrive.b64 _, [%rd2+-8];": True,
    f"{GENERIC} mbarrier.arrive.shared::cta.b64 _, [%rd1];": False,
    f"{GENERIC} cvt.u32.u64 %r3, %rd1; mbarrier.arrive.shared::cta.b64 _, [%r3];": False,
    f"{GENERIC} cvta.shared.u64 %rd2, %rd1; mbarrier.arrive.b64 _, [%rd2];": False,
    f"{GENERIC} cvta.to.global.u64 %rd2, %rd1; mbarrier.arrive.b64 _, [%rd2];": False,
    f"{GENERIC} cvt.u64.u32 %rd2, %r1; setp.ne.u64 %p3, %rd1, %rd2; @%p3 bra DONE; {ARRIVAL}": False,
    "  cvt.u64.u32 %rd1, %r1; mbarrier.arrive.b64 _, [%rd1];": False,
    "  cvt.u64.u32 %rd1, %r1; cvta.to.shared.u64 %rd1, %rd1; mbarrier.arrive.shared::cta.b64 _, [%rd1];": False,
    "  mbarrier.arrive.b64 _, [bar];": False,
}

# By how the thread asks of an address whether it arrives: whether it is proved. Beyond its variable an address may be 0, or wrap around.
ASKED = {
    "  setp.ne.u32 %p3, %r1, 0;": True,
    "  add.u32 %r3, %r1, 16; setp.ne.u32 %p3, %r3, 0;": True,
    "  sub.u32 %r3, %r1, 1024; setp.ne.u32 %p3, %r3, 0;": False,
    "  add.u32 %r3, %r1, -1024; setp.ne.u32 %p3, %r3, 0;": False,
    "  mad.lo.u32 %r3, %r2, -8, %r1; setp.ne.u32 %p3, %r3, 0;": False,
    "  add.u32 %r3, %r1, 8; setp.gt.u32 %p3, %r3, %r1;": True,
    "  add.u32 %r3, %r1, 8; selp.b32 %r4, %r3, 0, %p0; setp.ge.u32 %p3, %r1, %r4;": True,
    "  sub.u32 %r3, %r1, 2048; setp.lt.u32 %p3, %r3, %r1;": False,
    "  sub.u32 %r3, %r1, 2048; setp.ne.u32 %p3, %r3, %r1;": False,
    "  add.u32 %r3, %r1, 8; cvt.u64.u32 %rd1, %r3; cvt.u64.u32 %rd2, %r1; setp.ne.u64 %p3, %rd1, %rd2;": True,
    "  sub.u32 %r3, %r1, 2048; cvt.u64.u32 %rd1, %r3; add.u64 %rd1, %rd1, 2048; cvt.u64.u32 %rd2, %r1; setp.eq.u64 %p3, %rd1, %rd2;": False,
}

# By the variable: whether a barrier may lie there.
VARIABLES = {
    ".shared .b64 bar[1];": True,
    ".shared .align 16 .b8 bar[8];": True,
    ".shared .align 4 .b64 bar[2];": False,
    ".shared .b32 bar[4];": False,
    ".shared .b8 bar[64];": False,
}

# By an access in front of the arrival: whether it misses the barrier, which is initialised by then.
ACCESSES = {
    "st.shared.u64 [bar+8], 0;": True,
    "st.shared.u64 [bar], 0;": False,
    "st.shared.u64 [%r1], 0;": False,
    "st.shared.u32 [%r1+4], 0;": False,
    "ld.shared.u64 %rd1, [bar];": False,
    "atom.shared.add.u32 %r3, [%r1+4], 1;": False,
    "red.shared.add.u32 [bar+8], 1;": True,
    "add.u32 %r3, %r1, 8; st.shared.v2.u32 [%r3], {%r0, %r0};": True,
    "add.u32 %r3, %r1, -8; st.shared.v4.u32 [%r3], {%r0, %r0, %r0, %r0};": False,
    "add.u32 %r3, %r1, 8; add.u32 %r4, %r3, -8; st.shared.b32 [%r4], %r0;": False,
    "mov.u64 %rd1, bar; cvta.shared.u64 %rd2, %rd1; st.u64 [%rd2], 0;": False,
    "mov.u64 %rd1, bar; cvta.shared.u64 %rd2, %rd1; st.u64 [%rd2+8], 0;": True,
    "mov.u32 %r3, bar; @%p1 mov.u32 %r3, %r2; st.shared.u64 [%r3], 0;": True,  # it may be another place
    "cp.async.ca.shared.global [%r1], [%rd1], 8;": False,
    "prefetch.global.L2 [%rd1];": True,
}

SHARED = ".shared .align 16 .b64 bar[2]; .shared .align 16 .b8 tile[64];"
FINE, ASSUMED, REFUSED = "it misses the barrier", "it is assumed that it misses it", "it does not"
# A loop: what it begins with, what it does, and how far its counter goes.
LOOP = "mov.u32 %r3, 0; {begin} AGAIN: {turn} add.u32 %r3, %r3, 1; setp.lt.u32 %p3, %r3, {turns}; @%p3 bra AGAIN;"
NEXT = "add.u32 %r7, %r4, 1;"
PUT = "add.u32 %r6, %r5, tile; st.shared.b32 [%r6], 0;"
TWICE = "mov.u32 %r4, %r8; setp.eq.u32 %p4, %r0, 0; @%p4 bra PAST; mov.u32 %r4, %r8; PAST:"
LATER = "shr.u32 %r3, %r3, 20; add.u32 %r3, %r3, tile; st.shared.b32 [%r3], 0;"
BACK = "sub.u32 %r5, %r4, %r3; add.u32 %r6, %r5, 0; sub.u32 %r7, tile, %r6;"

# By what all threads do in front of the arrival, where `tile` has 64 bytes: what is known of it.
CHANGING = {
    "and.b32 %r3, %r0, 15; shl.b32 %r3, %r3, 2; add.u32 %r3, %r3, tile; st.shared.b32 [%r3], 0;": FINE,
    "and.b32 %r3, %r0, 15; shl.b32 %r3, %r3, 2; add.u32 %r3, %r3, tile; st.shared.b32 [%r3+4], 0;": ASSUMED,
    "and.b32 %r3, %r0, 15; mad.lo.u32 %r3, %r3, 4, tile; st.shared.v2.b32 [%r3], {%r0, %r0};": ASSUMED,
    "and.b32 %r3, %r0, 7; mad.lo.u32 %r3, %r3, 8, tile; st.shared.v2.b32 [%r3], {%r0, %r0};": FINE,
    "and.b32 %r3, %r2, 15; mad.lo.u32 %r3, %r3, 4, tile; red.shared.add.u32 [%r3], 1;": FINE,
    "mad.lo.u32 %r3, %r2, 4, tile; atom.shared.add.u32 %r4, [%r3], 1;": ASSUMED,
    "mad.lo.u32 %r3, %r2, 4, tile; ld.shared.u32 %r4, [%r3];": FINE,  # only stores are of any matter
    "and.b32 %r3, %r0, 1; mad.lo.u32 %r3, %r3, 8, bar; st.shared.b64 [%r3], 0;": ASSUMED,  # one place has no barrier
    "and.b32 %r3, %r0, 1; mad.lo.u32 %r3, %r3, 4, bar; st.shared.b32 [%r3], 0;": REFUSED,
    "and.b32 %r3, %r2, 7; add.u32 %r3, %r3, bar; st.shared.b8 [%r3], %r0;": REFUSED,
    "and.b32 %r3, %r2, 4; add.u32 %r3, %r3, bar; atom.shared.add.u32 %r4, [%r3], 1;": REFUSED,
    "and.b32 %r3, %r2, 8; add.u32 %r3, %r3, bar; st.shared.b32 [%r3+8], 0;": ASSUMED,  # it may leave the variable
    "mov.u32 %r4, tile; @%p0 mov.u32 %r4, %r2; st.shared.b32 [%r4], 0;": ASSUMED,
    "ld.shared.b32 %r3, [tile]; st.shared.b32 [%r3], 0;": ASSUMED,
    "st.shared.b32 [1024], 0;": ASSUMED,
    "sub.u32 %r3, tile, 8; st.shared.b32 [%r3], 0;": ASSUMED,
    # Ways tell of the thread, and so does what is exchanged in a warp.
    "setp.ge.u32 %p4, %r0, 16; @%p4 bra PAST; mad.lo.u32 %r3, %r0, 4, tile; st.shared.b32 [%r3], 0; PAST:": FINE,
    "setp.ge.u32 %p4, %r0, 17; @%p4 bra PAST; mad.lo.u32 %r3, %r0, 4, tile; st.shared.b32 [%r3], 0; PAST:": ASSUMED,
    "setp.ge.s32 %p4, %r0, 16; not.pred %p4, %p4; @!%p4 bra PAST; mad.lo.u32 %r3, %r0, 4, tile; st.shared.b32 [%r3], 0; PAST:": FINE,
    "shr.u32 %r4, %r0, 4; setp.ne.u32 %p4, %r4, 0; @%p4 bra PAST; mad.lo.u32 %r3, %r0, 4, tile; st.shared.b32 [%r3], 0; PAST:": FINE,
    "shr.u32 %r4, %r0, 4; setp.ne.u32 %p4, %r4, 1; @%p4 bra PAST; mad.lo.u32 %r3, %r0, 4, tile; st.shared.b32 [%r3], 0; PAST:": ASSUMED,
    # Loops, and stages.
    LOOP.format(begin="", turn="shl.b32 %r5, %r3, 2; " + PUT, turns=16): FINE,
    LOOP.format(begin="", turn="shl.b32 %r5, %r3, 2; " + PUT, turns=17): ASSUMED,
    LOOP.format(begin="", turn="shl.b32 %r5, %r3, 2; " + PUT, turns="%r2"): ASSUMED,
    LOOP.format(begin="mov.u32 %r4, 0;", turn=f"shl.b32 %r5, %r4, 5; {PUT} xor.b32 %r4, %r4, 1;", turns="%r2"): FINE,
    LOOP.format(begin="mov.u32 %r4, 1;", turn=f"shl.b32 %r5, %r4, 5; {PUT} xor.b32 %r4, %r4, 3;", turns="%r2"): ASSUMED,
    LOOP.format(begin="mov.u32 %r4, 2;", turn=f"shl.b32 %r5, %r4, 4; {PUT} {NEXT} rem.u32 %r4, %r7, 4;", turns="%r2"): FINE,
    LOOP.format(begin="mov.u32 %r4, 2;", turn=f"shl.b32 %r5, %r4, 4; {PUT} {NEXT} rem.u32 %r4, %r7, 5;", turns="%r2"): ASSUMED,
    # The second number is made of a stage that has changed since.
    LOOP.format(
        begin="mov.u32 %r4, 0; mov.u32 %r8, 0;",
        turn=f"shl.b32 %r5, %r4, 4; {PUT} {NEXT} mad.lo.u32 %r4, %r8, -4, %r7; shr.u32 %r8, %r7, 2;",
        turns="%r2",
    ): ASSUMED,
    # A stage that is made once and handed on, also a second time, when it has become the stage already; and one made of an older one.
    LOOP.format(
        begin="mov.u32 %r4, 2;", turn=f"shl.b32 %r5, %r4, 4; {PUT} {NEXT} rem.u32 %r8, %r7, 4; {TWICE}", turns="%r2"
    ): FINE,
    LOOP.format(
        begin="mov.u32 %r4, 2;", turn=f"shl.b32 %r5, %r4, 4; {PUT} {NEXT} rem.u32 %r8, %r7, 5; {TWICE}", turns="%r2"
    ): ASSUMED,
    LOOP.format(
        begin="mov.u32 %r4, 0;",
        turn=f"shl.b32 %r5, %r4, 4; {PUT} {NEXT} rem.u32 %r8, %r7, 4; mov.u32 %r4, %r8; add.u32 %r4, %r8, %r4; ",
        turns="%r2",
    ): ASSUMED,
    LOOP.format(
        begin="mov.u32 %r4, 0; mov.u32 %r9, 0;",
        turn=f"shl.b32 %r5, %r4, 4; {PUT} {NEXT} mad.lo.u32 %r8, %r9, -4, %r7; {TWICE} shr.u32 %r9, %r7, 2;",
        turns="%r2",
    ): ASSUMED,
    # At the begin of a loop nothing has been put into the register yet.
    LOOP.format(begin="", turn=f"shl.b32 %r5, %r8, 2; {PUT} and.b32 %r8, %r3, 7;", turns="%r2"): ASSUMED,
    # What is made of two addresses is none, and the same distance in another CTA is another number.
    "mov.u32 %r3, tile; sub.u32 %r4, bar, 16; and.b32 %r4, %r3, %r4; st.shared.b32 [%r4], 0;": ASSUMED,
    "mov.u32 %r3, tile; and.b32 %r4, %r3, -16; st.shared.b32 [%r4], 0;": FINE,
    f"mapa.shared::cluster.u32 %r3, %r1, 0; sub.u32 %r3, %r3, bar; {LATER}": ASSUMED,
    f"mov.u32 %r3, bar; sub.u32 %r3, %r3, bar; {LATER}": FINE,
    f"mov.u32 %r3, tile; or.b32 %r4, %r3, 64; {BACK} st.shared.b32 [%r7+64], 0;": ASSUMED,
    f"mov.u32 %r3, tile; or.b32 %r4, %r3, 8; {BACK} st.shared.b32 [%r7+8], 0;": FINE,
    "st.shared.v4.b32 [tile+48], {%r0, %r0, %r0, %r0};": FINE,
    "st.shared.b32.v4 [tile+56], {%r0, %r0, %r0, %r0};": ASSUMED,
    # Generic addresses.
    f"mov.u64 %rd1, tile; cvta.shared.u64 %rd2, %rd1; sub.u64 %rd2, %rd2, %rd1; cvt.u32.u64 %r3, %rd2; {LATER}": ASSUMED,
    "and.b32 %r3, %r0, 1; mad.lo.u32 %r3, %r3, 4, bar; cvt.u64.u32 %rd1, %r3; cvta.shared.u64 %rd2, %rd1; st.u32 [%rd2], 0;": REFUSED,
    "and.b32 %r3, %r0, 1; mad.lo.u32 %r3, %r3, 4, tile; cvt.u64.u32 %rd1, %r3; cvta.shared.u64 %rd2, %rd1; st.u32 [%rd2], 0;": FINE,
    "cvt.u64.u32 %rd1, %r2; cvta.shared.u64 %rd2, %rd1; st.u32 [%rd2], 0;": ASSUMED,
    "mov.u64 %rd1, bar; cvta.shared.u64 %rd2, %rd1; st.shared.u64 [tile], %rd2; ld.shared.u64 %rd3, [tile]; st.u32 [%rd3], 0;": ASSUMED,
    "mov.u64 %rd1, bar; cvta.shared.u64 %rd2, %rd1; ld.param.u32 %r3, [n]; cvt.u64.u32 %rd3, %r3; st.u32 [%rd3], 0;": FINE,
}
COPY, FILLS = "cp.async.bulk.shared", "global.mbarrier::complete_tx::bytes"
# By the place to which a copy of 32 bytes goes that no walk follows, as for `.shared::cta`.
COPIES = {
    "and.b32 %r3, %r2, 1; mad.lo.u32 %r3, %r3, 32, tile;": FINE,
    "and.b32 %r3, %r2, 3; mad.lo.u32 %r3, %r3, 16, tile;": ASSUMED,
    "mov.u32 %r3, tile; add.u32 %r3, %r3, 32;": FINE,
    "mov.u32 %r3, bar;": REFUSED,
    "mad.lo.u32 %r3, %r2, 32, tile;": ASSUMED,
}

DIMENSIONS = [{"symbol": symbol, "kind": "dimension", "dimension": symbol.upper()} for symbol in ("n", "m")]
# By the rows for the parameters `n` and `m`, in the order of a launch: whether M >= 1 is known of `m`.
ROWS = {"in order": (DIMENSIONS, True), "exchanged": (DIMENSIONS[::-1], False), "one missing": (DIMENSIONS[1:], False)}


def proved(text: str) -> bool:
    return judge(text, "k").certificate is not None


def changed(old: str, new: str) -> str:
    assert TEXT.count(old) == 1
    return TEXT.replace(old, new)


@pytest.mark.parametrize("arrival", ARRIVALS)
def test_a_generic_address_is_not_one_in_shared_memory(arrival: str) -> None:
    assert proved(changed(ARRIVAL, arrival)) is ARRIVALS[arrival]


@pytest.mark.parametrize("asked", ASKED)
def test_an_address_is_compared_within_its_variable(asked: str) -> None:
    assert proved(changed(ARRIVAL, f"{asked} @!%p3 bra DONE; {ARRIVAL}")) is ASKED[asked]


def test_an_address_that_is_mapped_again_and_again() -> None:
    again = "  mov.u32 %r3, %r1; mov.u32 %r4, 0; AGAIN: mapa.shared::cluster.u32 %r3, %r3, 0; add.u32 %r4, %r4, 1; "
    again += "setp.lt.u32 %p3, %r4, %r2; @%p3 bra AGAIN; mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r3];"
    assert proved(changed(ARRIVAL, again))


@pytest.mark.parametrize("variable", VARIABLES)
def test_a_barrier_lies_at_a_multiple_of_its_size(variable: str) -> None:
    assert proved(changed(".shared .align 8 .b64 bar[2];", variable)) is VARIABLES[variable]


@pytest.mark.parametrize("access", ACCESSES)
def test_nothing_else_is_done_to_a_barrier(access: str) -> None:
    assert proved(changed(ARRIVAL, f"  {access}\n{ARRIVAL}")) is ACCESSES[access]
    # In front of that, it is memory like any other.
    assert proved(changed("  mov.u32 %r1, bar;", f"  mov.u32 %r1, bar; setp.ne.u32 %p1, %r0, 0;\n  {access}"))


@pytest.mark.parametrize(
    ("place", "right"), [("bar", False), ("bar+8", False), ("bar+-8", False), ("tile", True), ("tile+16", True)]
)
@pytest.mark.parametrize("space", ["shared::cta", "shared::cluster"])
def test_a_copy_to_the_place_of_a_barrier(place: str, right: bool, space: str) -> None:
    copy = f"mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], 16; cp.async.bulk.{space}.global.mbarrier::complete_tx::bytes "
    text = changed(ARRIVAL, f"  ld.param.u64 %rd1, [m]; {copy}[{place}], [%rd1], 16, [%r1];")
    text = text.replace(".param .u32 m", ".param .u64 m").replace("ld.param.u32 %r2, [m];", "")
    text = text.replace(".shared .align 8 .b64 bar[2];", ".shared .align 16 .b64 bar[2]; .shared .align 16 .b8 tile[64];")
    assert proved(text) is (right or place == "bar+8")


def known_of(text: str) -> str:
    found = judge(text.replace(".shared .align 8 .b64 bar[2];", SHARED), "k")
    if found.certificate is None or found.network is None:
        assert "at the place of a barrier" in found.why, found.why
        return REFUSED
    return ASSUMED if any(one.kind == "stores" for one in found.network.assumptions) else FINE


@pytest.mark.parametrize("access", CHANGING)
def test_a_store_through_an_address_that_changes(access: str) -> None:
    assert known_of(TEXT.replace("READY:", f"READY: bar.sync 1; {access} bar.sync 2;")) == CHANGING[access]
    # In front of the initialisation it is memory like any other, but only to the thread that initialises it.
    before = TEXT.replace("  setp.ne.u32 %p0, %r0, 0;", f"  setp.ne.u32 %p0, %r0, 0; {access} bar.warp.sync -1;")
    assert known_of(before) == (FINE if CHANGING[access] == FINE else ASSUMED)
    if "bra " not in access:
        assert known_of(TEXT.replace("  mbarrier.init", f"  {access}\n  mbarrier.init")) == FINE


@pytest.mark.parametrize(("again", "known"), [("", FINE), ("setp.eq.u32 %p4, %r0, 1;", ASSUMED)])
def test_another_predicate_of_the_same_name(again: str, known: str) -> None:
    """In front of the initialisation, in the same place of the text."""
    store = f"  setp.eq.u32 %p4, %r0, 0; {again} @%p4 st.shared.b32 [%r1], 0; setp.eq.u32 %p5, %r0, 0; "
    store += "setp.eq.u32 %p4, %r0, 0; @%p4 mbarrier.init" if again else "@%p4 mbarrier.init"
    assert known_of(TEXT.replace("  @%p0 bra READY;\n", "").replace("  mbarrier.init", store)) == known


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.ptx")), ids=lambda path: path.stem)
def test_stores_of_the_examples_are_shown_to_miss(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assumed = [one for name in entries_of(text) for one in read(text, name).assumptions if one.kind == "stores"]
    assert not assumed


@pytest.mark.parametrize("place", COPIES)
@pytest.mark.parametrize("multicast", [False, True])
def test_a_copy_to_a_place_that_changes(place: str, multicast: bool) -> None:
    copy = f"mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], 32; {place} {{}} [%r3], [%rd1], 32, [%r1]{{}};"
    if not multicast:
        text = changed(ARRIVAL, copy.format(f"{COPY}::cta.{FILLS}", ""))
    else:
        first = (
            f"mov.u32 %r4, %cluster_ctarank; setp.ne.u32 %p4, %r4, 0; @%p4 bra DONE; {COPY}::cluster.{FILLS}.multicast::cluster"
        )
        text = changed(ARRIVAL, copy.format(first, ", 3")).replace(".reqntid 64", ".reqntid 64 .reqnctapercluster 2")
        text = text.replace("  bar.sync 0;", "  barrier.cluster.arrive; barrier.cluster.wait;")
    assert known_of(text) == COPIES[place]


def test_a_parity_is_0_or_1() -> None:
    assert not proved(changed("[%r1], 0;", "[%r1], 2;"))


@pytest.mark.parametrize("rows", ROWS)
def test_a_launch_gives_values_to_parameters_in_their_order(rows: str) -> None:
    parameters, known = ROWS[rows]
    described = {
        "kernel": "k",
        "arguments": [{"kind": "tensor", "name": "x", "shape": ["N", "M"]}],
        "parameters": parameters,
        "roles": [],
        "barriers": [],
        "grid": [1, 1, 1],
        "conditions": [["ge", [-1, [1, "M"]]]],
    }
    text = changed(ARRIVAL, f"  setp.lt.s32 %p3, %r2, 1; @%p3 bra DONE; {ARRIVAL}")
    assert proved(f"// pipec.kernel {json.dumps(described)}{text}") is known


def test_a_dimension_has_32_bits() -> None:
    row = {"symbol": "n", "kind": "dimension", "dimension": "N"}
    described = {"kernel": "k", "parameters": [row], "roles": [], "barriers": [], "grid": [1, 1, 1]}
    line = f"// pipec.kernel {json.dumps(described)}"
    assert proved(line + TEXT)
    assert not proved(line + changed(".param .u32 n", ".param .u64 n"))
