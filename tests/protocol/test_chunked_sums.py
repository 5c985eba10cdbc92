"""Sums that are rounded after each chunk of blocks of K: loops over chunks with a loop over blocks in each, in other words in each role."""

from itertools import product

import pytest

from pipec.driver import Options, compile_source
from pipec.source import Source

TEXT = """
kernel k(x: tensor[f32, M, N], y: tensor[f32, C], n: i32):
    grid(3)
    assume(C >= 1)
    p = ProducerConsumerPipeline(stages=3)
    q = ProducerConsumerPipeline(stages=2)
    role load(warps=1) produces p:
        for t in range(block.x, M, grid.x):
{load}
    role multiply(warps=1) consumes p produces q:
        for t in range(block.x, M, grid.x):
{multiply}
    role add_up(warps=1) consumes q:
        for t in range(block.x, M, grid.x):
{add_up}
"""
CHUNKS = {
    "while": "i = 0\nwhile i < {blocks}:\n    stop = {stop}\n{body}\n    i = stop",
    "while, asked again": "i = 0\nwhile i < {blocks}:\n{body}\n    i = {stop}",
    "for": "for i in range(0, {blocks}, {chunk}):\n{body}",
    "counted": "for j in range(ceildiv({blocks}, {chunk})):\n    i = j * {chunk}\n{body}",
}
BODIES = {
    "load": "for k in range(i, {stop}):\n    p.producer_signal_and_step()",
    "multiply": "with q.produce():\n    for k in range(i, {stop}):\n        p.consumer_signal_and_step()",
    "add_up": "q.consumer_signal_and_step()",
}
WORDS = [
    *product(("while", "while, asked again"), repeat=3),
    *[("for",) * 3, ("for", "while", "for"), ("counted", "for", "while")],
]


def failed(words: tuple[str, ...], blocks: str, chunk: str, wrong: str = "", stop: str = "min({blocks}, i + {chunk})") -> bool:
    """`wrong`: the role whose chunks end where `stop` says; all others are right."""
    roles = {}
    for (role, body), word in zip(BODIES.items(), words, strict=True):
        end = (stop if role == wrong else "min({blocks}, i + {chunk})").format(blocks=blocks, chunk=chunk)
        text = CHUNKS[word].format(blocks=blocks, chunk=chunk, stop=end, body=_indented(body.format(stop=end), 4))
        roles[role] = _indented(text, 12)
    return compile_source(Source("k.pipe", TEXT.format(**roles)), Options("sm_90a")).failed


def _indented(text: str, by: int) -> str:
    return "\n".join(" " * by + line for line in text.split("\n"))


@pytest.mark.parametrize("words", WORDS, ids="-".join)
@pytest.mark.parametrize("blocks", ["n", "N"])
def test_it_is_proved(words: tuple[str, ...], blocks: str) -> None:
    assert not failed(words, blocks, "4")


def test_chunks_of_any_length() -> None:
    assert not failed(("while",) * 3, "N", "C")


STOPS = ("min({blocks}, i + {chunk} + 1)", "i + {chunk}", "min({blocks} - 1, i + {chunk})")
# (The last role only counts chunks, which its `for` does without the end.)
WRONG = [*product([("while",) * 3, ("for",) * 3, ("for", "while", "for")], ("load", "multiply"), STOPS)]
WRONG += [(("while",) * 3, "add_up", stop) for stop in (STOPS[0], STOPS[2])]


@pytest.mark.parametrize(("words", "wrong", "stop"), WRONG)
def test_its_neighbour_is_not(words: tuple[str, ...], wrong: str, stop: str) -> None:
    assert failed(words, "N", "4", wrong, stop)
