"""Random conditions, seeded; and numbers that the machine reads with another sign than they were made with."""

import random

import pytest
from fuzz.fuzz_conditions import Drawn, Numbers, Pair, attempt
from samples import numbers

from pipec.driver import Options, compile_source
from pipec.source import Source


@pytest.mark.parametrize("number", numbers("conditions", 4, 300))
def test_what_is_said_of_conditions_holds(number: int) -> None:
    assert attempt(random.Random(f"conditions/0/{number}")) is None


READ_OTHERWISE = [
    "cast[u32](i - 2) // 2 < 5",
    "cast[u32](i - 2) % 3 == 1",
    "cast[u16](i - 2) // 3 < 5",
    "cast[i64](cast[u32](-i)) > 9",
]


def _told(condition: str, kind: str) -> list[str]:
    asked = Drawn(condition, lambda _: 0)
    state = compile_source(Source("k.pipe", Pair(asked, asked, kind, 2).source()), Options())
    return [one.code for one in state.diagnostics]


@pytest.mark.parametrize("condition", READ_OTHERWISE)
def test_a_conversion_is_no_overflow(condition: str) -> None:
    assert _told(condition, "alike") == []
    assert _told(condition, "counted") == ["E0604"]


def test_an_overflow_is_one() -> None:
    assert _told("i + 2147483647 > 0", "counted") == ["E0605"]


def test_arithmetic_that_overflows_is_noted() -> None:
    at = Numbers({})
    assert (at.kept("u8", 255), at.overflows, at.kept("u8", 256), at.overflows) == (255, False, 0, True)
