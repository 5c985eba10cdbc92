"""PTX that nvcc made from cuda_library.cu: how the libraries of CUDA work in kernels, each against NumPy."""

from __future__ import annotations

import functools
import pathlib

import numpy as np

from pipec.sim import Result, launch


@functools.cache
def ptx() -> str:
    return (pathlib.Path(__file__).parent / "ptx" / "cuda_library.ptx").read_text()


def run(kernel: str, *arguments, block: int) -> Result:
    return launch(ptx(), kernel, block=block, arguments=arguments)


def test_tiles_of_several_warps():
    x, y = np.random.default_rng(5).integers(0, 99, 256).astype(np.int32), np.zeros(256, np.int32)
    run("wide_tiles", x, y, block=256)
    assert (y == np.repeat(x.reshape(2, 128).sum(axis=1), 128)).all()
