"""Every example kernel: assembled, run in the simulator at each shape of its docstring, compared with float64 NumPy."""

from itertools import groupby

import pytest
from examples.assembling import assert_assembles
from examples.catalogue import COMPARED_ELSEWHERE, Case, Run, cases, compiled, runs

from pipec.reference import trial_of
from pipec.runtime import LaunchOptions, launch
from pipec.sim import Options as Simulation

CASES = cases()
COMPARED = [case for case in CASES if case.path.stem not in COMPARED_ELSEWHERE]


# Bytes that ptxas spills: a pair of values around the loop over masked keys, in kernels that are faster for its words (masks.py).
SPILLED = {"attention_sm90_roles-GROUPS4-CAUSALtrue-BLOCKS1": 8}


@pytest.mark.parametrize("case", [case for case in CASES if case.constants], ids=lambda case: case.name)
def test_assembles_without_spills(case: Case) -> None:
    """Without constants it is the golden that ptxas takes (tests/golden)."""
    assert_assembles(compiled(case).ptx or "", compiled(case).arch, "ptxas", SPILLED.get(case.name, 0))


@pytest.mark.sample(0.2)
@pytest.mark.parametrize("case", [case for case in CASES if not case.constants], ids=lambda case: case.name)
def test_the_runtime_assembles_without_spills(case: Case) -> None:
    """nvJitLink contains the same compiler as ptxas, and is what the runtime calls."""
    assert_assembles(compiled(case).ptx or "", compiled(case).arch, "nvjitlink")


def chosen() -> list[Run]:
    """Variants change the code, not the shapes: two of them show it, of which a sample takes the smaller."""
    found = []
    for case in COMPARED:
        for _, of_one in groupby(runs(case), lambda run: run.kernel):
            found += list(of_one)[: 2 if case.constants else None]
    return found


@pytest.mark.sample(0.01, of="run")
@pytest.mark.parametrize("run", chosen(), ids=lambda run: run.name)
def test_equals_numpy(run: Run) -> None:
    _check(run, Simulation())


@pytest.mark.sample(0.1)
@pytest.mark.parametrize("timing", ["late", "random"])
@pytest.mark.parametrize("case", [case for case in COMPARED if not case.constants], ids=lambda case: case.name)
def test_equals_numpy_whatever_the_timing(case: Case, timing: str) -> None:
    for _, of_one in groupby(runs(case), lambda run: run.kernel):
        _check(list(of_one)[1], Simulation(timing=timing, seed=7))


def _check(run: Run, simulation: Simulation) -> None:
    plan = run.plan
    trial = trial_of(plan, run.numbers, seed=1)
    assert trial.expected, "an example says what it computes"
    ptx = compiled(run.case).ptx or ""
    result = launch(plan.interface, ptx, trial.arguments, device="sim", options=LaunchOptions(simulation))
    assert result.simulation is not None
    assert result.simulation.warnings == []
    for outcome in trial.judged():
        assert outcome.passed, outcome
