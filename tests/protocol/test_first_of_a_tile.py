"""One loop over the K blocks of all tiles, which does something before the first block of a tile; other roles walk over the tiles."""

import pytest

from pipec.driver import Options, compile_source
from pipec.source import Source
from tests.protocol.drawing import Draw, Kernel, Lines, indented, source

TILES = ["for t in range(block.x, M, grid.x):"]
BLOCKS = [*TILES, "    for k in range(ceildiv(N, 64)):"]
FLAT = ["steps = ceildiv(N, 64)", "for i in range(ceildiv(M - block.x, grid.x) * steps):"]
BEGIN, END = "i % steps == 0", "i % steps == steps - 1"


def outcome(kernel: Kernel) -> str:
    state = compile_source(Source("k.pipe", source(kernel, Draw("tiles"))), Options("sm_90a", allow_undecided=True))
    return state.protocol["k"].outcome


def of_each_tile(lines: Lines) -> Lines:
    """Where there are no K blocks, there is no first one."""
    return ["if N > 0:", *indented([*TILES, *indented(lines)])]


def output(begin: str = BEGIN, tiles: Lines | None = None, blocks: str = "4") -> Kernel:
    """The stage of the output is taken before the first block."""
    flat = [*FLAT, f"    if {begin}:", "        {q+}", "    {p-}"]
    roles = {"load": [*BLOCKS, "        {p+}"], "mma": flat, "store": tiles or of_each_tile(["{q-}"])}
    return Kernel({"p": (4, "load", "mma"), "q": (2, "mma", "store")}, roles, blocks=blocks)


def bias(begin: str = BEGIN, turns: Lines | None = None, blocks: str = "4") -> Kernel:
    """A tile that is loaded with the first block."""
    flat = [*(turns or FLAT), f"    if {begin}:", "        {r+}", "    {p+}"]
    nested = of_each_tile(["{r-}", "for k in range(ceildiv(N, 64)):", "    {p-}"])
    return Kernel({"p": (4, "load", "mma"), "r": (2, "load", "mma")}, {"load": flat, "mma": nested}, blocks=blocks)


def both(begin: str = BEGIN, end: str = END, blocks: str = "4") -> Kernel:
    """All roles but the last one count the blocks of all tiles."""
    roles = {
        "load": [*FLAT, f"    if {begin}:", "        {r+}", "    {p+}"],
        "mma": [*FLAT, f"    if {BEGIN}:", "        {r-}", "    {p-}", f"    if {end}:", "        {q+}"],
        "store": of_each_tile(["{q-}"]),
    }
    return Kernel({"p": (4, "load", "mma"), "r": (2, "load", "mma"), "q": (2, "mma", "store")}, roles, blocks=blocks)


def last_one(end: str = END, tiles: Lines | None = None, blocks: str = "4") -> Kernel:
    """The role that walks over the tiles says nothing of their blocks."""
    flat = [*FLAT, "    {p-}", f"    if {end}:", "        {q+}"]
    roles = {"load": [*FLAT, "    {p+}"], "mma": flat, "store": tiles or of_each_tile(["{q-}"])}
    return Kernel({"p": (4, "load", "mma"), "q": (2, "mma", "store")}, roles, blocks=blocks)


@pytest.mark.parametrize("blocks", ["4", "min(M, 132)"])
@pytest.mark.parametrize("kernel", [output, bias, both, last_one])
def test_it_is_proved(kernel, blocks: str) -> None:
    assert outcome(kernel(blocks=blocks)) == "proved"


LESS = ["if N > 0:", "    for t in range(block.x, M - 12, grid.x):", "        {q-}"]
MORE = ["if N > 0:", "    for t in range(block.x, M + 1, grid.x):", "        {q-}"]
ONE_MORE = ["steps = ceildiv(N, 64)", "for i in range(ceildiv(M - block.x, grid.x) * steps + 1):"]
WRONG = {
    "the second block begins a tile": output("i % steps == 1"),
    "all but the first block begin a tile": output("i % steps != 0"),
    "a tile of one more block": output("i % (steps + 1) == 0"),
    "three outputs less": output(tiles=LESS),
    "outputs also where there are no blocks": output(tiles=[*TILES, "    {q-}"]),
    "the second block brings the bias": bias("i % steps == 1"),
    "as many blocks and one": bias(turns=ONE_MORE),
    "the bias comes with the last block": both(begin=END),
    "the output is ready before the last block": both(end="i % steps == steps - 2"),
    "the last block of a tile of one more": last_one("i % (steps + 1) == steps"),
    "three outputs less than tiles": last_one(tiles=LESS),
    "one output more than tiles": last_one(tiles=MORE),
}


@pytest.mark.parametrize("name", WRONG)
def test_its_neighbour_is_not(name: str) -> None:
    assert outcome(WRONG[name]) != "proved"


def test_a_remainder_and_a_quotient_by_the_number_of_blocks() -> None:
    """Whether a test is about that number was seen by putting a 0 in its place, by which nothing is divided."""
    roles = {
        "a": ["for i in range((M + 5) // grid.x):", "    if M // grid.x > 2:", "        {p+}"],
        "b": ["for t in range(M):", "    if t % grid.x == 0:", "        {p-}"],
    }
    assert outcome(Kernel({"p": (2, "a", "b")}, roles, blocks="min(M, 4)")) == "refuted"
