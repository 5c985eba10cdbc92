"""Which processes certainly come to an end: every loop of theirs counts towards a bound.

A schedule that goes on for ever because one process loops would say nothing of the others, so all have to end. A loop is bounded if a form
over registers has a lower bound wherever certain branches of it go on, never grows in the loop, and shrinks on edges without which the loop
would be none.
"""

from collections.abc import Iterable, Iterator, Sequence

from pipec.verify.logic import System
from pipec.verify.network import Edge, Process, Test, edges_of
from pipec.verify.terms import (
    TRUE,
    Apply,
    Atom,
    Both,
    Choose,
    Compare,
    Floor,
    Formula,
    Linear,
    Symbol,
    add,
    negate,
    scale,
    substitute,
    symbols_of,
)

# The state that is left, the edge, and what holds when it is taken.
Arrow = tuple[int, Edge, Formula]
Terms = tuple[tuple[Atom, int], ...]  # of a form, without its constant
_NOTHING = Linear(0)


def ends(process: Process, sizes: System) -> bool:
    """Whether every loop of the process is bounded, for sizes of which the system holds."""
    return bounded([arrow for number in range(len(process.states)) for arrow in _arrows(process, number)], sizes)


def _arrows(process: Process, number: int) -> list[Arrow]:
    action = process.states[number].action
    if isinstance(action, Test):
        # What a test decided is known on its edge, and is what bounds most loops: `i < n` on the way back to the header.
        return [(number, action.yes, action.condition), (number, action.no, negate(action.condition))]
    return [(number, edge, TRUE) for edge in edges_of(action)]


def bounded(arrows: list[Arrow], sizes: System) -> bool:
    """Whether nobody can follow the arrows for ever. The forms that count are over what the edges change, as it is at the state left."""
    for loop in loops([(number, edge.target) for number, edge, _ in arrows]):
        inside = [(number, edge, when) for number, edge, when in arrows if number in loop and edge.target in loop]
        # One count at a time: what it does not bound is a smaller set of edges, of which the same is asked again.
        rest = _without_countdown(inside, sizes)
        if rest is None or not bounded(rest, sizes):
            return False
    return True


def _without_countdown(inside: list[Arrow], sizes: System) -> list[Arrow] | None:
    """The edges of a loop that can be taken without end unless an inner loop ends; None where no form counts down.

    A form counts down if it never grows, and if every way round that makes it smaller comes over an edge on which it is known to be at
    least some number.
    """
    forms = [form for _, _, when in inside for form in _bounds(when) if form.terms]  # a constant counts nothing
    # Forms that differ by a constant only shrink alike.
    steps = {terms: _steps(form, inside) for terms, form in {form.terms: form for form in forms}.items()}
    having: dict[int, System] = {}
    # Most loops count by numbers; what is no number is asked of the facts, at a cost, and only where nothing else counts.
    for exactly in (True, False):
        for terms, differences in steps.items():
            if differences is None or exactly == any(one.terms for one in differences):
                continue
            shrinks = _shrinking(inside, differences, sizes, having)
            if shrinks is not None and any(shrinks) and _passes_bound(inside, shrinks, terms):
                return [arrow for arrow, shrunk in zip(inside, shrinks, strict=True) if not shrunk]
    return None


def _shrinking(inside: list[Arrow], differences: Sequence[Linear], sizes: System, having: dict[int, System]) -> list[bool] | None:
    """Along which edges a form certainly shrinks; None where it is not known to grow along none. `having`: what holds on edges."""
    found = []
    for number, ((_, _, when), difference) in enumerate(zip(inside, differences, strict=True)):
        if not difference.terms:
            found.append(difference.constant < 0)
            continue
        known = having[number] = having.get(number) or sizes.extended([when])
        # Whether it shrinks at all is enough: by how much would only say after how many turns.
        if not known.entails(Compare("ge", scale(difference, -1))):
            return None
        found.append(known.entails(Compare("ge", add(Linear(-1), difference, -1))))
    return found


