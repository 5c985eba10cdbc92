"""Shares of tiles in other words.

Of n tiles that are dealt out in turn to g blocks, where g is a number, a block gets `floor((n - 1 - b) / g) + 1`. Compilers and programs
say that in several ways: what is left after equal shares is compared with the block's place; half of a number, rounded up, is the number
without its other half.
"""

from pipec.protocol.forms.rewriting import Rewriting
from pipec.record import replace
from pipec.verify.network import Edge, Process, Test
from pipec.verify.reader.processes.tidy import with_edges
from pipec.verify.terms import Atom, Choose, Compare, Floor, Linear, Symbol, add, atom, floor, scale


def spelled(process: Process) -> Process:
    """The process with such shares as quotients. (That they are, the checker sees where what is made of them is asked.)"""
    dealing = Rewriting(_dealt)

    def form(given: Linear) -> Linear:
        return _halved(dealing.form(given))

    def edge(given: Edge) -> Edge:
        values = tuple([(symbol, None if value is None else form(value)) for symbol, value in given.values])
        return replace(given, values=values)

    states = []
    for state in process.states:
        action = with_edges(state.action, edge)
        if isinstance(action, Test) and isinstance(action.condition, Compare):
            action = replace(action, condition=replace(action.condition, form=form(action.condition.form)))
        states.append(replace(state, action=action))
    return replace(process, states=tuple(states))


def _dealt(one: Atom) -> Linear | None:
    """`n // g + 1` if `n % g` exceeds the place b, else `n // g`."""
    match one:
        case Choose(Compare("ge", asked), yes, no) if not (more := add(yes, no, -1)).terms and abs(more.constant) == 1:
            reached = no if more.constant == 1 else yes
            asked = asked if more.constant == 1 else add(Linear(-1), asked, -1)
            for share, times in asked.terms:
                if isinstance(share, Floor) and times == -share.divisor:
                    place = scale(add(add(asked, atom(share), share.divisor), add(share.form, Linear(-1)), -1), -1)
                    if _is_place(place) and floor(share.form, share.divisor) == atom(share):
                        left = add(floor(add(add(share.form, Linear(-1)), place, -1), share.divisor), Linear(1))
                        return add(add(reached, atom(share), -1), left)
        case _:
            pass
    return None


def _is_place(form: Linear) -> bool:
    match form:
        case Linear(0, ((Symbol(name), 1),)):
            return name.startswith("%ctaid.")
        case _:
            return False


def _halved(form: Linear) -> Linear:
    """`x - x // 2` as `(x + 1) // 2`."""
    for one, times in form.terms:
        match one:
            case Floor(inner, 2) if abs(times) == 1:
                rest = add(form, atom(one), -times)
                if all(dict(rest.terms).get(each, 0) == -times * number for each, number in inner.terms):
                    whole = add(rest, inner, times)
                    return add(whole, floor(add(inner, Linear(1)), 2), -times)
            case _:
                pass
    return form
