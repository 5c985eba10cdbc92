"""Counters to which loops add numbers that they load: nothing says how far these come, so a proof takes for granted that they fit.

Triton's grouped GEMM counts the tiles of all groups so far, and its own tiles beside them: no condition of a launch can bound the sum of
what memory holds.
"""

from collections.abc import Iterator

from pipec.record import replace
from pipec.verify.network import Assumption, Edge, End, Network, Process, State, Test, edges_of
from pipec.verify.terms import Apply, Choose, Floor, Linear, Symbol, forms_of, symbols_in


def with_sums_that_fit(network: Network) -> Network:
    """The network without what is required of such counters, under the assumption that it holds; the same if there are none."""
    lines: set[int] = set()
    processes = tuple(_without(process, _sums(process), lines) for process in network.processes)
    if not lines:
        return network
    assumed = sorted((*network.assumptions, Assumption("sums", tuple(sorted(lines)))), key=lambda one: one.kind)
    return replace(network, processes=processes, assumptions=tuple(assumed))


def _sums(process: Process) -> frozenset[Symbol]:
    """Registers to which something loaded is added, and those that are compared with them."""
    edges = [edge for state in process.states for edge in edges_of(state.action)]
    registers = {register for edge in edges for register, _ in edge.values}
    added = {
        register
        for edge in edges
        for register, form in edge.values
        if form is not None and _counts(form, registers) and any(map(_is_loaded, _inside(form)))
    }
    found = set(added)
    for state in process.states:
        if added and isinstance(state.action, Test):
            for compared in forms_of(state.action.condition):
                beside = _counts(compared, registers)
                found |= beside if beside & added else set()
    return frozenset(found)


def _counts(form: Linear, registers: set[Symbol]) -> set[Symbol]:
    """The registers of which the form is a sum."""
    return {one for one, _ in form.terms if isinstance(one, Symbol)} & registers


def _inside(form: Linear) -> Iterator[Apply]:
    """The functions that the form is made of; not what these are computed from where they are loads."""
    for one, _ in form.terms:
        match one:
            case Apply():
                yield one
                if not _is_loaded(one):
                    for each in one.arguments:
                        yield from _inside(each)
            case Floor(inner, _):
                yield from _inside(inner)
            case Choose(_, yes, no):
                yield from _inside(yes)
                yield from _inside(no)
            case _:
                pass


def _is_loaded(one: Apply) -> bool:
    return one.function.startswith("ld.")


def _without(process: Process, sums: frozenset[Symbol], lines: set[int]) -> Process:
    if not sums:
        return process

    def left(edge: Edge, line: int) -> Edge:
        kept = tuple(one for one in edge.requires if sums.isdisjoint(symbols_in(one)))
        if len(kept) < len(edge.requires):
            lines.add(line)
        return replace(edge, requires=kept)

    def without(state: State) -> State:
        match state.action:
            case End():
                return state
            case Test(condition, yes, no):
                return replace(state, action=Test(condition, left(yes, state.line), left(no, state.line)))
            case action:
                return replace(state, action=replace(action, edge=left(action.edge, state.line)))

    return replace(process, states=tuple(map(without, process.states)))
