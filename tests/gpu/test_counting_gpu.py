"""On a machine with an sm_90a GPU: loops count as Python's do. ptxas unrolls them, and lost the sign of ends such as `-m`."""

import counting
import numpy as np
import pytest
from gpu.gpus import needs_gpu

import pipec

pytestmark = needs_gpu
KERNELS = counting.kernels()


@pytest.mark.parametrize("number", range(len(KERNELS)))
def test_loops_count_as_python_does(number: int) -> None:
    source, forms = KERNELS[number]
    kernel = pipec.compile(source, arch="sm_90a")["count"]
    for m, n in counting.SIZES:
        y = np.zeros((len(forms), 8), np.int32)
        kernel(y, m, n)
        np.testing.assert_array_equal(y, counting.expected(forms, m, n))
