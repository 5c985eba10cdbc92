"""Products of sizes and counters: nested loops against a single loop over the product of their bounds.

The relation between such roles is `iterations = outer * inner bound + inner`, which does not occur in the network. So for each counter
of an outer loop, its product with the inner loop's bound becomes a variable, for which facts may express the relation.
"""

from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from functools import cache
from itertools import permutations

from pipec.protocol.facts.quotients import turns_of
from pipec.protocol.forms.everywhere import Everywhere, askable_formula
from pipec.protocol.forms.rewriting import Rewriting, computed_inside, is_machine_product
from pipec.record import replace
from pipec.verify.checker.progress import loops
from pipec.verify.logic import System
from pipec.verify.network import Action, Arrive, Edge, Network, Process, State, Test, Wait, edges_of
from pipec.verify.terms import (
    QUOTIENT,
    RANGES,
    Apply,
    Atom,
    Both,
    Choose,
    Compare,
    Either,
    Floor,
    Formula,
    Linear,
    Product,
    Symbol,
    add,
    atom,
    both,
    choose,
    decided,
    either,
    floor,
    forms_of,
    is_remainder,
    product,
    quotient,
    symbols_of,
)

_MOST = 12  # products that are considered
_ANOTHER = atom(Symbol("another size"))


def exact(network: Network, registers: frozenset[Symbol], bounds: Sequence[Formula] = ()) -> tuple[Network, tuple[Formula, ...]]:
    """The network with exact products and sums of sizes, and the conditions under which the machine's results equal them.
    `bounds`: of registers, which count as sizes as far as a launch can be asked about what is made of them."""
    conditions: dict[Formula, None] = {}
    facts = (*network.facts, *bounds)
    natural, everywhere = _natural(facts), cache(lambda: Everywhere(facts))
    others = registers - _natural(bounds)

    def of_sizes(one: Atom) -> Linear | None:
        match one:
            case Apply("mul.lo.s32" | "mul.lo.u32" | "s32" | "u32", arguments) if _of_sizes(one, others):
                asked = [*_fits(one, natural)]
                counts = not registers.isdisjoint(symbols_of(atom(one)))
                if counts and not all(askable_formula(everywhere().condition(each)) for each in asked):
                    return None
                conditions.update(dict.fromkeys(asked))
                made = [*map(rewriting.form, arguments)]
                return product(*made) if len(made) == 2 else made[0]
            case _:
                return None

    rewriting = Rewriting(of_sizes)
    processes = tuple(
        replace(process, states=tuple(_state(state, rewriting) for state in process.states)) for process in network.processes
    )
    return replace(network, processes=processes), needed(facts, conditions)


def _fits(one: Apply, natural: AbstractSet[Symbol]) -> Iterator[Formula]:
    """That what the machine computes is the exact number."""
    wide = _widened(atom(one))
    least, most = RANGES[one.function[-3:]]
    yield Compare("ge", add(Linear(most), wide, -1))
    if len(one.arguments) == 1 or not symbols_of(atom(one)) <= natural:
        # A sum may also be too small, and so may a product of parameters that may be negative.
        yield Compare("ge", add(wide, Linear(-least)))


def fitting(form: Linear, facts: Iterable[Formula]) -> Iterator[Formula]:
    """Conditions under which all that the machine computes in a form is the exact number."""
    natural = _natural(facts)
    for one in dict.fromkeys(computed_inside(form)):
        yield from _fits(one, natural)


def whole(formula: Formula) -> Formula:
    """A condition that is asked of a launch, of products as whole numbers, which they are in 64 bits."""
    match formula:
        case Compare(relation, form):
            return Compare(relation, _whole(form))
        case Both(parts):
            return both(*map(whole, parts))
        case Either(parts):
            return either(*map(whole, parts))


def _natural(facts: Iterable[Formula]) -> frozenset[Symbol]:
    """Symbols that are not negative."""
    found = set[Symbol]()
    for fact in facts:
        match fact:
            case Compare("ge", Linear(more, ((Symbol() as symbol, 1),))) if more <= 0:
                found.add(symbol)
            case _:
                pass
    return frozenset(found)


def _whole(form: Linear) -> Linear:
    made = Linear(form.constant)
    for one, times in form.terms:
        match one:
            case Apply("mul.lo.s64", (left, right)):
                made = add(made, product(_whole(left), _whole(right)), times)
            case Floor(inner, divisor):
                made = add(made, floor(_whole(inner), divisor), times)
            case Choose(condition, yes, no):
                made = add(made, choose(whole(condition), _whole(yes), _whole(no)), times)
            case _:
                made = add(made, atom(one), times)
    return made


