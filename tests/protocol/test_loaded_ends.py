"""Loops between two numbers in memory, as where sequences of several lengths follow each other: each role counts in its own words."""

from itertools import pairwise, product

import pytest

from pipec.driver import Options, compile_source
from pipec.source import Source

HEAD = """
kernel k(x: tensor[f32, M, N], y: tensor[f32, K], s: tensor[i32, S], e: tensor[i32, E], B: i32, H: i32):
    grid(3)
    p = ProducerConsumerPipeline(stages=3)
    role load(warps=1) produces p:
{load}
    role take(warps=1) consumes p:
{take}
"""
FILL, TAKE = "p.producer_signal_and_step()", "p.consumer_signal_and_step()"
WALK = "for b in range(block.x, B, grid.x):\n{body}"
ENDS = {
    "one array": ("max(load(s[b]), 0)", "max(load(s[b + 1]), 0)"),
    "two arrays": ("max(load(s[b]), 0)", "max(load(e[b]), 0)"),
    "below a size": ("min(max(load(s[b]), 0), K)", "min(max(load(e[b]), 0), K)"),
}
LOOPS = {
    "between them": "for k in range({lo}, {hi}):\n    {it}",
    "up to the difference": "for k in range({hi} - {lo}):\n    {it}",
    "counted down": "n = {hi} - {lo}\nwhile n > 0:\n    {it}\n    n -= 1",
    "counted up": "k = {lo}\nwhile k < {hi}:\n    {it}\n    k += 1",
}
WRONG = {
    "one more": "for k in range({lo}, {hi} + 1):\n    {it}",
    "the other way round": "for k in range({lo} - {hi}):\n    {it}",
    "not the first": "n = {hi} - {lo}\nwhile n > 1:\n    {it}\n    n -= 1",
    "up to the end": "for k in range({hi}):\n    {it}",
}


def said(ends: str, load: str, take: str, walk: str = WALK, other: str = WALK) -> list[str]:
    """The codes that are reported."""
    lo, hi = ENDS[ends]
    roles = {}
    for role, loop, around, it in (("load", load, walk, FILL), ("take", take, other, TAKE)):
        body = {**LOOPS, **WRONG}[loop].format(lo=lo, hi=hi, it=it)
        roles[role] = _indented(around.format(body=_indented(body, 4)), 8)
    return [one.code for one in compile_source(Source("k.pipe", HEAD.format(**roles)), Options("sm_90a")).diagnostics]


def _indented(text: str, by: int) -> str:
    return "\n".join(" " * by + line for line in text.split("\n"))


@pytest.mark.parametrize("ends", ENDS)
@pytest.mark.parametrize("pair", [*pairwise((*LOOPS, "between them"))], ids=" and ".join)
def test_it_is_proved(ends: str, pair: tuple[str, str]) -> None:
    assert said(ends, *pair) == []


@pytest.mark.parametrize(("ends", "wrong"), [*product(ENDS, WRONG)])
def test_another_number_is_not(ends: str, wrong: str) -> None:
    assert said(ends, "between them", wrong) != []
