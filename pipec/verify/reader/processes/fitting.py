"""Numbers in memory, of which nothing says how large they are: a proof takes for granted that what is computed from them fits.

A kernel for sequences of any lengths rounds a length up to blocks of keys, or counts up to it; Triton's grouped GEMM counts the tiles of
all groups so far, and its own tiles beside them. No condition of a launch can bound what memory holds.
"""

from collections.abc import Iterator, Mapping
from itertools import chain, islice

from pipec.record import record, replace
from pipec.verify.logic import System
from pipec.verify.network import Assumption, Edge, End, Network, Process, State, Test, edges_of
from pipec.verify.reader.values.parameters import in_ranges
from pipec.verify.reader.values.parts import is_loaded, operands_in
from pipec.verify.terms import (
    QUOTIENT,
    REMAINDER,
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
    atom,
    is_larger,
    is_smaller,
    negate,
    scale,
    size_of,
    size_with,
    substitute,
    symbols_of,
)

# What a number may lack of the end of its type in what is required, and by how much parts of it may be multiplied: what is required then
# holds of numbers that are small. It does not of a number that is read without a sign, or of a bit that is shifted into the sign.
_FAR = 1 << 30
_TIMES = 1 << 14
_FARTHEST = (1 << 31) - (1 << 20)  # the same of a step by a size
_MOST_FORMS = 200  # that are followed backwards
_MOST_PARTS = 200  # of one of them
_MOST_CHOICES = 16  # of numbers of which one stands for the smaller or larger one
_ZERO = Linear(0)
_ARITHMETIC = frozenset(
    (
        QUOTIENT,
        REMAINDER,
        *(f"{name}s{bits}" for name in ("", "mul.lo.", "div.", "rem.", "min.", "max.") for bits in (16, 32, 64)),
    )
)


def with_numbers_that_fit(network: Network, ranges: Mapping[str, tuple[int, int]]) -> Network:
    """The network without what is required of such numbers, of counters to which they are added, and where others count up to either,
    under the assumption that it holds; the same if nothing is required of any. `ranges`: of sizes and blocks, in every launch."""
    lines: set[int] = set()
    processes = tuple(_without(process, _counted(process, ranges), lines) for process in network.processes)
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
    """What a process does with numbers in memory. `added`: by states the registers to which they have been added. `ways`: by states the
    edges to them, with the state from which each comes and what is not negative there. `steps`: by what registers are given that are made
    of what they were, but for constants, those registers."""

    process: Process
    registers: frozenset[Symbol]
    added: tuple[frozenset[Symbol], ...]
    ways: tuple[tuple[tuple[int, Edge, tuple[Linear, ...]], ...], ...]
    steps: Mapping[Linear, frozenset[Symbol]]
    ranges: Mapping[str, tuple[int, int]]

    def follows(self, at: int, edge: Edge, form: Linear) -> bool:
        """Whether on each way to the edge the form is computed from a number in memory, or something was found less, or larger, than one,
        from which follows that the form is not negative, unless such numbers are large. A counter that goes on beyond the number counts
        up to something else."""
        asked = next(asked for before, one, asked in self.ways[edge.target] if before == at and one is edge)
        steps = bool(self._stepping(form))  # also of what the counter begins at
        left = self._left(at, asked, form, steps=steps)
        if left is None:
            return True
        seen, work = {at: [left]}, [(at, left)]
        for _ in range(_MOST_FORMS):
            if not work:
                return True
            at, form = work.pop()
            if at == self.process.start:
                return False
            for before, onward, asked in self.ways[at]:
                given = dict(onward.values)
                if any(given.get(one, _ZERO) is None for one in symbols_of(form)):
                    return False
                values = {one: value for one, value in given.items() if value is not None}
                # (`x = x // 2 + x` doubles it on each way back.)
                if size_with(form, {one: size_of(value) for one, value in values.items()}) > _MOST_PARTS:
                    return False
                there = substitute(form, values)
                left, earlier = self._left(before, asked, there, steps=steps), seen.setdefault(before, [])
                # (What is asked of a counter that only grows is asked of all turns if it is of the first one.)
                if left is not None and not any(self._never_negative(add(left, one, -1)) for one in earlier):
                    earlier.append(left)
                    work.append((before, left))
        return False

    def _never_negative(self, form: Linear) -> bool:
        least = form.constant
        for one, times in form.terms:
            if not isinstance(one, Symbol) or one.name not in self.ranges:
                return any(isinstance(each, (Floor, Choose)) for each, _ in form.terms) and self._is_shown(form)
            least += min(times * end for end in self.ranges[one.name])
        return least >= 0

    def _is_shown(self, form: Linear) -> bool:
        """The same of remainders, and of what is chosen among several numbers."""
        return System([*in_ranges(self.ranges, symbols_of(form))]).entails(Compare("ge", form))

    def _left(self, at: int, asked: tuple[Linear, ...], form: Linear, *, steps: bool) -> Linear | None:
        """What is left to show so that the form is not negative, of the numbers that the registers have in a state: the form itself, or of
        registers to which numbers in memory are added as far as something has been found less than them; None if nothing is."""
        if self._never_negative(form) or form.constant >= _FAR and _is_small(form) and _is_of(form):
            return None
        for other in asked:
            less = self._less(at, form, other, steps=steps) if _is_of(other, self.added[at]) else None
            if less is not None:
                return less if not _is_of(less) and symbols_of(less) & self.registers else None
        return form

    def _less(self, at: int, form: Linear, other: Linear, *, steps: bool) -> Linear | None:
        """The difference of multiples of the form and of the other one, which is not negative, if it is not as long as numbers in memory
        are small. `steps`: what is required is that a counter can go on."""
        others, by_size = dict(other.terms), steps or bool(self._stepping(form))
        for one, times in form.terms:
            if times * others.get(one, 0) <= 0 or is_loaded(one):
                continue
            most, many = abs(others[one]), abs(times)
            left = add(scale(form, most), other, -many)
            symbols = {each for each in operands_in(left) if isinstance(each, Symbol)} - self.added[at]
            # (Of a size only a step is: that goes up to the number.)
            far = _FARTHEST if symbols else _FAR
            small = left.constant >= far * most and _is_small(left, most)
            if small and not symbols & self.registers and (by_size or not symbols):
                return left
        return None

    def _stepping(self, form: Linear) -> frozenset[Symbol]:
        terms = _terms(form)
        return self.steps.get(terms, frozenset()) | self.steps.get(scale(terms, -1), frozenset())


