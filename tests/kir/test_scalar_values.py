"""What the analysis of values says of random programs, against a run of them: every expression at every moment, in every CTA and thread.

The program is interpreted with NumPy's arithmetic; each evaluation is noted with the iterations of the loops around it.
"""

from collections.abc import Iterator
from functools import partial
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_scalars import SPAN, dimension, evaluate, number, numbers, parameter, special
from samples import volume

from pipec.isa.dtypes import DTYPES
from pipec.kir.values.analysis import Values
from pipec.kir.values.reader import Launch
from pipec.kir.values.sameness import of_ctas, of_threads
from pipec.sema import tree
from pipec.sema.types import BOOL, I32
from pipec.terms.term import Operator

SHAPES = [(2, 1, 1), (4, 2, 1), (2, 2, 2), (3, 2, 1)]
CONSTANT, CHANGING = (tree.TensorParameter(name, DTYPES["i32"], (8,), SPAN) for name in ("constant", "changing"))
VARIABLES = tuple(tree.Variable(f"v{place}", I32, SPAN) for place in range(4))
MOST_STEPS = 300


def binary(operator: str, left: tree.Expression, right: tree.Expression) -> tree.Expression:
    return tree.Binary(operator, left, right, I32, SPAN)


def compare(operator: str, left: tree.Expression, right: tree.Expression) -> tree.Expression:
    return tree.Binary(operator, left, right, BOOL, SPAN)


def element(tensor: tree.TensorParameter, place: tree.Expression) -> tree.Expression:
    return tree.ReadElement(tree.TensorSlice(tensor, (place,), SPAN), I32, SPAN)


def read(variable: tree.Variable) -> tree.Expression:
    return tree.ReadVariable(variable, SPAN)


SPECIALS = ("block.x", "block.y", "grid.x", "cluster.x", "clusters.y", "cta.x", "cta.y", "cta.rank", "lane_id", "role_warp")


def values_in(scope: tuple[tree.Variable, ...], depth: int) -> st.SearchStrategy[tree.Expression]:
    leaves = st.one_of(
        numbers(I32).map(number),
        st.sampled_from(scope).map(read),
        st.sampled_from(SPECIALS).map(special),
        st.sampled_from(("M", "N")).map(dimension),
        st.just(parameter(I32)),
    )
    if not depth:
        return leaves
    inner = values_in(scope, depth - 1)
    operators = st.sampled_from(("+", "-", "*", "//", "%", "&", "^"))
    return st.one_of(
        leaves,
        st.builds(binary, operators, inner, inner),
        st.builds(binary, operators, inner, st.sampled_from((1, 2, 3, 4, 8, 128)).map(number)),
        st.builds(
            lambda name, a, b: tree.Call(name, (a, b), I32, SPAN), st.sampled_from(("min", "max", "ceildiv")), inner, inner
        ),
        st.builds(element, st.sampled_from((CONSTANT, CHANGING)), inner),
        st.builds(lambda c, a, b: tree.Select(c, a, b, I32, SPAN), conditions(scope), inner, inner),
    )


def conditions(scope: tuple[tree.Variable, ...]) -> st.SearchStrategy[tree.Expression]:
    sides, small = values_in(scope, 0), st.sampled_from((2, 3, 4, 8)).map(number)
    equal, sums = partial(st.builds, compare, st.sampled_from(("==", "!="))), st.builds(binary, st.just("+"), sides, small)
    return st.one_of(
        st.builds(compare, st.sampled_from(("<", "==", ">=", "!=")), sides, sides),
        equal(st.builds(binary, st.just("%"), st.one_of(sides, sums), small), st.integers(0, 3).map(number)),
        equal(sides, st.builds(binary, st.just("*"), sides, small)),
    )


