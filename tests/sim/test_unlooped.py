"""A test of an mbarrier whose failure leads to no other one fails once: a `try_wait` alone is no wait."""

from __future__ import annotations

import pytest

from pipec.sim import SimulationError

from .race_programs.program import EXPECT, INIT, Program, bulk_load

TEST = "mbarrier.try_wait.parity.shared::cta.b64 %p7, [%bar], 0;\n"
BODY = INIT.format(1, 1) + "@%first " + EXPECT.format("%bar", 256) + "@%first " + bulk_load("%tile", "%array", 256, "%bar")
USE = "USE: ld.shared.u32 %r1, [%own];"
# What compilers and programs make of a loop around the test.
WAITS = {
    "a branch back": f"W: {TEST}@!%p7 bra W;\n",
    "a branch out": f"W: {TEST}@%p7 bra USE;\nbra W;\n",
    "a number and a comparison": f"W: {TEST}selp.b32 %r2, 1, 0, %p7; setp.eq.s32 %p1, %r2, 0; @%p1 bra W;\n",
    "an inverted predicate": f"W: {TEST}not.pred %p1, %p7; @%p1 bra W;\n",
    "an exclusive or": f"mov.pred %p2, 1; W: {TEST}xor.pred %p1, %p7, %p2; @%p1 bra W;\n",
    "with a pause": f"W: {TEST}@%p7 bra USE;\nnanosleep.u32 20; bra W;\n",
    "a look and a wait": f"{TEST}@%p7 bra USE;\nW: {TEST}@!%p7 bra W;\n",
    "a look, other work and a wait": f"{TEST}selp.b32 %r2, 1, 0, %p7; mov.u32 %k, 0;"
    "L: add.u32 %k, %k, 1; setp.lt.u32 %p1, %k, 9; @%p1 bra L;"
    f"setp.ne.u32 %p1, %r2, 0; @%p1 bra USE;\nW: {TEST}@!%p7 bra W;\n",
    "with a limit and a trap": f"mov.u32 %k, 0; W: {TEST}@%p7 bra USE;\n"
    "add.u32 %k, %k, 1; setp.lt.u32 %p1, %k, 99; @%p1 bra W;\ntrap;\n",
}  # fmt: skip
NO_WAITS = {
    "once": TEST,
    "a branch that goes nowhere": f"{TEST}@!%p7 bra USE;\n",
    "twice": f"{TEST}@%p7 bra USE;\n{TEST}",
    "a number that is forgotten": f"{TEST}selp.b32 %r2, 1, 0, %p7; setp.eq.s32 %p1, %r2, 0; @%p1 bra USE;\n",
    "the wrong branch back": f"W: {TEST}@%p7 bra W;\n",
}


@pytest.mark.parametrize("name", WAITS)
def test_waits(name: str) -> None:
    assert Program(BODY + WAITS[name] + USE, {}).run().findings == []


@pytest.mark.parametrize("name", NO_WAITS)
def test_tests_that_are_no_waits(name: str) -> None:
    with pytest.raises(SimulationError, match=r"reads shared address .*nothing orders them|nothing has written|deadlock"):
        Program(BODY + NO_WAITS[name] + USE, {}).run()
