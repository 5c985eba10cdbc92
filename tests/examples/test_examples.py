"""Every example kernel: assembled, run in the simulator at each shape of its docstring, compared with float64 NumPy."""

from itertools import groupby

import pytest
from examples.catalogue import COMPARED_ELSEWHERE, Case, Run, cases, compiled, runs

from pipec.diag.message import Sink
from pipec.ptx.assemble import assemble
from pipec.reference import trial_of
from pipec.runtime import LaunchOptions, launch
from pipec.sim import Options as Simulation

CASES = cases()
COMPARED = [case for case in CASES if case.path.stem not in COMPARED_ELSEWHERE]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_assembles_without_spills(case: Case) -> None:
    # Both contain the same compiler. nvJitLink is what the runtime calls, so that each example goes through it once.
    for tool in ("ptxas",) if case.constants else ("nvjitlink", "ptxas"):
        sink = Sink()
        assembled = assemble(compiled(case).ptx or "", compiled(case).arch, sink, tool=tool)
        assert sink.diagnostics == []
        assert assembled is not None
        assert assembled.warnings == ()
        # nvJitLink ignores register budgets, so that a role that asks for more than an equal share may spill.
        assert tool == "nvjitlink" or assembled.losses == ()
        for kernel in assembled.statistics:
            assert assembled.losses or (not kernel.spills and kernel.stack == 0)


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


@pytest.mark.sample(0.3)
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
