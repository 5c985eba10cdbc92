"""Quotients of counters as candidate values: iterations that the network does not count explicitly.

Iterations dealt round-robin to several roles: for `i % 4 == 1` the network has `floor(i / 4)`. The number of iterations of another role,
`floor((i + 3) / 4)`, is not a linear function of that and of counters if more than two roles share the iterations.

Counters with a stride: in a loop over `range(b, n, 8)` only `floor((i - b) / 8)` expresses that `i - b` is a multiple of 8, and its
relation to a bound such as `ceildiv(n - b, 8)`. A counter whose stride is a size, such as
the number of blocks, against a counter of iterations is the same case, with that size for the 8. So is one that counts up to a multiple
of its stride, where another role counts down from the last number before that.
"""

from collections.abc import Iterator

from pipec.protocol.facts.remainders import shares
from pipec.verify.network import Network, Process, Test, edges_of
from pipec.verify.terms import (
    Apply,
    Atom,
    Choose,
    Compare,
    Floor,
    Formula,
    Linear,
    Symbol,
    add,
    atom,
    floor,
    forms_of,
    is_quotient,
    quotient,
    symbols_of,
)


def quotients_of(network: Network, registers: frozenset[Symbol]) -> tuple[Linear, ...]:
    """Of counters that other values say to be of interest; if there are none, of those whose tests are about multiples of the stride."""
    told = dict.fromkeys((*shares(network, registers), *strides(network, registers), *ahead(network, registers)))
    return tuple(told) or in_units(network, registers)


def strides(network: Network, registers: frozenset[Symbol]) -> tuple[Linear, ...]:
    """The number of iterations completed by a counter with a stride, if a test involves a quotient by that stride: of sizes, or of the
    smaller of two numbers, as of how far a loop reaches in a tile."""
    asked = {one.divisor for one in _tested(network) if symbols_of(one.form).isdisjoint(registers) or _is_chosen(one.form)}
    found: dict[Linear, None] = {}
    for process in network.processes:
        turns = turns_of(process, registers)
        found.update(dict.fromkeys(turn for _, step, turn in turns if any(divisor % step == 0 for divisor in asked)))
    return tuple(found)


def in_units(network: Network, registers: frozenset[Symbol]) -> tuple[Linear, ...]:
    """The number of iterations completed by a counter whose stride divides all sizes with which it begins or is compared. Up to a
    multiple of 64, `range(0, K, 64)` ends at K - 64, from which another role counts down. With the quotients of these sizes."""
    known = {symbol: divisor for fact in network.facts for symbol, divisor in _multiple(fact)}
    wholes = {symbol: floor(atom(symbol), divisor) for symbol, divisor in known.items()}
    found: dict[Linear, None] = {}
    for process in network.processes:
        asked = [form for state in process.states if isinstance(state.action, Test) for form in forms_of(state.action.condition)]
        for symbol, step, turn in turns_of(process, registers):
            about = [*(form for form in asked if symbol in dict(form.terms)), *_begins(process, symbol)]
            sizes = [(one, times) for form in about for one, times in form.terms if one != symbol]
            if sizes and all(times * known.get(one, 1) % step == 0 for one, times in sizes):
                found.update(dict.fromkeys((turn, *(wholes[one] for one, _ in sizes if one in wholes))))
    return tuple(found)


def _begins(process: Process, counter: Symbol) -> Iterator[Linear]:
    return (value for symbol, value in _assigned(process) if symbol == counter)


def _multiple(fact: Formula) -> Iterator[tuple[Atom, int]]:
    """The size that a fact says to be a multiple of a number, with this number."""
    match fact:
        case Compare("eq", Linear(0, ((Floor(Linear(0, ((Symbol() as one, 1),)), divisor), times), (other, 1)))) if one == other:
            if times == -divisor:
                yield one, divisor
        case _:
            pass


def _is_chosen(form: Linear) -> bool:
    return len(form.terms) == 1 and isinstance(form.terms[0][0], Choose)


def ahead(network: Network, registers: frozenset[Symbol]) -> Iterator[Linear]:
    """The number of remaining turns of a counter that advances by a size, such as the number of blocks, where another role counts its
    turns: the quotient of the form that its test compares with 0. Or where the role itself counts them, up to a quotient by that size:
    the quotient of how far the counter still goes."""
    divisors = {each.arguments[1] for each in _parts(network) if is_quotient(each)}
    for process in network.processes:
        steps = dict(_sized_steps(process, registers))
        for state in process.states:
            for form in forms_of(state.action.condition) if isinstance(state.action, Test) else ():
                for symbol, step in steps.items():
                    times = dict(form.terms).get(symbol)
                    if step in divisors and times in (1, -1):
                        left = form if times < 0 else add(Linear(-1), form, -1)
                        yield Linear(0, quotient(left, step).terms)
        yield from _beside(process, steps, registers)


def _beside(process: Process, steps: dict[Symbol, Linear], registers: frozenset[Symbol]) -> Iterator[Linear]:
    """For counters that advance beside the one that is tested: `t += grid.x` where the turns are counted."""
    turns = dict.fromkeys(each.arguments for each in _divided(process) if symbols_of(atom(each)).isdisjoint(registers))
    for symbol, step in steps.items():
        for begin in dict.fromkeys(value for one, value in _assigned(process) if one == symbol):
            if symbols_of(begin).isdisjoint(registers):
                for dividend, divisor in turns:
                    if divisor == step:
                        yield Linear(0, quotient(add(add(dividend, begin), atom(symbol), -1), step).terms)


def _divided(process: Process) -> Iterator[Apply]:
    """The quotients by sizes that the tests of a process compare."""
    for state in process.states:
        for form in forms_of(state.action.condition) if isinstance(state.action, Test) else ():
            yield from (one for one, _ in form.terms if is_quotient(one))


def _assigned(process: Process) -> Iterator[tuple[Symbol, Linear]]:
    for state in process.states:
        for edge in edges_of(state.action):
            yield from ((symbol, value) for symbol, value in edge.values if value is not None)


def _sized_steps(process: Process, registers: frozenset[Symbol]) -> Iterator[tuple[Symbol, Linear]]:
    for state in process.states:
        for edge in edges_of(state.action):
            for symbol, value in edge.values:
                step = Linear(0) if value is None else add(value, atom(symbol), -1)
                if step.terms and symbols_of(step).isdisjoint(registers):
                    yield symbol, step


def _parts(network: Network) -> Iterator[Atom]:
    """The terms that tests compare, and the operands of choices among them."""
    for process in network.processes:
        for state in process.states:
            for form in forms_of(state.action.condition) if isinstance(state.action, Test) else ():
                yield from (one for one, _ in form.terms)


def turns_of(process: Process, registers: frozenset[Symbol]) -> Iterator[tuple[Symbol, int, Linear]]:
    """Counters with a stride other than 1, the stride, and the number of completed iterations."""
    assigned = [*_assigned(process)]
    steps = {symbol: abs(value.constant) for symbol, value in assigned if value.terms == ((symbol, 1),)}
    for symbol, begin in assigned:
        step = steps.get(symbol, 0)
        if step > 1 and symbols_of(begin).isdisjoint(registers):
            yield symbol, step, floor(add(atom(symbol), begin, -1), step)


def _tested(network: Network) -> Iterator[Floor]:
    return (one for one in _parts(network) if isinstance(one, Floor))
