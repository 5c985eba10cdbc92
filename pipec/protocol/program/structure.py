"""Structural properties of a network: producers and consumers, equal tests, tests that control loops."""

from collections.abc import Iterator
from itertools import islice
from itertools import product as combinations

from pipec.protocol.forms.rewriting import Rewriting, is_machine_product
from pipec.protocol.program.program import registers_of
from pipec.verify.checker.configuration import waits_of
from pipec.verify.checker.progress import loops
from pipec.verify.network import Arrive, Network, Process, Test, Use, Wait, edges_of
from pipec.verify.terms import (
    RANGES,
    TRUE,
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
    decided,
    is_larger,
    is_quotient,
    is_remainder,
    is_smaller,
    product,
    scale,
    substitute,
    substituted,
    symbols_in,
    symbols_of,
)

_MOST_BEGINNINGS = 8  # initial values of the counters of one test

Place = tuple[int, int]  # a process and one of its states


def arriving(network: Network) -> dict[int, list[tuple[int, int, int]]]:
    """Per ring the processes that arrive there, each with its first use: a cursor and a shift."""
    found: dict[int, dict[int, Use]] = {ring: {} for ring in range(len(network.rings))}
    for number, process in enumerate(network.processes):
        for state in process.states:
            if isinstance(state.action, Arrive):
                found[state.action.use.ring].setdefault(number, state.action.use)
    return {ring: [(number, use.cursor, use.shift) for number, use in row.items()] for ring, row in found.items()}


def fills(network: Network) -> set[tuple[int, int]]:
    """Pairs of producers and consumers."""
    by = arriving(network)
    return {
        (producer, number)
        for number, process in enumerate(network.processes)
        for use in waits_of(process)
        if use.shift >= 0 and network.rings[use.ring].kind == "mbarrier"
        for producer, _, _ in by[use.ring]
        if producer != number
    }


def orders(network: Network) -> list[tuple[int, ...]]:
    """Orders to try: consumers first, then the reverse."""
    count = len(network.processes)
    rank = [0] * count
    pairs = fills(network)
    # Roles may feed each other in a cycle, where ranks would grow without end.
    for _ in range(count):
        for producer, consumer in pairs:
            if rank[consumer] <= rank[producer] < count:
                rank[consumer] = rank[producer] + 1
    first = tuple(sorted(range(count), key=lambda process: (-rank[process], process)))
    return [first, first[::-1]]


ANY = Symbol("register")  # of which it is not known what it begins with
_ANY = atom(ANY)


def questions(network: Network) -> dict[Place, Formula]:
    """The conditions at the tests of each process, independent of register names."""
    registers = dict.fromkeys(registers_of(network), _ANY)
    return {
        (process, place): substituted(state.action.condition, registers)
        for process, each in enumerate(network.processes)
        for place, state in enumerate(each.states)
        if isinstance(state.action, Test)
    }


Asked = tuple[bool, frozenset[Formula]]  # whether registers occur; and the condition at their initial values


def first_asked(network: Network) -> dict[Place, Asked]:
    """The condition of each test at the initial values of its counters. It is equal for loops with equal trip counts, whatever the start
    and direction of their counters."""
    found: dict[Place, Asked] = {}
    for number, process in enumerate(network.processes):
        beginnings = Beginnings(process, registers_of(network))
        for place, state in enumerate(process.states):
            if isinstance(state.action, Test):
                condition = state.action.condition
                if condition == TRUE:  # of a place on the way to another one (restating/)
                    continue
                found[number, place] = beginnings.first_asked(condition)
    return found


class Beginnings:
    """The values that the registers of a process begin with."""

    def __init__(self, process: Process, registers: frozenset[Symbol]) -> None:
        self.registers, self.begin = registers, _beginnings(process, registers)

    def first_asked(self, condition: Formula) -> Asked:
        inside = sorted(symbols_in(condition) & self.registers, key=lambda symbol: symbol.name)
        ways = islice(combinations(*(self.begin.get(one, [_ANY]) for one in inside)), _MOST_BEGINNINGS)
        return bool(inside), frozenset(_plain(substituted(condition, dict(zip(inside, way, strict=True)))) for way in ways)


def _plain(formula: Formula) -> Formula:
    """The condition as another role may write it: of numbers that do not wrap, of what is divided in place of a quotient, and of a number
    in place of what it is at least 0, since a count that is not positive is none."""

    def exact(one: Atom) -> Linear | None:
        match one:
            case Choose(Compare("ge", asked), Linear() as kept, Linear(0, ())) if asked == kept:
                return exactly.form(kept)
            case Apply(_, (left, right)) if is_machine_product(one):
                return product(exactly.form(left), exactly.form(right))
            case Apply(kind, (form,)) if kind in RANGES:
                return exactly.form(form)
            case _:
                return None

    exactly = Rewriting(exact)
    made = exactly.formula(formula)
    while isinstance(made, Compare) and made.relation == "ge":
        further = _divided(made.form) or _reached(made.form)
        if further is None:
            break
        made = decided(Compare("ge", further))
    return made


