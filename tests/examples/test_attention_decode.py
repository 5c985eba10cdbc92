"""Decoding in two kernels, simulated: parts of the keys by the first, added up by the second, against float64 NumPy."""

import ml_dtypes
import numpy as np
import pytest
from examples.catalogue import EXAMPLES, Case, compiled

from pipec.runtime import launch

SCALE = 0.125
FILE = EXAMPLES / "attention_sm90_decode_split.pipe"


SIZES = {
    "all splits": (128, 8, 4, 1500),
    "empty splits": (64, 16, 1, 130),
    "more queries than a block adds up": (64, 4, 20, 700),
}


@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
def test_parts_add_up_to_attention(sizes: tuple[int, int, int, int]) -> None:
    check(*sizes, device="sim")


def check(size: int, splits: int, group: int, keys: int, device: str) -> None:
    """`size` of a head, `group` queries that share `keys`."""
    constants = (("D", str(size)), ("SPLITS", str(splits)))
    compilation = compiled(Case(FILE, constants))
    interfaces = {plan.kernel.name: plan.interface for plan in compilation.plans or []}
    ptx = compilation.ptx or ""
    generator, heads = np.random.default_rng(splits), 2

    def drawn(rows: int) -> np.ndarray:
        return generator.standard_normal((heads, rows, size)).astype(ml_dtypes.bfloat16)

    q, k, v = drawn(group), drawn(keys), drawn(keys)
    parts = np.full((heads, splits, group, size), np.nan, np.float32)
    largest, total = (np.full((heads, group, splits), np.nan, np.float32) for _ in range(2))
    out = np.zeros((heads, group, size), ml_dtypes.bfloat16)
    launch(interfaces["attend_split"], ptx, (q, k, v, parts, largest, total, SCALE), device=device)
    launch(interfaces["add_up"], ptx, (parts, largest, total, out, SCALE), device=device)
    wide = [array.astype(np.float64) for array in (q, k, v)]
    scores = wide[0] @ wide[1].mT * SCALE
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    expected = weights / weights.sum(-1, keepdims=True) @ wide[2]
    # Probabilities, relative to the largest of a part, and the result are rounded to bfloat16; the errors of a sum mostly cancel.
    assert np.abs(out.astype(np.float64) - expected).max() < 2.0**-7 * np.abs(expected).max()
