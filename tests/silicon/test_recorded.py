"""Every silicon program in the simulator against what an H200 computed for the same inputs, bit for bit."""

import numpy as np
import pytest
from silicon import recorded
from silicon.catalogue import NEVER_END, programs
from silicon.program import Program
from silicon.run import simulate

from pipec.sim import Options, SimulationError


def difference(got: np.ndarray, want: np.ndarray) -> str:
    """The first words that differ."""
    whole = got.size // 4 * 4
    left, right = (array[:whole].view(np.uint32) for array in (got, want))
    words = np.flatnonzero(left != right)[:4]
    shown = ", ".join(f"word {i}: simulator {int(left[i]):#x}, GPU {int(right[i]):#x}" for i in words)
    return f"{np.count_nonzero(got != want)} of {got.size} bytes differ; {shown}"


def test_every_program_is_recorded_as_it_is_now() -> None:
    rows = recorded.surroundings()["programs"]
    assert recorded.surroundings()["failed"] == {}
    assert {program.name: program.digest for program in programs()} == {name: digest for name, (digest, _) in rows.items()}


SIMULATED = [program for program in programs() if program.name not in NEVER_END]


@pytest.mark.parametrize("program", SIMULATED, ids=lambda program: program.name)
def test_simulator_agrees(program: Program) -> None:
    got, want = simulate(program), recorded.outputs()[program.name]
    assert np.array_equal(got, want), difference(got, want)


@pytest.mark.parametrize("timing", ["late", "random"])
@pytest.mark.parametrize("family", ["tma_", "bulk_", "dsmem_", "mbarrier_", "wgmma_k_major", "cp_async"])
def test_simulator_agrees_whatever_the_timing(family: str, timing: str) -> None:
    for program in SIMULATED:
        if program.name.startswith(family):
            got, want = simulate(program, Options(timing=timing, seed=3)), recorded.outputs()[program.name]
            assert np.array_equal(got, want), (program.name, difference(got, want))


@pytest.mark.parametrize("name", NEVER_END)
def test_simulator_reports_a_phase_that_never_ends(name: str) -> None:
    (program,) = (program for program in programs() if program.name == name)
    flags = recorded.outputs()[name][-4 * program.threads :].view(np.uint32)
    assert not flags.any(), "on the GPU the phase did not end"
    with pytest.raises(SimulationError) as caught:
        simulate(program)
    assert caught.value.kind == "deadlock"
