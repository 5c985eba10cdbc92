"""Branches of which the text says that the lanes of a warp go the same way (PTX ISA, bra.uni): where they do not, nothing is proved."""

import pytest

from tests.verify.test_places_of_barriers import ARRIVAL, changed, proved

LEAVES = "  @%p0 bra DONE;"
# By which threads of the first warp come to the arrival of its first lane: whether all of them do, or none.
COMING = {
    "setp.lt.u32 %p3, %r0, 32;": True,
    "shr.u32 %r3, %r0, 5; setp.eq.u32 %p3, %r3, 0;": True,
    "setp.lt.u32 %p3, %r0, 16;": False,
    "and.b32 %r3, %r0, 1; setp.eq.u32 %p3, %r3, 0;": False,
    "elect.sync %r3|%p3, -1;": False,
}


@pytest.mark.parametrize("negated", [True, False])
@pytest.mark.parametrize("coming", COMING)
def test_lanes_of_a_warp(coming: str, negated: bool) -> None:
    way = "@!%p3 bra DONE;" if negated else "@%p3 bra ON; bra DONE; ON:"
    text = changed(LEAVES, f"  {coming} {way}\n{LEAVES}")
    assert proved(text)
    assert proved(text.replace("%p3 bra", "%p3 bra.uni")) is COMING[coming]


@pytest.mark.parametrize("end", ["ret", "exit"])
def test_lanes_that_end(end: str) -> None:
    text = changed(LEAVES, f"  @%p0 {end};")
    assert proved(text)
    assert not proved(text.replace(f"@%p0 {end}", f"@%p0 {end}.uni"))


def test_one_lane_alone() -> None:
    """The others have left it: whatever it asks is the same for all that come there."""
    text = changed(ARRIVAL, f"  setp.eq.u32 %p3, %r0, 0; @!%p3 bra.uni DONE;\n{ARRIVAL}")
    assert proved(text)


def test_a_wait_of_a_whole_warp() -> None:
    """As CUTLASS writes it."""
    assert proved(changed("  @!%p2 bra CONSUMER;", "  @%p2 bra.uni DONE;\n  bra.uni CONSUMER;"))


def test_lanes_that_were_apart() -> None:
    """Each has a number of its own from where they were, and they are together again."""
    ways = "  @%p0 bra OTHERS;\n  mov.u32 %r3, 1;\n  bar.warp.sync -1;\n  bra BOTH;\nOTHERS:\n  mov.u32 %r3, 2;\n  bar.warp.sync -1;\nBOTH:"
    text = changed(LEAVES, f"{ways}\n  bar.warp.sync -1;\n  setp.eq.u32 %p3, %r3, 2;\n  @%p3 bra DONE;")
    assert proved(text)
    assert not proved(text.replace("@%p3 bra", "@%p3 bra.uni"))
