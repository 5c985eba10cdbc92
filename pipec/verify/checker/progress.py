"""Which processes certainly terminate: every loop has a ranking function.

A schedule that runs for ever because one process loops would say nothing about the others, so all must terminate. A loop is bounded if
some form over registers has a lower bound wherever certain branches of it continue, never increases in the loop, and decreases on edges
without which there would be no loop.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from pipec.verify.logic import System
from pipec.verify.network import Edge, Process, Test, edges_of
from pipec.verify.terms import (
    MOST_WRITTEN,
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
    size_in,
    size_of,
    size_with,
    substitute,
    substituted,
    symbols_in,
    symbols_of,
)

# The source state, the edge, and the condition under which it is taken.
Arrow = tuple[int, Edge, Formula]
Terms = tuple[tuple[Atom, int], ...]  # of a form, without its constant
_NOTHING = Linear(0)
_MOST_ARROWS = 64  # of a loop whose states are joined


def ends(process: Process, sizes: System) -> bool:
    """Whether every loop of the process is bounded, for sizes that satisfy the system."""
    return bounded([arrow for number in range(len(process.states)) for arrow in _arrows(process, number)], sizes)


def _arrows(process: Process, number: int) -> list[Arrow]:
    action = process.states[number].action
    if isinstance(action, Test):
        # The outcome of a test is known on its edge, and bounds most loops: `i < n` on the way back to the header.
        return [(number, action.yes, action.condition), (number, action.no, negate(action.condition))]
    return [(number, edge, TRUE) for edge in edges_of(action)]


def bounded(arrows: list[Arrow], sizes: System) -> bool:
    """Whether no infinite path follows the arrows. The ranking forms are over the symbols that the edges change, as of the source state."""
    for loop in loops([(number, edge.target) for number, edge, _ in arrows]):
        inside = [(number, edge, when) for number, edge, when in arrows if number in loop and edge.target in loop]
        # One ranking form at a time: the edges that it does not bound are a smaller set, to which the same is applied.
        rest = _without_countdown(inside, sizes)
        while rest is None:
            shorter = _shorter(inside)
            if shorter is None:
                return False
            inside, rest = shorter, _without_countdown(shorter, sizes)
        if not bounded(rest, sizes):
            return False
    return True


def _shorter(inside: list[Arrow]) -> list[Arrow] | None:
    """The arrows of a loop without one of its states, whose arrows are joined: an infinite path past a state that no arrow leads back to
    itself takes joined ones. None if no state is left, or the arrows become too many.

    Where `i = next` and `next = i + 4` are assigned on two edges of a loop over chunks, only both together say that `next` increases.
    """
    into, out = Counter(edge.target for _, edge, _ in inside), Counter(number for number, _, _ in inside)
    free = {*out}.difference(number for number, edge, _ in inside if edge.target == number)
    state = min(free, key=lambda one: (into[one] * out[one], one), default=None)
    if state is None or len(inside) + into[state] * out[state] > _MOST_ARROWS:
        return None
    behind = [(edge, when) for number, edge, when in inside if number == state]
    made = []
    for number, edge, when in inside:
        if number != state:
            made += [_joined(number, edge, when, *each) for each in behind] if edge.target == state else [(number, edge, when)]
    return made


def _joined(number: int, first: Edge, when: Formula, second: Edge, then: Formula) -> Arrow:
    """One edge for two that are taken one after the other, in terms of the state in front of them."""
    known = {symbol: value for symbol, value in first.values if value is not None}
    unknown = {symbol for symbol, value in first.values if value is None}
    sizes = {symbol: size_of(value) for symbol, value in known.items()}
    values = dict(first.values)
    for symbol, value in second.values:
        if value is None or size_with(value, sizes) > MOST_WRITTEN or not unknown.isdisjoint(symbols_of(value)):
            values[symbol] = None
        else:
            values[symbol] = substitute(value, known)
    if unknown.isdisjoint(symbols_in(then)) and size_in(then, sizes) <= MOST_WRITTEN:
        when = Both((when, substituted(then, known)))
    return number, Edge(second.target, tuple(values.items())), when


def _without_countdown(inside: list[Arrow], sizes: System) -> list[Arrow] | None:
    """The edges of a loop that can be taken infinitely often only within an inner loop; None if no form ranks the loop.

    A form ranks a loop if it never increases, and every cycle that decreases it contains an edge on which it is known to be bounded
    below.
    """
    forms = [form for _, _, when in inside for form in _bounds(when) if form.terms]  # a constant cannot decrease
    # Forms that differ by a constant decrease alike.
    steps = {terms: _steps(form, inside) for terms, form in {form.terms: form for form in forms}.items()}
    having: dict[int, System] = {}
    # Most loops count by constants; symbolic steps need queries of the facts, at a cost, and only if nothing else works.
    for exactly in (True, False):
        for terms, differences in steps.items():
            if differences is None or exactly == any(one.terms for one in differences):
                continue
            shrinks = _shrinking(inside, differences, sizes, having)
            if shrinks is not None and any(shrinks) and _passes_bound(inside, shrinks, terms, sizes):
                return [arrow for arrow, shrunk in zip(inside, shrinks, strict=True) if not shrunk]
    return None


def _shrinking(inside: list[Arrow], differences: Sequence[Linear], sizes: System, having: dict[int, System]) -> list[bool] | None:
    """Along which edges a form certainly decreases; None unless it never increases. `having`: the facts on edges."""
    found = []
    for number, ((_, _, when), difference) in enumerate(zip(inside, differences, strict=True)):
        if not difference.terms:
            found.append(difference.constant < 0)
            continue
        known = having[number] = having.get(number) or sizes.extended([when])
        # Whether it decreases at all suffices: the amount would only bound the number of iterations.
        if not known.entails(Compare("ge", scale(difference, -1))):
            return None
        found.append(known.entails(Compare("ge", add(Linear(-1), difference, -1))))
    return found


def _passes_bound(inside: list[Arrow], shrinks: list[bool], terms: Terms, sizes: System) -> bool:
    """Whether every infinite path that decreases the form again and again takes edges on which it is bounded below again and again:
    otherwise it could decrease for ever. One that does not stays in a loop of the other edges in the end, and these loops end, or leave the
    form as it is: `while column >= columns: column -= columns; row += 1` inside of `while row < rows`."""
    loose = [(arrow, shrunk) for arrow, shrunk in zip(inside, shrinks, strict=True) if _is_loose(arrow, terms)]
    for loop in loops([(number, edge.target) for (number, edge, _), _ in loose]):
        around = [(arrow, shrunk) for arrow, shrunk in loose if {arrow[0], arrow[1].target} <= loop]
        # (There are fewer arrows than before: the form is that of a test.)
        if any(shrunk for _, shrunk in around) and not bounded([arrow for arrow, _ in around], sizes):
            return False
    return True


def _is_loose(arrow: Arrow, terms: Terms) -> bool:
    """Whether the form is not known to be bounded on an edge."""
    return all(one.terms != terms for one in _bounds(arrow[2]))


def _bounds(condition: Formula) -> Iterator[Linear]:
    """Forms that cannot decrease for ever while the condition holds at each evaluation."""
    match condition:
        case Compare("ge", Linear(constant, ((Choose(inner, _, Linear(other, ())), 1),))) if constant + other < 0:
            yield from _bounds(inner)
        case Compare("ge", Linear(constant, ((Floor(form, divisor), 1),)) as quotient):
            yield quotient
            # A quotient is at least an integer where its dividend is at least that multiple of the divisor.
            yield from _bounds(Compare("ge", add(form, Linear(divisor * constant))))
        case Compare("ne", Linear(0, ((Apply("is_canceled", (Linear(0, ((Apply(answer, (position,)), 1),)),)), 1),))):
            # Each response of the scheduler is read once, and all but finitely many report that nothing is left.
            if answer.startswith("answer ") and len(position.terms) == 1 and position.terms[0][1] == 1:
                yield scale(position, -1)
        case Compare("ge", form):
            yield form
        case Both(parts):
            for part in parts:
                yield from _bounds(part)


def _steps(form: Linear, inside: list[Arrow]) -> list[Linear] | None:
    """The increase of the form along each edge, in terms of the source state; None if one is unknown, or positive."""
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
    # Where a register is assigned an unknown value, the form may become anything.
    if len(known) < len(values) or size_with(form, {symbol: size_of(value) for symbol, value in known.items()}) > MOST_WRITTEN:
        return None
    return add(substitute(form, known), form, -1)


def order_from(root: int, arrows: Iterable[tuple[int, int]]) -> list[int]:
    """Reverse postorder of what is reachable from the root: each after its predecessors, except for back edges."""
    following: dict[int, list[int]] = {}
    for one, next_ in arrows:
        following.setdefault(one, []).append(next_)
    finished: list[int] = []
    _search(root, following, set(), finished)
    return finished[::-1]


def loops(arrows: Iterable[tuple[int, int]]) -> list[frozenset[int]]:
    """Strongly connected components with at least one arrow inside (Kosaraju)."""
    arrows = [*arrows]
    # Along a cycle numbers increase and decrease: it lies between the ends of backward arrows.
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
    """Depth-first search from a root; new vertices are appended in postorder."""
    if root in seen:
        return
    seen.add(root)
    # An explicit stack: a kernel may have more nodes than Python's recursion limit.
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
