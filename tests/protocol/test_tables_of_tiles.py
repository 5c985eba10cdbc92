"""What memory says of the row that a tile is decoded to: the expert of a block of rows, a list of blocks for a row of blocks."""

import pytest

from pipec.driver import Options, compile_source
from pipec.source import Source
from tests.protocol.drawing import Draw, Kernel, Lines, indented, source

TILES = ["for t in range(block.x, M * across, grid.x):"]


def of_a_table(across: str, filled: str, emptied: str) -> Kernel:
    """The tiles of the rows that memory marks as in use; each has N blocks of K."""

    def role(row: str, *lines: str) -> Lines:
        return [f"across = {across}", *TILES, f"    if load(ix[{row}]) >= 0:", *indented(indented([*lines]))]

    roles = {
        "a": role(filled, "for k in range(ceildiv(N, 64)):", "    {p+}"),
        "b": role(emptied, "for k in range(ceildiv(N, 64)):", "    {p-}", "{q+}"),
        "c": role(filled, "{q-}"),
    }
    return Kernel({"p": (4, "a", "b"), "q": (2, "b", "c")}, roles, blocks="132")


RIGHT = {
    "as many tiles in a row as blocks of columns": of_a_table("ceildiv(N, 128)", "t // across", "t // across"),
    "as many tiles in a row as columns": of_a_table("N", "t // across", "t // across"),
    "as many tiles in a row as columns, said in other words": of_a_table("max(N, 1)", "t // across", "t // max(1, N)"),
}
WRONG = {
    "another row": of_a_table("ceildiv(N, 128)", "t // across", "t // across + 1"),
    "the row of the next tile": of_a_table("N", "t // across", "(t + 1) // across"),
    "the column": of_a_table("ceildiv(N, 128)", "t // across", "t % across"),
}


@pytest.mark.parametrize("name", RIGHT)
def test_it_is_proved(name: str) -> None:
    text = source(RIGHT[name], Draw(name))
    state = compile_source(Source("right.pipe", text), Options("sm_100a"))
    assert not state.failed, f"{text}\n{state.diagnostics}"


@pytest.mark.parametrize("name", WRONG)
def test_its_neighbour_is_not(name: str) -> None:
    text = source(WRONG[name], Draw(name))
    assert compile_source(Source("wrong.pipe", text), Options("sm_100a")).failed, text
