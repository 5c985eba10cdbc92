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


@pytest.mark.parametrize(("number", "wrong"), [*product(NUMBERS, WRONG)])
def test_another_number_is_not(number: str, wrong: str) -> None:
    assert said(number, "guarded", wrong) != []
