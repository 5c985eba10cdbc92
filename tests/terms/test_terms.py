"""Terms against NumPy: the canonical form, ranges and residues of random expressions, in registers of every integer type."""

from math import fmod, gcd

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_scalars import SPAN, TYPES, conditions, dimension, ends, evaluate, number, numbers, parameter, scalars, special
from samples import volume

from pipec.isa.dtypes import DTYPES, DType
from pipec.kir.values.reader import Launch, Reader
from pipec.sema import tree
from pipec.sema.types import BOOL, I32
from pipec.terms import term as terms
from pipec.terms.residues import Residues
from pipec.terms.term import LEAVES, Operator, Term
from pipec.terms.walk import Substitution, leaves

SPECIALS = {"block.x": 2**31 - 2, "block.y": 65_534, "grid.x": 2**31 - 1, "lane_id": 31}
OTHERS = st.one_of(
    st.sampled_from(tuple(SPECIALS)).map(special),
    st.sampled_from(("M", "N")).map(dimension),
)
ANYTHING = st.one_of(conditions(OTHERS, 3), *(scalars(dtype, OTHERS, 3) for dtype in TYPES))
KERNEL = tree.Kernel("k", "", (), (), {}, tuple(parameter(I32) for _ in "xyz"), (), (), (), SPAN)
SETTINGS = settings(max_examples=volume(40, 120), deadline=None)


@st.composite
def leaf_values(draw: st.DrawFn) -> dict[object, int]:
    """By dimension, special or type of parameter."""
    least = {"grid.x": 1}  # there is no launch without blocks
    drawn = {
        name: draw(st.one_of(st.integers(least.get(name, 0), 9), st.integers(least.get(name, 0), largest)))
        for name, largest in SPECIALS.items()
    }
    sizes = {name: draw(st.one_of(st.integers(0, 300), st.integers(0, 2**31 - 1))) for name in ("M", "N")}
    parameters = {f"p_{dtype}": draw(st.one_of(numbers(dtype), st.integers(*ends(dtype)))) for dtype in TYPES}
    return {**drawn, **sizes, **parameters, "p_bool": draw(st.integers(0, 1))}


def key(node: tree.Expression) -> object:
    return node.parameter.name if isinstance(node, tree.ReadParameter) else node.name  # type: ignore[union-attr]


def term_of(expression: tree.Expression) -> Term:
    return Reader(Launch(KERNEL), {}, 32)(expression)


def placed(term: Term, values: dict[object, int]) -> int | None:
    """The term with numbers for its leaves."""

    def value(atom: terms.Atom) -> Term | None:
        what = atom.operands[0]
        name = what.name if isinstance(what, tree.ScalarParameter) else what
        return terms.number(values[name]) if name in values else None

    return Substitution(value)(term).number


@SETTINGS
@given(ANYTHING, leaf_values())
def test_a_term_is_what_the_registers_hold(expression: tree.Expression, values: dict[object, int]) -> None:
    term = term_of(expression)
    expected = evaluate(expression, lambda node: values[key(node)])
    assert term.least <= expected <= term.largest
    assert term.number in (None, expected)
    if all(atom.operator is not Operator.UNKNOWN for atom in leaves(term)):
        assert placed(term, values) == expected


@SETTINGS
@given(scalars(I32, OTHERS, 2), scalars(I32, OTHERS, 2), leaf_values())
def test_one_term_is_one_value(one: tree.Expression, other: tree.Expression, values: dict[object, int]) -> None:
    """Also of differences and comparisons, which the canonical form is made to decide."""
    for operator, dtype in (("-", I32), ("==", BOOL), ("<", BOOL), (">=", BOOL)):
        known = term_of(tree.Binary(operator, one, other, dtype, SPAN)).number
        found = evaluate(tree.Binary(operator, one, other, dtype, SPAN), lambda node: values[key(node)])
        assert known in (None, found)
    if term_of(one) is term_of(other):
        assert evaluate(one, lambda node: values[key(node)]) == evaluate(other, lambda node: values[key(node)])


