"""Compiles a source and runs a kernel of it on the simulator, for tests that compare with NumPy."""

from functools import cache

import ml_dtypes
import numpy as np

import pipec.embed
from pipec.program import Program

NUMPY = {
    "bf16": ml_dtypes.bfloat16,
    "f16": np.float16,
    "f32": np.float32,
    "tf32": np.float32,
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
    "i8": np.int8,
    "u8": np.uint8,
    "i32": np.int32,
}


@cache
def compiled(source: str) -> Program:
    return pipec.embed.compile(source, allow_undecided=True)


def run(source: str, kernel: str, *arguments: object, timing: str = "order") -> None:
    from pipec.runtime.launcher import LaunchOptions
    from pipec.sim import Options

    options = LaunchOptions(simulation=Options(timing=timing, seed=7))
    compiled(source)[kernel](*arguments, device="sim", options=options)


def values(shape: tuple[int, ...], dtype: str, seed: int = 0) -> np.ndarray:
    """Small numbers that every type holds exactly."""
    generator = np.random.default_rng(seed)
    low = 0 if dtype == "u8" else -3
    return generator.integers(low, 4, shape).astype(NUMPY[dtype])


def exact(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float64)