def bodies(scope: tuple[tree.Variable, ...], depth: int) -> st.SearchStrategy[tuple[tree.Statement, ...]]:
    assign = st.builds(
        lambda variable, value: tree.Assign(variable, value, SPAN), st.sampled_from(VARIABLES), values_in(scope, 2)
    )
    if not depth:
        return st.lists(assign, min_size=1, max_size=2).map(tuple)
    inner = bodies(scope, depth - 1)
    counted = tree.Variable(f"k{depth}", I32, SPAN)
    ends = st.one_of(st.integers(-3, 6).map(number), values_in(scope, 1))
    statement = st.one_of(
        assign,
        st.builds(lambda condition, a, b: tree.If(condition, a, b, SPAN), conditions(scope), inner, st.one_of(st.just(()), inner)),
        st.builds(
            lambda start, stop, step, body: tree.For(counted, start, stop, step, body, SPAN),
            ends, ends, st.sampled_from((1, 2, 32, -1)), bodies((*scope, counted), depth - 1),
        ),
        st.builds(lambda condition, body: tree.While(condition, body, SPAN), conditions(scope), inner),
    )  # fmt: skip
    return st.lists(statement, min_size=1, max_size=3).map(tuple)


PROGRAMS = bodies(VARIABLES, 2)
Moment = tuple[tree.Expression, tuple[int, ...]]  # an expression, and the iterations of the loops around it


class Enough(Exception):
    """The program has run for long."""


class Run:
    """One thread's run of a program: each evaluation with its value."""

    def __init__(self, body: tuple[tree.Statement, ...], leaves: dict[str, int], elements: dict[tuple[str, int], int]) -> None:
        self._leaves, self._elements = leaves, elements
        self._variables: dict[tree.Variable, int] = {}
        self._steps = 0
        self.seen: list[tuple[Moment, int]] = []
        # By moment, as an expression may stand in several places.
        self.around: dict[Moment, tuple[tree.For | tree.While, ...]] = {}
        try:
            self._body(body, (), ())
        except Enough:
            pass

    def _value(self, node: tree.Expression, loops: tuple[tree.For | tree.While, ...], iterations: tuple[int, ...]) -> int:
        self._steps += 1
        if self._steps > MOST_STEPS:
            raise Enough
        value = evaluate(node, self._leaf)
        self.seen.append(((node, iterations), value))
        self.around[node, iterations] = loops
        return value

    def _leaf(self, node: tree.Expression) -> int:
        match node:
            case tree.ReadVariable(variable=variable):
                return self._variables[variable]
            case tree.ReadElement(source=source):
                return self._elements.setdefault((source.tensor.name, evaluate(source.coordinates[0], self._leaf) % 8), 5)
            case tree.ReadParameter():
                return self._leaves["parameter"]
            case _:
                return self._leaves[node.name]  # type: ignore[union-attr]

    def _body(self, body: tuple[tree.Statement, ...], loops: tuple, iterations: tuple[int, ...]) -> None:  # type: ignore[type-arg]
        for statement in body:
            match statement:
                case tree.Assign(variable=variable, value=value):
                    self._variables[variable] = self._value(value, loops, iterations)
                case tree.If():
                    taken = self._value(statement.condition, loops, iterations)
                    self._body(statement.then if taken else statement.otherwise, loops, iterations)
                case tree.For(variable=counted, step=step):
                    start, stop = (self._value(end, loops, iterations) for end in (statement.start, statement.stop))
                    for turn, self._variables[counted] in enumerate(wrapping_range(start, stop, step)):
                        self._body(statement.body, (*loops, statement), (*iterations, turn))
                case tree.While():
                    turn = 0
                    while self._value(statement.condition, (*loops, statement), (*iterations, turn)):
                        self._body(statement.body, (*loops, statement), (*iterations, turn))
                        turn += 1


def wrapping_range(start: int, stop: int, step: int) -> Iterator[int]:
    """As a register counts: past the end of its type it goes on at the other."""
    while start < stop if step > 0 else start > stop:
        yield start
        start = (start + step + 2**31) % 2**32 - 2**31


