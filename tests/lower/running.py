"""Compiles a source and runs a kernel of it on the simulator, for tests that compare with NumPy."""

from functools import cache

import ml_dtypes
import numpy as np

import pipec.api.embed
from pipec.api.program import Program
from pipec.isa.dtypes import DTYPES

NUMPY = {row.name: np.dtype(getattr(ml_dtypes, row.numpy, row.numpy)) for row in DTYPES.values() if row.numpy}
# Types of which threads hold values, but for bool and the two whose values are those of f32.
CONVERTED = [row.name for row in DTYPES.values() if not row.is_opaque and row.name not in ("bool", "f32", "tf32")]


@cache
def compiled(source: str, arch: str | None = None) -> Program:
    return pipec.api.embed.compile(source, arch=arch, allow_undecided=True)


def run(source: str, kernel: str, *arguments: object, timing: str = "order", arch: str | None = None) -> None:
    from pipec.runtime.launcher import LaunchOptions
    from pipec.sim import Options

    options = LaunchOptions(simulation=Options(timing=timing, seed=7))
    compiled(source, arch)[kernel](*arguments, device="sim", options=options)


def values(shape: tuple[int, ...], dtype: str, seed: int = 0) -> np.ndarray:
    """Small numbers that every type holds exactly."""
    generator = np.random.default_rng(seed)
    low = 0 if DTYPES[dtype].family == "unsigned" else -3
    return generator.integers(low, 4, shape).astype(NUMPY[dtype])


def exact(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float64)
