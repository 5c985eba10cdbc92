"""Slots in global memory that are chosen by the numbers of stages, `s.index()`: right ones compute, and their neighbours are refused."""

import random

import pytest
from fuzz import fuzz_slots
from samples import numbers
from test_relays import CHANGE, FILL, HELD, READ, codes, computes, source, within

INDEX = "s.index() * 8"
FILLS, CHANGES = within("with p.produce() as s", FILL), within("with p.consume() as s", within("with q.produce()", CHANGE))
READS = within("with p.consume() as s", within("with q.consume()", READ))
BY_HAND = [
    "p.wait_consumer()",
    FILL,
    "arrive(p.producer_mbar(p.producer_stage()))",
    "p.producer_step()",
]


def chain(bodies: dict[str, list[str]] | None = None, stages: int = 2, **slots: str) -> str:
    all_of_them = {"a": [FILLS], "b": [CHANGES], "c": [READS]} | (bodies or {})
    return source(all_of_them, sides=HELD, stages=stages, slots=dict.fromkeys("abc", INDEX) | slots)


RIGHT = {
    "by the first ring": chain(),
    "by the second": chain(
        {
            "b": [within("with p.consume()", within("with q.produce() as s", CHANGE))],
            "c": [within("with p.consume()", within("with q.consume() as s", READ))],
        }
    ),
    "by the turn in one role": chain(a="i % 2 * 8"),
    "under a name": chain({"a": [within("with p.produce() as s", "slot = s.index()", FILL)]}, a="slot * 8"),
    "by hand": chain({"a": BY_HAND}, a="p.producer_stage() * 8"),
    "of three stages": chain(stages=3),
}
WRONG = {
    "the other slot": chain(c="(1 - s.index()) * 8"),
    "the next slot": chain(b="(s.index() + 1) % 2 * 8"),
    "one slot for two stages": chain(**dict.fromkeys("abc", "s.index() // 2 * 8")),
    "half of the next": chain(**dict.fromkeys("abc", "s.index() * 4")),
    "given back before it is read": chain(
        {"c": ["with p.consume():", "    pass", within("with q.consume() as s", READ)]}
    ),
    "of a ring that is longer than the slots": chain(stages=3, a="s.index() % 2 * 8", b="s.index() % 2 * 8", c="s.index() % 2 * 8"),
}  # fmt: skip


@pytest.mark.parametrize("name", RIGHT)
def test_it_is_right(name: str) -> None:
    computes(RIGHT[name], 2.0)


@pytest.mark.parametrize("name", WRONG)
def test_its_neighbour_is_refused(name: str) -> None:
    assert "E0614" in codes(WRONG[name])


@pytest.mark.parametrize("number", numbers("slots", 20, 500))
def test_accepted_kernels_do_not_race(number: int) -> None:
    assert fuzz_slots.attempt(random.Random(f"slots/{number}")) is None
