"""On an sm_90a GPU: kernels that note the clock give the same result, and their records make sense."""

from pathlib import Path

import numpy as np
import pytest
from gpu.gpus import needs_gpu

import pipec
from pipec.runtime import random_arguments
from pipec.timestamps import stamped, words

pytestmark = needs_gpu

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize("name", ["gemm_sm90", "gemm_sm90_cluster", "gemm_sm90_pingpong"])
def test_the_clock_is_noted(name: str) -> None:
    kernel = pipec.compile(EXAMPLES / f"{name}.pipe", timestamps=True)[name]
    sizes = {"M": 512, "N": 512, "K": 1024, "TIMESTAMPS": words(kernel.interface, 4)}
    arguments = random_arguments(kernel.interface, sizes, 0)
    arguments["timestamps"][...] = 0
    assert kernel(**arguments, device="cuda").device.startswith("cuda")
    a, b = (arguments[operand].astype(np.float64) for operand in "ab")
    assert np.allclose(arguments["d"].astype(np.float64), a @ b.T, rtol=0.02, atol=0.5)
    found = list(stamped(kernel.interface, arguments["timestamps"].tolist()))
    assert {one.block for one in found} >= {0} and all(0 <= one.start <= one.end < 1e7 for one in found)
    waits = [one for one in found if one.block == 0 and one.what.startswith("wait for")]
    assert len(waits) > 16 and max(one.end for one in waits) > 1000
