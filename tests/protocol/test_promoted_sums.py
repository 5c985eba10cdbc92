"""Sums that are handed on after every few blocks of K, and after the last one: one loop, or a loop of chunks, against another."""

import textwrap

import pytest

from pipec.driver import Options, compile_source
from pipec.source import Source

TEXT = """
kernel k(x: tensor[f32, M, N], y: tensor[f32, K], n: i32):
    grid(3)
    kb = ceildiv(K, 64)
    p = ProducerConsumerPipeline(stages=3)
    q = ProducerConsumerPipeline(stages=2)
    role load(warps=1) produces p:
{load}
    role multiply(warps=1) consumes p produces q:
{multiply}
    role add_up(warps=1) consumes q:
{add_up}
"""
LOAD = "for k in range(kb):\n    p.producer_signal_and_step()"
TAKE, GIVE, ADD = "p.consumer_signal_and_step()", "q.producer_signal_and_step()", "q.consumer_signal_and_step()"
WHEN = "for k in range(kb):\n    {take}\n    if {when}:\n        {give}"
CHUNK = "for c in range({first}, {last}{step}):\n    for j in range({begin}, {end}):\n        {take}\n    {give}"
MULTIPLY = {
    "in each fourth turn and the last": WHEN.format(take=TAKE, give=GIVE, when="k % 4 == 3 or k == kb - 1"),
    "behind each fourth turn and the last": WHEN.format(take=TAKE, give=GIVE, when="(k + 1) % 4 == 0 or k + 1 == kb"),
    "after the loop, of what is left": WHEN.format(take=TAKE, give=GIVE, when="k % 4 == 3") + f"\nif kb % 4 != 0:\n    {GIVE}",
    "by chunks": CHUNK.format(
        first=0, last="ceildiv(kb, 4)", step="", begin="4 * c", end="min(kb, 4 * c + 4)", take=TAKE, give=GIVE
    ),
    "by fours": CHUNK.format(first=0, last="kb", step=", 4", begin="c", end="min(kb, c + 4)", take=TAKE, give=GIVE),
}
ADD_UP = {
    "chunks": f"for c in range(ceildiv(kb, 4)):\n    {ADD}",
    "elements": f"for c in range(ceildiv(K, 256)):\n    {ADD}",
    "fours": f"for k in range(0, kb, 4):\n    {ADD}",
}
WRONG = {
    "the last turn twice": WHEN.format(take=TAKE, give=GIVE, when="k % 4 == 3") + f"\n{GIVE}",
    "the last turn not": WHEN.format(take=TAKE, give=GIVE, when="k % 4 == 3"),
    "another turn": WHEN.format(take=TAKE, give=GIVE, when="k % 4 == 2 or k == kb - 1"),
    "the turn before the last": WHEN.format(take=TAKE, give=GIVE, when="k % 4 == 3 or k == kb - 2"),
    "each fifth turn": WHEN.format(take=TAKE, give=GIVE, when="k % 5 == 4 or k == kb - 1"),
    "chunks beyond the end": CHUNK.format(
        first=0, last="ceildiv(kb, 4)", step="", begin="4 * c", end="4 * c + 4", take=TAKE, give=GIVE
    ),
    "one too few in a chunk": CHUNK.format(
        first=0, last="ceildiv(kb, 4)", step="", begin="4 * c", end="min(kb, 4 * c + 3)", take=TAKE, give=GIVE
    ),
    "a chunk too few": CHUNK.format(
        first=0, last="kb // 4", step="", begin="4 * c", end="min(kb, 4 * c + 4)", take=TAKE, give=GIVE
    ),
}  # fmt: skip


def failed(multiply: str, add_up: str) -> bool:
    roles = {
        name: textwrap.indent(text, " " * 8)
        for name, text in (("load", LOAD), ("multiply", multiply), ("add_up", ADD_UP[add_up]))
    }
    return compile_source(Source("k.pipe", TEXT.format(**roles)), Options("sm_90a")).failed


@pytest.mark.parametrize("add_up", ADD_UP)
@pytest.mark.parametrize("multiply", MULTIPLY)
def test_it_is_proved(multiply: str, add_up: str) -> None:
    assert not failed(MULTIPLY[multiply], add_up)


@pytest.mark.parametrize("wrong", WRONG)
def test_its_neighbour_is_not(wrong: str) -> None:
    assert failed(WRONG[wrong], "chunks")
