"""Each block takes an equal share of the K blocks of all tiles (stream-K): the roles walk over the tiles that the share touches."""

import ml_dtypes
import numpy as np
import pytest

import pipec
from pipec.driver import Options, compile_source
from pipec.source import Source

TILES = "range(first // steps, ceildiv(last, steps))"
BLOCKS = "range(max(first, t * steps), min(last, t * steps + steps))"
TEXT = """
kernel stream_k(a: tensor[bf16, M, K], b: tensor[bf16, N, K], d: tensor[f32, M, N]):
    rows = ceildiv(M, 128)
    steps = ceildiv(K, 64)
    total = rows * ceildiv(N, 64) * steps
    grid(min(total, {blocks}))
    first = block.x * total // grid.x
    last = (block.x + 1) * total // grid.x
    input = InputTilePipeline(StandardTilePayload(a=tile[bf16, 128, 64], b=tile[bf16, 64, 64]), stages=3)
    output = OutputTilePipeline(tmem[f32, 128, 64], stages=2)

    role load(warps=1) produces input:
        for t in {loaded}:
            for k in {filled}:
                with input.produce() as s:
                    tma.load(s.a, a[t % rows * 128, (k - t * steps) * 64])
                    tma.load(s.b, b[t // rows * 64, (k - t * steps) * 64])

    role mma(warps=1) consumes input produces output:
        for t in range(first // steps, ceildiv(last, steps)):
            with output.produce() as acc:
                for k in {taken}:
                    with input.consume() as s:
                        mma(acc, s.a, s.b)

    role epilogue(warps=4) consumes output:
        for t in {stored}:
            with output.consume() as acc:
                store(d[t % rows * 128, t // rows * 64], acc, reduce="add")
"""


def text(loaded: str = TILES, filled: str = BLOCKS, taken: str = BLOCKS, stored: str = TILES, blocks: str = "148") -> str:
    return TEXT.format(loaded=loaded, filled=filled, taken=taken, stored=stored, blocks=blocks)


def test_it_is_proved_and_adds_up() -> None:
    program = pipec.kernel(text(blocks="4"))
    chance = np.random.default_rng(1)
    a, b = (chance.integers(-3, 4, (rows, 136)).astype(ml_dtypes.bfloat16) for rows in (136, 128))
    d = np.ones((136, 128), np.float32)
    program(a, b, d, device="sim")
    np.testing.assert_array_equal(d, 1 + a.astype(np.float32) @ b.astype(np.float32).T)


@pytest.mark.parametrize("blocks", ["148", "gpu.multiprocessors"])
def test_by_any_number_of_blocks(blocks: str) -> None:
    state = compile_source(Source("k.pipe", text(blocks=blocks)), Options("sm_100a"))
    assert not state.failed, state.diagnostics


WRONG = {
    "from the start of the first tile": {"taken": "range(t * steps, min(last, t * steps + steps))"},
    "up to the end of the last tile": {"filled": "range(max(first, t * steps), t * steps + steps)"},
    "whole tiles alone": {"stored": "range(ceildiv(first, steps), last // steps)"},
    "one tile more": {"stored": "range(first // steps, ceildiv(last, steps) + 1)"},
    "without the first tile": {"loaded": "range(first // steps + 1, ceildiv(last, steps))"},
}


@pytest.mark.parametrize("name", WRONG)
def test_its_neighbour_is_not(name: str) -> None:
    assert compile_source(Source("k.pipe", text(**WRONG[name])), Options("sm_100a")).failed
