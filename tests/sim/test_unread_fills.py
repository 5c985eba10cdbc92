"""Shared memory that is filled, but not read, when its CTA exits: right once somebody has waited for the copy."""

from __future__ import annotations

import pytest

from pipec.sim import Options, SimulationError

from .race_programs.program import EXPECT, INIT, Program, bulk_load, wait

LOAD = EXPECT.format("%bar", 1024) + bulk_load("%tile", "%array", 1024, "%bar")
FILLED = INIT.format(1, 1) + "@!%first bra E;\n" + LOAD
WAIT = wait("%bar", "0", "W")
READ = "ld.shared.u32 %r5, [%tile];\n"
# Long enough for the copy, unless that comes last of all.
LATER = "mov.u32 %r30, 0;\nQ: add.u32 %r30, %r30, 1; setp.lt.u32 %p6, %r30, 20000; @%p6 bra Q;\n"
RIGHT = {
    "waited for by its thread": FILLED + WAIT + "E:",
    "by all": FILLED + "E:\n" + WAIT,
    "by another warp": INIT.format(1, 1) + "@%first bra L; @!%e1 bra E;\n" + WAIT + "bra E;\nL:\n" + LOAD + "E:",
    "a part is read": FILLED + "E:\n" + WAIT + READ,
    "nothing is filled": INIT.format(1, 1),
    "the second of two is waited for": FILLED
    + WAIT
    + LOAD
    + wait("%bar", "1", "V")
    + "E:",
}  # fmt: skip
LEFT = {
    "at once": FILLED + "E:",
    "after a while": FILLED + LATER + "E:",
    "after all have met": FILLED + "E: bar.sync 0;\n" + LATER,
    "the second of two": FILLED + WAIT + LOAD + LATER + "E:",
}
TIMINGS = ["order", "late", "random"]


def run(body: str, timing: str, rules: str) -> list[tuple[str, str]]:
    """The checks and severities of what is found; of an error that ends the run its kind."""
    try:
        found = Program(body, {}).run(options=Options(timing=timing, rules=rules)).findings  # type: ignore[arg-type]
    except SimulationError as error:
        return [(error.kind, "error")]
    return [(one.check, one.severity) for one in found]


@pytest.mark.parametrize("rules", ["documents", "practice"])
@pytest.mark.parametrize("timing", TIMINGS)
@pytest.mark.parametrize("name", RIGHT)
def test_a_complete_fill_may_be_left(name: str, timing: str, rules: str) -> None:
    assert run(RIGHT[name], timing, rules) == []


@pytest.mark.parametrize("timing", TIMINGS)
@pytest.mark.parametrize("name", LEFT)
def test_one_that_may_be_under_way_is_reported(name: str, timing: str) -> None:
    """In practice as a warning, if it was in time by chance."""
    assert run(LEFT[name], timing, "documents") == [("undefined", "error")]
    late = name == "at once" or timing == "late"
    assert run(LEFT[name], timing, "practice") == [("undefined", "error") if late else ("exit", "warn")]
