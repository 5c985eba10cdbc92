"""Rings of two stages, both of which a turn takes: the stage is the same number in each turn until one takes a single stage."""

import pytest

from pipec.driver import Options, compile_source
from pipec.source import Source
from tests.protocol.drawing import Draw, Kernel, Lines, indented, source

TILES = ["for t in range(block.x, M, grid.x):"]
FILLED = [*TILES, "    for k in range(N):", "        {p+}"]


def guarded(bound: str, step: int = 2, first: int = 1) -> Lines:
    """Two blocks in a turn, the second only if there is one."""
    return [f"for k in range(0, {bound}, {step}):", "    {p-}", f"    if k + {first} < {bound}:", "        {p-}"]


def tiles(taken: Lines, stages: int = 2) -> Kernel:
    return Kernel({"p": (stages, "a", "b")}, {"a": FILLED, "b": [*TILES, *indented(taken)]}, blocks="4")


def once(taken: Lines) -> Kernel:
    return Kernel({"p": (2, "a", "b")}, {"a": ["for k in range(N):", "    {p+}"], "b": taken})


RIGHT = {
    "two in a turn": once(guarded("N")),
    **{f"two in a turn, in each tile, {stages} stages": tiles(guarded("N"), stages) for stages in (2, 4)},
    "as many as memory says": Kernel(
        {"p": (2, "a", "b")},
        {
            "a": [*TILES, "    for k in range(min(load(ix[t]), N)):", "        {p+}"],
            "b": [*TILES, *indented(["n1 = min(load(ix[t]), N)", *guarded("n1")])],
        },
        blocks="4",
    ),
}
WRONG = {
    "the second one always": once(guarded("N", first=0)),
    "three further on": once(guarded("N", step=3)),
    "the second one too late": tiles(guarded("N", first=2)),
    "one more": tiles(guarded("(N + 1)")),
}


def accepted(kernel: Kernel, name: str) -> tuple[bool, str]:
    text = source(kernel, Draw(name))
    return not compile_source(Source("two.pipe", text), Options("sm_100a")).failed, text


@pytest.mark.parametrize("name", RIGHT)
def test_it_is_proved(name: str) -> None:
    proved, text = accepted(RIGHT[name], name)
    assert proved, text


@pytest.mark.parametrize("name", WRONG)
def test_its_neighbour_is_not(name: str) -> None:
    proved, text = accepted(WRONG[name], name)
    assert not proved, text
