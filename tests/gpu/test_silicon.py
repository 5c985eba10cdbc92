"""On an sm_90a GPU: every silicon program gives what was recorded, so that what the simulator is held to is still true."""

import numpy as np
import pytest
from gpu.gpus import needs_gpu
from silicon import recorded
from silicon.catalogue import programs
from silicon.program import Program
from silicon.run import Gpu, assembled
from silicon.test_recorded import difference

pytestmark = needs_gpu


@pytest.fixture(scope="module")
def gpu() -> Gpu:
    return Gpu()


@pytest.mark.parametrize("program", programs(), ids=lambda program: program.name)
def test_gpu_gives_what_was_recorded(gpu: Gpu, program: Program) -> None:
    got, want = gpu.run(program, assembled(program)), recorded.outputs()[program.name]
    assert np.array_equal(got, want), difference(got, want)
