"""The checker's arithmetic against numbers: what holds of some integers is never found impossible, and no term changes its value."""

import pickle
import random
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from math import inf
from typing import Any

import pytest
from verify.interpret import holds, value

from pipec.verify import terms
from pipec.verify.checker.unknown import Unknown
from pipec.verify.inequalities import MOST_STEPS, combined, contradict, tight
from pipec.verify.logic import System
from pipec.verify.renaming import Renaming
from pipec.verify.terms import (
    Apply,
    Choose,
    Compare,
    Formula,
    Linear,
    Symbol,
    add,
    atom,
    both,
    either,
    floor,
    negate,
    scale,
    size_of,
    summed,
)

SYMBOLS = tuple(Symbol(name) for name in ("x", "y", "z"))


def a_form(draw: random.Random, depth: int = 2) -> Linear:
    """A linear form; its atoms are symbols, floors and choices of smaller forms, and the low bits of one."""
    made = Linear(draw.randint(-5, 5))
    for _ in range(draw.randint(1, 3)):
        made = add(made, _an_atom(draw, depth), draw.choice((-3, -2, -1, 1, 1, 2, 4)))
    return made


def _an_atom(draw: random.Random, depth: int) -> Linear:
    kind = draw.randrange(17) if depth else 0
    if kind == 5:
        return floor(a_form(draw, depth - 1), draw.randint(2, 4))
    if kind == 6:
        return terms.choose(a_formula(draw, {}, depth - 1), a_form(draw, depth - 1), a_form(draw, depth - 1))
    if kind == 8:
        return terms.product(a_form(draw, depth - 1), a_form(draw, depth - 1))
    if kind == 9:
        return terms.product(atom(draw.choice(SYMBOLS)), atom(draw.choice(SYMBOLS)))
    if kind == 11:
        return terms.product(terms.product(atom(draw.choice(SYMBOLS)), atom(draw.choice(SYMBOLS))), atom(draw.choice(SYMBOLS)))
    if kind == 12:
        return terms.product(floor(a_form(draw, 0), draw.randint(2, 4)), atom(draw.choice(SYMBOLS)))
    if kind == 13:
        return atom(Apply(terms.QUOTIENT, (a_form(draw, depth - 1), draw.choice((a_form(draw, 0), atom(draw.choice(SYMBOLS)))))))
    if kind == 15:
        # (As a file may write it, and as it is made.)
        made = terms.remainder if draw.random() < 0.7 else lambda *of: atom(Apply(terms.REMAINDER, of))
        divisor = draw.choice((a_form(draw, 0), atom(draw.choice(SYMBOLS)), Linear(draw.randint(-1, 5))))
        inner = a_form(draw, depth - 1)
        return made(add(inner, made(inner, divisor), draw.choice((0, -1, 1))), divisor)
    if kind == 10:
        return atom(Apply(draw.choice(("mul.lo.s8", "mul.lo.u8", "mul.lo.s32")), (a_form(draw, 0), a_form(draw, 0))))
    if kind == 7:
        return atom(Apply(draw.choice(("s8", "u8", "u16")), (a_form(draw, depth - 1),)))
    if kind == 14:  # the larger or the smaller of two numbers
        left, right = a_form(draw, depth - 1), a_form(draw, depth - 1)
        return terms.choose(Compare("ge", scale(add(left, right, -1), draw.choice((1, -1)))), left, right)
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


def questions(draw: random.Random, count: int) -> Iterator[tuple[dict[str, int], list[Formula], Formula, Linear]]:
    """Numbers, premises that hold of them, a formula that does not, and a form."""
    for _ in range(count):
        at = numbers(draw)
        premises = [a_formula(draw, at) for _ in range(draw.randint(1, 5))]
        yield at, premises, negate(a_formula(draw, at)), a_form(draw)


