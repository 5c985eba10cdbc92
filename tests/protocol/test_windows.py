"""Attention with a window: the blocks of a row begin with a number that is rounded and not negative; each role counts them its own way."""

from itertools import product

import pytest

from pipec.driver import Options, compile_source
from pipec.source import Source

TEXT = """
kernel k(x: tensor[f32, M, N], y: tensor[f32, K], W: i32):
    grid(3)
    assume(W >= 0)
    p = ProducerConsumerPipeline(stages=3)
    role load(warps=1) produces p:
        for t in range(block.x, ceildiv(M, 128), grid.x):
{load}
    role take(warps=1) consumes p:
        for t in range(block.x, ceildiv(M, 128), grid.x):
{take}
"""
FIRST = {
    "rounded": "max(t * 128 - W, 0) // 64",
    "the larger one": "max(0, (t * 128 - W) // 64)",
    "a choice": "(t - W if t > W else 0)",
}
LAST = {"the smaller one": "min(ceildiv(K, 64), (t + 1) * 2)", "rounded": "ceildiv(min(K, t * 128 + 128), 64)"}
LOOPS = {
    "between them": "for k in range({first}, {last}):\n    {it}",
    "counted down": "n = {last} - {first}\nwhile n > 0:\n    {it}\n    n -= 1",
    "backwards": "k = {last} - 1\nwhile k >= {first}:\n    {it}\n    k -= 1",
    "by twos": "n = {last} - {first}\nfor k in range(0, n, 2):\n    {it}\n    if k + 1 < n:\n        {it}",
}
WRONG = {
    "one less": "for k in range({first} + 1, {last}):\n    {it}",
    "all before": "for k in range({last}):\n    {it}",
    "by twos without a rest": "n = {last} - {first}\nfor k in range(0, n, 2):\n    {it}\n    {it}",
}


def failed(first: str, last: str, loop: str) -> bool:
    """Of a kernel whose other role counts from one to the other."""
    roles = {}
    for role, text, it in (
        ("load", LOOPS["between them"], "p.producer_signal_and_step()"),
        ("take", loop, "p.consumer_signal_and_step()"),
    ):
        body = text.format(first=FIRST[first], last=LAST[last], it=it)
        roles[role] = "\n".join(f"            {line}" for line in body.split("\n"))
    return compile_source(Source("k.pipe", TEXT.format(**roles)), Options("sm_90a")).failed


@pytest.mark.parametrize(("first", "last", "loop"), [*product(FIRST, LAST, LOOPS)])
def test_it_is_proved(first: str, last: str, loop: str) -> None:
    assert not failed(first, last, LOOPS[loop])


@pytest.mark.parametrize(("first", "wrong"), [*product(FIRST, WRONG)])
def test_another_number_is_not(first: str, wrong: str) -> None:
    assert failed(first, "rounded", WRONG[wrong])
