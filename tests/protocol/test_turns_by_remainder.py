"""Turns that are told by the remainder of a counter, by numbers that a machine divides by in different ways."""

import pytest

from pipec.driver import Options, compile_source
from pipec.source import Source
from tests.protocol.drawing import Draw, Kernel, Lines, source


def outcome(kernel: Kernel) -> str:
    state = compile_source(Source("k.pipe", source(kernel, Draw("remainders"))), Options("sm_90a", allow_undecided=True))
    return state.protocol["k"].outcome


def one_in(ways: int, turn: int, taken: str) -> Kernel:
    """A role fills a stage in one turn of so many, and another counts those turns."""
    filled = ["for i in range(n):", f"    if i % {ways} == {turn}:", "        {p+}"]
    return Kernel({"p": (2, "a", "b")}, {"a": filled, "b": [f"for k in {taken}:", "    {p-}"]})


# Divided by shifts, and by the high part of a product; that part is shifted for 5, 7, 9, 10 and 100, and not for 6.
@pytest.mark.parametrize("ways", [5, 6, 7, 8, 9, 10, 16, 100])
@pytest.mark.parametrize("turn", [0, 1, 4])
def test_one_turn_in_so_many(ways: int, turn: int) -> None:
    assert outcome(one_in(ways, turn, f"range({turn}, n, {ways})")) == "proved"


@pytest.mark.parametrize("ways", [5, 8, 10])
def test_another_turn(ways: int) -> None:
    for taken in (f"range(0, n, {ways})", f"range(1, n, {ways + 1})", f"range(1, n + 1, {ways})", f"range(n // {ways})"):
        assert outcome(one_in(ways, 1, taken)) == "refuted"


def counted(ways: int, taken: str) -> Kernel:
    return one_in(ways, 0, f"range({taken})")


@pytest.mark.parametrize("ways", [5, 8, 10])
def test_turns_that_are_counted(ways: int) -> None:
    assert outcome(counted(ways, f"ceildiv(n, {ways})")) == "proved"
    assert outcome(counted(ways, f"(n + {ways - 1}) // {ways}")) == "proved"
    assert outcome(counted(ways, f"n // {ways}")) == "refuted"
    assert outcome(counted(ways, f"ceildiv(n + 1, {ways})")) == "refuted"


def dealt(ways: int, last: int | None = None) -> Kernel:
    """As many turns at once as there are roles to take them; `last`: the first turn of the last of these roles, if not its own."""
    deal: Lines = [f"for i in range(0, n, {ways}):"]
    for turn in range(ways):
        deal += [f"    if i + {turn} < n:", f"        {{p{turn}+}}"]
    starts = [*range(ways - 1), ways - 1 if last is None else last]
    takers = {f"c{turn}": [f"for k in range({start}, n, {ways}):", f"    {{p{turn}-}}"] for turn, start in enumerate(starts)}
    return Kernel({f"p{turn}": (2, "a", f"c{turn}") for turn in range(ways)}, {"a": deal, **takers})


@pytest.mark.parametrize("ways", [6, 10])
def test_turns_for_many_roles(ways: int) -> None:
    assert outcome(dealt(ways)) == "proved"
    assert outcome(dealt(ways, ways - 2 if ways < 8 else ways)) == "refuted"
