"""Stream-K in two kernels, simulated: shares of K blocks by the first, tiles that several blocks share rounded by the second."""

import ml_dtypes
import numpy as np
import pytest
from examples.catalogue import EXAMPLES, Case, compiled

from pipec.runtime import launch

FILE = EXAMPLES / "gemm_sm90_stream_k.pipe"
SMALL = (("BM", "64"), ("BN", "64"), ("STAGES", "2"))

# M, N, K and the number of blocks.
SIZES = {
    "a block has parts of two tiles": (200, 136, 456, 5),
    "several blocks share a tile": (72, 64, 712, 7),
    "each block has whole tiles": (128, 128, 192, 4),
    "more blocks than K blocks": (64, 64, 136, 5),
    "many tiles": (264, 200, 72, 3),
}


@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
def test_shares_add_up(sizes: tuple[int, int, int, int]) -> None:
    check(*sizes, device="sim")


def check(m: int, n: int, k: int, blocks: int, device: str, constants: tuple[tuple[str, str], ...] = SMALL) -> None:
    """Two launches in a row: the first must leave `sums` as the second needs it."""
    compilation = compiled(Case(FILE, (*constants, ("BLOCKS", str(blocks)))))
    interfaces = {plan.kernel.name: plan.interface for plan in compilation.plans or []}
    ptx = compilation.ptx or ""
    generator = np.random.default_rng(blocks)
    a, b = (generator.integers(-4, 5, (rows, k)).astype(ml_dtypes.bfloat16) for rows in (m, n))
    expected = (a.astype(np.float64) @ b.astype(np.float64).T).astype(ml_dtypes.bfloat16)
    sums = np.zeros((m, n), np.float32)
    for _ in range(2):
        d = np.full((m, n), np.nan, ml_dtypes.bfloat16)
        launch(interfaces["multiply_waves"], ptx, (a, b, sums, d), device=device)
        launch(interfaces["round_last_wave"], ptx, (sums, d, k), device=device)
        np.testing.assert_array_equal(d, expected)
        assert not sums.any()
