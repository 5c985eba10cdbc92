"""Loops count as Python's do; and their PTX has no negation, which ptxas would lose in comparisons."""

import re

import counting
import numpy as np
import pytest

import pipec

KERNELS = counting.kernels()


@pytest.mark.sample(0.25)
@pytest.mark.parametrize("number", range(len(KERNELS)))
def test_loops_count_as_python_does(number: int) -> None:
    source, forms = KERNELS[number]
    kernel = pipec.compile(source)["count"]
    for m, n in counting.SIZES:
        y = np.zeros((len(forms), 8), np.int32)
        kernel(y, m, n, device="sim")
        np.testing.assert_array_equal(y, counting.expected(forms, m, n))


@pytest.mark.parametrize("negation", ["-m", "-n", "0 - m", "min(m, -m)", "m * -1"])
@pytest.mark.parametrize("dtype", ["i32", "i64", "i16"])
def test_negations_are_complements_plus_one(negation: str, dtype: str) -> None:
    source = f"""
kernel k(y: tensor[i32, 1, 8], p: i32, q: i32):
    grid(1)
    role all(warps=1):
        m = cast[{dtype}](p)
        n = cast[{dtype}](q)
        end = {negation}
        j = n
        while j > end:
            j = j - 1
        store.direct(y[0, 0], fill(cast[i32](j), i32, 1, 8))
"""
    program = pipec.compile(source)
    assert not re.search(r"\bneg\.s", program.ptx) and re.search(r"\bnot\.b(16|32|64)", program.ptx)
    y = np.zeros((1, 8), np.int32)
    program["k"](y, 5, 3, device="sim")
    assert y[0, 0] == min({"-n": -3}.get(negation, -5), 3)
