"""Sizes at which a network is run to find a deadlock."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import islice

from pipec.protocol.forms.ranges import TILES
from pipec.protocol.forms.sample import Numbers, holds, known_function
from pipec.protocol.program.program import registers_of
from pipec.protocol.refuting.launches import Launches
from pipec.verify.network import Network, Test, edges_of
from pipec.verify.terms import Apply, Choose, Compare, Floor, Formula, Linear, Product, Symbol, forms_of, symbols_in

_LEAST_TRIED = 5  # minimum number of steps to try a size with; with larger rings, enough to fill one, plus two
LARGE = (1 << 30, (1 << 31) - 1)
_VARIED = 3  # sizes that take all counts; the others are 0 or 1 step

# Numbers of runs. Most failing sizes are small multiples; an error without sizes is reported only after all of them.
_MOST_EXACT = 120
_MOST_BETWEEN = 30
_MOST_COMPARED = 40
_MOST_STRIDED = 24
_LONGEST_STRIDE = 128
_MOST_WALKED = 24
_LONGEST_WALKED = 1024
_FIRST = ("%ctaid.", "%clusterid.")  # of the first block these are 0
_MOST_NEGATIVE = 12
_MOST_PLACED = 24
_FARTHEST = 20  # block along an axis

# Values of sizes that no test depends on, but a fact: how many of each, of their combinations, and how many of these are tried for all
# sizes together.
_MOST_STEPS_OF_OTHERS = 8
_MOST_CHOICES_OF_OTHERS = 1_000
_MOST_TRIED_OF_OTHERS = 20_000

# Offsets from multiples of a step: rounding down and up agree on multiples, and differ halfway; off-by-one errors show next to them.
_BETWEEN: tuple[Callable[[int], int], ...] = (
    lambda step: 0,
    lambda step: step // 2,
    lambda step: step > 1,
    lambda step: step - 1,
)


def large_sizes(network: Network, launches: Launches) -> Iterator[Numbers]:
    """One size at which sums of sizes wrap around, the others 1: a loop over it ends without a result, a test of it does not."""
    steps: dict[Symbol, int] = {}
    for form in all_forms(network):
        # Overflow of a product of sizes is not an error of the program: a proof requires the launch to exclude it.
        if any(isinstance(one, Apply) for one, _ in form.terms):
            return
        _steps(form, registers_of(network), steps)
    admits = _Facts(network, frozenset(steps)).admit
    for symbol in in_order(network, steps.keys() - {TILES})[:_VARIED]:
        for value in LARGE:
            numbers = dict.fromkeys(steps, 1) | {symbol: value}
            if admits(numbers) and launches(numbers):
                yield numbers


def small_sizes(network: Network, launches: Launches) -> Iterator[Numbers]:
    """Multiples of the divisors of sizes, then numbers in between, then constants that the network compares sizes with."""
    registers, steps = registers_of(network), steps_of(network)
    possible = Possible(network, steps, launches)

    def first(most: int, sizes: Iterator[Numbers]) -> Iterator[Numbers]:
        found = possible.of(sizes)
        return islice(_without_repetition(found) if possible.stated else found, most)

    yield from first(_MOST_EXACT, _by_steps(network, steps, _BETWEEN[0]))
    if any(step > 1 for step in steps.values()):
        for between in _BETWEEN[1:]:
            yield from first(_MOST_BETWEEN, _by_steps(network, steps, between))
    yield from first(_MOST_COMPARED, _compared(network, registers, steps))
    yield from first(_MOST_STRIDED, _strided(network, registers, steps))
    yield from first(_MOST_WALKED, _walked(network, steps))
    yield from first(_MOST_NEGATIVE, _negative(steps))
    yield from first(_MOST_PLACED, _placed(network, steps))


class Possible:
    """Sizes that a launch can have: an impossible one refutes nothing. `stated`: those that it must have."""

    def __init__(self, network: Network, tested: Collection[Symbol], launches: Launches) -> None:
        self.stated = {symbol: value for symbol, value in _stated(network) if symbol in tested}
        self._admit, self._launches = _Facts(network, frozenset(tested)).admit, launches

    def of(self, sizes: Iterable[Numbers]) -> Iterator[Numbers]:
        return filter(self, (one | self.stated for one in sizes))

    def __call__(self, numbers: Numbers) -> bool:
        return numbers.get(TILES) != 0 and self._admit(numbers) and self._launches(numbers)


def steps_of(network: Network) -> dict[Symbol, int]:
    """By how much each size on which a test or a counter depends must grow for something to change."""
    registers, steps = registers_of(network), dict[Symbol, int]()
    for form in all_forms(network):
        _steps(form, registers, steps)
    return {symbol: steps[symbol] for symbol in in_order(network, steps)}


def in_order(network: Network, symbols: Collection[Symbol]) -> list[Symbol]:
    """Those of the hardware, then dimensions and parameters as they are declared, which is the order of the facts: the order of terms
    depends on names."""
    declared: dict[Symbol, int] = {}
    for fact in network.facts:
        match fact:
            case Compare(_, Linear(_, ((Symbol() as symbol, _),))) if not symbol.name.startswith("%"):
                declared.setdefault(symbol, len(declared))
            case _:
                pass
    return sorted(symbols, key=lambda symbol: (symbol != TILES, declared.get(symbol, -1), symbol.name))


def _stated(network: Network) -> Iterator[tuple[Symbol, int]]:
    """The sizes that a launch must have: `assume(N == 128)`."""
    for fact in network.facts:
        match fact:
            case Compare("eq", Linear(constant, ((Symbol() as symbol, times),))) if constant % times == 0:
                yield symbol, -constant // times
            case _:
                pass


def _without_repetition(sizes: Iterable[Numbers]) -> Iterator[Numbers]:
    seen: set[tuple[tuple[Symbol, int], ...]] = set()
    for one in sizes:
        key = tuple(one.items())
        if key not in seen:
            seen.add(key)
            yield one


def _strided(network: Network, registers: frozenset[Symbol], steps: Numbers) -> Iterator[Numbers]:
    """One size at, next to and between multiples of the numbers by which counters advance or are divided; the others are one step. Roles
    that have every tenth and every eleventh turn differ first in the twelfth."""
    strides: dict[int, None] = {}
    for form in all_forms(network):
        for one, times in form.terms:
            if isinstance(one, Symbol) and one in registers and times == 1 and len(form.terms) == 1:
                strides[abs(form.constant)] = None
            elif isinstance(one, Floor) and not registers.isdisjoint(symbols_in(Compare("ge", one.form))):
                strides[one.divisor] = None
    for symbol, step in steps.items():
        for stride in [each for each in strides if _LEAST_TRIED < each <= _LONGEST_STRIDE and each > step]:
            for number in (*range(stride - 1, stride + 3), *range(2 * stride - 1, 2 * stride + 2), stride + stride // 2):
                yield steps | {symbol: number}


def _walked(network: Network, steps: Numbers) -> Iterator[Numbers]:
    """One size with more steps than a counter advances by: of tiles that are dealt out to a constant number of blocks,
    `range(block.x, tiles, 132)`, the first block then has a second one, and a third, which at smaller sizes it never has."""
    strides = dict.fromkeys(abs(by) for by in _advances(network) if _LEAST_TRIED < abs(by) <= _LONGEST_WALKED)
    for stride in strides:
        for count in (1, 3):
            others = {one: 0 if one.name.startswith(_FIRST) else count * step for one, step in steps.items()}
            for symbol, step in steps.items():
                for turns in (1, 2) if not symbol.name.startswith("%") else ():
                    yield others | {symbol: (turns * stride + 1) * step}


def _advances(network: Network) -> Iterator[int]:
    """The numbers by which registers advance."""
    for process in network.processes:
        for state in process.states:
            for edge in edges_of(state.action):
                for symbol, value in edge.values:
                    if value is not None and value.terms == ((symbol, 1),):
                        yield value.constant


def _by_steps(network: Network, steps: Numbers, between: Callable[[int], int]) -> Iterator[Numbers]:
    """Sizes in order of their sum, so that the first failing one is small."""
    names = [*steps]
    # A ring hides a missing release until all of its stages are taken, so sizes exceed the largest ring.
    most = max([_LEAST_TRIED, *(ring.stages + 2 for ring in network.rings)])
    for counts in _by_their_sum(min(_VARIED, len(names)), most):
        for last in (0, 1) if len(names) > _VARIED else (0,):
            chosen = (*counts, *(last for _ in range(len(names) - len(counts))))
            yield {symbol: count * steps[symbol] + between(steps[symbol]) for symbol, count in zip(names, chosen, strict=True)}


def _compared(network: Network, registers: frozenset[Symbol], steps: Numbers) -> Iterator[Numbers]:
    """One size at or next to a constant that decides a test; the others are one or two steps."""
    found: dict[tuple[Symbol, int], None] = {}
    for form in all_forms(network):
        if len(form.terms) != 1:
            continue
        ((one, coefficient),) = form.terms
        divisor = 1
        if isinstance(one, Floor) and len(one.form.terms) == 1:
            divisor, ((one, _),) = one.divisor, one.form.terms
        if isinstance(one, Symbol) and one not in registers and one in steps:
            found[one, -form.constant // coefficient * divisor] = None
    for symbol, number in found:
        for count in (1, 2):
            others = {other: count * step for other, step in steps.items()}
            for off in (0, -1, 1, steps[symbol]):
                if number + off > 0:
                    yield others | {symbol: number + off}


def _negative(steps: Numbers) -> Iterator[Numbers]:
    """One parameter that is negative (a dimension never is): loops up to it do not run, those from it and beyond it may."""
    for symbol, step in steps.items():
        for number in dict.fromkeys((-1, -step - 1)):
            for count in (1, 0):
                yield {other: count * each for other, each in steps.items()} | {symbol: number}


def _placed(network: Network, steps: Numbers) -> Iterator[Numbers]:
    """Sizes with several blocks along an axis, where a size is compared with the place of a block alone, `min(S, (block.x + 1) * 64)`: it
    must grow by 64 for another one. Windows, `max(0, block.x * 64 - 200)`, begin to matter in the blocks next to their ends."""
    wider, ends = dict(steps), dict[tuple[Symbol, int], None]()
    for form in dict.fromkeys(part for one in all_forms(network) for part in inside(one)):
        symbols = {one: times for one, times in form.terms if isinstance(one, Symbol) and one in steps}
        places = [one for one in symbols if one.name.startswith(_FIRST)]
        if len(places) == 1:
            (place,) = places
            times = abs(symbols.pop(place))
            for one in symbols:
                wider[one] = max(times, wider[one]) if times <= _LONGEST_WALKED else wider[one]
            if len(form.terms) == 1:
                ends[place, abs(form.constant) // times] = None
    grown = [one for one in steps if wider[one] > steps[one]]
    for place, end in ends:
        for at in range(max(end, 1), end + 3) if end < _FARTHEST else ():
            for more in (1, 2) if grown else ():
                others = {one: 0 if one.name.startswith(_FIRST) else step for one, step in steps.items()}
                yield others | {one: (at + more) * wider[one] for one in grown} | {place: at}
    if grown:
        yield from _by_steps(network, wider, _BETWEEN[0])


def inside(form: Linear) -> Iterator[Linear]:
    """The form, and those that it is made of."""
    yield form
    for one, _ in form.terms:
        match one:
            case Floor(inner, _):
                yield from inside(inner)
            case Choose(condition, yes, no):
                for each in (*forms_of(condition), yes, no):
                    yield from inside(each)


def _by_their_sum(places: int, most: int) -> Iterator[tuple[int, ...]]:
    for total in range(places * most + 1):
        yield from _adding_up(places, most, total)


def _adding_up(places: int, most: int, total: int) -> Iterator[tuple[int, ...]]:
    if not places:
        yield from [()] if not total else []
        return
    for first in range(max(0, total - (places - 1) * most), min(most, total) + 1):
        for rest in _adding_up(places - 1, most, total - first):
            yield first, *rest


def all_forms(network: Network) -> Iterator[Linear]:
    """All forms in tests and assignments."""
    for process in network.processes:
        for state in process.states:
            yield from (value for edge in edges_of(state.action) for _, value in edge.values if value is not None)
            if isinstance(state.action, Test):
                yield from forms_of(state.action.condition)


class _Facts:
    """What a launch guarantees. `tested`: the sizes that are chosen; facts speak of others as well, for which there must be values."""

    def __init__(self, network: Network, tested: frozenset[Symbol]) -> None:
        self._of_tested = [fact for fact in network.facts if symbols_in(fact) <= tested]
        others = [fact for fact in network.facts if not symbols_in(fact) <= tested]
        self._of_both = [fact for fact in others if symbols_in(fact) & tested]
        steps: dict[Symbol, int] = {}
        for fact in others:
            for form in forms_of(fact):
                _steps(form, tested, steps)
        stated = dict(_stated(network))
        # Those that facts relate to the tested ones vary first: of the rest, one combination is as good as another.
        related = {symbol for fact in self._of_both for symbol in symbols_in(fact)}
        values = {
            one: (stated[one],) if one in stated else tuple(_around_multiples(steps[one]))
            for one in sorted(steps, key=lambda symbol: symbol in related)
        }
        alone = [fact for fact in others if fact not in self._of_both]
        most = _MOST_CHOICES_OF_OTHERS if self._of_both else 1
        self._choices = list(islice(_combinations(values, alone), most))
        self._left = _MOST_TRIED_OF_OTHERS

    def admit(self, numbers: Numbers) -> bool:
        if not all(holds(fact, numbers) for fact in self._of_tested):
            return False
        if not self._of_both:
            return bool(self._choices)
        for others in self._choices:
            if not self._left:
                break
            self._left -= 1
            if all(holds(fact, numbers | others) for fact in self._of_both):
                return True
        return False


def _combinations(values: Mapping[Symbol, Collection[int]], facts: Iterable[Formula]) -> Iterator[Numbers]:
    """The combinations of values for which the facts hold, each asked as soon as all that it speaks of has a value."""
    names = [*values]
    asked: list[list[Formula]] = [[] for _ in range(len(values) + 1)]
    place = {name: number for number, name in enumerate(names, 1)}
    for fact in facts:
        asked[max([place[symbol] for symbol in symbols_in(fact)], default=0)].append(fact)
    left = _MOST_TRIED_OF_OTHERS

    def following(chosen: Numbers, count: int) -> Iterator[Numbers]:
        nonlocal left
        left -= 1
        if left < 0 or not all(holds(fact, chosen) for fact in asked[count]):
            return
        if count == len(names):
            yield chosen
            return
        for value in values[names[count]]:
            yield from following({**chosen, names[count]: value}, count + 1)

    return following({}, 0)


def _around_multiples(step: int) -> Iterator[int]:
    """Each multiple, and the number behind it, which takes one more block."""
    yield 0
    for multiple in range(0, _MOST_STEPS_OF_OTHERS * step, step):
        yield from (multiple + 1, multiple + step)


def _steps(form: Linear, registers: frozenset[Symbol], steps: dict[Symbol, int]) -> None:
    """By how much a size must grow for something to change: its largest divisor."""
    for one, _ in form.terms:
        match one:
            case Symbol():
                if one not in registers:
                    steps[one] = max(1, steps.get(one, 0))
            case Floor(inner, divisor):
                _steps(inner, registers, steps)
                for symbol, _ in inner.terms:
                    if isinstance(symbol, Symbol) and symbol in steps:
                        steps[symbol] = max(divisor, steps[symbol])
            case Choose(condition, yes, no):
                for each in (*forms_of(condition), yes, no):
                    _steps(each, registers, steps)
            case Apply("is_canceled", _):
                steps[TILES] = 1
            case Apply(function, arguments) if known_function(function):
                for each in arguments:
                    _steps(each, registers, steps)
            case Product(factors):
                for factor in factors:
                    _steps(Linear(0, ((factor, 1),)), registers, steps)
            case Apply():
                pass  # an uninterpreted function
