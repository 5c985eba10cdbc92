"""Stream-K: a block takes the K blocks from `first` to `last` of all tiles, in one role one by one, in another up to the end of a tile at a
time, going on from there."""

import re
import textwrap

import pytest

from pipec.driver import Compilation, Options, compile_source
from pipec.source import Source
from pipec.verify.conditions import met
from pipec.verify.data import formula_of

KERNEL = """
kernel k(x: tensor[f32, M, K], y: tensor[f32, M, N]):
    assume(K > 0)
    steps = ceildiv(K, 64)
    total = ceildiv(M, 64) * ceildiv(N, 64) * steps
{shares}
    p = ProducerConsumerPipeline(stages=3)
    role a(warps=1) produces p:
{a}
    role b(warps=1) consumes p:
{b}
"""
SHARES = {
    "rounded": "grid(min(total, 5))\nfirst = block.x * total // grid.x\nlast = (block.x + 1) * total // grid.x",
    "up to the end": "grid(max(1, min(total, gpu.multiprocessors)))\nper = ceildiv(total, grid.x)\n"
    "first = block.x * per\nlast = min(total, first + per)",
    "the first blocks get one more": "grid(min(total, 5))\nper = total // grid.x\nmore = total % grid.x\n"
    "first = block.x * per + min(block.x, more)\nlast = first + per + (1 if block.x < more else 0)",
}
FLAT = "for u in range(first, last):\n    IT"
HOW_MANY = "for k in range(last - first):\n    IT"
BY_HAND = "u = first\nwhile u < last:\n    IT\n    u += 1"
PIECES = """
u = first
while u < last:
    stop = min(last, (u // steps + 1) * steps)
    for k in range(u, stop):
        IT
    u = stop
""".strip()
COUNTED = """
u = first
while u < last:
    many = min(steps - u % steps, last - u)
    for k in range(many):
        IT
    u += many
""".strip()
LEFT = """
u = first
left = last - first
while left > 0:
    many = min(left, steps - u % steps)
    for k in range(many):
        IT
    u += many
    left -= many
""".strip()
INNER = """
u = first
while u < last:
    stop = min(last, (u // steps + 1) * steps)
    while u < stop:
        IT
        u += 1
""".strip()
APART = PIECES.replace("range(u, stop)", "range(stop - u)")
BY_REMAINDER = """
begin = first
while begin < last:
    end = min(begin + (steps - begin % steps), last)
    for k in range(begin, end):
        IT
    begin = end
""".strip()
WALKS = {"pieces": PIECES, "counted": COUNTED, "left": LEFT, "inner": INNER, "apart": APART, "by remainder": BY_REMAINDER}


def compiled(filled: str, taken: str, shares: str) -> Compilation:
    def lines(body: str, stage: str, depth: int) -> str:
        return textwrap.indent(body.replace("IT", stage), " " * depth)

    a, b = lines(filled, "p.producer_signal_and_step()", 8), lines(taken, "p.consumer_signal_and_step()", 8)
    text = KERNEL.format(a=a, b=b, shares=lines(shares, "", 4))
    return compile_source(Source("walks.pipe", text), Options("sm_90a"))


def judged(filled: str, taken: str, shares: str = SHARES["rounded"]) -> bool:
    return not compiled(filled, taken, shares).failed


@pytest.mark.parametrize("walk", WALKS)
def test_it_is_proved(walk: str) -> None:
    assert judged(FLAT, WALKS[walk])


@pytest.mark.parametrize(
    ("filled", "taken"),
    [(BY_HAND, PIECES), (PIECES, FLAT), (INNER, COUNTED), (PIECES, PIECES), (HOW_MANY, PIECES), (PIECES, APART)],
)
def test_other_pairs(filled: str, taken: str) -> None:
    assert judged(filled, taken)


@pytest.mark.parametrize("walk", ["pieces", "apart", "by remainder"])
def test_the_first_blocks_get_one_more(walk: str) -> None:
    """All K blocks of all tiles, and those of one more tile, are to fit."""
    (plan,) = compiled(FLAT, WALKS[walk], SHARES["the first blocks get one more"]).plans or ()
    for rows, fits in ((1 << 20, True), (1 << 30, False)):
        sizes = {"M": rows, "N": 1 << 20, "K": 64, "grid.x": 5}
        assert all(met(formula_of(one), sizes) for one in plan.interface.conditions) is fits


