"""Parts of a tile that CTAs load for each other begin at any 128 bytes of it, also within a swizzle pattern."""

import numpy as np
import pytest

import pipec
from pipec.runtime import LaunchOptions
from pipec.sim import Options as Simulation

SOURCE = """kernel copy[ROWS: int = 8, COLUMNS: int = 32, CTAS: int = 2](a: tensor[f32, M, N], d: tensor[f32, C, M, N]):
    cluster(1, CTAS)
    grid(1, CTAS)
    input = InputTilePipeline(TilePayload(a=tile[f32, ROWS, COLUMNS]), stages=1)

    role load(warps=1) produces input:
        with input.produce() as s:
            tma.load(s.a, a[0, 0], multicast="y")

    role work(warps=4) consumes input:
        with input.consume() as s:
            store.direct(d[cta.y, 0, 0], s.a)
"""
BYTES = 4


@pytest.mark.parametrize("ctas", [2, 4])
@pytest.mark.parametrize("columns", [8, 16, 24, 32, 64])
@pytest.mark.parametrize("rows", [8, 12, 20, 24, 36, 84])
def test_every_cta_gets_the_whole_tile(rows: int, columns: int, ctas: int) -> None:
    constants = {"ROWS": rows, "COLUMNS": columns, "CTAS": ctas}
    if rows % ctas or rows // ctas * min(columns & -columns, 32) * BYTES % 128:
        with pytest.raises(pipec.CompileError, match="E0794"):
            pipec.compile(SOURCE, arch="sm_90a", constants=constants)
        return
    kernel = pipec.compile(SOURCE, arch="sm_90a", constants=constants)["copy"]
    a = np.arange(rows * columns, dtype=np.float32).reshape(rows, columns)
    d = np.zeros((ctas, rows, columns), np.float32)
    kernel(a, d, device="sim", options=LaunchOptions(Simulation(timing="random", seed=1)))
    assert (d == a).all()
