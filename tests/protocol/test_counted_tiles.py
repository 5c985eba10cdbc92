"""Loops over the blocks of a tile, as many as memory or the tile's row says: each role counts them in words of its own."""

from itertools import pairwise, product

import pytest

from pipec.driver import Options, compile_source
from pipec.source import Source

HEAD = """
kernel k(x: tensor[f32, M, N], c: tensor[i32, C], K: i32):
    grid({grid})
    assume(K >= 0)
    down = ceildiv(M, 64)
    across = ceildiv(N, 64)
    p = ProducerConsumerPipeline(stages=3)
    role load(warps=1) produces p:
        for t in range(block.x, down * across, grid.x):
            n = {number}
{load}
    role take(warps=1) consumes p:
        for t in range(block.x, down * across, grid.x):
            n = {number}
{take}
"""
FILL, TAKE = "p.producer_signal_and_step()", "p.consumer_signal_and_step()"
LOOPS = {
    "one by one": "for k in range(n):\n    {it}",
    "down": "m = n\nwhile m > 0:\n    m -= 1\n    {it}",
    "guarded": "for k in range(0, n, 2):\n    {it}\n    if k + 1 < n:\n        {it}",
    "halves": "for k in range(n // 2):\n    {it}\n    {it}\nif n % 2 == 1:\n    {it}",
    "odd one": "for k in range(0, n - 1, 2):\n    {it}\n    {it}\nif n % 2 != 0:\n    {it}",
    "threes": "k = 0\nwhile k + 2 < n:\n    {it}\n    {it}\n    {it}\n    k += 3\nwhile k < n:\n    {it}\n    k += 1",
    "fours": "for k in range(0, n // 4 * 4, 4):\n    {it}\n    {it}\n    {it}\n    {it}\nfor k in range(n // 4 * 4, n):\n    {it}",
}
NUMBERS = {"memory": "max(0, min(load(c[t]), ceildiv(K, 16)))", "row": "min(ceildiv(K, 16), t // across + 1)"}
WRONG = {
    "one more": "for k in range(n + 1):\n    {it}",
    "without the rest": "for k in range(0, n // 2 * 2, 2):\n    {it}\n    {it}",
    "a rest of two": "for k in range(0, n // 2 * 2, 2):\n    {it}\n    {it}\nif n % 2 == 1:\n    {it}\n    {it}",
    "guard one early": "for k in range(0, n, 2):\n    {it}\n    if k + 2 < n:\n        {it}",
    "a rest from the start": "k = 0\nwhile k + 2 < n:\n    {it}\n    {it}\n    {it}\n    k += 3\nfor k in range(n % 2):\n    {it}",
}


def said(number: str, load: str, take: str, grid: str = "3") -> list[str]:
    """The codes that are reported."""
    loops = {**LOOPS, **WRONG}
    lines = {
        "load": loops[load].format(it=FILL),
        "take": loops[take].format(it=TAKE),
    }
    indented = {role: "\n".join(f"            {line}" for line in text.split("\n")) for role, text in lines.items()}
    text = HEAD.format(grid=grid, number=NUMBERS[number], **indented)
    return [one.code for one in compile_source(Source("k.pipe", text), Options("sm_90a")).diagnostics]


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("pair", [*pairwise((*LOOPS, "one by one"))], ids=" and ".join)
def test_it_is_proved(number: str, pair: tuple[str, str]) -> None:
    assert said(number, *pair) == []


def test_the_same_bounds_in_another_order() -> None:
    """`K` is not negative: what is between 0 and that is the same, whichever is looked at first."""
    one, other = "max(0, min(load(c[t]), K))", "min(max(load(c[t]), 0), K)"
    loops = {"load": LOOPS["guarded"].format(it=FILL), "take": LOOPS["one by one"].format(it=TAKE)}
    indented = {role: "\n".join(f"            {line}" for line in text.split("\n")) for role, text in loops.items()}
    before, behind = HEAD.format(grid="3", number=one, **indented).split("    role take")
    text = before + "    role take" + behind.replace(one, other)
    assert other in text and compile_source(Source("k.pipe", text), Options("sm_90a")).diagnostics == []


TURNS = """
kernel k(a: tensor[bf16, M, K], b: tensor[bf16, N, K], d: tensor[f32, M, N]):
    down = ceildiv(M, 128)
    across = ceildiv(N, 64)
    grid(ceildiv(down * across, 2))
    p = InputTilePipeline(StandardTilePayload(a=tile[bf16, 128, 16], b=tile[bf16, 64, 16]), stages=4)
    q = OutputTilePipeline(tmem[f32, 128, 64], stages=2)
    role load(warps=1) produces p:
        for i in range((across * down - block.x + grid.x - 1) // grid.x):
            t = block.x + i * grid.x
            for k in range(min((t // across + 1) * 8, ceildiv(K, 16)) - 1, -1, -1):
                with p.produce() as s:
                    tma.load(s.a, a[t // across * 128, k * 16])
                    tma.load(s.b, b[t % across * 64, k * 16])
    role multiply(warps=1) consumes p produces q:
        t = block.x
        for i in range(ceildiv(down * across - block.x, grid.x)):
            with q.produce() as acc:
                n = min((t // across + 1) * {rows}, ceildiv(K, 16))
                for k in range(0, n // 2 * 2, 2):
                    with p.consume() as s:
                        mma(acc, s.a, s.b)
                    with p.consume() as s:
                        mma(acc, s.a, s.b)
                for k in range(n // 2 * 2, n):
                    with p.consume() as s:
                        mma(acc, s.a, s.b)
            t += grid.x
    role epilogue(warps=4) consumes q:
        t = block.x
        while t < down * across:
            with q.consume() as acc:
                store(d[t // across * 128, t % across * 64], acc)
            t += grid.x
"""


@pytest.mark.parametrize("rows", [8, 9])
def test_the_row_of_a_tile_that_turns_lead_to(rows: int) -> None:
    """What the next row reaches is only known not to wrap by a bound of the quotient."""
    state = compile_source(Source("k.pipe", TURNS.format(rows=rows)), Options("sm_100a"))
    assert state.failed == (rows != 8)


@pytest.mark.parametrize(("number", "wrong"), [*product(NUMBERS, WRONG)])
def test_another_number_is_not(number: str, wrong: str) -> None:
    assert said(number, "guarded", wrong) != []
