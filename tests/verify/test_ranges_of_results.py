"""Where the result of a function lies, against its results at the numbers between the bounds of its arguments."""

import random

import pytest
from verify.interpret import value

from pipec.verify.reader.values.arithmetic import Arithmetic
from pipec.verify.terms import Apply, Symbol, add, atom, floor, quotient, remainder, scale

X, Y = atom(Symbol("x")), atom(Symbol("y"))
FORMS = {"quotient": quotient(X, Y), "remainder": remainder(X, Y)} | {
    name: atom(Apply(name, (X, Y))) for name in ("mul.lo.s32", "div.u32", "rem.u32")
}


@pytest.mark.parametrize("name", FORMS)
def test_results_lie_within_their_bounds_and_come_to_them(name: str) -> None:
    draw = random.Random(name)
    close = 0
    for _ in range(200):
        signed = name not in ("div.u32", "rem.u32")
        first, second = draw.randint(-9 if signed else 0, 9), draw.randint(1, 6)
        ranges = {"x": (first, first + draw.randint(0, 9)), "y": (second, second + draw.randint(0, 4))}
        least, most = Arithmetic(ranges).bounds(FORMS[name])
        found = [
            value(FORMS[name], {"x": x, "y": y})
            for x in range(ranges["x"][0], ranges["x"][1] + 1)
            for y in range(ranges["y"][0], ranges["y"][1] + 1)
        ]
        assert all(least <= one <= most for one in found), (ranges, least, most)
        close += least == min(found) and most == max(found)
    assert close > 20


@pytest.mark.parametrize("factor", [1, 3, -3, 64])
@pytest.mark.parametrize("divisor", [2, 7, 132])
def test_what_is_left_of_a_number_is_less_than_its_divisor(factor: int, divisor: int) -> None:
    """Also in multiples, and though the number itself may be almost anything."""
    number = atom(Symbol("x"))
    rest = scale(add(number, floor(number, divisor), -divisor), factor)
    least, most = Arithmetic({"x": (-(1 << 31), (1 << 31) - 1)}).bounds(rest)
    values = {value(rest, {"x": at}) for at in range(-2 * divisor, 2 * divisor)}
    assert (least, most) == (min(values), max(values))


def test_what_is_left_of_a_quotient_is_less_than_the_next_divisor() -> None:
    """A quotient of a quotient is one by the product of their divisors."""
    rest = add(floor(X, 2), floor(X, 6), -3)
    assert Arithmetic({"x": (-(1 << 31), (1 << 31) - 1)}).bounds(rest) == (0, 2)