def needed(facts: Sequence[Formula], conditions: Iterable[Formula]) -> tuple[Formula, ...]:
    """The conditions that neither the facts nor the others imply."""
    left = list(conditions)
    for one in tuple(left):
        if System([*facts, *(other for other in left if other is not one)]).entails(one):
            left.remove(one)
    return tuple(left)


def _widened(form: Linear) -> Linear:
    """The form with 64-bit products and untruncated sums."""
    made = Linear(form.constant)
    for one, times in form.terms:
        match one:
            case Apply("mul.lo.s32" | "mul.lo.u32", (left, right)):
                made = add(made, atom(Apply("mul.lo.s64", (_widened(left), _widened(right)))), times)
            case Apply("s32" | "u32", (inner,)):
                made = add(made, _widened(inner), times)
            case Apply(name, (upper, lower)) if name == QUOTIENT:
                made = add(made, quotient(_widened(upper), _widened(lower)), times)
            case Floor(inner, divisor):
                made = add(made, floor(_widened(inner), divisor), times)
            case Choose(condition, yes, no):
                made = add(made, choose(widened(condition), _widened(yes), _widened(no)), times)
            case _:
                made = add(made, atom(one), times)
    return made


def widened(formula: Formula) -> Formula:
    match formula:
        case Compare(relation, form):
            return decided(Compare(relation, _widened(form)))
        case Both(parts):
            return both(*map(widened, parts))
        case Either(parts):
            return either(*map(widened, parts))


def _of_sizes(one: Atom, registers: frozenset[Symbol]) -> bool:
    return registers.isdisjoint(symbols_of(atom(one)))


def _state(state: State, exactly: Rewriting) -> State:
    def edge(one: Edge) -> Edge:
        values = tuple((symbol, None if value is None else exactly.form(value)) for symbol, value in one.values)
        return replace(one, values=values, requires=tuple(map(exactly.formula, one.requires)))

    action: Action = state.action
    match action:
        case Test(condition, yes, no):
            action = Test(exactly.formula(condition), edge(yes), edge(no))
        case Wait(edge=on) | Arrive(edge=on):
            action = replace(action, edge=edge(on))
        case _:
            pass
    return replace(state, action=action)


def candidates(network: Network, registers: frozenset[Symbol]) -> tuple[Linear, ...]:
    """Products of a counter and the bound of an inner loop, or the amount added there per iteration."""
    found: dict[Linear, None] = {}
    for process in network.processes:
        found.update(dict.fromkeys(_multiplied(process, registers)))
        if any(
            isinstance(state.action, (Wait, Arrive)) and network.rings[state.action.use.ring].kind == "mbarrier"
            for state in process.states
        ):
            found.update(dict.fromkeys(_of_process(process, registers)))
    found.update(dict.fromkeys(_of_tiles(network, registers, [*found])))
    return tuple(found)[:_MOST]


def _of_tiles(network: Network, registers: frozenset[Symbol], known: Sequence[Linear]) -> Iterator[Linear]:
    """Of a size by which a counter is divided, to see where a tile begins or ends, and the turns of loops of other roles: one of these may
    walk over the tiles and say nothing of what is in one."""
    factors = {factor for form in known for one, _ in form.terms if isinstance(one, Product) for factor in one.factors}
    for size in dict.fromkeys(_divisors(network, registers)):
        for process in network.processes if size not in factors else ():
            if _asks_of(process, size):
                continue
            counted = {symbol: turns for symbol, _, turns in turns_of(process, registers) if len(turns.terms) == 1}
            for counter in _named(
                {one for one, _ in counters_around([(-1, Edge(process.start)), *arrows_of(process)], frozenset())}
            ):
                yield product(counted.get(counter, atom(counter)), atom(size))


def _asks_of(process: Process, size: Atom) -> bool:
    """Whether the size occurs in a test."""
    without = Rewriting(lambda one: _ANOTHER if one == size else None)
    tests = [state.action.condition for state in process.states if isinstance(state.action, Test)]
    return any(without.formula(test) != test for test in tests)


def _divisors(network: Network, registers: frozenset[Symbol]) -> Iterator[Atom]:
    """The sizes by which counters are divided to leave a remainder that is tested; where a 0 is replaced by 1, of both the size."""
    for process in network.processes:
        for state in process.states:
            for form in forms_of(state.action.condition) if isinstance(state.action, Test) else ():
                for one, _ in form.terms:
                    divisor = one.arguments[1] if is_remainder(one) else Linear(0)
                    for part in (divisor, *(each.yes for each, _ in divisor.terms if isinstance(each, Choose))):
                        if (
                            len(part.terms) == 1
                            and not isinstance(part.terms[0][0], Choose)
                            and _of_sizes(part.terms[0][0], registers)
                        ):
                            yield part.terms[0][0]


