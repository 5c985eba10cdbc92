"""Every arithmetic instruction against what an H200 computed for the same inputs (recorded by record_alu.py)."""

from __future__ import annotations

import functools
import pathlib

import ml_dtypes
import numpy as np
import pytest

from pipec.sim import ArrayArgument, launch

from .alu_cases import THREADS, Case, cases, inputs, kernel

RECORDED = pathlib.Path(__file__).parent / "data" / "alu_h200.npz"
_HEADER = ".version 8.6\n.target sm_90a\n.address_size 64\n"
_FLOATS = {"f32": np.float32, "tf32": np.float32, "f64": np.float64, "f16": np.float16, "bf16": ml_dtypes.bfloat16}


@functools.cache
def recorded() -> dict[str, np.ndarray]:
    with np.load(RECORDED) as data:
        return dict(data)


def simulate(case: Case) -> np.ndarray:
    out = np.zeros(THREADS, f"uint{case.output}")
    arguments = [ArrayArgument(array, writable=False) for array in inputs(case)] + [ArrayArgument(out)]
    launch(_HEADER + kernel(case), arguments=arguments)
    return out


def agrees(case: Case, got: np.ndarray, want: np.ndarray) -> np.ndarray:
    """Elementwise; any NaN equals any NaN, approximations may differ by the case's relative tolerance."""
    if case.kind == "bits":
        return got == want
    dtype = _FLOATS[case.kind]
    a, b = got.view(dtype).astype(np.float64), want.view(dtype).astype(np.float64)
    same = (got.view(f"uint{8 * np.dtype(dtype).itemsize}") == want.view(f"uint{8 * np.dtype(dtype).itemsize}")) | (
        np.isnan(a) & np.isnan(b)
    )
    if case.tolerance:
        same |= np.abs(a - b) <= case.tolerance * np.maximum(np.abs(b), 1e-3)
    return same


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_instruction(case: Case):
    got, want = simulate(case), recorded()[case.name]
    bad = np.flatnonzero(~agrees(case, got, want))
    if bad.size:
        index = bad[0] * got.size // agrees(case, got, want).size
        operands = ", ".join(f"{int(array[index]):#x}" for array in inputs(case))
        pytest.fail(
            f"{bad.size} of {got.size} differ; inputs {operands}: simulator {int(got[index]):#x}, H200 {int(want[index]):#x}"
        )