@st.composite
def launches(draw: st.DrawFn) -> tuple[tuple[int, int, int], list[dict[str, int]], list[dict[tuple[str, int], int]]]:
    """A cluster's shape; of each CTA what its leaves read, and the elements of tensors, of which one changes behind its back."""
    shape = draw(st.sampled_from(SHAPES))
    common = {f"{family}.{axis}": draw(st.integers(1, 9)) for family in ("cluster", "clusters") for axis in "xyz"}
    common |= {"M": draw(st.integers(0, 99)), "N": draw(st.integers(0, 2**31 - 1)), "parameter": draw(numbers(I32))}
    common |= {"lane_id": draw(st.integers(0, 31)), "role_warp": draw(st.integers(0, 3))}
    shared = {(CONSTANT.name, place): draw(numbers(I32)) for place in range(8)}
    leaves, elements = [], []
    for place in tree.Cluster(shape).places():
        own = dict(common)
        for index, axis in enumerate("xyz"):
            own[f"cta.{axis}"] = place[index]
            own[f"block.{axis}"] = common[f"cluster.{axis}"] * shape[index] + place[index]
            own[f"grid.{axis}"] = common[f"clusters.{axis}"] * shape[index]
        own["cta.rank"] = tree.Cluster(shape).rank(place)
        leaves.append(own)
        elements.append(shared | {(CHANGING.name, number): draw(numbers(I32)) for number in range(8)})
    return shape, leaves, elements


def analysed(body: tuple[tree.Statement, ...], shape: tuple[int, int, int] = (1, 1, 1)) -> Values:
    grid = tuple(parameter(I32) for _ in "xyz")
    kernel = tree.Kernel("k", "", (CONSTANT, CHANGING), (), {}, grid, (), (), (), SPAN, cluster=tree.Cluster(shape))
    launch = Launch(kernel)
    launch.written = frozenset((CHANGING.name,))
    return Values(tree.Role("r", 4, None, (), (), (*START, *body), SPAN, SPAN), launch)


START = tuple(tree.Assign(variable, number(place), SPAN) for place, variable in enumerate(VARIABLES))
SETTINGS = settings(max_examples=volume(30, 100), deadline=None)


@SETTINGS
@given(PROGRAMS, launches())
def test_ranges_numbers_and_equal_terms_hold_at_every_moment(body: tuple[tree.Statement, ...], launch: tuple) -> None:  # type: ignore[type-arg]
    shape, leaves, elements = launch
    values = analysed(body, shape)
    run = Run((*START, *body), leaves[-1], elements[-1])
    latest: dict[object, tuple[tuple[object, ...], int]] = {}
    for (node, iterations), value in run.seen:
        term = values.of(node)
        assert term.least <= value <= term.largest
        assert term.number in (None, value)
        # One term is one value in the same iteration of the loops around both.
        moment = run.around[node, iterations], iterations
        if term in latest and latest[term][0] == moment:
            assert latest[term][1] == value
        latest[term] = moment, value


