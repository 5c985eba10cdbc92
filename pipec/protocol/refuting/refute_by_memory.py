"""Searches numbers in memory with which processes wait for ever, as `refute` searches sizes.

Whether memory can hold such numbers only the caller of the kernel knows, so the kernel is not refuted. But what would be proved holds
whatever memory contains, and the search for a proof need not go on.
"""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice

from pipec.budgets import BudgetEnded, Meter
from pipec.protocol.forms.ranges import LOADS, Contents
from pipec.protocol.forms.sample import Numbers
from pipec.protocol.program.program import registers_of
from pipec.protocol.program.structure import orders
from pipec.protocol.refuting.drawn import Number, drawn_numbers, drawn_sizes
from pipec.protocol.refuting.launches import ANY, Launches
from pipec.protocol.refuting.refute import Asked, Deadlock, crosses, least, run, tried
from pipec.protocol.refuting.tried import all_forms, in_order, small_sizes
from pipec.protocol.schedules.lazily import Lazy
from pipec.protocol.schedules.schedule import Pairs
from pipec.record import replace
from pipec.verify.network import Network
from pipec.verify.terms import Apply, Atom, Choose, Floor, Linear, Product, Symbol, atom, forms_of, symbols_of

_MOST_SIZES = 60
_MOST_STEPS = 12_000  # of all runs
# Alike, different from their neighbours, ascending, in no order, and some of them negative.
_NUMBERS: tuple[Callable[[int], int], ...] = (
    lambda place: 1,
    lambda place: place % 3,
    lambda place: place,
    lambda place: (place * 7 + 3) % 5,
    lambda place: place % 3 - 1,
)


def refute_by_memory(network: Network, pairs: Pairs = (), launches: Launches = ANY) -> tuple[Deadlock | None, bool]:
    """The first deadlock found, whose `memory` says what has been read; and whether all runs told how they end."""
    parts = dict.fromkeys(part for form in all_forms(network) for part in _parts(form))
    loads = [part for part in parts if isinstance(part, Apply) and part.function in LOADS]
    registers = registers_of(network)
    pointers = in_order(network, {symbol for load in loads for symbol in _pointers(load, registers)})
    if not pointers or crosses(network):
        return None, True
    places = {one for load in loads for form in load.arguments for one in symbols_of(form)} - registers - {*pointers}
    # A number that is divided by 64 matters in steps of 64.
    step = max([part.divisor for part in parts if isinstance(part, Floor) and any(map(_is_load, _parts(part.form)))], default=1)
    numbers = [each for number in _NUMBERS for each in ((number, _scaled(number, step)) if step > 1 else (number,))]
    schedule, asked, meter = Lazy(network, orders(network)[0]), Asked(network), Meter("protocol steps")
    told = True

    def ends(sizes: Numbers, number: Number) -> tuple[Deadlock | None, Contents]:
        nonlocal told
        known = Contents({symbol: (value, value) for symbol, value in sizes.items()}, pointers, number)
        left = meter.left
        try:
            found, ended = run(schedule, asked, known, sizes, pairs, meter)
        finally:
            tried.value += left - meter.left
        told &= ended
        met = found is not None and found.wraps is None
        return replace(found, memory=tuple(known.numbers())) if found is not None and met else None, known

    def stuck(number: Number, sizes: Numbers) -> Deadlock | None:
        return ends(sizes, number)[0]

    try:
        first = meter.left
        for sizes in islice(small_sizes(network, launches), _MOST_SIZES):
            for number in numbers:
                found, known = ends(sizes, number)
                if found is not None:
                    return found, told
                if not known.read:
                    break  # other numbers make no difference
            if first - meter.left > _MOST_STEPS:
                break
        first = meter.left
        for sizes, number in zip(drawn_sizes(network, launches, places), drawn_numbers(step), strict=False):
            found, _ = ends(sizes, number)
            if found is not None:
                return least(found, partial(stuck, number), network, launches), told
            if first - meter.left > _MOST_STEPS:
                break
    except BudgetEnded:
        pass
    return None, told


def _scaled(number: Callable[[int], int], times: int) -> Callable[[int], int]:
    return lambda place: times * number(place)


def _pointers(load: Apply, registers: frozenset[Symbol]) -> Iterator[Symbol]:
    for form in load.arguments:
        for one, times in form.terms:
            if isinstance(one, Symbol) and times == 1 and one not in registers:
                yield one


def _is_load(one: Atom) -> bool:
    return isinstance(one, Apply) and one.function in LOADS


def _parts(form: Linear) -> Iterator[Atom]:
    """All values that the form is computed from."""
    for one, _ in form.terms:
        yield one
        match one:
            case Symbol():
                inside: tuple[Linear, ...] = ()
            case Floor(inner, _):
                inside = (inner,)
            case Choose(condition, yes, no):
                inside = (yes, no, *forms_of(condition))
            case Product(factors):
                inside = tuple(map(atom, factors))
            case Apply(_, arguments):
                inside = arguments
        for each in inside:
            yield from _parts(each)
