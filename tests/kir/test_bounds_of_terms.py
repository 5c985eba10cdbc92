"""What is said of the bounds of terms (`kir/global_memory/equations.py`), against all numbers that their leaves may have."""

import random
from itertools import product as pairs

import pytest

from pipec.kir.global_memory.equations import Fact, Facts
from pipec.terms.arithmetic import extreme, product, quotient, remainder
from pipec.terms.registers import wrapped
from pipec.terms.term import Operator, Term, leaf, number
from pipec.terms.walk import Substitution

NAMES = ("x", "y", "z")


def drawn(draw: random.Random, leaves: dict[str, Term], depth: int) -> Term:
    if not depth or draw.random() < 0.15:
        return leaves[draw.choice(NAMES)] * draw.choice((1, 1, 2, -1, 4)) + draw.choice((0, 0, 1, -1, 3))
    one, other = drawn(draw, leaves, depth - 1), drawn(draw, leaves, depth - 1)
    match draw.choice(("sum", "sum", "difference", "product", "quotient", "remainder", "minimum", "minimum", "wrapped")):
        case "sum":
            return one + other
        case "difference":
            return one - other * draw.choice((1, 2, 4))
        case "product":
            return product(one, leaves[draw.choice(NAMES)])
        case "quotient":
            divisor = draw.choice((number(draw.randint(1, 5)), leaves["y"], leaves["y"] * 2))
            return quotient(one, divisor) * draw.choice((1, 2, -1))
        case "remainder":
            return remainder(one, draw.choice((number(draw.randint(1, 5)), leaves["y"])))
        case "minimum":
            return extreme(Operator.MIN, (one, other)) * draw.choice((1, 2, -1))
    return wrapped(one, 4, draw.random() < 0.5)


def value(term: Term, values: dict[str, int]) -> int:
    found = Substitution(lambda atom: number(values[str(atom.operands[0])]) if atom.operands[0] in values else None)(term).number
    assert found is not None
    return found


@pytest.mark.parametrize("seed", range(4))
def test_bounds_hold_of_all_numbers(seed: int) -> None:
    """(`x` is at most `z` and two times `y`: bounds of bounds.)"""
    draw = random.Random(seed)
    said = 0
    for _ in range(400):
        ranges = {name: (least := draw.randint(name == "y", 2), least + draw.randint(0, 4)) for name in NAMES}
        leaves = {name: leaf(Operator.DIMENSION, name, least=least, largest=most) for name, (least, most) in ranges.items()}
        term = drawn(draw, leaves, 3)
        facts = Facts((), {leaves["x"]: (leaves["z"], leaves["y"] * 2)})
        every = [
            dict(zip(NAMES, row, strict=True)) for row in pairs(*(range(least, most + 1) for least, most in ranges.values()))
        ]
        found = [value(term, row) for row in every if row["x"] <= row["z"] and row["x"] <= 2 * row["y"]]
        if not found:
            continue
        assert facts._most(term) >= max(found), (term, ranges)
        assert facts._least(term) <= min(found), (term, ranges)
        never_negative = facts._never_negative(term)
        assert not never_negative or min(found) >= 0, (term, ranges)
        said += never_negative and term.least < 0  # which does not show in the range of the term
    assert said > 1


def test_what_is_implied_holds_where_the_premise_does() -> None:
    x, y = (leaf(Operator.DIMENSION, name, least=0, largest=9) for name in "xy")
    for known, implied in ((3, True), (4, False), (2, False)):
        facts = Facts([Fact(x, known, known)], {}, [(x - 3, (y - 5,))])
        assert facts.same(y, number(5)) is implied and not facts.impossible
