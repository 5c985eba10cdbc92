"""A block's tiles, counted in one role and walked by hand in another, with something in memory for each of them."""

import pytest

from pipec.driver import Options, compile_source
from pipec.source import Source
from tests.protocol.drawing import Draw, Kernel, Lines, source

FOR = ["for t in range(block.x, M, grid.x):"]


def loaded(place: str = "t", index: str = "ix") -> Lines:
    return [f"    for k in range(ceildiv(load({index}[{place}]), 64)):"]


def by_hand(body: Lines, start: str = "block.x", step: str = "grid.x", bound: str = "M") -> Lines:
    return [f"t = {start}", f"while t < {bound}:", *body, f"    t += {step}"]


def pair(other: Lines, blocks: str) -> Kernel:
    return Kernel({"p": (3, "a", "b")}, {"a": [*FOR, *loaded(), "        {p+}"], "b": other}, blocks=blocks)


TAKEN = [*loaded(), "        {p-}"]
RIGHT = {
    **{f"keys of each tile, {blocks} blocks": pair(by_hand(TAKEN), blocks) for blocks in ("min(M, 132)", "ceildiv(N, 32)", "4")},
    "and an output for each": Kernel(
        {"p": (3, "a", "b"), "q": (2, "b", "c")},
        {"a": [*FOR, *loaded(), "        {p+}"], "b": by_hand([*TAKEN, "    {q+}"]), "c": [*FOR, "    {q-}"]},
        blocks="min(M, 132)",
    ),
}
WRONG = {
    "keys of the next tile": pair(by_hand([*loaded("t + 1"), "        {p-}"]), "min(M, 132)"),
    "from the next tile on": pair(by_hand(TAKEN, start="block.x + 1"), "min(M, 132)"),
    "by one more": pair(by_hand(TAKEN, step="(grid.x + 1)"), "min(M, 132)"),
    "without the last tile": pair(by_hand(TAKEN, bound="M - 1"), "min(M, 132)"),
    "and one more where there is none": pair(by_hand([*TAKEN, "    if load(ix[t]) == 0:", "        {p-}"]), "min(M, 132)"),
}


def judged(kernel: Kernel, name: str) -> tuple[bool, str]:
    text = source(kernel, Draw(name))
    return not compile_source(Source("walked.pipe", text), Options("sm_100a")).failed, text


@pytest.mark.parametrize("name", RIGHT)
def test_it_is_proved(name: str) -> None:
    proved, text = judged(RIGHT[name], name)
    assert proved, text


@pytest.mark.parametrize("name", WRONG)
def test_its_neighbour_is_not(name: str) -> None:
    proved, text = judged(WRONG[name], name)
    assert not proved, text
