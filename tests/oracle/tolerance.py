"""How far a result may be from NumPy's float64, and why.

The tensor cores' sum of one MMA keeps 25 fraction bits below the largest term and cuts the result to float32 (docs/fidelity.md),
so one step of the K loop loses at most 2**-23 of the sum of the absolute products so far, and at most K of them follow
each other. Rounding an input to tf32 costs 2**-10 of it (cut, not rounded); rounding the output half a unit in its last
place. All bounds hold element by element.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np

STEP = 2.0**-23
TF32_INPUTS = 2 * 2.0**-10
_OUTPUT = {"float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}


def check(found: np.ndarray, exact: np.ndarray, bound: np.ndarray | float) -> None:
    """Every element within its bound, and finite."""
    wide = found.astype(np.float64)
    assert np.isfinite(wide).all(), f"{(~np.isfinite(wide)).sum()} elements are no numbers"
    error = np.abs(wide - exact)
    excess = error - bound
    worst = np.unravel_index(np.argmax(excess), excess.shape)
    assert excess[worst] <= 0, (
        f"{(excess > 0).sum()} of {excess.size} elements are off, the worst at {[int(i) for i in worst]}: "
        f"{wide[worst]:.6g} for {exact[worst]:.6g}, error {error[worst]:.3g}"
    )


def check_product(found: np.ndarray, a: np.ndarray, b: np.ndarray, inputs: float = 0.0) -> None:
    """`found` against a[M, K] @ b[K, N]; `inputs` is what each product loses before it is summed."""
    a, b = a.astype(np.float64), b.astype(np.float64)
    exact, size = a @ b, np.abs(a) @ np.abs(b)
    check(found, exact, (a.shape[1] * STEP + inputs) * size + _OUTPUT[found.dtype.name] * np.abs(exact))


def normal(rng: np.random.Generator, shape: tuple[int, ...], dtype: type | str) -> np.ndarray:
    return rng.standard_normal(shape, np.float32).astype(getattr(ml_dtypes, dtype, dtype) if isinstance(dtype, str) else dtype)