@SETTINGS
@given(PROGRAMS, launches(), st.sampled_from((2, 4, 32)))
def test_multiples_hold_at_every_moment(body: tuple[tree.Statement, ...], launch: tuple, unit: int) -> None:  # type: ignore[type-arg]
    """Launch values are multiples, as the analysis takes them to be, and so is what is loaded from no tensor."""
    shape, leaves, elements = launch
    fitting = {**leaves[0], **{name: leaves[0][name] // unit * unit for name in ("M", "N", "parameter")}}
    values = analysed(body, shape)
    for (node, _), value in Run((*START, *body), fitting, elements[0]).seen:
        assert value % unit == 0 or not values.is_multiple(node, unit) or of_launch_values(values, node)


def linear(scope: tuple[tree.Variable, ...]) -> st.SearchStrategy[tree.Expression]:
    terms = st.builds(binary, st.just("*"), st.sampled_from(scope).map(read), st.sampled_from((1, 1, 2, 4)).map(number))
    more = st.builds(binary, st.sampled_from("+-"), terms, st.one_of(terms, st.integers(0, 4).map(number)))
    return st.one_of(terms, more)


def guarded(around: tuple[tree.Variable, ...] = VARIABLES, depth: int = 1) -> st.SearchStrategy[tuple[tree.Statement, ...]]:
    """Loops in which a branch knows what some number is a multiple of."""
    counted = tree.Variable(f"k{depth}", I32, SPAN)
    scope = (*around, counted)
    assign = st.builds(lambda variable, value: tree.Assign(variable, value, SPAN), st.sampled_from(VARIABLES), linear(scope))
    small = st.sampled_from((2, 4, 8)).map(number)
    rest = st.builds(binary, st.just("%"), linear(scope), small)
    asked = st.builds(compare, st.sampled_from(("==", "==", "!=")), rest, st.integers(0, 2).map(number))
    asked = st.one_of(asked, st.builds(compare, st.just("=="), linear(scope), st.builds(binary, st.just("*"), rest, small)))
    some = st.lists(assign, min_size=1, max_size=2).map(tuple)
    inner = st.one_of(some, st.tuples(some, guarded(scope, depth - 1)).map(sum_of)) if depth else some
    branch = st.builds(lambda condition, a, b: tree.If(condition, a, b, SPAN), asked, inner, some)
    turn = st.lists(st.one_of(assign, branch, branch), min_size=1, max_size=3).map(tuple)
    return st.builds(
        lambda step, body: (tree.For(counted, number(0), number(9), step, body, SPAN),), st.sampled_from((1, 2)), turn
    )


def sum_of(parts: tuple[tuple[tree.Statement, ...], ...]) -> tuple[tree.Statement, ...]:
    return tuple(one for part in parts for one in part)


@SETTINGS
@given(guarded(), launches(), st.sampled_from((2, 4, 8)))
def test_multiples_hold_under_conditions(body: tuple[tree.Statement, ...], launch: tuple, unit: int) -> None:  # type: ignore[type-arg]
    shape, leaves, elements = launch
    values = analysed(body, shape)
    for (node, _), value in Run((*START, *body), leaves[0], elements[0]).seen:
        assert value % unit == 0 or not values.is_multiple(node, unit)


def of_launch_values(values: Values, node: tree.Expression) -> bool:
    """Operations on launch values are taken to fit, too."""
    return any(atom.operator in (Operator.DIMENSION, Operator.PARAMETER) for atom in values_leaves(values, node))


def values_leaves(values: Values, node: tree.Expression) -> list:  # type: ignore[type-arg]
    from pipec.terms.walk import leaves

    return list(leaves(values.of(node)))


@SETTINGS
@given(PROGRAMS, launches())
def test_the_first_iteration(body: tuple[tree.Statement, ...], launch: tuple) -> None:  # type: ignore[type-arg]
    shape, leaves, elements = launch
    values = analysed(body, shape)
    run = Run((*START, *body), leaves[0], elements[0])
    for (node, iterations), value in run.seen:
        first = [loop for loop, iteration in zip(run.around[node, iterations], iterations, strict=True) if not iteration]
        assert values.in_first_iteration(first)(values.of(node)).number in (None, value)


@SETTINGS
@given(PROGRAMS, launches())
def test_what_ctas_have_in_common(body: tuple[tree.Statement, ...], launch: tuple) -> None:  # type: ignore[type-arg]
    """In the same iteration of loops around it, a value that does not differ is the same; a number is that CTA's."""
    shape, leaves, elements = launch
    values = analysed(body, shape)
    ctas = of_ctas(values)
    runs = [dict(Run((*START, *body), *one).seen) for one in zip(leaves, elements, strict=True)]
    nodes = {node for run in runs for node, _ in run}
    differs = {node: ctas.differs(node) for node in nodes}
    for rank, run in enumerate(runs):
        for (node, _), value in run.items():
            assert ctas.seen(node)[rank].number in (None, value)
    for one, other in product(runs, runs):
        for moment in one.keys() & other.keys():
            assert differs[moment[0]] or one[moment] == other[moment]


@SETTINGS
@given(PROGRAMS, launches(), st.integers(0, 31), st.integers(0, 3))
def test_what_threads_have_in_common(body: tuple[tree.Statement, ...], launch: tuple, lane: int, warp: int) -> None:  # type: ignore[type-arg]
    shape, leaves, elements = launch
    values = analysed(body, shape)
    threads = of_threads(values)
    mine = dict(Run((*START, *body), leaves[0], elements[0]).seen)
    others = dict(Run((*START, *body), leaves[0] | {"lane_id": lane, "role_warp": warp}, elements[0]).seen)
    for moment in mine.keys() & others.keys():
        assert threads.differs(moment[0]) or mine[moment] == others[moment]


# ----------------------------------------------------------------------------------------------------------- by example

BLOCK, CTA, RANK = special("block.x"), special("cta.x"), special("cta.rank")


@pytest.mark.parametrize(
    ("expression", "differs"),
    [
        (binary("//", BLOCK, number(2)), False),
        (binary("*", binary("//", BLOCK, number(2)), number(256)), False),
        (BLOCK, True),
        (binary("-", BLOCK, CTA), False),
        (binary("%", BLOCK, number(2)), True),
        (binary("//", RANK, number(2)), False),
        (binary(">>", BLOCK, number(1)), False),
        (binary("&", BLOCK, number(1)), True),
        (binary("&", BLOCK, number(0)), False),
        (tree.Call("min", (CTA, number(0)), I32, SPAN), False),
        (binary("+", binary("//", binary("+", BLOCK, number(1)), number(2)), number(0)), True),
    ],
)
def test_what_a_pair_has_in_common(expression: tree.Expression, differs: bool) -> None:
    assert of_ctas(analysed((), (2, 1, 1))).differs(expression) is differs


def test_a_different_number_of_iterations_shows_behind_the_loop() -> None:
    """Inside, both CTAs are in the same iteration when they see the same value; behind it, they have come from different ones."""
    x, y, counted = VARIABLES[0], VARIABLES[1], tree.Variable("k", I32, SPAN)
    one, in_loop, behind = read(x), read(counted), read(x)
    loop = tree.For(
        counted, number(0), CTA, 1, (tree.Assign(x, binary("+", one, number(1)), SPAN), tree.Assign(y, in_loop, SPAN)), SPAN
    )
    ctas = of_ctas(analysed((loop, tree.Assign(y, behind, SPAN)), (2, 1, 1)))
    assert not ctas.differs(one) and not ctas.differs(in_loop)
    assert ctas.differs(behind)


def test_a_variable_that_was_assigned_again_is_another_value() -> None:
    """x is what y was, so x - y is not 0."""
    x, y = VARIABLES[:2]
    first, last = binary("*", read(y), RANK), binary("-", read(x), binary("*", read(y), RANK))
    body = (tree.Assign(x, first, SPAN), tree.Assign(y, number(5), SPAN), tree.Assign(VARIABLES[2], last, SPAN))
    assert of_ctas(analysed(body, (2, 1, 1))).differs(last)


def test_a_look_at_a_stage_is_each_ones_own() -> None:
    pipeline = tree.Pipeline("p", "InputTilePipeline", 2, SPAN)
    token = tree.Handle("t", pipeline, "consumer", "token", SPAN)
    ready = tree.Variable("ready", BOOL, SPAN)
    condition = read(ready)
    body = (tree.Peek(token, ready, SPAN), tree.If(condition, (), (), SPAN))
    values = analysed(body, (2, 1, 1))
    assert of_ctas(values).differs(condition) and of_threads(values).differs(condition)


def test_what_a_loop_carries_on_is_no_launch_value() -> None:
    """A launch checks `1 + M` where it is a coordinate, not where a variable holds it from turn to turn: 0 first, and then odd."""
    first, inner, outer = VARIABLES[0], tree.Variable("k1", I32, SPAN), tree.Variable("k2", I32, SPAN)
    stop = tree.ReadVariable(first, SPAN)
    turns = tree.For(inner, number(0), stop, 1, (), SPAN)
    odd = tree.Binary("+", number(1), tree.ReadDimension("M", I32, SPAN), I32, SPAN)
    values = analysed((tree.For(outer, number(0), number(2), 1, (turns, tree.Assign(first, odd, SPAN)), SPAN),))
    assert values.is_multiple(odd, 2)
    assert not values.is_multiple(stop, 2)
