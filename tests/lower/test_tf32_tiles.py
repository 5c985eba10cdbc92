"""Threads write f32 into tiles of tf32, which have the same bytes: in shared memory for both targets, and in tensor memory."""

import numpy as np
import pytest

import pipec

KERNEL = """
kernel gemm(a: tensor[f32, M, K], b: tensor[f32, N, K], d: tensor[f32, M, N]):
    grid(ceildiv(M, 128), ceildiv(N, 64))
    left = {left}
    right = InputTilePipeline(TilePayload(b=tile[tf32, 64, 32]), stages=2)
    {more}

    role double(warps=4) produces left:
        for k in range(ceildiv(K, 32)):
            with left.produce() as s:
                write({tile}, load(a[block.x * 128, k * 32], 128, 32) * 2.0)

    role load(warps=1) produces right:
        for k in range(ceildiv(K, 32)):
            with right.produce() as s:
                tma.load(s.b, b[block.y * 64, k * 32])
"""
SHARED = "InputTilePipeline(TilePayload(a=tile[tf32, 128, 32]), stages=2)"
MMA = """
    role multiply(warps=1) consumes left, right produces output:
        with output.produce() as acc:
            for k in range(ceildiv(K, 32)):
                with left.consume() as s, right.consume() as t:
                    mma(acc, {tile}, t.b)

    role epilogue(warps=4) consumes output:
        with output.consume() as acc:
            store(d[block.x * 128, block.y * 64], acc)
"""
WGMMA = """
    role multiply(warps=8) consumes left, right:
        acc = accumulator(f32, 128, 64)
        for k in range(ceildiv(K, 32)):
            with left.consume() as s, right.consume() as t:
                mma(acc, {tile}, t.b)
        store(d[block.x * 128, block.y * 64], acc)
"""
OUTPUT = "output = OutputTilePipeline(tmem[f32, 128, 64], stages=1)"
TENSOR_TILES = f"operands = TensorTiles(tmem[tf32, 128, 32], count=2)\n    {OUTPUT}"
PLACES = {
    "wgmma": ("sm_90a", KERNEL + WGMMA, {"left": SHARED, "more": "", "tile": "s.a"}),
    "shared": ("sm_100a", KERNEL + MMA, {"left": SHARED, "more": OUTPUT, "tile": "s.a"}),
    "tensor": (
        "sm_100a",
        KERNEL + MMA,
        {"left": "ProducerConsumerPipeline(stages=2)", "more": TENSOR_TILES, "tile": "operands[s.index()]"},
    ),
}


@pytest.mark.parametrize("place", PLACES)
def test_threads_write_what_an_mma_reads_as_tf32(place: str) -> None:
    arch, text, parts = PLACES[place]
    generator = np.random.default_rng(1)
    a, b = (generator.integers(-4, 5, (size, 72)).astype(np.float32) for size in (130, 40))
    d = np.full((130, 40), np.nan, np.float32)
    pipec.compile(text.format(**parts), arch=arch)["gemm"](a, b, d, device="sim")
    assert np.array_equal(d, 2 * a @ b.T)
