"""No kernel that pipec accepts loads from global memory what its own statements have not stored yet, at whatever pace its parts run."""

import random

import numpy as np
import pytest
from fuzz.global_kernels import Case, draw, start

import pipec
from pipec.runtime.launcher import LaunchOptions
from pipec.sim import Options

CASES = 60
REFUSALS = {"E0614", "E0615"}


def outcome(case: Case, seed: int) -> str:
    """Its codes where it is refused; else it was run, and "right" or "wrong"."""
    try:
        program = pipec.compile(case.source())
    except pipec.CompileError as error:
        return " ".join(sorted({one.code for one in error.diagnostics}))
    for timing in ("late", "random"):
        arrays = start()
        program["k"](*arrays.values(), device="sim", options=LaunchOptions(simulation=Options(timing=timing, seed=seed)))
        expected = case.expected(start())
        if not all(np.array_equal(arrays[name], expected[name]) for name in arrays):
            return "wrong"
    return "right"


@pytest.mark.sample(0.5)
@pytest.mark.parametrize("seed", range(CASES))
def test_accepted_kernels_compute_what_their_steps_say(seed: int) -> None:
    case = draw(random.Random(seed))
    found = outcome(case, seed)
    assert found == "right" or set(found.split()) <= REFUSALS, f"{found}\n{case.source()}"