@SETTINGS
@given(st.sampled_from(TYPES).flatmap(lambda dtype: scalars(dtype, OTHERS, 3)), leaf_values(), st.sampled_from((2, 3, 8, 12)))
def test_a_residue_holds(expression: tree.Expression, values: dict[object, int], unit: int) -> None:
    """Leaves are multiples of the unit where they can be."""
    # Towards zero: the multiple below the least i32 is none.
    multiples = {name: value - int(fmod(value, unit)) for name, value in values.items() if name in ("M", "N", "p_i32")}
    values = values | multiples

    def leaf(atom: terms.Atom) -> tuple[int, int] | None:
        what = atom.operands[0]
        fits = what in ("M", "N") or (isinstance(what, tree.ScalarParameter) and what.name == "p_i32")
        return (unit, 0) if fits else residues.follows(atom) if atom.operator not in LEAVES else (1, 0)

    residues = Residues(leaf)
    found = residues(term_of(expression))
    assert found is not None
    step, rest = found
    value = evaluate(expression, lambda node: values[key(node)])
    assert value == rest if step == 0 else (value - rest) % step == 0


def binary(operator: str, left: tree.Expression, right: tree.Expression, dtype: DType = I32) -> tree.Expression:
    return tree.Binary(operator, left, right, dtype, SPAN)


M, N, P = dimension("M"), dimension("N"), parameter(I32)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (binary("+", P, number(1)), binary("-", P, number(-1))),
        (binary("-", binary("+", P, number(5)), P), number(5)),  # whatever wraps in between
        (binary("*", binary("+", P, N), number(3)), binary("+", binary("*", N, number(3)), binary("*", number(3), P))),
        (
            tree.Call("ceildiv", (M, number(64)), I32, SPAN),
            tree.Call("ceildiv", (binary("+", M, number(0)), number(64)), I32, SPAN),
        ),
        (binary("//", binary("//", M, number(4)), number(8)), binary(">>", M, number(5))),
        (binary("%", M, number(16)), binary("&", M, number(15))),
        (binary("<", M, N, BOOL), tree.Unary("not", binary("<=", N, M, BOOL), BOOL, SPAN)),
        (binary("<", M, N, BOOL), binary(">", N, M, BOOL)),
        (tree.Call("min", (M, N), I32, SPAN), tree.Call("min", (N, tree.Call("min", (M, N), I32, SPAN)), I32, SPAN)),
        (tree.Call("max", (M, number(0)), I32, SPAN), M),  # sizes are not negative
        (binary("//", binary("*", special("lane_id"), number(128)), number(128)), special("lane_id")),
    ],
)
def test_written_differently(one: tree.Expression, other: tree.Expression) -> None:
    assert term_of(one) is term_of(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (binary("//", binary("*", P, number(128)), number(128)), P),  # the product may wrap
        (binary("<", P, binary("+", P, number(1)), BOOL), tree.Constant(True, BOOL, SPAN)),
        (binary("//", binary("+", P, number(128)), number(128)), binary("+", binary("//", P, number(128)), number(1))),
        (tree.Convert(tree.Convert(P, DTYPES["i8"], SPAN), I32, SPAN), P),
    ],
)
def test_what_may_wrap_is_not_the_same(one: tree.Expression, other: tree.Expression) -> None:
    assert term_of(one) is not term_of(other)


def test_terms_are_shared() -> None:
    """Doubling thirty times makes thirty terms, not as many as there are ways down."""
    node = P
    for _ in range(30):
        node = binary("*", binary("+", node, M), binary("+", node, N))
    assert term_of(node).depth <= terms.DEEPEST
    assert gcd(*(factor for _, factor in term_of(node).parts)) == 1


def test_the_remainder_by_a_divisor_that_may_be_zero() -> None:
    """16 * M + 8 leaves 8 modulo 16, but 0 where N is 0."""
    left = binary(
        "%",
        binary("+", binary("*", binary("%", M, number(4)), number(16)), number(8)),
        binary("*", binary("%", N, number(4)), number(16)),
    )

    def leaf(atom: terms.Atom) -> tuple[int, int] | None:
        return residues.follows(atom) if atom.operator not in LEAVES else (1, 0)

    residues = Residues(leaf)
    assert residues(term_of(left)) == (8, 0)
