"""Keys up to the last row of a block, as kernels with a causal mask have them: where the block stands is multiplied by its rows."""

import pytest

from pipec.driver import Options, compile_source
from pipec.protocol.forms.everywhere import Everywhere
from pipec.source import Source
from pipec.verify.terms import Compare, Linear, Symbol, add, atom, scale
from tests.protocol.drawing import Draw, Kernel, Lines, source

BY_ELEMENTS = ["for j in range(0, min((block.x + 1) * 128, N), 64):"]
COUNTED = ["for j in range(ceildiv(min(block.x * 128 + 128, N), 64)):"]


def masked_last(masked: str, whole: str = "n1 - masked") -> Lines:
    """The blocks of keys that need no mask, and those that do."""
    bounds = ["n1 = ceildiv(min((block.x + 1) * 128, N), 64)", f"masked = {masked}"]
    return [*bounds, f"for j in range({whole}):", "    {p-}", "for j in range(masked):", "    {p-}"]


def pair(a: Lines, b: Lines) -> Kernel:
    return Kernel({"p": (3, "a", "b")}, {"a": a, "b": b}, blocks="ceildiv(M, 128), 8")


RIGHT = {
    "by elements and counted": pair([*BY_ELEMENTS, "    {p+}"], [*COUNTED, "    {p-}"]),
    "those with a mask in a loop of their own": pair([*COUNTED, "    {p+}"], masked_last("min(2, n1)")),
}
WRONG = {
    "those of the next block": pair([*BY_ELEMENTS, "    {p+}"], [COUNTED[0].replace("+ 128", "+ 256"), "    {p-}"]),
    "rounded down": pair(["for j in range(min((block.x + 1) * 128, N) // 64):", "    {p+}"], [*BY_ELEMENTS, "    {p-}"]),
    "one more with a mask": pair([*COUNTED, "    {p+}"], masked_last("min(2, n1)", "n1 + 1 - masked")),
}


@pytest.mark.parametrize("name", RIGHT)
def test_it_is_proved(name: str) -> None:
    text = source(RIGHT[name], Draw(name))
    state = compile_source(Source("right.pipe", text), Options("sm_100a"))
    assert not state.failed, f"{text}\n{state.diagnostics}"
    # 128 times the number of blocks is an `i32`, or a number that all roles make the same of.
    assert "for all sizes with grid.x <= 16777215" in state.protocol["k"].sentence or "all sizes;" in state.protocol["k"].sentence


@pytest.mark.parametrize("name", WRONG)
def test_its_neighbour_is_not(name: str) -> None:
    text = source(WRONG[name], Draw(name))
    assert compile_source(Source("wrong.pipe", text), Options("sm_100a")).failed, text


def test_a_constant_bound_of_a_place_that_does_not_suffice() -> None:
    """The launch is asked for fewer blocks than there may be."""
    place, blocks = atom(Symbol("%ctaid.x")), atom(Symbol("%nctaid.x"))
    facts = [Compare("ge", place), Compare("ge", add(Linear((1 << 24) - 1), place, -1))]
    required = add(Linear((1 << 31) - 129), scale(place, -128))
    assert Everywhere(facts).bound(required) is None
    facts.append(Compare("ge", add(add(blocks, Linear(-1)), place, -1)))
    assert Everywhere(facts).bound(required) == add(Linear((1 << 31) - 1), scale(blocks, -128))
