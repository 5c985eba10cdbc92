"""Requests to the scheduler: none comes behind one that failed, of which a CTA knows (PTX ISA, clusterlaunchcontrol.try_cancel).

So one thread or role of a CTA asks, waits for its answer, and asks again only where that answer was granted: others that wait for the
answer may know of it before. The k-th request is then that of the k-th wait.
"""

from collections.abc import Iterator

from pipec.verify.logic import System
from pipec.verify.network import Arrive, Network, Process, State, Test, Unreadable, Wait, edges_of
from pipec.verify.terms import Apply, Atom, Both, Choose, Compare, Either, Floor, Formula, Linear, Product, Symbol, atom, negate

_FREE, _ASKED, _SEEN = range(3)


def check_answers(network: Network) -> None:
    """Raises Unreadable where a request may come behind one that failed."""
    asking = [process for process in network.processes if any(map(_asks, process.states))]
    ranks = [rank for process in asking for rank in process.ranks]
    if len(ranks) > len({*ranks}):
        raise Unreadable(asking[0].states[0].line, "several roles of a CTA that ask the scheduler are not understood")
    for process in asking:
        _check_granted(process)


def _asks(state: State) -> bool:
    return isinstance(state.action, Arrive) and state.action.asks


def _check_granted(process: Process) -> None:
    rings = {state.action.use.ring for state in process.states if isinstance(state.action, Arrive) and state.action.asks}
    work, seen = [(process.start, _FREE)], set[tuple[int, int]]()
    while work:
        at, known = work.pop()
        if (at, known) in seen:
            continue
        seen.add((at, known))
        action = process.states[at].action
        if isinstance(action, Arrive) and action.asks:
            if known != _FREE:
                raise Unreadable(process.states[at].line, "a request to the scheduler that may come behind one that failed")
            target = process.states[action.edge.target]
            # (One that answers several CTAs is an arrival at the barriers of each.)
            known = _FREE if _asks(target) and target.line == process.states[at].line else _ASKED
        elif isinstance(action, Wait) and action.use.ring in rings and not action.reads and not action.peeks and known == _ASKED:
            known = _SEEN
        if isinstance(action, Test) and known == _SEEN:
            outcomes = zip((action.condition, negate(action.condition)), edges_of(action), strict=True)
            work += [(edge.target, _FREE if _grants(outcome) else known) for outcome, edge in outcomes]
        else:
            work += [(edge.target, known) for edge in edges_of(action)]


def _grants(outcome: Formula) -> bool:
    """Whether it implies that the last answer waited for was granted."""
    return any(System((outcome, Compare("eq", atom(one)))).impossible() for one in {*_granted_in(outcome)})


def _granted_in(formula: Formula) -> Iterator[Apply]:
    match formula:
        case Compare(_, form):
            for one, _ in form.terms:
                yield from _granted_of(one)
        case Both(parts) | Either(parts):
            for part in parts:
                yield from _granted_in(part)


def _granted_of(one: Atom) -> Iterator[Apply]:
    """The questions whether the last answer was granted that a value depends on."""
    match one:
        case Apply("is_canceled", (Linear(0, ((Apply(_, (Linear(-1, ((Symbol(), 1),)),)), 1),)),)):
            yield one
        case Choose(condition, yes, no):
            yield from _granted_in(condition)
            yield from _granted_in(Compare("eq", yes))
            yield from _granted_in(Compare("eq", no))
        case Floor(form, _):
            yield from _granted_in(Compare("eq", form))
        case Apply(_, forms) | Product(forms):
            for each in forms:
                yield from _granted_in(Compare("eq", each)) if isinstance(each, Linear) else _granted_of(each)
        case _:
            pass
