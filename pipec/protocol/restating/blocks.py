"""Loops that count elements by blocks, `for c in range(0, K, 64)`, in numbers of blocks: as another role counts them that has all blocks in
one loop, `range(n * ceildiv(K, 64))`.
"""

from collections.abc import Iterator, Sequence

from pipec.protocol.forms.rewriting import is_machine_product
from pipec.protocol.restating.distances import Measured
from pipec.record import record, replace
from pipec.verify.network import Edge, Process, State, Test, edges_of
from pipec.verify.reader.processes.tidy import with_edges
from pipec.verify.terms import (
    Apply,
    Atom,
    Compare,
    Floor,
    Formula,
    Linear,
    Product,
    Symbol,
    add,
    atom,
    floor,
    forms_of,
    scale,
    substitute,
    substituted,
    symbols_in,
)


@record
class _Counter:
    """`count`: the register of the number of blocks, of which each is `block` elements."""

    register: Symbol
    block: int

    @property
    def count(self) -> Symbol:
        return Symbol(f"{self.register.name}/{self.block}")


def with_blocks(processes: Sequence[Process]) -> tuple[Measured, ...]:
    """The processes with numbers of blocks in place of counters of elements, where others multiply as many blocks."""
    multiplied = [frozenset(_multiplied(process)) for process in processes]
    made = []
    for number, process in enumerate(processes):
        others = frozenset[Floor]().union(*(found for other, found in enumerate(multiplied) if other != number))
        made.append(_counted(process, others) if others else Measured(process))
    return tuple(made)


def _multiplied(process: Process) -> Iterator[Floor]:
    """Quotients by numbers that are factors in what is tested."""
    for state in process.states:
        for form in forms_of(state.action.condition) if isinstance(state.action, Test) else ():
            for one, _ in form.terms:
                yield from _factors(one)


def _factors(one: Atom) -> Iterator[Floor]:
    match one:
        case Product(factors):
            yield from (factor for factor in factors if isinstance(factor, Floor))
        case Apply(_, arguments) if is_machine_product(one) or len(arguments) == 1:
            for part in (part for form in arguments for part, _ in form.terms):
                yield from (part,) if isinstance(part, Floor) and len(arguments) > 1 else _factors(part)
        case _:
            pass


def _counted(process: Process, others: frozenset[Floor]) -> Measured:
    meant = []
    for counter in list(_counters(process)):
        made = _in_blocks(process, counter)
        tests = [form for state in made.states if isinstance(state.action, Test) for form in forms_of(state.action.condition)]
        if any(counter.count == one for form in tests for one, _ in form.terms) and any(
            one in others for form in tests for one, _ in form.terms
        ):
            process = made
            meant.append((counter.count, (Compare("eq", add(atom(counter.register), atom(counter.count), -counter.block)),)))
    return Measured(process, tuple(meant))


def _counters(process: Process) -> Iterator[_Counter]:
    """Those that begin with a number of blocks, go on by one, and are only compared."""
    assigned: dict[Symbol, list[Linear | None]] = {}
    for state in process.states:
        for edge in edges_of(state.action):
            for symbol, value in edge.values:
                assigned.setdefault(symbol, []).append(value)
    for symbol, values in assigned.items():
        steps = {value.constant for value in values if value is not None and value.terms == ((symbol, 1),)}
        (block,) = steps if len(steps) == 1 else (0,)
        starts = [value for value in values if value is None or value.terms != ((symbol, 1),)]
        if block > 1 and all(value is not None and not value.terms and value.constant % block == 0 for value in starts):
            yield _Counter(symbol, block)


def _in_blocks(process: Process, counter: _Counter) -> Process:
    elements = {counter.register: scale(atom(counter.count), counter.block)}

    def edge(one: Edge) -> Edge:
        values = tuple(
            [
                (counter.count, _divided(value, counter))
                if symbol == counter.register and value is not None
                else (symbol, None if value is None else substitute(value, elements))
                for symbol, value in one.values
            ]
        )
        return replace(one, values=values, requires=tuple([substituted(each, elements) for each in one.requires]))

    def asked(formula: Formula) -> Formula:
        match formula:
            case Compare("ge", form) if counter.register in symbols_in(formula):
                return Compare("ge", _divided(form, counter))
            case _:
                return substituted(formula, elements)

    states = []
    for state in process.states:
        action = with_edges(state.action, edge)
        if isinstance(action, Test):
            action = replace(action, condition=asked(action.condition))
        live = tuple([counter.count if one == counter.register else one for one in state.live])
        states.append(State(state.line, action, live))
    return replace(process, states=tuple(states))


def _divided(form: Linear, counter: _Counter) -> Linear:
    """By the number of elements of a block, rounded down: which is at least 0 exactly if the form is."""
    return floor(substitute(form, {counter.register: scale(atom(counter.count), counter.block)}), counter.block)