@pytest.mark.parametrize("walk", ["pieces", "counted", "left", "inner"])
def test_shares_rounded_up(walk: str) -> None:
    """A launch is asked that the K blocks of all tiles fit, together with the number of blocks; a product of the two need not."""
    (plan,) = compiled(FLAT, WALKS[walk], SHARES["up to the end"]).plans or ()
    for rows, fits in ((1 << 20, True), (1 << 30, False)):
        sizes = {"M": rows, "N": 1 << 20, "K": 64, "grid.x": 148}
        assert all(met(formula_of(one), sizes) for one in plan.interface.conditions) is fits


#: By a number of blocks that the compiler knows, it divides by multiplying; 7 and 148 take another sequence of instructions than 132.
CONSTANT = {
    "rounded": SHARES["rounded"].replace("grid(min(total, 5))", "grid(132)"),
    "rounded, of 148": SHARES["rounded"].replace("grid(min(total, 5))", "grid(148)"),
    "rounded up": "grid(132)\nper = ceildiv(total, grid.x)\nfirst = block.x * per\nlast = min(total, first + per)",
    "rounded up by hand": "grid(7)\nper = (total + 6) // 7\nfirst = block.x * per\nlast = min(total, first + per)",
    "the first blocks get one more": SHARES["the first blocks get one more"].replace("grid(min(total, 5))", "grid(132)"),
    "of 128": SHARES["the first blocks get one more"].replace("grid(min(total, 5))", "grid(128)"),
}


@pytest.mark.parametrize("shares", CONSTANT)
@pytest.mark.parametrize("walk", ["pieces", "left", "inner", "apart", "by remainder"])
def test_shares_of_a_constant_number_of_blocks(walk: str, shares: str) -> None:
    assert judged(FLAT, WALKS[walk], CONSTANT[shares])


BEYOND = {
    "a share more": (
        "left",
        SHARES["up to the end"].replace("first + per", "first + per + per"),
        FLAT.replace("last", "last - per"),
    ),
    "not up to the end": ("counted", SHARES["up to the end"], FLAT.replace("last", "first + per")),
    "to one block more": (
        "apart",
        SHARES["the first blocks get one more"] + "\nbeyond = first + per + (1 if block.x <= more else 0)",
        FLAT.replace("last", "beyond"),
    ),
    "none gets more": ("by remainder", SHARES["the first blocks get one more"], FLAT.replace("last", "first + per")),
    "one less of the last": ("left", SHARES["up to the end"], FLAT.replace("last", "min(last, total - 1)")),
}


@pytest.mark.parametrize("blocks", ["", "132", "148"])
@pytest.mark.parametrize("name", BEYOND)
def test_the_neighbour_of_a_share_is_not(name: str, blocks: str) -> None:
    walk, shares, filled = BEYOND[name]
    assert not judged(filled, WALKS[walk], re.sub(r"grid\(.*\)\n", f"grid({blocks})\n", shares) if blocks else shares)


WRONG = {
    "beyond the end of the walk": PIECES.replace("min(last, (u // steps + 1) * steps)", "(u // steps + 1) * steps"),
    "not from where the piece begins": PIECES.replace("range(u, stop)", "range(u // steps * steps, stop)"),
    "without the last stage of a piece": PIECES.replace("range(u, stop)", "range(u, stop - 1)"),
    "one stage is skipped behind a piece": PIECES.replace("u = stop", "u = stop + 1"),
    "to the end of the tile before": PIECES.replace("(u // steps + 1) * steps", "u // steps * steps"),
    "one tile too far": PIECES.replace("u = stop", "u = stop + steps"),
    "without the last piece": PIECES.replace("while u < last", "while u + steps < last"),
    "from the second stage": PIECES.replace("u = first", "u = first + 1"),
    "of another step": COUNTED.replace("u += many", "u += steps"),
    "one too many of each tile": COUNTED.replace("range(many)", "range(many + 1)"),
    "apart, and the last one twice": APART.replace("stop - u)", "stop - u + 1)"),
    "apart from the beginning": APART.replace("stop - u)", "stop - first)"),
    "from behind the end": BY_REMAINDER.replace("begin = end", "begin = end + 1"),
    "left is not counted": LEFT.replace("left -= many", "left -= steps"),
}


@pytest.mark.parametrize("name", WRONG)
def test_its_neighbour_is_not(name: str) -> None:
    assert WRONG[name] not in WALKS.values()
    assert not judged(FLAT, WRONG[name])
