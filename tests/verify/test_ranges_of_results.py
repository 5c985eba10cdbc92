"""Where the result of a function lies, against its results at the numbers between the bounds of its arguments."""

import random
from itertools import product

import pytest
from verify.interpret import value

from pipec.verify.reader.text.operations import Operation, operation
from pipec.verify.reader.values.arithmetic import Arithmetic
from pipec.verify.reader.values.forms import towards_zero
from pipec.verify.terms import Apply, Compare, Linear, Symbol, add, atom, choose, decided, floor, quotient, remainder, scale

X, Y = atom(Symbol("x")), atom(Symbol("y"))
PLACE, BLOCKS = atom(Symbol("%ctaid.x")), atom(Symbol("%nctaid.x"))
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


def a_form(draw: random.Random, depth: int = 2) -> Linear:
    made = Linear(draw.randint(-6, 6))
    for _ in range(draw.randint(1, 3)):
        made = add(made, a_part(draw, depth), draw.choice((-4, -2, -1, 1, 1, 3)))
    return made


def a_part(draw: random.Random, depth: int) -> Linear:
    """A symbol, or what the reader makes of smaller forms: quotients, what they leave, shares of blocks, choices."""
    kind = draw.randrange(8) if depth else 0
    if not kind:
        return draw.choice((X, Y, PLACE, BLOCKS))
    form, divisor = a_form(draw, depth - 1), draw.randint(2, 7)
    if kind == 1:
        return floor(form, divisor)
    if kind == 2:
        return scale(add(form, floor(form, divisor), -divisor), draw.choice((1, -1, 2, -3)))
    if kind == 3:
        return add(form, towards_zero(form, divisor), -divisor)
    if kind == 4:
        return add(quotient(add(add(form, PLACE, -1), Linear(-1)), BLOCKS), Linear(1))
    if kind == 5:
        return draw.choice((quotient, remainder))(form, BLOCKS)
    other = a_form(draw, depth - 1)
    asked = add(form, other, -1) if kind == 6 else a_form(draw, depth - 1)
    return choose(decided(Compare(draw.choice(("ge", "eq", "ne")), asked)), *draw.sample((form, other), 2))


@pytest.mark.parametrize("seed", range(8))
def test_no_form_leaves_its_bounds(seed: int) -> None:
    """Of small numbers, and of those at the ends of the type; some differences are known to be what a division leaves."""
    draw = random.Random(seed)
    close = 0
    for _ in range(30):
        first, second = (
            draw.choice((draw.randint(-9, 9), (1 << 31) - 4, -(1 << 31))),
            draw.choice((draw.randint(-9, 9), (1 << 31) - 3)),
        )
        fewest = draw.randint(1, 3)
        most = fewest + draw.randint(0, 2)
        numbers = {"x": range(first, first + draw.randint(1, 4)), "y": range(second, second + draw.randint(1, 3))}
        ranges = {name: (each[0], each[-1]) for name, each in numbers.items()}
        arithmetic = Arithmetic(ranges | {"%nctaid.x": (fewest, most), "%ctaid.x": (0, most - 1)})
        form = draw.choice((a_form, a_part))(draw, 2)
        if draw.random() < 0.3:
            divisor = draw.randint(2, 5)
            whole = scale(towards_zero(form, divisor), divisor)
            arithmetic.apply(_known("sub.s32"), [form, whole])
            form = add(form, whole, -1)
        least, greatest = arithmetic.bounds(form)
        found = [
            value(form, {"x": x, "y": y, "%nctaid.x": blocks, "%ctaid.x": place})
            for x, y, blocks in product(numbers["x"], numbers["y"], range(fewest, most + 1))
            for place in range(blocks)
        ]
        assert least <= min(found) and max(found) <= greatest, (form, ranges, least, greatest)
        close += least == min(found) and greatest == max(found)
    assert close


def _known(opcode: str) -> Operation:
    op = operation(opcode)
    assert op is not None
    return op
