"""The checker's arithmetic against numbers: what holds of some integers is never found impossible, and no term changes its value."""

import random

import pytest
from verify.interpret import holds, value

from pipec.verify import terms
from pipec.verify.logic import System
from pipec.verify.terms import Apply, Choose, Compare, Formula, Linear, Symbol, add, atom, both, either, floor, negate, scale

SYMBOLS = tuple(Symbol(name) for name in ("x", "y", "z"))


def a_form(draw: random.Random, depth: int = 2) -> Linear:
    """A linear form; its atoms are symbols, floors and choices of smaller forms, and the low bits of one."""
    made = Linear(draw.randint(-5, 5))
    for _ in range(draw.randint(1, 3)):
        made = add(made, _an_atom(draw, depth), draw.choice((-3, -2, -1, 1, 1, 2, 4)))
    return made


def _an_atom(draw: random.Random, depth: int) -> Linear:
    kind = draw.randrange(8) if depth else 0
    if kind == 5:
        return floor(a_form(draw, depth - 1), draw.randint(2, 4))
    if kind == 6:
        return terms.choose(a_formula(draw, {}, depth - 1), a_form(draw, depth - 1), a_form(draw, depth - 1))
    if kind == 7:
        return atom(Apply(draw.choice(("s8", "u8", "u16")), (a_form(draw, depth - 1),)))
    return atom(draw.choice(SYMBOLS))


def a_formula(draw: random.Random, true_of: dict[str, int], depth: int = 1) -> Formula:
    """Of comparisons; where numbers are given it holds of them."""
    form = a_form(draw, depth)
    if depth and draw.random() < 0.3:
        parts = [a_formula(draw, true_of, depth - 1) for _ in range(2)]
        return both(*parts) if draw.random() < 0.5 else either(parts[0], a_formula(draw, {}, depth - 1))
    relation = draw.choice(("ge", "ge", "eq", "ne"))
    if true_of:
        number = value(form, true_of)
        if relation == "ge":
            form = add(form, Linear(draw.choice((0, 0, 1, 3)) - min(0, number) - max(0, number) * draw.randrange(2)))
            form = add(form, Linear(-min(0, value(form, true_of))))
        elif relation == "eq":
            form = add(form, Linear(-number))
        elif number == 0:
            form = add(form, Linear(draw.choice((-1, 1))))
    return Compare(relation, form)


def numbers(draw: random.Random) -> dict[str, int]:
    return {symbol.name: draw.randint(-7, 7) for symbol in SYMBOLS}


@pytest.mark.sample(0.4)
@pytest.mark.parametrize("seed", range(20))
def test_what_holds_of_some_numbers_is_possible(seed: int) -> None:
    draw = random.Random(seed)
    for _ in range(20):
        at = numbers(draw)
        premises = [a_formula(draw, at) for _ in range(draw.randint(1, 5))]
        assert all(holds(one, at) for one in premises)
        system = System(premises)
        assert not system.impossible(), (at, premises)
        denied = negate(a_formula(draw, at))
        assert not holds(denied, at) and not system.entails(denied), (at, premises, denied)
        form = a_form(draw)
        assert value(system.solved(form), at) == value(form, at)


@pytest.mark.parametrize("seed", range(20))
def test_terms_keep_their_values(seed: int) -> None:
    draw = random.Random(seed)
    for _ in range(40):
        at, form, other = numbers(draw), a_form(draw), a_form(draw)
        formula, divisor, times = a_formula(draw, {}), draw.randint(1, 5), draw.randint(-3, 3)
        assert holds(negate(formula), at) != holds(formula, at)
        assert value(scale(form, times), at) == times * value(form, at)
        assert value(add(form, other, times), at) == value(form, at) + times * value(other, at)
        assert value(floor(form, divisor), at) == value(form, at) // divisor
        instead = {symbol: a_form(draw, 1) for symbol in draw.sample(SYMBOLS, draw.randint(0, 3))}
        moved = at | {symbol.name: value(replacement, at) for symbol, replacement in instead.items()}
        assert value(terms.substitute(form, instead), at) == value(form, moved)
        assert holds(terms.substituted(formula, instead), at) == holds(formula, moved)
        assert terms.symbols_of(form) <= set(SYMBOLS)
        for symbol in SYMBOLS:
            if symbol not in terms.symbols_of(form):
                assert value(form, at | {symbol.name: 100}) == value(form, at)


@pytest.mark.parametrize(
    ("premises", "impossible"),
    [
        (lambda x, y: [Compare("ge", add(x, Linear(-3))), Compare("ge", add(Linear(2), x, -1))], True),
        (lambda x, y: [Compare("eq", add(scale(x, 2), scale(y, -2), 1)), Compare("eq", add(x, y, -1))], False),
        (lambda x, y: [Compare("eq", add(add(scale(x, 2), scale(y, 4)), Linear(-1)))], True),
        (lambda x, y: [Compare("ne", add(x, y, -1)), Compare("ge", add(x, y, -1)), Compare("ge", add(y, x, -1))], True),
        (lambda x, y: [Compare("eq", add(x, scale(floor(x, 4), 4), -1)), Compare("ne", add(x, scale(floor(x, 2), 2), -1))], True),
        (lambda x, y: [Compare("eq", add(add(x, scale(floor(x, 4), 4), -1), Linear(-4)))], True),
        (lambda x, y: [Compare("eq", add(add(x, scale(floor(x, 4), 4), -1), Linear(1)))], True),
        (lambda x, y: [Compare("eq", add(add(x, scale(floor(x, 4), 4), -1), Linear(-3)))], False),
        (lambda x, y: [Compare("ge", add(atom(Apply("f.u8", (x,))), Linear(-256)))], True),
        (lambda x, y: [Compare("ge", add(atom(Apply("f.u8", (x,))), Linear(-255)))], False),
        (lambda x, y: [Compare("ge", add(Linear(-1), atom(Apply("f.u8", (x,))), -1))], True),
        (lambda x, y: [Compare("ge", add(Linear(-129), atom(Apply("f.s8", (x,))), -1))], True),
        (lambda x, y: [Compare("ge", add(Linear(-128), atom(Apply("f.s8", (x,))), -1))], False),
        (lambda x, y: [Compare("ge", add(atom(Apply("f.s8", (x,))), Linear(-128)))], True),
        (lambda x, y: [Compare("eq", add(x, y, -1)), Compare("ne", add(_f(x), _f(y), -1))], True),
        (lambda x, y: [Compare("eq", add(_larger(x, y), Linear(-2))), Compare("ge", add(x, Linear(-3)))], True),
        (lambda x, y: [Compare("eq", add(_larger(x, y), Linear(-2))), Compare("ge", add(x, Linear(-2)))], False),
    ],
)
def test_what_is_decided(premises, impossible: bool) -> None:  # type: ignore[no-untyped-def]
    x, y = atom(Symbol("x")), atom(Symbol("y"))
    assert System(premises(x, y)).impossible() == impossible


def _f(form: Linear) -> Linear:
    return atom(Apply("f", (form,)))


def _larger(x: Linear, y: Linear) -> Linear:
    return atom(Choose(Compare("ge", add(x, y, -1)), x, y))
