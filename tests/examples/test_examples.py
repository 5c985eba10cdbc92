"""Every example kernel: assembled, run in the simulator at each shape of its docstring, compared with float64 NumPy."""

import pytest
from examples.catalogue import COMPARED_ELSEWHERE, Case, cases, compiled

from pipec.diag.message import Sink
from pipec.kir.plan_types import Plan
from pipec.ptx.assemble import assemble
from pipec.reference import shape_sets, trial_of
from pipec.runtime import LaunchOptions, launch
from pipec.sim import Options as Simulation

CASES = cases()
COMPARED = [case for case in CASES if case.path.stem not in COMPARED_ELSEWHERE]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_assembles_without_spills(case: Case) -> None:
    for tool in ("nvjitlink", "ptxas"):
        sink = Sink()
        assembled = assemble(compiled(case).ptx or "", compiled(case).arch, sink, tool=tool)
        assert sink.diagnostics == []
        assert assembled is not None
        assert assembled.warnings == ()
        # nvJitLink ignores register budgets, so that a role that asks for more than an equal share may spill.
        assert tool == "nvjitlink" or assembled.losses == ()
        for kernel in assembled.statistics:
            assert assembled.losses or (not kernel.spills and kernel.stack == 0)


def runs() -> list:
    found = []
    for case in COMPARED:
        for plan in compiled(case).plans or []:
            sets = shape_sets(plan.kernel.document)
            # Variants change the code, not the shapes: two of them show it.
            for values in sets if not case.constants else sets[:2]:
                name = "-".join([case.name, plan.kernel.name, *(f"{key}{value}" for key, value in values.items())])
                found.append(pytest.param(case, plan, values, id=name))
    return found


@pytest.mark.parametrize(("case", "plan", "values"), runs())
def test_equals_numpy(case: Case, plan: Plan, values: dict[str, str]) -> None:
    numbers = {name: float(value) if "." in value or "-" in value else int(value) for name, value in values.items()}
    _check(case, plan, numbers, Simulation())


@pytest.mark.parametrize("timing", ["late", "random"])
@pytest.mark.parametrize("case", [case for case in COMPARED if not case.constants], ids=lambda case: case.name)
def test_equals_numpy_whatever_the_timing(case: Case, timing: str) -> None:
    for plan in compiled(case).plans or []:
        values = shape_sets(plan.kernel.document)[1]
        numbers = {name: float(value) if "." in value or "-" in value else int(value) for name, value in values.items()}
        _check(case, plan, numbers, Simulation(timing=timing, seed=7))


def _check(case: Case, plan: Plan, numbers: dict[str, float], simulation: Simulation) -> None:
    trial = trial_of(plan, numbers, seed=1)
    assert trial.expected, "an example says what it computes"
    result = launch(plan.interface, compiled(case).ptx or "", trial.arguments, device="sim", options=LaunchOptions(simulation))
    assert result.simulation is not None
    assert result.simulation.warnings == []
    for outcome in trial.judged():
        assert outcome.passed, outcome
