"""A block's share of the tiles, counted as an equal share and one more where some are left, against a walk over them."""

import pytest

from pipec.driver import Options, compile_source
from pipec.protocol.forms.sample import evaluate, holds
from pipec.source import Source
from pipec.verify.reader.values.quotients import dealt
from pipec.verify.terms import Compare, Linear, Symbol, add, atom, negate, number, quotient, remainder
from tests.protocol.drawing import Draw, Kernel, source

M, BLOCK, BLOCKS = (atom(Symbol(name)) for name in ("M", "%ctaid.x", "%nctaid.x"))
SHARE, REACHED = quotient(M, BLOCKS), Compare("ge", add(add(remainder(M, BLOCKS), BLOCK, -1), Linear(-1)))


def shared(condition: str, more: str = "tiles += 1") -> Kernel:
    counted = ["tiles = M // grid.x", f"if {condition}:", f"    {more}", "for i in range(tiles * N):", "    {p+}"]
    walked = ["for t in range(block.x, M, grid.x):", "    for k in range(N):", "        {p-}"]
    return Kernel({"p": (3, "a", "b")}, {"a": counted, "b": walked}, blocks="min(M, 132)")


def judged(kernel: Kernel) -> bool:
    return not compile_source(Source("shares.pipe", source(kernel, Draw("shares"))), Options("sm_100a")).failed


@pytest.mark.parametrize("condition", ["block.x < M % grid.x", "M % grid.x > block.x", "not (block.x >= M % grid.x)"])
def test_it_is_proved(condition: str) -> None:
    assert judged(shared(condition))


@pytest.mark.parametrize(
    ("condition", "more"),
    [
        ("block.x <= M % grid.x", "tiles += 1"),
        ("block.x < (M + 1) % grid.x", "tiles += 1"),
        ("block.x < M % grid.x", "tiles += 2"),
        ("block.x >= M % grid.x", "tiles += 1"),
        ("block.x + 1 < M % grid.x", "tiles += 1"),
    ],
)
def test_its_neighbour_is_not(condition: str, more: str) -> None:
    assert not judged(shared(condition, more))


@pytest.mark.parametrize(("yes", "no"), [(1, 0), (0, 1), (7, 8), (-1, -2)])
def test_the_share_is_that_of_each_block(yes: int, no: int) -> None:
    for condition in (REACHED, negate(REACHED)):
        made = dealt(condition, add(SHARE, number(yes)), add(SHARE, number(no)))
        assert made is not None
        for blocks in range(1, 7):
            for block in range(blocks):
                for tiles in range(20):
                    values = {Symbol("M"): tiles, Symbol("%ctaid.x"): block, Symbol("%nctaid.x"): blocks}
                    assert evaluate(made, values) == tiles // blocks + (yes if holds(condition, values) else no)


@pytest.mark.parametrize("place", [atom(Symbol("n")), add(BLOCK, number(1)), atom(Symbol("%ctaid.y"))])
def test_only_blocks_are_less_than_their_number(place: Linear) -> None:
    reached = Compare("ge", add(add(remainder(M, BLOCKS), place, -1), Linear(-1)))
    assert dealt(reached, add(SHARE, number(1)), SHARE) is None
