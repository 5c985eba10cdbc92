"""Numbers in memory, of which nothing says how large they are: a proof takes for granted that what is computed from them fits.

A kernel for sequences of any lengths rounds a length up to blocks of keys, or counts up to it; Triton's grouped GEMM counts the tiles of
all groups so far, and its own tiles beside them. No condition of a launch can bound what memory holds.
"""

from pipec.record import replace
from pipec.verify.network import Assumption, Edge, End, Network, Process, State, Test, edges_of
from pipec.verify.reader.values.parts import has_loaded
from pipec.verify.terms import Linear, Symbol, forms_of, symbols_in, symbols_of


def with_numbers_that_fit(network: Network) -> Network:
    """The network without what is required of such numbers, of counters to which they are added, and of counters that are compared with
    either, under the assumption that it holds; the same if nothing is required of any."""
    lines: set[int] = set()
    processes = tuple(_without(process, _counters(process), lines) for process in network.processes)
    if not lines:
        return network
    assumed = sorted((*network.assumptions, Assumption("numbers", tuple(sorted(lines)))), key=lambda one: one.kind)
    return replace(network, processes=processes, assumptions=tuple(assumed))


def adds_up(network: Network) -> bool:
    """Whether a loop adds up numbers in memory: hardly ever does such a kernel do without the assumption."""
    return any(_added(process, _registers(process)) for process in network.processes)


def _registers(process: Process) -> set[Symbol]:
    return {register for state in process.states for edge in edges_of(state.action) for register, _ in edge.values}


def _added(process: Process, registers: set[Symbol]) -> set[Symbol]:
    """The registers to which something loaded is added."""
    values = (row for state in process.states for edge in edges_of(state.action) for row in edge.values)
    return {register for register, form in values if form is not None and _counts(form, registers) and has_loaded(form)}


def _counters(process: Process) -> frozenset[Symbol]:
    """Registers to which something loaded is added, and those that are compared with them or with something loaded."""
    registers = _registers(process)
    added = _added(process, registers)
    found = set(added)
    for state in process.states:
        if isinstance(state.action, Test):
            for compared in forms_of(state.action.condition):
                beside = symbols_of(compared) & registers
                found |= beside if beside & added or has_loaded(compared) else set()
    return frozenset(found)


def _counts(form: Linear, registers: set[Symbol]) -> set[Symbol]:
    """The registers of which the form is a sum."""
    return {one for one, _ in form.terms if isinstance(one, Symbol)} & registers


def _without(process: Process, counters: frozenset[Symbol], lines: set[int]) -> Process:
    def left(edge: Edge, line: int) -> Edge:
        kept = tuple(one for one in edge.requires if counters.isdisjoint(symbols_in(one)) and not has_loaded(one))
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