@pytest.mark.sample(0.4)
@pytest.mark.parametrize("seed", range(20))
def test_what_holds_of_some_numbers_is_possible(seed: int) -> None:
    for at, premises, denied, form in questions(random.Random(seed), 20):
        assert all(holds(one, at) for one in premises)
        system = System(premises)
        assert not system.impossible(), (at, premises)
        assert not holds(denied, at) and not system.entails(denied), (at, premises, denied)
        assert value(system.solved(form), at) == value(form, at)


@pytest.mark.parametrize("seed", [1, 5, 12, 54])
def test_a_question_takes_no_more_steps_than_it_may(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A value that is put into itself, and values that are made of each other: either would go on for ever, or nearly so."""
    sizes, renamed = [], Renaming._remade

    def noted(*given: Any) -> Linear:
        sizes.append(size_of(made := renamed(*given)))
        return made

    monkeypatch.setattr(Renaming, "_remade", noted)
    for _, premises, denied, _ in questions(random.Random(seed), 20):
        before, system = combined.value, System(premises)
        system.impossible()
        system.entails(denied)
        assert combined.value - before < 3 * MOST_STEPS
    assert max(sizes) <= 4_096


@pytest.mark.parametrize("seed", range(20))
def test_terms_keep_their_values(seed: int) -> None:
    draw = random.Random(seed)
    for _ in range(40):
        at, form, other = numbers(draw), a_form(draw), a_form(draw)
        formula, divisor, times = a_formula(draw, {}), draw.randint(1, 5), draw.randint(-3, 3)
        assert holds(negate(formula), at) != holds(formula, at)
        assert value(scale(form, times), at) == times * value(form, at)
        assert value(add(form, other, times), at) == value(form, at) + times * value(other, at)
        assert value(terms.product(form, other), at) == value(form, at) * value(other, at)
        assert value(floor(form, divisor), at) == value(form, at) // divisor
        by = value(other, at)
        assert value(terms.remainder(form, other), at) == (value(form, at) % by if by > 0 else 0)
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


def test_cases_that_are_refuted_at_once_need_not_be_distinguished() -> None:
    """There may be many more than are told apart one inside the other."""
    x, y = atom(Symbol("x")), atom(Symbol("y"))
    others = [atom(Symbol(f"z{number}")) for number in range(8)]
    noise: list[Formula] = [Compare("ne", add(one, x)) for one in others]
    choices = [Compare("eq", add(one, _larger(one, y), -1)) for one in others]
    differ = Compare("ne", add(add(x, scale(floor(x, 3), 3), -1), Linear(-1)))
    alike = Compare("eq", add(add(y, scale(floor(y, 3), 3), -1), Linear(-1)))
    assert System([*noise, *choices, differ, Compare("eq", add(x, y, -1)), alike]).impossible()
    assert not System([*noise, *choices, differ, Compare("eq", add(add(x, y, -1), Linear(1))), alike]).impossible()
    one_of = terms.Either((Compare("eq", add(x, Linear(-1))), Compare("eq", add(x, Linear(-3)))))
    assert System([*noise, one_of, Compare("ge", add(x, Linear(-2)))]).entails(Compare("eq", add(x, Linear(-3))))
    assert not System([*noise, one_of, Compare("ge", add(x, Linear(-1)))]).entails(Compare("eq", add(x, Linear(-3))))


def test_the_smaller_of_two_numbers_has_one_form() -> None:
    x, y = atom(Symbol("x")), add(atom(Symbol("y")), Linear(2))
    smaller = [
        terms.choose(Compare("ge", add(add(right, left, -1), Linear(-strict))), left, right)
        for left, right in ((x, y), (y, x))
        for strict in (0, 1)
    ]
    assert len({*smaller}) == 1
    larger = terms.choose(Compare("ge", add(x, y, -1)), x, y)
    assert larger not in smaller
    # One off, it is neither.
    assert terms.choose(Compare("ge", add(add(y, x, -1), Linear(-2))), x, y) not in smaller
    for at in ({"x": 3, "y": 0}, {"x": 2, "y": 0}, {"x": 1, "y": 0}):
        assert value(smaller[0], at) == min(at["x"], at["y"] + 2) and value(larger, at) == max(at["x"], at["y"] + 2)


def test_a_factor_that_is_a_product_less_one() -> None:
    """The last of `m * n` tiles: `i = m * n - 1`, so `i * k` is `m * n * k - k` where that product is known."""
    m, n, k, i = (atom(Symbol(name)) for name in "mnki")
    tiles = terms.product(m, n)
    known = System([Compare("eq", add(add(i, Linear(1)), tiles, -1)), Compare("ge", terms.product(tiles, k))])
    assert known.entails(Compare("eq", add(add(terms.product(i, k), k), terms.product(tiles, k), -1)))
    assert not known.entails(Compare("eq", add(terms.product(i, k), terms.product(tiles, k), -1)))


def test_a_share_is_a_factor() -> None:
    """Of at least as many tiles as there are blocks, each block has one: its share times k is at least k."""
    tiles, blocks, place, k = (atom(Symbol(name)) for name in ("tiles", "blocks", "place", "k"))
    share = add(terms.quotient(add(add(tiles, Linear(-1)), place, -1), blocks), Linear(1))
    facts = [
        Compare("ge", place),
        Compare("ge", add(add(blocks, Linear(-1)), place, -1)),
        Compare("ge", add(k, Linear(-1))),
    ]
    told = System([*facts, Compare("ge", add(tiles, blocks, -1))]).closed()
    question = Compare("ge", add(terms.product(share, k), k, -1))
    assert told.entails(question)
    assert not System(facts).closed().entails(question)


def test_products_of_non_negative_numbers() -> None:
    """A loop inside another against one over the product: `turns = i * n + j`."""
    i, j, n, m, turns = (atom(Symbol(name)) for name in ("i", "j", "n", "m", "turns"))
    flat = terms.product(m, n)
    inside = [
        *(
            Compare("ge", one)
            for one in (i, j, add(add(m, i, -1), Linear(-1)), add(add(n, j, -1), Linear(-1)), add(n, Linear(-1)))
        ),
        Compare("eq", add(add(turns, j, -1), terms.product(i, n), -1)),
    ]
    before = Compare("ge", add(add(flat, turns, -1), Linear(-1)))
    assert System(inside).entails(before)
    # Without a bound of the outer counter, or of the inner one, it may be behind the end.
    for left_out in (2, 3):
        assert not System(inside[:left_out] + inside[left_out + 1 :]).entails(before)
    last = [Compare("ge", add(add(i, m, -1), Linear(1))), Compare("ge", add(add(j, n, -1), Linear(1)))]
    assert System([*inside, *last]).entails(Compare("eq", add(add(flat, turns, -1), Linear(-1))))
    assert not System([*inside, last[0]]).entails(Compare("eq", add(add(flat, turns, -1), Linear(-1))))
    # The signs matter: the product of two negative numbers is positive.
    assert not System([Compare("ge", scale(n, -1)), Compare("ge", scale(m, -1))]).entails(Compare("ge", scale(flat, -1)))


@pytest.mark.parametrize("seed", range(8))
def test_of_products_of_larger_numbers_only_what_holds_is_found(seed: int) -> None:
    """`X * Y >= x * y + X` where x <= X and y < Y, whatever X * y is; and nothing of the kind where the signs are not known."""
    draw = random.Random(seed)
    a, b, c, d = forms = [atom(Symbol(name)) for name in ("a", "b", "X", "Y")]
    apart = add(terms.product(c, d), terms.product(a, b), -1)
    shown = 0
    for _ in range(20):
        at = {name: draw.randint(-4, 4) if draw.random() < 0.3 else draw.randint(0, 9) for name in ("a", "b", "X", "Y")}
        premises = [Compare("ge", one) for one in forms if value(one, at) >= 0 and draw.random() < 0.9]
        for one, other in ((c, a), (d, b)):
            more = value(add(one, other, -1), at)
            premises.append(Compare("ge", add(add(one, other, -1), Linear(draw.choice((0, 0, 1)) - more))))
        given = System(premises)
        wanted = [add(apart, scale(one, times)) for one in (Linear(1), *forms) for times in (0, 1, -1, -3)]
        for form in wanted:
            exactly = add(form, Linear(-value(form, at)))
            found = given.entails(Compare("ge", exactly))
            shown += found and len(form.terms) > 2
            assert not given.entails(Compare("ge", add(exactly, Linear(-1)))), (at, premises, form)
        assert not given.extended([Compare("eq", add(apart, Linear(-value(apart, at))))]).impossible(), (at, premises)
    first = [*(Compare("ge", one) for one in (b, c)), Compare("ge", add(c, a, -1)), Compare("ge", add(add(d, b, -1), Linear(-1)))]
    assert System(first).entails(Compare("ge", add(apart, c, -1)))
    for left_out in range(4):
        assert not System(first[:left_out] + first[left_out + 1 :]).entails(Compare("ge", add(apart, c, -1)))


def test_a_factor_is_not_replaced_by_its_products() -> None:
    """In the last turn of the inner loop `turns` is one less than the flat loop's bound: so it is the last one of the outer loop, too."""
    i, j = atom(Symbol("i")), atom(Symbol("j"))
    m, n = floor(add(atom(Symbol("x")), Linear(63)), 64), floor(add(atom(Symbol("y")), Linear(127)), 128)
    left = add(add(m, i, -1), Linear(-1))  # turns of the outer loop
    premises = [
        Compare("ge", left),
        Compare("ge", i),
        Compare("ge", j),
        Compare("ge", add(add(n, j, -1), Linear(-1))),
        Compare("eq", add(add(add(terms.product(n, m), terms.product(n, i), -1), j, -1), Linear(-1))),
    ]
    known = System(premises).extended([Compare("ge", add(add(j, n, -1), Linear(1)))])
    assert known.entails(Compare("eq", left))
    assert not System(premises[:-1]).entails(Compare("eq", left))


def test_what_the_machine_multiplies_is_the_product_only_in_range() -> None:
    n, m = atom(Symbol("n")), atom(Symbol("m"))
    low, wide = atom(Apply("mul.lo.s32", (n, m))), atom(Apply("mul.lo.s64", (n, m)))
    sizes = [*(Compare("ge", one) for one in (n, m)), *(Compare("ge", add(Linear(2**31 - 1), one, -1)) for one in (n, m))]
    same = Compare("eq", add(low, terms.product(n, m), -1))
    assert not System(sizes).entails(same)
    assert System(sizes).entails(Compare("eq", add(wide, terms.product(n, m), -1)))
    assert System([*sizes, Compare("ge", add(Linear(2**31 - 1), wide, -1))]).entails(same)
    assert not System([*sizes, Compare("ge", add(Linear(2**31), wide, -1))]).entails(same)
    # That the wrapped product is small says nothing of the product.
    assert not System([*sizes, Compare("ge", add(Linear(7), low, -1)), Compare("ge", low)]).entails(same)
    twice = atom(Apply("s32", (scale(low, 2),)))
    doubled = Compare("eq", add(twice, terms.product(n, m), -2))
    assert System([*sizes, Compare("ge", add(Linear(2**31 - 1), wide, -2))]).entails(doubled)
    assert not System([*sizes, Compare("ge", add(Linear(2**31 - 1), wide, -1))]).entails(doubled)


def test_what_remains_is_a_difference_of_quotients() -> None:
    """A machine rounds a division up by adding one where something remains."""
    some, none = Linear(1), Linear(0)
    x = atom(SYMBOLS[0])
    for form in (add(x, Linear(3)), add(scale(x, 2), atom(SYMBOLS[1]))):
        rest = add(form, floor(form, 8), -8)
        rounded = add(floor(form, 8), terms.choose(Compare("ne", rest), some, none))
        assert rounded == floor(add(form, Linear(7)), 8)
        assert rounded == add(floor(form, 8), terms.choose(Compare("eq", scale(rest, -1)), none, some))
        for at in ({one.name: draw for one in SYMBOLS} for draw in range(-20, 20)):
            twice = terms.choose(Compare("eq", rest), Linear(5), Linear(-2))
            assert value(twice, at) == (5 if value(rest, at) == 0 else -2)


@pytest.mark.parametrize("apart", [0, 1, -3])
@pytest.mark.parametrize(("divisor", "times"), [(128, 8), (6, 5)])
def test_a_quotient_of_a_quotient_leaves_whole_parts(divisor: int, times: int, apart: int) -> None:
    """Were each known through x alone, the finer quotient could reach a part of a whole further."""
    x = atom(Symbol("x"))
    fine, coarse = floor(add(x, Linear(127)), divisor), floor(add(x, Linear(127 + divisor * apart)), divisor * times)
    left = add(add(fine, Linear(apart)), coarse, -times)
    assert System([Compare("ge", add(left, Linear(-times)))]).impossible()
    assert System([Compare("ge", add(Linear(-1), left, -1))]).impossible()
    assert not System([Compare("eq", add(left, Linear(1 - times)))]).impossible()
    assert not System([Compare("eq", left)]).impossible()
    further = floor(add(x, Linear(127 + divisor * apart + divisor - 1)), divisor * times)
    assert not System([Compare("eq", add(add(fine, Linear(apart + 1)), further, -times))]).impossible()


X, Y, D = (atom(Symbol(name)) for name in "xyd")
POSITIVE = Compare("ge", add(D, Linear(-1)))


def _over(form: Linear) -> Linear:
    return atom(Apply(terms.QUOTIENT, (form, D)))


def test_a_quotient_by_a_divisor_of_at_least_1_is_between_0_and_the_dividend() -> None:
    known = System([POSITIVE])
    for upper in (-9, -1, 0, 1, 9):
        given = known.extended([Compare("eq", add(X, Linear(-upper)))])
        low, high = (upper, -1) if upper < 0 else (0, upper)
        assert given.entails(Compare("ge", add(_over(X), Linear(-low)))) and given.entails(
            Compare("ge", add(Linear(high), _over(X), -1))
        )
        for one in {low, high, upper // 2}:
            assert not given.extended([Compare("eq", add(_over(X), Linear(-one)))]).impossible()


_ABOVE, _BELOW = Compare("ge", add(X, Linear(-1))), Compare("ge", add(Linear(-1), X, -1))
_NEAR_0 = Compare("ge", add(X, D))  # no further below 0 than the divisor


@pytest.mark.parametrize(
    ("given", "ends"),
    [
        ([_ABOVE], (0, inf)),
        ([_ABOVE, _NEAR_0], (0, inf)),
        ([_NEAR_0], (-1, inf)),
        ([_BELOW], (-inf, 0)),
        ([_BELOW, _NEAR_0], (-1, 0)),
    ],
)
def test_the_ends_of_a_quotient_come_from_what_is_divided(given: list[Compare], ends: tuple[float, float]) -> None:
    """Whether a number fits in a register is decided by them: what is at least 1 has the quotient 0, if the divisor is large."""
    found = System([POSITIVE, *given])._between(_over(X))
    for number in range(-9, 10):
        for divisor in range(1, 12):
            if all(holds(one, {"x": number, "d": divisor}) for one in given):
                assert found[0] <= number // divisor <= found[1]
    assert found == ends


@pytest.mark.parametrize("times", [-1, 0, 1])
def test_quotients_of_numbers_that_a_divisor_lies_between(times: int) -> None:
    apart = Compare("eq", add(add(X, Y, -1), D, -times))
    said = Compare("eq", add(add(_over(X), _over(Y), -1), Linear(-times)))
    wrong = Compare("eq", add(add(_over(X), _over(Y), -1), Linear(1 - times)))
    assert System([POSITIVE, apart]).entails(said) and not System([POSITIVE, apart]).entails(wrong)


def test_a_divisor_times_a_quotient_is_next_to_the_dividend() -> None:
    """Where that product occurs."""
    whole = terms.product(_over(X), D)
    given = System([Compare("ge", add(D, Linear(-1)))])
    assert given.entails(Compare("ge", add(X, whole, -1)))
    assert given.entails(Compare("ge", add(add(whole, add(D, Linear(-1))), X, -1)))
    assert not given.entails(Compare("ge", add(add(whole, add(D, Linear(-2))), X, -1)))
    assert not given.entails(Compare("ge", add(add(X, whole, -1), Linear(-1))))
    # Of a number of turns that stays below the quotient: so does the way that they lead.
    turns, way = atom(Symbol("turns")), atom(Symbol("way"))
    walked = given.extended([Compare("eq", add(way, terms.product(turns, D), -1)), Compare("ge", add(X, whole, -1))])
    goes_on = Compare("ge", add(add(_over(X), turns, -1), Linear(-1)))
    near = Compare("ge", add(add(X, way, -1), D, -1))
    assert walked.extended([near]).entails(goes_on) and walked.extended([goes_on]).entails(near)
    for known in ([], [Compare("ge", D)], [Compare("eq", D)]):
        assert not System(known).entails(Compare("ge", add(X, whole, -1)))


@pytest.mark.parametrize("seed", range(8))
def test_of_quotients_beside_their_products_only_what_holds_is_found(seed: int) -> None:
    """Whatever the sign of the divisor, and whether or not it is known."""
    draw = random.Random(seed)
    shown = 0
    for _ in range(15):
        far = draw.choice((3, 20, 1 << 31))
        at = {name: draw.randint(-far, far) for name in ("x", "y", "d")}
        at["d"] = draw.choice((at["d"], abs(at["d"]) or 1))
        forms = [X, Y, D, _over(X), _over(add(X, Y)), terms.product(_over(X), D), terms.product(_over(add(X, Y)), D)]
        premises: list[Formula] = [Compare("ge", add(D, Linear(-1)))] if at["d"] >= 1 and draw.random() < 0.8 else []
        for _ in range(draw.randint(1, 3)):
            form = add(draw.choice(forms), draw.choice(forms), draw.choice((1, -1)))
            premises.append(Compare(draw.choice(("ge", "eq")), add(form, Linear(-value(form, at)))))
        given = System(premises)
        assert all(holds(one, at) for one in premises) and not given.impossible(), (at, premises)
        # (What the division leaves, too: from 0 up to less than the divisor.)
        form = draw.choice((add(forms[0], forms[5], -1), add(draw.choice(forms), draw.choice(forms), draw.choice((1, -1)))))
        for sign in (1, -1):
            exactly = scale(add(form, Linear(-value(form, at))), sign)
            shown += given.entails(Compare("ge", exactly))
            assert not given.entails(Compare("ge", add(exactly, Linear(-1)))), (at, premises, form)
    assert shown


def test_nothing_is_known_of_a_quotient_by_a_divisor_that_may_be_0() -> None:
    """Of a division by 0 the two rules together would say that 0 is 1."""
    for known in ([], [Compare("ge", D)], [Compare("eq", D)], [Compare("ge", add(Linear(5), D, -1))]):
        given = System([*known, Compare("eq", add(add(X, Y, -1), D, -1))])
        assert not given.entails(Compare("eq", add(add(_over(X), _over(Y), -1), Linear(-1))))
        assert not given.extended([Compare("eq", X)]).entails(Compare("ge", _over(X)))
    assert not System([Compare("eq", D), Compare("eq", add(X, Y, -1))]).impossible()


def test_a_name_is_one_symbol_and_what_is_unknown_has_none() -> None:
    assert Symbol("a") is Symbol("a") is pickle.loads(pickle.dumps(Symbol("a")))
    first, second = Unknown("a"), Unknown("a")
    assert len({first, second, Symbol("a")}) == 3
    assert not System([Compare("eq", atom(first))]).entails(Compare("eq", atom(second)))
    assert not System([Compare("eq", atom(Symbol("a")))]).entails(Compare("eq", atom(first)))


def test_sums_are_the_same_whichever_way_they_are_made() -> None:
    draw = random.Random(7)
    for _ in range(300):
        parts = [(a_form(draw), draw.randint(-2, 2)) for _ in range(draw.randint(0, 4))]
        one_by_one = Linear(3)
        for form, times in parts:
            one_by_one = add(one_by_one, form, times)
        assert terms.summed(3, parts) == one_by_one
        assert all(times for _, times in one_by_one.terms)
        assert [*one_by_one.terms] == sorted(one_by_one.terms, key=lambda term: repr(term[0]))


@pytest.mark.parametrize("asked", [False, True])
def test_a_quotient_of_what_may_be_reduced_is_none_of_the_whole_number(asked: bool) -> None:
    """Also where that number comes up for the first time in the quotient."""
    x, d = (atom(Symbol(name)) for name in "xd")
    cut = atom(Apply("u8", (x,)))
    value = atom(Apply(terms.QUOTIENT, (add(cut, scale(x, -1)), d)))
    known = System(
        [Compare("eq", add(d, Linear(-1))), Compare("eq", add(x, Linear(-300))), *([Compare("ge", cut)] if asked else [])]
    )
    # 300 is read as 44: the quotient is -256.
    assert not known.extended([Compare("eq", add(value, Linear(256)))]).impossible()
    assert not known.entails(Compare("ge", add(value, Linear(1))))


@pytest.mark.parametrize("seed", range(40))
def test_only_connected_inequalities_exclude_a_bound(seed: int) -> None:
    """Of inequalities that do not contradict each other, those without a chain of common values to a bound say nothing of it."""
    draw = random.Random(seed)
    values = {name: draw.randint(-9, 9) for name in "abcdefgh"}
    rows = []
    for _ in range(8):
        chosen = draw.sample([*values], draw.randint(1, 2))
        form = summed(0, [(atom(Symbol(one)), draw.choice((-2, -1, 1, 2))) for one in chosen])
        rows.append(Compare("ge", add(form, Linear(draw.randint(0, 3) - value(form, values)))))
    system = System(rows).closed()
    for one in values:
        for times in (-1, 1):
            asked = add(scale(atom(Symbol(one)), times), Linear(draw.randint(-30, 9)))
            constant, coefficients = system._reduced(system._row(asked))
            if coefficients:
                least, key = tight(constant, coefficients)
                assert system._excluded(asked) == contradict({**system._least, key: min(least, system._least.get(key, least))})


@pytest.mark.parametrize("beyond", [0, 1])
def test_turns_of_a_share_lead_to_no_tile_beyond_the_last(beyond: int) -> None:
    """With t tiles, of which a block has every g-th from b on: its i-th is one of them, so that no product wraps."""
    t, b, g, i = (atom(Symbol(name)) for name in ("t", "b", "g", "i"))
    share = terms.quotient(add(add(t, b, -1), Linear(-1)), g)
    known = System(
        [
            *(Compare("ge", add(one, Linear(-least))) for one, least in ((t, 0), (b, 0), (g, 1), (i, 0))),
            Compare("ge", add(Linear((1 << 31) - 1), t, -1)),
            Compare("ge", add(add(share, Linear(beyond)), i, -1)),
        ]
    )
    computed = atom(Apply("mul.lo.s32", (g, i)))
    tile = atom(Apply("s32", (add(computed, b),)))
    assert known.entails(Compare("eq", add(tile, add(terms.product(g, i), b), -1))) == (not beyond)


@pytest.mark.parametrize("largest", [255, 256])
def test_what_is_made_of_a_number_that_fits_its_type_is_made_of_the_number(largest: int) -> None:
    """At any depth."""
    x, y = atom(Symbol("x")), atom(Symbol("y"))

    def made(of: Linear) -> Linear:
        found = atom(Apply("ld.global.s32", (scale(of, 4),)))
        guarded = terms.choose(Compare("ge", add(y, of, -1)), found, Linear(0))
        return floor(terms.choose(Compare("ge", add(y, guarded, -1)), guarded, y), 2)

    known = System([Compare("ge", x), Compare("ge", add(Linear(largest), x, -1))])
    cut = atom(Apply("u8", (x,)))
    assert known.entails(Compare("eq", add(made(x), made(cut), -1))) == (largest == 255)


@pytest.mark.parametrize("most", [100, 1 << 31])
def test_whether_a_number_fits_is_asked_again_once_more_is_known(most: int) -> None:
    x, y, z = (atom(Symbol(name)) for name in "xyz")
    whole = add(x, y)
    cut = atom(Apply("s32", (whole,)))
    known = System([*map(Compare, ("ge", "ge"), (x, y)), Compare("ge", add(Linear(100), y, -1)), Compare("ge", cut)]).closed()
    assert not known.entails(Compare("eq", add(cut, whole, -1)))
    known = known.extended([Compare("ge", add(z, x, -1)), Compare("ge", add(Linear(most), z, -1))])
    assert known.entails(Compare("eq", add(cut, whole, -1))) == (most == 100)


_END_OF_TILE = {
    "as it is": ("mul.lo.s32", "d", 1, True),
    "in more bits": ("mul.lo.s64", "d", 1, True),
    "in fewer bits": ("mul.lo.s16", "d", 1, False),
    "by another number": ("mul.lo.s32", "e", 1, False),
    "up to where the next one may be too far": ("mul.lo.s32", "d", 0, False),
}


@pytest.mark.parametrize("name", _END_OF_TILE)
def test_the_end_of_a_tile_is_exact_where_it_fits(name: str) -> None:
    """Where the tile of x begins the product may be less than its type has room for, and wrap; where it ends it is exact."""
    function, by, fits, follows = _END_OF_TILE[name]
    x, d = atom(Symbol("x")), atom(Symbol("d"))
    most = Linear((1 << 31) - 1 if fits else 1 << 31)
    known = System(
        [
            Compare("ge", add(x, Linear(1 << 31))),
            Compare("ge", add(d, Linear(-1))),
            Compare("ge", add(Linear((1 << 31) - 1), d, -1)),
            Compare("ge", add(add(most, x, -1), d, -1)),
        ]
    )
    begin = atom(Apply(function, (terms.quotient(x, d), atom(Symbol(by)))))
    end = atom(Apply("s32", (add(begin, d),)))
    assert known.entails(Compare("ge", add(add(end, x, -1), Linear(-1)))) == follows
    assert known.entails(Compare("ge", add(add(x, d), end, -1))) or not follows


NUMBERED = """
import random
import sys

from pipec.verify.logic import System
from pipec.verify.terms import Apply, Compare, Linear, Symbol, add, atom

names = [*"xabcdefgh"]
random.Random(sys.argv[1]).shuffle(names)
kept = [Symbol(name) for name in names]
x, *others = [atom(Symbol(name)) for name in "xabcdefgh"]
inside = x
for other in others:
    inside = add(inside, other)
system = System([Compare("ge", atom(Apply("f", (inside,)))), Compare("eq", add(x, Linear(3), -1))])
system.closed()
print([system._atoms.index(other.terms[0][0]) for other in others])
"""


def test_values_are_numbered_alike_in_every_process() -> None:
    """What is eliminated first depends on it, and so do the steps that a proof takes; the order of a set depends on where in memory
    its members are."""
    run = partial(subprocess.run, capture_output=True, text=True, check=True)
    told = {run([sys.executable, "-c", NUMBERED, seed]).stdout for seed in "123"}
    assert len(told) == 1, told
