"""Phases that a warp knows to be complete although it has not waited for them."""

import pytest

from pipec.sim import Options, SimulationError, launch
from pipec.sim.machine.practice import Rules

from .race_programs.matrix_units import AFTER, BEFORE, COMMIT, FREED, LOAD, MMA, MULTIPLIED
from .race_programs.program import UNORDERED, Program, wait

# Commits to %bar2, %bar and %bar2 again, after the phase of %bar in which the tiles arrive.
AGAIN = "setp.eq.u32 %p6, %k, 0; " + MMA.partition("; ")[2]
SHOWN = wait("%bar", "1", "W3")
IN_TURNS = Program(
    MULTIPLIED.replace("ON: ", AGAIN + COMMIT.replace("%bar2", "%bar") + AGAIN + COMMIT + "ON: ")
    + wait("%bar", "0", "W2") + SHOWN + wait("%bar2", "1", "W4") + AFTER + LOAD + "tcgen05.wait::ld.sync.aligned;\n" + BEFORE + FREED,
    {"nothing shows the first": (SHOWN, "", UNORDERED)},
    threads=128,
    target="sm_100a",
)  # fmt: skip
# Warp 1 takes part in two phases of the cluster barrier and waits for the second one; warp 0 tells it that the first is complete.
TWICE = """.version 8.6\n.target sm_90a\n.address_size 64
.entry k() .reqnctapercluster 2 {{ .reg .pred %p; .reg .b32 %t; mov.u32 %t, %tid.x; setp.lt.u32 %p, %t, 32;
  barrier.cluster.arrive.relaxed.aligned;
  @!%p bra ONE;
  barrier.cluster.wait.aligned;
ONE: {first}
  barrier.cluster.arrive.aligned; {second}
  barrier.cluster.wait.aligned;
  ret; }}"""
MET = "bar.sync 1, 64;"


def test_a_commit_shows_that_earlier_ones_have_arrived() -> None:
    assert IN_TURNS.run().findings == []
    (fault,) = IN_TURNS.faults
    with pytest.raises(SimulationError, match=IN_TURNS.faults[fault][2]):
        IN_TURNS.run(fault)


@pytest.mark.parametrize("timing", ["order", "late", "random"])
def test_arrivals_at_the_cluster_barrier_without_a_wait(timing: str) -> None:
    text = TWICE.format(first=MET, second="")
    result = launch(text, grid=2, block=64, options=Options(timing, seed=1, rules="practice"))
    assert result.findings == [] and result.relied_on == ["cluster arrivals without a wait"]


@pytest.mark.parametrize(("first", "second", "rules"), [(MET, "", "documents"), ("", MET, "practice"), ("", MET, "documents")])
def test_a_second_arrival_in_a_phase_that_may_be_the_first(first: str, second: str, rules: Rules) -> None:
    with pytest.raises(SimulationError, match=r"barrier\.cluster\.arrive twice without barrier\.cluster\.wait"):
        launch(TWICE.format(first=first, second=second), grid=2, block=64, options=Options(rules=rules))
