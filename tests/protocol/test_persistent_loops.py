"""Persistent GEMMs whose roles walk over the same tiles in loops of different kinds, proved and run."""

import ml_dtypes
import numpy as np
import pytest

import pipec
from pipec.driver import Options, compile_source
from pipec.source import Source

KERNEL = """kernel gemm[BM: int = 128, BN: int = 128, BK: int = 64](a: tensor[bf16, M, K], b: tensor[bf16, N, K], d: tensor[f32, M, N]):
    assume(K > 0)
    rows = ceildiv(M, BM)
    tiles = rows * ceildiv(N, BN)
    grid(min(tiles, {blocks}))

    input  = InputTilePipeline(StandardTilePayload(a=tile[bf16, BM, BK], b=tile[bf16, BN, BK]), stages=4)
    output = OutputTilePipeline(tmem[f32, BM, BN], stages=2)

    role load(warps=1) produces input:
{load}
    role mma(warps=1) consumes input produces output:
        for t in range(block.x, tiles, grid.x):
            with output.produce() as acc:
                for k in range(ceildiv(K, BK)):
                    with input.consume() as s:
                        mma(acc, s.a, s.b)

    role epilogue(warps=4) consumes output:
        t = block.x
        while t < tiles:
            with output.consume() as acc:
                store(d[t % rows * BM, t // rows * BN], acc)
            t += grid.x
"""

ONE_LOOP = """
        steps = ceildiv(K, BK)
        for i in range({count} * steps):
            t = block.x + i // steps * grid.x
            with input.produce() as s:
                tma.load(s.a, a[t % rows * BM, i % steps * BK])
                tma.load(s.b, b[t // rows * BN, i % steps * BK])
"""

BY_HAND = """
        t = {start}
        while t < tiles:
            for k in range(0, K, BK):
                with input.produce() as s:
                    tma.load(s.a, a[t % rows * BM, k])
                    tma.load(s.b, b[t // rows * BN, k])
            t += {step}
"""

RIGHT = {
    "one loop over all K blocks": ONE_LOOP.format(count="ceildiv(tiles - block.x, grid.x)"),
    "a counter moved on by hand": BY_HAND.format(start="block.x", step="grid.x"),
}
WRONG = {
    "one tile more": ONE_LOOP.format(count="(ceildiv(tiles - block.x, grid.x) + 1)"),
    "no tile that is not a whole round": ONE_LOOP.format(count="((tiles - block.x) // grid.x)"),
    "from the next tile on": BY_HAND.format(start="block.x + 1", step="grid.x"),
    "one block further": BY_HAND.format(start="block.x", step="(grid.x + 1)"),
}


@pytest.mark.parametrize("blocks", [3, 132])
@pytest.mark.parametrize("how", RIGHT)
def test_it_is_proved(how: str, blocks: int) -> None:
    state = compile_source(Source("gemm.pipe", KERNEL.format(load=RIGHT[how], blocks=blocks)), Options("sm_100a"))
    assert not state.failed, state.diagnostics


@pytest.mark.parametrize("how", WRONG)
def test_its_neighbour_is_not(how: str) -> None:
    assert compile_source(Source("gemm.pipe", KERNEL.format(load=WRONG[how], blocks=3)), Options("sm_100a")).failed


@pytest.mark.parametrize("how", RIGHT)
def test_it_multiplies(how: str) -> None:
    draw = np.random.default_rng(1)
    a, b = (draw.standard_normal((rows, 136)).astype(ml_dtypes.bfloat16) for rows in (200, 264))
    d = np.zeros((200, 264), np.float32)
    pipec.compile(KERNEL.format(load=RIGHT[how], blocks=3))["gemm"](a, b, d, device="sim")
    np.testing.assert_allclose(d, a.astype(np.float64) @ b.astype(np.float64).T, rtol=1e-3, atol=1e-3)