def _passes_bound(inside: list[Arrow], shrinks: list[bool], terms: Terms) -> bool:
    """Whether no loop that shrinks the form avoids every edge on which it is bounded below: round these it could shrink for ever."""
    loose = [(n, edge.target) for n, edge, when in inside if all(one.terms != terms for one in _bounds(when))]
    counting = {(n, edge.target) for (n, edge, _), shrunk in zip(inside, shrinks, strict=True) if shrunk}
    around = loops(loose)
    return not any(n in one and target in one for n, target in counting & {*loose} for one in around)


def _bounds(condition: Formula) -> Iterator[Linear]:
    """Forms that cannot fall for ever while the condition holds each time that it is asked."""
    match condition:
        case Compare("ge", Linear(constant, ((Choose(inner, _, Linear(other, ())), 1),))) if constant + other < 0:
            yield from _bounds(inner)
        case Compare("ge", Linear(constant, ((Floor(form, divisor), 1),)) as quotient):
            yield quotient
            # It is at least a whole number where what is divided is at least so many times the divisor.
            yield from _bounds(Compare("ge", add(form, Linear(divisor * constant))))
        case Compare("ne", Linear(0, ((Apply("is_canceled", (Linear(0, ((Apply(answer, (position,)), 1),)),)), 1),))):
            # Each answer of the scheduler is asked for once, and all but finitely many say that there is nothing more.
            if answer.startswith("answer ") and len(position.terms) == 1 and position.terms[0][1] == 1:
                yield scale(position, -1)
        case Compare("ge", form):
            yield form
        case Both(parts):
            for part in parts:
                yield from _bounds(part)


def _steps(form: Linear, inside: list[Arrow]) -> list[Linear] | None:
    """By how much the form is larger behind each edge, in terms of what held before; None where on one that is not known, or it grows."""
    used, found = symbols_of(form), []
    for _, edge, _ in inside:
        values = {symbol: value for symbol, value in edge.values if symbol in used}
        step = _step(form, values) if values else _NOTHING
        if step is None or not step.terms and step.constant > 0:
            return None
        found.append(step)
    return found


def _step(form: Linear, values: dict[Symbol, Linear | None]) -> Linear | None:
    known = {symbol: value for symbol, value in values.items() if value is not None}
    # A register is assigned a value of which nothing is known, so the form may become anything.
    return add(substitute(form, known), form, -1) if len(known) == len(values) else None


def order_from(root: int, arrows: Iterable[tuple[int, int]]) -> list[int]:
    """What is come to from the root; loops aside, each after all that lead to it."""
    following: dict[int, list[int]] = {}
    for one, next_ in arrows:
        following.setdefault(one, []).append(next_)
    finished: list[int] = []
    _search(root, following, set(), finished)
    return finished[::-1]


def loops(arrows: Iterable[tuple[int, int]]) -> list[frozenset[int]]:
    """Strongly connected components with at least one arrow inside (Kosaraju)."""
    arrows = [*arrows]
    # Round a loop numbers grow and fall again: it lies between the arrows that go back.
    back = [arrow for arrow in arrows if arrow[1] <= arrow[0]]
    least, most = min((next_ for _, next_ in back), default=0), max((one for one, _ in back), default=-1)
    following: dict[int, list[int]] = {}
    preceding: dict[int, list[int]] = {}
    for one, next_ in arrows:
        if not (least <= one <= most and least <= next_ <= most):
            continue
        following.setdefault(one, []).append(next_)
        preceding.setdefault(next_, []).append(one)
    seen: set[int] = set()
    finished: list[int] = []
    for root in following:
        _search(root, following, seen, finished)
    seen = set()
    found = []
    for root in reversed(finished):
        component: list[int] = []
        _search(root, preceding, seen, component)
        if len(component) > 1 or (component and component[0] in following.get(component[0], ())):
            found.append(frozenset(component))
    return found


def _search(root: int, following: dict[int, list[int]], seen: set[int], finished: list[int]) -> None:
    """Depth first from a root; what is new is finished in order."""
    if root in seen:
        return
    seen.add(root)
    # A stack of its own: a kernel may have more nodes than Python lets functions call each other.
    work = [(root, iter(following.get(root, ())))]
    while work:
        one, rest = work[-1]
        next_ = next((each for each in rest if each not in seen), None)
        if next_ is None:
            finished.append(one)
            work.pop()
        else:
            seen.add(next_)
            work.append((next_, iter(following.get(next_, ()))))