def _registers(process: Process) -> frozenset[Symbol]:
    return frozenset(register for register, _ in _values(process))


def _values(process: Process) -> Iterator[tuple[Symbol, Linear | None]]:
    return (row for state in process.states for edge in edges_of(state.action) for row in edge.values)


def _added(edge: Edge, registers: frozenset[Symbol]) -> frozenset[Symbol]:
    """The registers to which something loaded is added on the edge."""
    return frozenset(register for register, form in edge.values if form is not None and _counts(form, registers) and _is_of(form))


def _counted(process: Process, ranges: Mapping[str, tuple[int, int]]) -> _Counted:
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
    ways: list[list[tuple[int, Edge, tuple[Linear, ...]]]] = [[] for _ in process.states]
    for at, state in enumerate(process.states):
        for edge, condition in _outcomes(state):
            ways[edge.target].append((at, edge, () if condition is None else tuple(_not_negative(condition))))
    steps: dict[Linear, frozenset[Symbol]] = {}
    for register, value in _values(process):
        if value is not None and register in operands_in(value):
            steps[_terms(value)] = steps.get(_terms(value), frozenset()) | {register}
    return _Counted(process, registers, tuple(added), tuple(map(tuple, ways)), steps, ranges)


def _outcomes(state: State) -> Iterator[tuple[Edge, Formula | None]]:
    if isinstance(state.action, Test):
        yield state.action.yes, state.action.condition
        yield state.action.no, negate(state.action.condition)
    else:
        yield from ((edge, None) for edge in edges_of(state.action))


def _not_negative(formula: Formula) -> Iterator[Linear]:
    match formula:
        case Compare("ge", form):
            yield from islice(_no_less(form), _MOST_CHOICES)
        case Compare("eq", form):
            yield from islice(chain(_no_less(form), _no_less(scale(form, -1))), 2 * _MOST_CHOICES)
        case Both(parts):
            for part in parts:
                yield from _not_negative(part)
        case _:
            pass


def _no_less(form: Linear) -> Iterator[Linear]:
    """Numbers that are not negative if the form is none: also those in which one of two numbers stands for the larger or smaller one."""
    yield form
    for one, times in form.terms:
        if isinstance(one, Choose) and (is_larger(one) if times < 0 else is_smaller(one)):
            for each in (one.yes, one.no):
                yield from _no_less(add(add(form, atom(one), -times), each, times))


def _is_of(form: Linear, added: frozenset[Symbol] = frozenset()) -> bool:
    """Whether the form is computed from numbers in memory, or from registers to which they are added."""
    return any(is_loaded(one) or one in added for one in operands_in(form))


def _counts(form: Linear, registers: frozenset[Symbol]) -> set[Symbol]:
    """The registers of which the form is a sum."""
    return {one for one, _ in form.terms if isinstance(one, Symbol)} & registers


def _terms(form: Linear) -> Linear:
    return Linear(0, form.terms)


def _is_small(form: Linear, most: int = 1) -> bool:
    """Whether the form is of the size of the numbers in memory that it is computed from, or `most` times as large. (The lowest bit
    shifted by one of them is not, nor a negative number that is read without a sign.)"""

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

    return sum(abs(times) for _, times in form.terms) <= _TIMES * most and all(small(one) for one, _ in form.terms)


def _is_taken_for_granted(counted: _Counted, at: int, edge: Edge, required: Formula) -> bool:
    if not isinstance(required, Compare) or required.relation != "ge":
        return False
    form = required.form
    return form.constant >= _FAR and _is_small(form) and counted.follows(at, edge, form)


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
