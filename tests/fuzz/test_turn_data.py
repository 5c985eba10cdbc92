"""Random accesses of several blocks in turns and around them, seeded; and the judge notices what it is there for."""

import random

import pytest
from fuzz.fuzz_turn_data import attempt, tried
from samples import numbers

TEXT = """
kernel k(x: tensor[f32, 64, 32], y: tensor[f32, 64, 32], z: tensor[f32, 64, 32], seen0: tensor[f32, 8, 2048, 32],
         q: tensor[i32, 8, 8], n: i32):
    grid(3, 1, 1)
    role r0(warps=2):
{body}
"""
TURN = "with semaphore(q[0, 0], block.x, grid.x):\n    store.direct(y[0, 0], load(y[0, 0], 8, 32) * 2.0 + cast[f32](block.x))"
BESIDE = TURN.replace("y[0, 0], load(y[0, 0], 8, 32) * 2.0 + ", "z[0, 0], fill(0.0, f32, 8, 32) + ")
OUTSIDE = "{}\nstore.direct(seen0[block.x, 0, 0], load(y[0, 0], 8, 32))"
INSIDE = "{}\n    t = registers(load(y[0, 0], 8, 32))\nstore.direct(seen0[block.x, 0, 0], t)"
TWO = f"{TURN}\n{TURN.replace('q[0, 0]', 'q[1, 0]')}"


@pytest.mark.parametrize("number", numbers("turn data", 20, 600))
def test_what_is_accepted_does_not_race(number: int) -> None:
    assert attempt(random.Random(f"turn_data/0/{number}")) is None


@pytest.mark.parametrize(
    ("body", "said", "wrong"),
    [
        (TURN, "accepted", ""),
        (INSIDE.format(TURN), "accepted", ""),
        (OUTSIDE.format(TURN), "E0618", "race"),  # a later block may store meanwhile
        (TWO, "E0618", "race"),  # the first block's second turn, and the second block's first
        (BESIDE, "accepted", ""),
    ],
)
def test_turns_order_what_is_done_in_them(body: str, said: str, wrong: str) -> None:
    text = TEXT.format(body="\n".join(f"        {line}" for line in body.split("\n")))
    assert tried(text, 1) == (said, None)
    found = tried(text, 1, unchecked=True)[1]
    assert (wrong in found) if wrong and found is not None else found is None and not wrong
