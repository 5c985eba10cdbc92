"""Conditions that decide what is stored, and hand nothing over, leave a proof as it is: what they compute must only be seen not to wrap."""

import random

import pytest

from pipec.driver import Options, compile_source
from pipec.source import Source

KERNEL = """
kernel k(x: tensor[f32, M, 64], y: tensor[f32, M, 64], n: i32):
    grid({grid})
    p = InputTilePipeline(TilePayload(x=tile[f32, 32, 64]), stages=2)

    role load(warps=1) produces p:
        for i in range({turns}):
            with p.produce() as s:
                tma.load(s.x, x[i * 32, 0])

    role work(warps={warps}) consumes p:
        for i in range({turns}):
            with p.consume() as s:
                {stored}
"""
TURNS = ("n", "ceildiv(M, 32)")
CONDITIONS = (
    "i % 2 == 0",
    "i % 3 != n % 3",
    "i // 4 % 2 == block.x",
    "min(M - i * 32, 32) < 32",
    "max(i, 3) > n - 4",
    "(i if i < 5 else 5) == i",
    "i % 2 == 0 and i // 2 % 2 == 1",
    "(i + block.x) % grid.x == 0",
)


@pytest.mark.parametrize("condition", CONDITIONS)
def test_the_kernel_is_proved(condition: str) -> None:
    draw = random.Random(condition)
    store = draw.choice(("store(y[i * 32, 0], s.x)", "store.direct(y[i * 32, 0], s.x)"))
    stored = f"if {condition}:\n                    {store}"
    _proved(KERNEL.format(grid=1, turns=draw.choice(TURNS), warps=draw.choice((1, 2)), stored=stored))


@pytest.mark.parametrize("rows", ["min(M - i * 32, 32)", "32 if M - i * 32 > 32 else M - i * 32", "max(M - i * 32, 0)"])
def test_the_rows_that_are_stored_may_be_any(rows: str) -> None:
    _proved(KERNEL.format(grid=1, turns="ceildiv(M, 32)", warps=2, stored=f"store(y[i * 32, 0], s.x, rows={rows})"))


def _proved(text: str) -> None:
    state = compile_source(Source("k.pipe", text), Options("sm_90a"))
    assert not state.failed, f"{text}\n{[one.title for one in state.diagnostics]}"
