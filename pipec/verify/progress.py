"""Which processes certainly come to an end: every loop of theirs counts towards a bound.

A schedule that goes on for ever because one process loops would say nothing of the others. A loop is bounded if a form over registers is
at least 0 whenever a branch of the loop goes on, never grows in the loop, and shrinks on edges without which the loop would be none.
"""

from collections.abc import Iterable, Iterator

from pipec.verify.network import Arrive, Edge, End, Process, Test, Wait
from pipec.verify.terms import Both, Compare, Formula, Linear, Symbol, add, negate, substitute, symbols_of

Arrow = tuple[int, Edge]


def ends(process: Process) -> bool:
    """Whether every loop of the process is bounded."""
    arrows = [(number, edge) for number, state in enumerate(process.states) for edge in edges_of(state.action)]
    return _bounded(process, arrows)


def edges_of(action: Wait | Arrive | Test | End) -> tuple[Edge, ...]:
    match action:
        case Test(yes=yes, no=no):
            return (yes, no)
        case End():
            return ()
        case Wait(edge=edge) | Arrive(edge=edge):
            return (edge,)


def _bounded(process: Process, arrows: list[Arrow]) -> bool:
    for loop in loops([(number, edge.target) for number, edge in arrows]):
        inside = [(number, edge) for number, edge in arrows if number in loop and edge.target in loop]
        rest = _without_countdown(process, loop, inside)
        if rest is None or not _bounded(process, rest):
            return False
    return True


def _without_countdown(process: Process, loop: frozenset[int], inside: list[Arrow]) -> list[Arrow] | None:
    """The edges of the loop that can be taken without end unless an inner loop ends; None where no form counts down."""
    for number in loop:
        action = process.states[number].action
        if not isinstance(action, Test):
            continue
        for edge, condition in ((action.yes, action.condition), (action.no, negate(action.condition))):
            other = action.no if edge is action.yes else action.yes
            if edge.target not in loop or other.target in loop:
                continue
            for form in _bounds(condition):
                changes = [_change(form, each) for _, each in inside]
                if any(change is None or change > 0 for change in changes):
                    continue
                around = [(n, e) for n, e in inside if n != number]
                counting = {(n, each.target) for (n, each), change in zip(inside, changes, strict=True) if change}
                elsewhere = loops([(n, e.target) for n, e in around])
                if counting and not any(
                    n in one and target in one and n != number for n, target in counting for one in elsewhere
                ):
                    return [arrow for arrow, change in zip(inside, changes, strict=True) if not change]
    return None


def _bounds(condition: Formula) -> Iterator[Linear]:
    match condition:
        case Compare("ge", form):
            yield form
        case Both(parts):
            for part in parts:
                yield from _bounds(part)


def _change(form: Linear, edge: Edge) -> int | None:
    """By how much the form grows along the edge; None where that is no number."""
    used = symbols_of(form)
    values: dict[Symbol, Linear] = {}
    for symbol, value in edge.values:
        if symbol in used:
            if value is None:
                return None
            values[symbol] = value
    difference = add(substitute(form, values), form, -1)
    return None if difference.terms else difference.constant


def loops(arrows: Iterable[tuple[int, int]]) -> list[frozenset[int]]:
    """Strongly connected components with at least one arrow inside (Kosaraju)."""
    following: dict[int, list[int]] = {}
    preceding: dict[int, list[int]] = {}
    for one, next_ in arrows:
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
