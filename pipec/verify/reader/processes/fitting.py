"""Numbers in memory, of which nothing says how large they are: a proof takes for granted that what is computed from them fits.

A kernel for sequences of any lengths rounds a length up to blocks of keys, or counts up to it; Triton's grouped GEMM counts the tiles of
all groups so far, and its own tiles beside them. No condition of a launch can bound what memory holds.
"""

from collections.abc import Callable, Container, Iterator, Mapping

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
    return any(
        _added(edge, _registers(process))
        for process in network.processes
        for state in process.states
        for edge in edges_of(state.action)
    )


@record
class _Counted:
    """What a process does with numbers in memory. `added`: by states the registers to which they have been added. `compared`: by states
    the forms that are asked about there and computed from either. `steps`: by what registers are given in a turn, but for constants, those
    registers, of the ones in such forms."""

    process: Process
    registers: frozenset[Symbol]
    added: tuple[frozenset[Symbol], ...]
    compared: tuple[tuple[Linear, ...], ...]
    steps: Mapping[Linear, frozenset[Symbol]]

    def counts_up(self, edge: Edge, register: Symbol) -> bool:
        """Whether behind the edge the register is compared with such numbers before it is counted on: a machine's register may serve for
        several loops, of which others count up to sizes."""
        asked = [any(register in operands_in(form) for form in forms) for forms in self.compared]
        for at in self._behind(edge, asked.__getitem__, {register}):
            for onward in () if asked[at] else edges_of(self.process.states[at].action):
                if any(one == register and form is not None and register in operands_in(form) for one, form in onward.values):
                    return False
        return True

    def is_compared(self, edge: Edge, form: Linear) -> bool:
        """Whether behind the edge the form is part of what is compared with such numbers."""
        named = {one for one in operands_in(form) if isinstance(one, Symbol)}
        return named <= self.registers and any(
            set(one.terms) <= set(other.terms)
            for at in self._behind(edge, lambda _: False, named)
            for other in self.compared[at]
            for one in (form, scale(form, -1))
        )

    def _behind(self, edge: Edge, ends: Callable[[int], bool], named: Container[Symbol]) -> Iterator[int]:
        """The states behind the edge, up to those at which it ends and where the registers are given something else."""
        seen, work = {edge.target}, [edge.target]
        while work:
            yield (at := work.pop())
            for onward in () if ends(at) else edges_of(self.process.states[at].action):
                if onward.target not in seen and not any(one in named for one, _ in onward.values):
                    seen.add(onward.target)
                    work.append(onward.target)


def _registers(process: Process) -> frozenset[Symbol]:
    return frozenset(register for register, _ in _values(process))


def _values(process: Process) -> Iterator[tuple[Symbol, Linear | None]]:
    return (row for state in process.states for edge in edges_of(state.action) for row in edge.values)


def _added(edge: Edge, registers: frozenset[Symbol]) -> frozenset[Symbol]:
    """The registers to which something loaded is added on the edge."""
    return frozenset(register for register, form in edge.values if form is not None and _counts(form, registers) and _is_of(form))


def _counted(process: Process) -> _Counted:
    registers = _registers(process)
    added = [frozenset[Symbol]() for _ in process.states]
    work = [at for at, state in enumerate(process.states) if any(_added(edge, registers) for edge in edges_of(state.action))]
    while work:
        at = work.pop()
        for edge in edges_of(process.states[at].action):
            given = dict(edge.values)
            kept = {one for one in added[at] if one not in given or (form := given[one]) is not None and one in operands_in(form)}
            there = added[edge.target] | kept | _added(edge, registers)
            if there != added[edge.target]:
                added[edge.target] = there
                work.append(edge.target)
    compared = tuple(
        tuple(form for form in forms_of(state.action.condition) if _is_of(form, of)) if isinstance(state.action, Test) else ()
        for state, of in zip(process.states, added, strict=True)
    )
    beside = {one for forms in compared for form in forms for one in operands_in(form)} & registers
    steps: dict[Linear, frozenset[Symbol]] = {}
    for register, value in _values(process):
        if value is not None and register in beside & operands_in(value):
            steps[_terms(value)] = steps.get(_terms(value), frozenset()) | {register}
    return _Counted(process, registers, tuple(added), compared, steps)


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


def _is_taken_for_granted(counted: _Counted, at: int, edge: Edge, required: Formula) -> bool:
    if not isinstance(required, Compare) or required.relation != "ge":
        return False
    form = required.form
    if form.constant < _FAR or not _is_small(form):
        return False
    if _is_of(form, counted.added[at]):
        return True
    terms = _terms(form)
    stepped = [register for one in (terms, scale(terms, -1)) for register in counted.steps.get(one, ())]
    return any(counted.counts_up(edge, register) for register in stepped) or counted.is_compared(edge, terms)


def _without(process: Process, counted: _Counted, lines: set[int]) -> Process:
    def left(edge: Edge, at: int) -> Edge:
        kept = tuple(one for one in edge.requires if not _is_taken_for_granted(counted, at, edge, one))
        if len(kept) < len(edge.requires):
            lines.add(process.states[at].line)
        return replace(edge, requires=kept)

    def without(at: int, state: State) -> State:
        match state.action:
            case End():
                return state
            case Test(condition, yes, no):
                return replace(state, action=Test(condition, left(yes, at), left(no, at)))
            case action:
                return replace(state, action=replace(action, edge=left(action.edge, at)))

    return replace(process, states=tuple(without(at, state) for at, state in enumerate(process.states)))
