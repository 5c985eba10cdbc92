"""The blocks of K, dealt out to blocks of the grid, some of which get none: a role that asks for that around its loop, beside one that
does not."""

import pytest

from pipec.driver import Options, compile_source
from pipec.source import Source

KERNEL = """
kernel k(y: tensor[f32, M, K], splits: i32):
    assume(splits > 0)
    grid(ceildiv(M, 8), splits)
    steps = ceildiv(K, 64)
    per = ceildiv(steps, splits)
    p = ProducerConsumerPipeline(stages=3)
    q = ProducerConsumerPipeline(stages=1)
    role a(warps=1) produces p:
{a}
    role b(warps=1) consumes p produces q:
        if {asks}:
{b}
            q.producer_signal_and_step()
    role c(warps=1) consumes q:
        if {asks_too}:
            q.consumer_signal_and_step()
"""
GUARD = "block.y * per < steps"
LOOP = "for k in range(block.y * per, min(steps, block.y * per + per)):\n    STAGE"
WHILE = "k = block.y * per\nwhile k < min(steps, block.y * per + per):\n    STAGE\n    k += 1"
COUNTED = "for k in range(min(per, steps - block.y * per)):\n    STAGE"
IN_FRONT = f"if {GUARD}:\n" + "\n".join(f"    {line}" for line in LOOP.split("\n"))


def judged(filled: str = LOOP, taken: str = LOOP, asks: str = GUARD, asks_too: str = GUARD) -> bool:
    def lines(body: str, stage: str, depth: int) -> str:
        return "\n".join(" " * depth + line for line in body.replace("STAGE", stage).split("\n"))

    a, b = lines(filled, "p.producer_signal_and_step()", 8), lines(taken, "p.consumer_signal_and_step()", 12)
    text = KERNEL.format(a=a, b=b, asks=asks, asks_too=asks_too)
    return not compile_source(Source("split.pipe", text), Options("sm_100a")).failed


@pytest.mark.parametrize("filled", [LOOP, WHILE, IN_FRONT])
@pytest.mark.parametrize("taken", [LOOP, WHILE])
def test_it_is_proved(filled: str, taken: str) -> None:
    assert judged(filled, taken)


@pytest.mark.parametrize("asks", ["steps > block.y * per", "block.y * per + 1 <= steps", "not (steps <= block.y * per)"])
def test_in_other_words(asks: str) -> None:
    assert judged(asks=asks)
    assert judged(COUNTED, COUNTED, asks)


WRONG = {
    "from the second block on": {"asks": "block.y * per + 1 < steps", "asks_too": "block.y * per + 1 < steps"},
    "unless a whole share is left": {"asks": "block.y * per + per <= steps", "asks_too": "block.y * per + per <= steps"},
    "the last role asks for more": {"asks_too": "block.y * per + 1 < steps"},
    "the last role asks for less": {"asks_too": "block.y * per <= steps"},
    "one block of K more is filled": {"filled": LOOP.replace("+ per", "+ per + 1")},
    "beyond the last block of K": {"filled": LOOP.replace("min(steps, block.y * per + per)", "block.y * per + per")},
    "one block of K more is taken": {"taken": LOOP.replace("range(block.y * per", "range(block.y * per - 1")},
    "shares rounded down": {"taken": LOOP.replace("+ per", "+ steps // splits")},
}


@pytest.mark.parametrize("name", WRONG)
def test_its_neighbour_is_not(name: str) -> None:
    assert not judged(**WRONG[name])