def _reached(form: Linear) -> Linear | None:
    """The form with one of two numbers in place of the smaller or larger one, if with the other one it is a number that decides nothing."""
    for one, times in form.terms:
        if isinstance(one, Choose) and (is_smaller(one) or is_larger(one)):
            forms = [add(add(form, atom(one), -times), value, times) for value in (one.yes, one.no)]
            either_suffices = is_smaller(one) != (times > 0)
            for other, left in (forms, forms[::-1]):
                if not other.terms and left.terms and (other.constant < 0) == either_suffices:
                    return left
    return None


def _divided(form: Linear) -> Linear | None:
    """Of a quotient that is at least, or at most, a number: by how much the dividend exceeds its bound, or falls short of it."""
    if len(form.terms) != 1:
        return None
    ((one, times),) = form.terms
    match one:
        case Floor(dividend, number):
            divisor = Linear(number)
        case Apply(_, (dividend, divisor)) if is_quotient(one):
            pass
        case _:
            return None
    if times == 1:
        return add(dividend, divisor, form.constant)
    return add(add(scale(divisor, form.constant + 1), Linear(-1)), dividend, -1) if times == -1 else None


def _beginnings(process: Process, registers: frozenset[Symbol]) -> dict[Symbol, list[Linear]]:
    """The values that registers begin with: of sizes, if they are made of registers that begin with such."""
    given: dict[Symbol, dict[Linear, None]] = {}
    for state in process.states:
        for edge in edges_of(state.action):
            for symbol, value in edge.values:
                if value is None or symbol not in symbols_of(value):
                    given.setdefault(symbol, {})[_ANY if value is None else value] = None
    found: dict[Symbol, list[Linear]] = {}

    def begun(symbol: Symbol, around: frozenset[Symbol]) -> list[Linear]:
        """`around`: the registers of which this is asked, which do not begin with what is made of themselves."""
        if symbol in found:
            return found[symbol]
        made: dict[Linear, None] = {}
        for value in given.get(symbol, ()):
            inside = sorted(symbols_of(value) & registers, key=lambda one: one.name)
            if around.isdisjoint(inside):
                ways = combinations(*(begun(one, around | {one}) for one in inside))
                made.update(
                    dict.fromkeys(
                        substitute(value, dict(zip(inside, way, strict=True))) for way in islice(ways, _MOST_BEGINNINGS)
                    )
                )
        return [*made][:_MOST_BEGINNINGS]

    for symbol in given:
        found[symbol] = begun(symbol, frozenset({symbol})) or [_ANY]
    return found


def moves_on(process: Process, place: int) -> bool:
    """Whether an edge from the test changes its condition, or gives another register what that is about."""
    action = process.states[place].action
    assert isinstance(action, Test)
    inside = symbols_in(action.condition)
    rows = [row for edge in edges_of(action) for row in edge.values]
    return any(symbol in inside or value is not None and not inside.isdisjoint(symbols_of(value)) for symbol, value in rows)


def begins_tiles(network: Network) -> bool:
    """Whether a process asks if a counter has come to a multiple of a size: in a single loop over the blocks of all tiles, the first one
    of a tile."""
    actions = [state.action for process in network.processes for state in process.states]
    return any(isinstance(action, Test) and _asks_for_a_multiple(action.condition) for action in actions)


def _asks_for_a_multiple(test: Formula) -> bool:
    if not isinstance(test, Compare) or test.relation == "ge" or test.form.constant:
        return False
    return any(is_remainder(one) for one, _ in test.form.terms)


def loop_tests(network: Network) -> set[Place]:
    """The tests that decide whether a loop continues, in processes that use pipelines."""
    found = set[Place]()
    for number, process in enumerate(network.processes):
        events = (state.action for state in process.states if isinstance(state.action, (Wait, Arrive)))
        if any(network.rings[event.use.ring].kind == "mbarrier" for event in events):
            arrows = [(place, edge.target) for place, state in enumerate(process.states) for edge in edges_of(state.action)]
            found |= {(number, place) for place in _leaving(process, [(-1, process.start), *arrows])}
    return found


def _leaving(process: Process, arrows: list[tuple[int, int]]) -> Iterator[int]:
    for loop in loops(arrows):
        for place in sorted(loop):
            action = process.states[place].action
            if isinstance(action, Test) and not {action.yes.target, action.no.target} <= loop:
                yield place
        # Without the back edges of the loop, only the loops inside it are left.
        begins = {target for place, target in arrows if target in loop and place not in loop}
        if begins:
            yield from _leaving(process, [(a, b) for a, b in arrows if {a, b} <= loop and b not in begins])