def _of_process(process: Process, registers: frozenset[Symbol]) -> Iterator[Linear]:
    counted = {symbol: turns for symbol, _, turns in turns_of(process, registers) if len(turns.terms) == 1}
    around = dict(counters_around([(-1, Edge(process.start)), *arrows_of(process)], frozenset()))
    bounds = [*_bounds(process, registers)]
    # In a fixed order: which product is considered first decides which proof is found.
    for inner, factor, tested in bounds:
        for outer in _named(frozenset().union(*(around.get(one, ()) for one in inner)) if tested else around.keys() - inner):
            yield product(counted.get(outer, atom(outer)), atom(factor))
    for (inner, factor, _), (innermost, other, _) in permutations([row for row in bounds if row[2]], 2):
        # The bound of a loop between the two, and of one inside that.
        between = frozenset().union(*(around.get(one, ()) for one in innermost)) & inner
        for outer in _named(frozenset().union(*(around.get(one, ()) for one in between))):
            yield product(product(counted.get(outer, atom(outer)), atom(factor)), atom(other))


def _multiplied(process: Process, registers: frozenset[Symbol]) -> Iterator[Linear]:
    """Products that the machine makes of counters, inside of other values: where the tile is that a number of turns leads to, say."""
    for state in process.states:
        for form in forms_of(state.action.condition) if isinstance(state.action, Test) else ():
            for one in computed_inside(form):
                if is_machine_product(one) and not registers.isdisjoint(symbols_of(atom(one))):
                    made = product(*one.arguments)
                    yield from (atom(each) for each, _ in made.terms if isinstance(each, Product))


def quotients_in(products: Sequence[Linear], registers: frozenset[Symbol]) -> tuple[Linear, ...]:
    """Quotients of counters that are factors."""
    factors = [factor for form in products for one, _ in form.terms if isinstance(one, Product) for factor in one.factors]
    counted = [atom(one) for one in factors if isinstance(one, Floor)]
    return tuple(dict.fromkeys(one for one in counted if not registers.isdisjoint(symbols_of(one))))


def _named(symbols: AbstractSet[Symbol]) -> list[Symbol]:
    return sorted(symbols, key=lambda symbol: symbol.name)


def arrows_of(process: Process) -> Iterator[tuple[int, Edge]]:
    for place, state in enumerate(process.states):
        yield from ((place, edge) for edge in edges_of(state.action))


def counters_around(arrows: list[tuple[int, Edge]], outer: frozenset[Symbol]) -> Iterator[tuple[Symbol, frozenset[Symbol]]]:
    """The counters of loops, each with those of the enclosing loops."""
    for loop in loops([(place, edge.target) for place, edge in arrows]):
        inside = [(place, edge) for place, edge in arrows if {place, edge.target} <= loop]
        begins = {edge.target for place, edge in arrows if edge.target in loop and place not in loop}
        counters = {symbol for _, edge in inside for symbol, value in edge.values if value is not None and _steps(value, symbol)}
        # Without the back edges of the loop, only the loops inside it are left.
        within = [(place, edge) for place, edge in inside if edge.target not in begins] if begins else []
        deeper = {symbol for symbol, _ in counters_around(within, frozenset())}
        # (Two loops with the same header are one loop here: either may enclose the other.)
        yield from ((symbol, outer | (counters - deeper - {symbol})) for symbol in counters - deeper)
        yield from counters_around(within, outer | (counters - deeper))


def _bounds(process: Process, registers: frozenset[Symbol]) -> Iterator[tuple[frozenset[Symbol], Atom, bool]]:
    """Sizes that tests compare with registers, or from which these count down (true), or that are added to registers."""
    assigned = [pair for state in process.states for edge in edges_of(state.action) for pair in edge.values]
    down = {symbol for symbol, value in assigned if value is not None and _steps(value, symbol) and value.constant < 0}
    for symbol, value in assigned:
        if symbol in down and value is not None and registers.isdisjoint(symbols_of(value)):
            yield from ((frozenset({symbol}), one, True) for one, _ in value.terms)
    for state in process.states:
        compared = [*forms_of(state.action.condition)] if isinstance(state.action, Test) else []
        added = [
            value for edge in edges_of(state.action) for _, value in edge.values if value is not None and len(value.terms) > 1
        ]
        for form, tested in (*((one, True) for one in compared), *((one, False) for one in added)):
            sizes = [one for one, _ in form.terms if _of_sizes(one, registers)]
            inner = symbols_of(form) & registers
            if inner and all(inner.isdisjoint(symbols_of(atom(one))) for one in sizes):
                yield from ((inner, one, tested) for one in sizes)


def _steps(value: Linear, symbol: Symbol) -> bool:
    return value.terms == ((symbol, 1),)
