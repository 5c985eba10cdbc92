"""Walks over tiles in which one counter counts the turns and another one, which nobody tests, moves on by the blocks: where that one comes
to follows from how often the other does. What memory says of the tile is the same in the other role only where both are at the same one."""

from itertools import combinations

import pytest

from pipec.driver import Options, compile_source
from pipec.source import Source
from tests.protocol.drawing import Draw, Kernel, Lines, indented, source

TILES = "ceildiv(M, 128) * ceildiv(N, 128)"
NEXT = ["t += grid.x"]
#: The lines before the body, and those behind it.
WALKS: dict[str, tuple[Lines, Lines]] = {
    "range": ([f"for t in range(block.x, {TILES}, grid.x):"], []),
    "while": (["t = block.x", f"while t < {TILES}:"], NEXT),
    "counted": (["t = block.x", f"for i in range(ceildiv({TILES} - block.x, grid.x)):"], NEXT),
    "counted down": ([f"left = ceildiv({TILES} - block.x, grid.x)", "t = block.x", "while left > 0:"], ["left -= 1", *NEXT]),
    "an equal share": (
        [
            f"tiles = {TILES}",
            "own = tiles // grid.x",
            "if block.x < tiles % grid.x:",
            "    own += 1",
            "t = block.x",
            "for i in range(own):",
        ],
        NEXT,
    ),
    "from the next one on": (["t = block.x + 1", f"for i in range(ceildiv({TILES} - block.x, grid.x)):"], NEXT),
    "by one more": (["t = block.x", f"for i in range(ceildiv({TILES} - block.x, grid.x)):"], ["t += grid.x + 1"]),
    "one turn more": (["t = block.x", f"for i in range(ceildiv({TILES} - block.x, grid.x) + 1):"], NEXT),
    "moved on first": (["t = block.x", f"for i in range(ceildiv({TILES} - block.x, grid.x)):", "    t += grid.x"], []),
}
WRONG = ("from the next one on", "by one more", "one turn more", "moved on first")
RIGHT = [name for name in WALKS if name not in WRONG]


BARE, WITHIN = "load(ix[t])", "max(min(load(ix[t]), ceildiv(N, 64)), 0)"


def kernel(filled: str, emptied: str, number: str = BARE) -> Kernel:
    def walk(name: str, stage: str) -> Lines:
        before, behind = WALKS[name]
        return [*before, *indented([f"for k in range({number}):", f"    {{{stage}}}", *behind])]

    return Kernel({"p": (3, "a", "b")}, {"a": walk(filled, "p+"), "b": walk(emptied, "p-")}, blocks=f"min({TILES}, 132)")


def accepted(one: Kernel, name: str) -> tuple[bool, str]:
    text = source(one, Draw(name))
    return not compile_source(Source("beside.pipe", text), Options("sm_100a")).failed, text


@pytest.mark.parametrize(("filled", "emptied"), [*combinations(RIGHT, 2)])
def test_they_lead_to_the_same_tiles(filled: str, emptied: str) -> None:
    proved, text = accepted(kernel(filled, emptied), filled + emptied)
    assert proved, text


@pytest.mark.parametrize("emptied", [name for name in RIGHT if name != "range"])
def test_what_memory_says_may_be_bounded(emptied: str) -> None:
    proved, text = accepted(kernel("range", emptied, WITHIN), emptied)
    assert proved, text


@pytest.mark.parametrize("filled", ["range", "counted"])
@pytest.mark.parametrize("emptied", WRONG)
def test_their_neighbours_do_not(filled: str, emptied: str) -> None:
    proved, text = accepted(kernel(filled, emptied), filled + emptied)
    assert not proved, text
