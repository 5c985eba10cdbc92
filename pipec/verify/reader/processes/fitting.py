"""Numbers in memory, of which nothing says how large they are: a proof takes for granted that what is computed from them fits.

A kernel for sequences of any lengths rounds a length up to blocks of keys, or counts up to it; Triton's grouped GEMM counts the tiles of
all groups so far, and its own tiles beside them. No condition of a launch can bound what memory holds.
"""

from pipec.record import record, replace
from pipec.verify.network import Assumption, Edge, End, Network, Process, State, Test, edges_of
from pipec.verify.reader.values.parts import is_loaded, operands_in
from pipec.verify.terms import QUOTIENT, REMAINDER, Apply, Atom, Choose, Compare, Floor, Formula, Linear, Symbol, forms_of, scale

# What a number may lack of the end of its type in what is required, and by how much parts of it may be multiplied: what is required then
# holds of numbers that are small. It does not of a number that is read without a sign, or of a bit that is shifted into the sign.
_FAR = 1 << 30
_TIMES = 1 << 14
_ARITHMETIC = frozenset(
    (
        QUOTIENT,
        REMAINDER,
        *(f"{name}s{bits}" for name in ("", "mul.lo.", "div.", "rem.", "min.", "max.") for bits in (16, 32, 64)),
    )
)


def with_numbers_that_fit(network: Network) -> Network:
    """The network without what is required of such numbers, of counters to which they are added, and where others count up to either,
    under the assumption that it holds; the same if nothing is required of any."""
    lines: set[int] = set()
    processes = tuple(_without(process, _counted(process), lines) for process in network.processes)
    if not lines:
        return network
    assumed = sorted((*network.assumptions, Assumption("numbers", tuple(sorted(lines)))), key=lambda one: one.kind)
    return replace(network, processes=processes, assumptions=tuple(assumed))


def adds_up(network: Network) -> bool:
    """Whether a loop adds up numbers in memory: hardly ever does such a kernel do without the assumption."""
    return any(_added(process, _registers(process)) for process in network.processes)


@record
class _Counted:
    """What a process does with numbers in memory. `added`: the registers to which they are added. `steps`: what others come to in a turn,
    of those that are compared with either. `compared`: what they are compared in."""

    registers: frozenset[Symbol]
    added: frozenset[Symbol]
    steps: frozenset[Linear]
    compared: tuple[Linear, ...]


def _registers(process: Process) -> frozenset[Symbol]:
    return frozenset(register for state in process.states for edge in edges_of(state.action) for register, _ in edge.values)


def _values(process: Process) -> list[tuple[Symbol, Linear]]:
    rows = (row for state in process.states for edge in edges_of(state.action) for row in edge.values)
    return [(register, form) for register, form in rows if form is not None]


def _added(process: Process, registers: frozenset[Symbol]) -> frozenset[Symbol]:
    """The registers to which something loaded is added."""
    return frozenset(register for register, form in _values(process) if _counts(form, registers) and _is_of(form))


def _counted(process: Process) -> _Counted:
    registers = _registers(process)
    added = _added(process, registers)
    tests = (state.action for state in process.states if isinstance(state.action, Test))
    compared = tuple(form for test in tests for form in forms_of(test.condition) if _is_of(form, added))
    beside = {one for form in compared for one in operands_in(form)} & registers
    steps = frozenset(_terms(form) for register, form in _values(process) if register in beside & operands_in(form))
    return _Counted(registers, added, steps, compared)


def _is_of(form: Linear, added: frozenset[Symbol] = frozenset()) -> bool:
    """Whether the form is computed from numbers in memory, or from registers to which they are added."""
    return any(is_loaded(one) or one in added for one in operands_in(form))


def _counts(form: Linear, registers: frozenset[Symbol]) -> set[Symbol]:
    """The registers of which the form is a sum."""
    return {one for one, _ in form.terms if isinstance(one, Symbol)} & registers


def _terms(form: Linear) -> Linear:
    return Linear(0, form.terms)


def _is_small(form: Linear) -> bool:
    """Whether the form is of the size of the numbers in memory that it is computed from. (The lowest bit shifted by one of them is not, nor
    a negative number that is read without a sign.)"""

    def small(one: Atom) -> bool:
        match one:
            case Symbol():
                return True
            case Floor(form, _):
                return _is_small(form)
            case Choose(_, yes, no):
                return _is_small(yes) and _is_small(no)
            case Apply(function, arguments):
                parts = (each for form in arguments for each in operands_in(form))
                of_sizes = all(isinstance(each, Symbol) and ":" not in each.name for each in parts)
                return is_loaded(one) or of_sizes or function in _ARITHMETIC and all(map(_is_small, arguments))
            case _:
                return False

    return sum(abs(times) for _, times in form.terms) <= _TIMES and all(small(one) for one, _ in form.terms)


def _is_taken_for_granted(counted: _Counted, required: Formula) -> bool:
    if not isinstance(required, Compare) or required.relation != "ge":
        return False
    form = required.form
    if form.constant < _FAR or not _is_small(form):
        return False
    if _is_of(form, counted.added):
        return True
    terms = {_terms(form), _terms(scale(form, -1))}
    if not terms.isdisjoint(counted.steps):
        return True
    return operands_in(form) <= counted.registers and any(
        set(one.terms) <= set(other.terms) for one in terms for other in counted.compared
    )


def _without(process: Process, counted: _Counted, lines: set[int]) -> Process:
    def left(edge: Edge, line: int) -> Edge:
        kept = tuple(one for one in edge.requires if not _is_taken_for_granted(counted, one))
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
