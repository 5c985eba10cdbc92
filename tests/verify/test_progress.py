"""Which loops certainly end: those that count towards a bound, by whatever steps and over however many copies of their test."""

import random

import pytest

from pipec.verify.checker.progress import ends, loops
from pipec.verify.logic import System
from pipec.verify.network import Arrive, Edge, End, Process, State, Use
from pipec.verify.network import Test as Branch
from pipec.verify.terms import Apply, Choose, Compare, Linear, Symbol, add, atom, floor

K, N, STEP = Symbol("0:k"), atom(Symbol("n")), atom(Symbol("step"))
MORE = Compare("ge", add(add(N, atom(K), -1), Linear(-1)))  # k < n
OTHER = Compare("ge", add(N, Linear(-5)))
POSITIVE, NATURAL = (Compare("ge", add(STEP, Linear(-1))),), (Compare("ge", STEP),)


def moved(target: int, by: Linear | None) -> Edge:
    return Edge(target, ((K, None if by is None else add(atom(K), by)),))


def process(*actions: Branch | Arrive | End) -> Process:
    return Process("r", 1, (0,), (0,), 1, tuple(State(line, action, (K,)) for line, action in enumerate(actions)))


def signal(edge: Edge) -> Arrive:
    return Arrive(Use(0, 0, 0), edge, 1)


@pytest.mark.parametrize(
    ("by", "facts", "bounded"),
    [
        (Linear(1), (), True),
        (Linear(0), (), False),
        (Linear(-1), (), False),
        (None, (), False),
        (STEP, POSITIVE, True),
        (STEP, NATURAL, False),
        (STEP, (), False),
    ],
)
def test_one_test(by: Linear | None, facts: tuple[Compare, ...], bounded: bool) -> None:
    found = process(Branch(MORE, Edge(1), Edge(2)), signal(moved(0, by)), End())
    assert ends(found, System(facts)) is bounded


@pytest.mark.parametrize("tested", [True, False])
def test_two_copies_of_a_test(tested: bool) -> None:
    """The way round that takes neither of them must not count alone."""
    copy = Branch(MORE, moved(1, Linear(1)), Edge(3)) if tested else Branch(OTHER, moved(1, Linear(1)), Edge(3))
    found = process(
        Branch(MORE, Edge(1), Edge(3)), Branch(OTHER, Edge(2), Edge(4)), copy, End(), Branch(MORE, moved(1, Linear(1)), Edge(3))
    )
    assert ends(found, System()) is tested


@pytest.mark.parametrize(
    ("step", "keeps", "bounded"), [(4, True, True), (1, True, True), (0, True, False), (-4, True, False), (4, False, False)]
)
def test_a_loop_over_chunks(step: int, keeps: bool, bounded: bool) -> None:
    """`k` counts within a chunk as well, so that only two edges together say how far the next chunk is: `next = k + 4`, `k = next`."""
    begins, ends_at = Symbol("0:next"), atom(Symbol("0:end"))
    chunk = Edge(1, ((begins, add(atom(K), Linear(step))),))
    within = Branch(Compare("ge", add(add(ends_at, atom(K), -1), Linear(-2))), moved(1, Linear(1)), Edge(2))
    more = Compare("ge", add(add(N, atom(begins), -1), Linear(-1)))
    onward = Edge(0, ((K, atom(begins) if keeps else atom(K)),))
    assert ends(process(signal(chunk), within, Branch(more, onward, Edge(3)), End()), System()) is bounded


def test_an_inner_loop_that_does_not_end() -> None:
    inner = Branch(OTHER, Edge(1), moved(0, Linear(1)))
    assert not ends(process(Branch(MORE, Edge(1), Edge(2)), inner, End()), System())


COLUMN = Symbol("0:column")


@pytest.mark.parametrize(
    ("columns", "back", "further", "step", "tested", "bounded"),
    [
        (POSITIVE, 1, 1, 3, MORE, True),
        (POSITIVE, 2, 1, 1, MORE, True),
        (NATURAL, 1, 1, 3, MORE, False),  # of no columns one is never left
        (POSITIVE, 0, 1, 3, MORE, False),
        (POSITIVE, -1, 1, 3, MORE, False),
        (POSITIVE, 1, 0, 3, MORE, False),
        (POSITIVE, 1, -1, 3, MORE, False),
        (POSITIVE, 1, 1, 0, MORE, False),  # the same column again and again
        (POSITIVE, 1, 1, -3, MORE, False),
        (POSITIVE, 1, 1, 3, OTHER, False),
    ],
)
def test_a_column_that_is_carried_into_the_next_rows(
    columns: tuple[Compare, ...], back: int, further: int, step: int, tested: Compare, bounded: bool
) -> None:
    """`column += step`, and `while column >= columns: column -= columns; k += 1`, as long as `k < n`: the inner loop counts `k` on without
    a test of it, but ends."""
    beyond = Compare("ge", add(atom(COLUMN), STEP, -1))
    carried = Edge(2, ((COLUMN, add(atom(COLUMN), STEP, -back)), (K, add(atom(K), Linear(further)))))
    onward = signal(Edge(2, ((COLUMN, add(atom(COLUMN), Linear(step))),)))
    found = process(Branch(tested, Edge(1), Edge(3)), onward, Branch(beyond, carried, Edge(0)), End())
    assert ends(found, System(columns)) is bounded


@pytest.mark.parametrize(
    ("least", "by", "bounded"),
    [(0, 1, True), (0, 0, False), (-1, 1, False)],
    ids=["each answer", "the same answer", "nothing more goes on"],
)
def test_a_cluster_asks_the_scheduler_for_more(least: int, by: int, bounded: bool) -> None:
    """The tile is the block's number divided by the cluster's size, or of -1, where there is nothing more."""
    answer = atom(Apply("answer 0", (atom(K),)))
    more = Compare("ne", atom(Apply("is_canceled", (answer,))))
    tile = floor(atom(Choose(more, atom(Apply("get_first_ctaid::x.ctaid", (answer,))), Linear(-1))), 2)
    loop = Branch(Compare("ge", add(tile, Linear(-least))), Edge(1), Edge(2))
    assert ends(process(loop, signal(moved(0, Linear(by))), End()), System()) is bounded


@pytest.mark.parametrize("up", [True, False])
def test_a_quotient_is_bounded_where_its_dividend_is(up: bool) -> None:
    left = add(N, atom(K), -1)
    more = Compare("ge", add(floor(left, 4), Linear(-1)))
    assert ends(process(Branch(more, Edge(1), Edge(2)), signal(moved(0, Linear(1 if up else -1))), End()), System()) is up


def test_loops_are_where_one_comes_back() -> None:
    draw = random.Random(5)
    for _ in range(200):
        count = draw.randint(1, 7)
        arrows = [(draw.randrange(count), draw.randrange(count)) for _ in range(draw.randint(0, 12))]
        reached = {one: {next_ for before, next_ in arrows if before == one} for one in range(count)}
        for _ in range(count):
            reached = {one: ways.union(*(reached[each] for each in ways)) for one, ways in reached.items()}
        together = {frozenset(b for b in ways if a in reached[b]) for a, ways in reached.items() if a in ways}
        assert {*loops(arrows)} == together
