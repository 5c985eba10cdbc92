"""The grouped GEMMs with groups of any size: none, one row, many tiles; rows of no group stay as they are."""

from itertools import pairwise

import ml_dtypes
import numpy as np
import pytest
from examples.catalogue import EXAMPLES, Case, compiled

from pipec.runtime import LaunchOptions, launch
from pipec.sim import Options

N, K = 72, 40
SIZES = {
    "one group": (150,),
    "one row each": (1,) * 9,
    "none at all": (0, 0, 0),
    "empty at both ends": (0, 130, 0, 0, 7, 0),
    "tiles exactly": (64, 128, 64),
    "many tiles": (300, 2, 65),
}


def small(example: str) -> Case:
    """With smaller tiles than the file has."""
    rows = {"gemm_grouped": "64", "gemm_sm90_grouped": "128"}[example]
    return Case(EXAMPLES / f"{example}.pipe", (("BM", rows), ("BN", "64"), ("BLOCKS", "4"), ("STAGES", "2")))


@pytest.mark.sample(0.3, of="example")
@pytest.mark.parametrize("timing", ["late", "random"])
@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("example", ["gemm_grouped", "gemm_sm90_grouped"])
def test_groups(example: str, sizes: tuple[int, ...], timing: str) -> None:
    """Three rows in front of the first group and five behind the last belong to none."""
    begins = np.cumsum([3, *sizes]).astype(np.int32)
    generator = np.random.default_rng(len(sizes))
    a = generator.integers(-3, 4, (int(begins[-1]) + 5, K)).astype(ml_dtypes.bfloat16)
    b = generator.integers(-3, 4, (len(sizes), N, K)).astype(ml_dtypes.bfloat16)
    d = np.full((len(a), N), 1000, ml_dtypes.bfloat16)
    expected = d.astype(np.float32)
    for group, (first, last) in enumerate(pairwise(begins)):
        expected[first:last] = a[first:last].astype(np.float32) @ b[group].astype(np.float32).T
    state = compiled(small(example))
    (plan,) = state.plans or []
    options = LaunchOptions(Options(timing=timing, seed=2))
    launch(plan.interface, state.ptx or "", (a, b, begins, d), device="sim", options=options)
    assert np.array_equal(d, expected.astype(ml_dtypes.bfloat16))
